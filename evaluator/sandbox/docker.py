"""Boxes by Docker: production's backend, one locked container per box.

What it covers: no network, a read-only root, no shared memory or message queues, no capability but those that the
runner needs to give tests a uid of their own, no way to gain privileges, bounds on memory, processes and scratch.
Nothing of ours is in the image but `boot.py`; the runner's source comes over the socket.

How a box is reached: the worker listens on a Unix socket whose name can't be guessed, in a directory that the box sees
read-only; the runner dials; the name is gone before any test runs. At end of file the runner ends, and the container
with it, so a worker that is killed leaves no box behind. What it may leave, a container that never started, is swept by
the next worker.

What it doesn't cover: a kernel bug. `MICROCODER_BOX_RUNTIME=runsc` puts gVisor between.
"""

import contextlib
import logging
import os
import secrets
import selectors
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.api import APIClient
from docker.errors import APIError, DockerException, ImageNotFound
from docker.types import LogConfig, Mount, Ulimit

from evaluator.errors import SandboxUnavailable
from evaluator.sandbox.bubblewrap import ENVIRONMENT
from evaluator.sandbox.channel import RunnerBox
from evaluator.sandbox.leftovers import (
    DIRECTORY_PREFIX,
    label_owner,
    remove_container,
    sweep_containers,
    sweep_directories,
)
from evaluator.sandbox.obstacles import find_daemon_obstacles
from evaluator.sandbox.sockets import listen_at

logger = logging.getLogger(__name__)

MEBIBYTE = 1 << 20
MEETING_POINT = "/run/microcoder"
"""Where the box sees the directory of its worker's socket."""
NO_ZERO = Mount("/dev/zero", "/dev/null", type="bind")
"""A shared mapping of /dev/zero would be memory that no process is charged for (`runner/confine.py`)."""
COMMAND = ["python3", "-s", "-P", "-B", "/opt/microcoder/boot.py"]
BOX_ENVIRONMENT = {
    **{name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"},
    "PATH": "/opt/python/bin:/usr/local/bin:/usr/bin:/bin",
}


@dataclass(frozen=True, slots=True)
class DockerOptions:
    """How boxes are made. Each field is read from the environment as `MICROCODER_BOX_<FIELD>`."""

    image: str = "microcoder-box:latest"
    """Built by scripts/build_images.sh."""
    memory: str = "4608m"
    """Memory of a box, swap included: the most that a program may be given, with room for the runner and scratch."""
    pids: str = "4160"
    """Processes and threads in a box, the runner's among them."""
    scratch: str = "64m"
    """Size of /w, the only place that a program can write to. Counts as the box's memory."""
    scratch_files: str = "4000"
    """Files and folders in /w."""
    runtime: str = ""
    """Another container runtime that the daemon knows, such as `runsc`."""
    start_seconds: str = "30"
    """How long a container may take until its runner calls."""
    directory: str = ""
    """Where sockets are kept: a directory that the daemon sees too. Default: the system's temporary directory."""
    volume: str = ""
    """The worker runs in a container itself: the name of the volume that is mounted there at `directory`."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "DockerOptions":
        """Options from `environment`; what isn't there, or empty, keeps its default."""
        prefix = "MICROCODER_BOX_"
        given = {name: environment.get(prefix + name.upper()) for name in cls.__dataclass_fields__}
        return cls(**{name: value for name, value in given.items() if value})

    def number(self, name: str) -> float:
        """An option that is a number.

        Raises:
            SandboxUnavailable: it isn't.
        """
        value = getattr(self, name)
        try:
            return float(value)
        except ValueError:
            raise SandboxUnavailable(f"MICROCODER_BOX_{name.upper()} is {value!r}: give a number.") from None


class DockerBackend:
    """Starts boxes as containers of the daemon on this machine."""

    name = "docker"
    uncovered: frozenset[str] = frozenset()

    def __init__(self, options: DockerOptions | None = None, *, address: str | None = None) -> None:
        self._options = options or DockerOptions.read(os.environ)
        self._address = address or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        self._version = "auto"
        self._swept = False

    def check(self) -> str | None:
        """None when the daemon answers and the image is there. Else a sentence that says what is missing."""
        try:
            with self._connect() as daemon:
                self._find_image(daemon)
        except SandboxUnavailable as error:
            return str(error)
        return None

    def ask(self) -> Mapping[str, Any]:
        """What the daemon says of itself, as `docker info`."""
        with self._connect() as daemon, _explain("The Docker daemon does not answer"):
            return dict(daemon.info())

    def start(self) -> RunnerBox:
        """A fresh box, in about half a second."""
        with self._connect() as daemon, _explain("The Docker daemon can't make a box"):
            if not self._swept:
                self._swept = True
                sweep_containers(daemon)
                sweep_directories(Path(self._options.directory or tempfile.gettempdir()))
                for obstacle in find_daemon_obstacles(daemon.info(), self._options.runtime):
                    logger.warning("event=docker_limits message=%s", obstacle.describe())
            image, digest = self._find_image(daemon)
            with Meeting.arrange(self._options) as meeting:
                container = daemon.create_container(image, **self._describe(daemon, meeting))["Id"]
                try:
                    return self._open(daemon, container, meeting, digest)
                except BaseException:
                    remove_container(daemon, container)
                    raise

    def _open(self, daemon: APIClient, container: str, meeting: "Meeting", digest: str) -> RunnerBox:
        """Start the container, wait for its runner's call, and greet it."""
        with contextlib.closing(Voice(daemon, container)) as voice:
            daemon.start(container)
            connection = meeting.wait_for_call(voice, self._options.number("start_seconds"))
            try:
                return RunnerBox(connection, lambda: self._destroy(container), sandbox=self.name, image=digest)
            except SandboxUnavailable as error:
                raise SandboxUnavailable(f"{error} {voice.tell()}".strip()) from error

    def _destroy(self, container: str) -> None:
        """Remove the container, whatever its state. Never raises: a box that won't go is the sweep's."""
        try:
            with self._connect() as daemon:
                remove_container(daemon, container)
        except SandboxUnavailable as error:
            logger.warning("event=box_not_removed container=%s message=%s", container[:12], error)

    @contextlib.contextmanager
    def _connect(self) -> Iterator[APIClient]:
        """A client of its own for each use: the SDK's isn't made for two threads."""
        if not self._address.startswith("unix://"):
            raise SandboxUnavailable(
                f"Boxes need a Docker daemon on this machine, reached by a Unix socket; DOCKER_HOST is {self._address}."
            )
        with _explain("The Docker daemon does not answer"):
            with socket.socket(socket.AF_UNIX) as probe:  # the SDK would leak a socket that can't be connected
                probe.connect(self._address.removeprefix("unix://"))
            daemon = APIClient(base_url=self._address, version=self._version, timeout=60)
        self._version = daemon.api_version
        with contextlib.closing(daemon):
            yield daemon

    def _find_image(self, daemon: APIClient) -> tuple[str, str]:
        """The id to start from, and the digest to report: the registry's where there is one."""
        with _explain("The Docker daemon does not answer"):
            try:
                facts = daemon.inspect_image(self._options.image)  # type: ignore[no-untyped-call]  # the stubs lack it
            except ImageNotFound as error:
                raise SandboxUnavailable(
                    f"The daemon has no image {self._options.image}: build it with scripts/build_images.sh, or name "
                    "another in MICROCODER_BOX_IMAGE."
                ) from error
        identity = str(facts["Id"])
        return identity, next(iter(facts.get("RepoDigests") or ()), identity)

    def _describe(self, daemon: APIClient, meeting: "Meeting") -> dict[str, Any]:
        """The container. Every line closes something: see `reference/isolation.md`, leaks and what closes them."""
        options = self._options
        host_config = daemon.create_host_config(
            auto_remove=True,
            network_mode="none",
            read_only=True,
            ipc_mode="none",
            cap_drop=["ALL"],
            cap_add=["SETUID", "SETGID", "KILL"],
            security_opt=["no-new-privileges:true"],
            pids_limit=int(options.number("pids")),
            mem_limit=options.memory,
            memswap_limit=options.memory,
            tmpfs={
                "/w": f"rw,nosuid,nodev,exec,size={options.scratch},nr_inodes={options.scratch_files},mode=0777",
                "/dev/mqueue": "ro,size=4k,mode=0700",
            },
            ulimits=[Ulimit(name="core", soft=1, hard=1), Ulimit(name="nofile", soft=1024, hard=1024)],
            log_config=LogConfig(type="none"),
            mounts=[meeting.mount, NO_ZERO],
            runtime=options.runtime or None,
        )
        return {
            # `env -i`: neither the image's variables nor Docker's own reach a program.
            "entrypoint": ["env", "-i", *(f"{name}={value}" for name, value in BOX_ENVIRONMENT.items())],
            "command": [*COMMAND, meeting.path_in_box],
            "hostname": "box",
            "user": "0:0",
            "working_dir": "/w",
            "labels": label_owner(in_container=bool(options.volume)),
            "host_config": host_config,
        }


class Voice:
    """What a container says until its runner answers. Nothing is logged, so it is heard only while someone listens."""

    def __init__(self, daemon: APIClient, container: str) -> None:
        self._socket = daemon.attach_socket(container, params={"stdout": 1, "stderr": 1, "stream": 1})
        self._heard = b""

    def fileno(self) -> int:
        return int(self._socket.fileno())

    def listen(self) -> bool:
        """Take in what is there to hear. False: the container ended."""
        data = os.read(self.fileno(), 65536)
        self._heard += data
        return bool(data)

    def tell(self) -> str:
        """The end of what was heard, as a sentence."""
        os.set_blocking(self.fileno(), False)
        with contextlib.suppress(OSError):
            while len(self._heard) < MEBIBYTE and self.listen():
                pass
        lines = [frame.decode("utf-8", "replace") for frame in _split_frames(self._heard)]
        text = "".join(lines).strip()
        return f"It said: {text[-1000:]}" if text else "It said nothing."

    def close(self) -> None:
        """Stop listening."""
        self._socket._response.close()


def _split_frames(data: bytes) -> Iterator[bytes]:
    """Docker's stream without its frames' headers: kind, three zeros, length in four bytes."""
    while len(data) > 8:
        end = 8 + int.from_bytes(data[4:8], "big")
        yield data[8:end]
        data = data[end:]


@dataclass
class Meeting:
    """A listening socket that one box will call, and how the box sees it."""

    listener: socket.socket
    mount: Mount
    path_in_box: str
    directory: Path = field(repr=False)

    @classmethod
    @contextlib.contextmanager
    def arrange(cls, options: DockerOptions) -> Iterator["Meeting"]:
        """Listen; at the end nothing is left of it.

        On the host, a directory that nobody but us can enter protects one that the box may, since the box's root has no
        power over our files. In a shared volume boxes see each other's directories, but may not list them.
        """
        name = secrets.token_hex(16)
        outer = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX, dir=options.directory or None))
        try:
            if options.volume:
                inner = outer
                mount = Mount(MEETING_POINT, options.volume, type="volume", read_only=True, no_copy=True)
                path = f"{MEETING_POINT}/{outer.name}/{name}"
            else:
                inner = outer / "open"
                inner.mkdir()
                mount = Mount(MEETING_POINT, str(inner), type="bind", read_only=True)
                path = f"{MEETING_POINT}/{name}"
            inner.chmod(0o711)
            with listen_at(inner, name) as listener:
                yield cls(listener, mount, path, outer)
        finally:
            shutil.rmtree(outer, ignore_errors=True)

    def wait_for_call(self, voice: Voice, seconds: float) -> socket.socket:
        """The connection to the runner; the way to it is closed behind it.

        Raises:
            SandboxUnavailable: the container ended, or nobody called in time; with what the container said.
        """
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            selector.register(voice, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                ready = {key.fileobj for key, _ in selector.select(left)}
                if self.listener in ready:
                    connection, _ = self.listener.accept()
                    shutil.rmtree(self.directory, ignore_errors=True)
                    return connection
                if voice in ready and not voice.listen():
                    raise SandboxUnavailable(f"The box's container ended before its runner called. {voice.tell()}")
        raise SandboxUnavailable(
            f"The box's runner has not called for {seconds:.0f} seconds (MICROCODER_BOX_START_SECONDS). {voice.tell()}"
        )


@contextlib.contextmanager
def _explain(what: str) -> Iterator[None]:
    """Turn the SDK's exceptions into sentences."""
    try:
        yield
    except APIError as error:
        text = str(error.explanation or error)
        hint = ""
        if "bind source path does not exist" in text:
            hint = (
                " The daemon doesn't see this machine's files: if this worker runs in a container, share a volume with "
                "its boxes (MICROCODER_BOX_VOLUME and MICROCODER_BOX_DIRECTORY, docs/deployment.md)."
            )
        raise SandboxUnavailable(f"{what}: {text.rstrip('.')}.{hint}") from error
    except (DockerException, OSError) as error:
        text = str(error)
        if "Permission denied" in text:
            hint = "its socket may not be opened by this user: join the group that owns it (usually `docker`)"
        elif "No such file" in text or "refused" in text:
            hint = "start it (scripts/start_dockerd.sh where there is no systemd), or set DOCKER_HOST"
            rootless = Path(os.environ.get("XDG_RUNTIME_DIR", "/nowhere")) / "docker.sock"
            if rootless.exists():
                hint += f"; a rootless daemon may be meant: DOCKER_HOST=unix://{rootless}"
        else:
            hint = text
        raise SandboxUnavailable(f"{what}: {hint}.") from error
