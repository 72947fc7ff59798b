"""Boxes that others start and that dial in: declared in a compose or Kubernetes file, so that no worker holds a
Docker socket.

The worker listens in a directory that it shares with the boxes and with nobody else. Each box runs `boot.py --dial`:
its process 1 stays, and forks a fresh runner for each session, which calls a worker that has room for one more. The
worker takes who waits; a box that is no good any more is hung up on, its keeper ends whatever is left in it, and it
calls again.

What it covers is what the file that declares the boxes says: the self-test at worker start tries it. Who may call is
said by the directory: it belongs to the worker's user, its group is the boxes', and it is closed to everyone else, so
also to the programs in the boxes, whose runner takes that group away from them.
"""

import atexit
import contextlib
import logging
import os
import secrets
import socket
import stat
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluator.errors import SandboxUnavailable
from evaluator.sandbox.channel import RunnerBox
from evaluator.sandbox.sockets import listen_at

logger = logging.getLogger(__name__)

ACCEPTED = "accepted"
CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a caller."""


@dataclass(frozen=True, slots=True)
class DialInOptions:
    """Each field is read from the environment as `MICROCODER_DIAL_IN_<FIELD>`."""

    directory: str = "/run/microcoder/boxes/dial-in"
    """Where the worker listens. It is made where it isn't there."""
    seconds: str = "30"
    """How long to wait for a box that calls."""
    shared_network: str = ""
    """`accepted`: the boxes have a network, as in a pod, whose containers share one; only the runner's filter keeps
    programs from it."""
    image: str = ""
    """What to report as the boxes' image: they can't tell. To change with it, or cached results outlive the image."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "DialInOptions":
        """Options from `environment`; what isn't there, or empty, keeps its default."""
        given = {name: environment.get(f"MICROCODER_DIAL_IN_{name.upper()}") for name in cls.__dataclass_fields__}
        return cls(**{name: value for name, value in given.items() if value})

    @property
    def patience(self) -> float:
        """Seconds.

        Raises:
            SandboxUnavailable: it isn't a number.
        """
        try:
            return float(self.seconds)
        except ValueError:
            raise SandboxUnavailable(f"MICROCODER_DIAL_IN_SECONDS is {self.seconds!r}: give a number.") from None


class DialInBackend:
    """Takes boxes that call. All of a process are taken from one listener."""

    name = "dial-in"

    def __init__(self, options: DialInOptions | None = None) -> None:
        self._options = options or DialInOptions.read(os.environ)
        self._listener: socket.socket | None = None
        self._path: Path | None = None
        self._lock = threading.Lock()
        self.uncovered = frozenset({"network"} if self._options.shared_network == ACCEPTED else ())

    def start(self) -> RunnerBox:
        """The next box that waits and answers."""
        listener = self._listen()
        deadline = time.monotonic() + self._options.patience
        said = ""
        while (left := deadline - time.monotonic()) > 0:
            listener.settimeout(left)
            try:
                connection, _ = listener.accept()
            except OSError:
                break
            if not may_call(connection):
                connection.close()
                continue
            try:
                return RunnerBox(connection, _nothing, sandbox=self.name, image=self._options.image or None)
            except SandboxUnavailable as error:  # it went while it waited; another may be there
                said = f" The last one that did: {error}"
        raise SandboxUnavailable(
            f"No box has called at {self._options.directory} for {self._options.patience:g} seconds: start boxes that "
            f"share this directory (docker/compose-dial-in.yml), four for each worker.{said}"
        )

    def _listen(self) -> socket.socket:
        with self._lock:
            if self._listener is None:
                folder = prepare_directory(Path(self._options.directory))
                self._path = folder / secrets.token_hex(8)
                # One may wait, so that boxes spread over the workers that share a directory.
                self._listener = listen_at(folder, self._path.name, mode=0o660, waiting=0)
                atexit.register(self.close)
            return self._listener

    def close(self) -> None:
        """Be called no more. Boxes that were taken stay."""
        with self._lock:
            if self._listener is not None and self._path is not None:
                with contextlib.suppress(OSError):
                    self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits
                self._listener.close()
                self._path.unlink(missing_ok=True)
                self._listener = None
                atexit.unregister(self.close)


def prepare_directory(folder: Path) -> Path:
    """Make the directory where it isn't there, and remove what dead workers left in it.

    Raises:
        SandboxUnavailable: it can't be made, or others than the boxes could call.
    """
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            folder.chmod(0o750)
        facts = folder.lstat()
    except OSError as error:
        raise SandboxUnavailable(
            f"The directory for boxes to call at, {folder}, can't be made ({error.strerror}): share a volume that this "
            "user may write to, or set MICROCODER_DIAL_IN_DIRECTORY."
        ) from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o027:
        raise SandboxUnavailable(
            f"Others than boxes could call at {folder}: it must be a directory of the worker's user, of mode 0750, and "
            "its group that of the boxes. Remove it, and the worker makes it anew."
        )
    for path in folder.iterdir():
        if _is_dead(path):
            path.unlink(missing_ok=True)
    return folder


def _is_dead(path: Path) -> bool:
    """Whether nobody listens there any more. A worker that does sees a caller that hangs up at once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def may_call(connection: socket.socket) -> bool:
    """Whether a caller is root, as a box's runner is, or has this worker's own user."""
    _, user, _ = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    if user in (0, os.geteuid()):
        return True
    logger.warning("event=stranger_refused user=%d message=Only boxes may call: look at the directory's mode.", user)
    return False


def _nothing() -> None:
    """What is to be done about a box that was hung up on: its keeper does it."""
