"""Boxes that are declared and dial in: containers as docker/compose-dial-in.yml declares them, for tests."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docker.api import APIClient
from docker.types import LogConfig, Mount, Ulimit

from evaluator.sandbox.dial_in import DialInBackend, DialInOptions
from evaluator.sandbox.docker import NO_ZERO, DockerBackend, DockerOptions

GROUP = 10001
MEETING = "/run/microcoder"
BOOT = Path(__file__).parent.parent / "evaluator/sandbox/boot.py"
IMAGE = os.environ.get("MICROCODER_BOX_IMAGE", "microcoder-box:latest")


def find_obstacle() -> str | None:
    """What keeps boxes from being declared here."""
    return DockerBackend(DockerOptions(image=IMAGE)).check()


def describe_box(daemon: APIClient, folder: Path, **changes) -> dict:
    """The container of one box. `boot.py` is this checkout's, whatever the image's."""
    wanted = {
        "network_mode": "none",
        "read_only": True,
        "ipc_mode": "none",
        "cap_drop": ["ALL"],
        "cap_add": ["SETUID", "SETGID", "KILL"],
        "security_opt": ["no-new-privileges:true"],
        "pids_limit": 4160,
        "mem_limit": "4608m",
        "memswap_limit": "4608m",
        "tmpfs": {
            "/w": "rw,nosuid,nodev,exec,size=64m,nr_inodes=4000,mode=0777",
            "/dev/mqueue": "ro,size=4k,mode=0700",
        },
        "ulimits": [Ulimit(name="core", soft=0, hard=0), Ulimit(name="nofile", soft=1024, hard=1024)],
        "log_config": LogConfig(type="json-file"),
        "mounts": [
            Mount(MEETING, str(folder), type="bind", read_only=True),
            NO_ZERO,
            Mount("/opt/microcoder/boot.py", str(folder.parent / "boot.py"), type="bind", read_only=True),
        ],
        "restart_policy": {"Name": "unless-stopped"},
    }
    return {
        "image": IMAGE,
        "command": ["python3", "-s", "-P", "-B", "/opt/microcoder/boot.py", "--dial", f"{MEETING}/dial-in"],
        "user": f"0:{GROUP}",
        "environment": {"SECRET_OF_THE_ENGINE": "1"},
        "host_config": daemon.create_host_config(**wanted | changes),
    }


@contextlib.contextmanager
def make_network() -> Iterator[str]:
    """A network that leads nowhere; its name."""
    name = f"microcoder-test-{os.getpid()}"
    with contextlib.closing(APIClient(version="auto")) as daemon:
        daemon.create_network(name, internal=True)
        try:
            yield name
        finally:
            daemon.remove_network(name)


@contextlib.contextmanager
def declare_boxes(count: int, **changes) -> Iterator[tuple[DialInBackend, list[str], APIClient]]:
    """Start boxes; the backend that they call, their containers, and the daemon."""
    top = Path(tempfile.mkdtemp())
    folder = top / "open"
    folder.mkdir()
    os.chown(folder, os.geteuid(), GROUP)
    top.chmod(0o755)
    folder.chmod(0o2711)  # the directory in it has the group
    shutil.copy(BOOT, top / "boot.py")
    (top / "boot.py").chmod(0o400)
    backend = DialInBackend(DialInOptions(directory=str(folder / "dial-in"), seconds="120", image="declared"))
    containers: list[str] = []
    with contextlib.closing(APIClient(version="auto")) as daemon:
        try:
            for _ in range(count):
                containers.append(daemon.create_container(**describe_box(daemon, folder, **changes))["Id"])
                daemon.start(containers[-1])
            yield backend, containers, daemon
        finally:
            backend.close()
            for container in containers:
                daemon.remove_container(container, force=True)
            shutil.rmtree(top)
