"""`microcoder serve`: the API in this process, the workers in processes of their own, Redis where none was given.

Everything starts in the order in which it is needed (Redis, API, a first worker, the others) and stops in the reverse
order, so that a worker can still write down what it has judged. A worker that *fails to start* stops everything, with
the worker's own sentence: there is something to mend. One that *dies* later is started again, with growing pauses. Even
when this process is killed nothing stays: workers and Redis asked the kernel to be told (Linux).

The signals of a terminal reach this process only; workers live in sessions of their own.
"""

import contextlib
import json
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import redis
import uvicorn

from service.app import create_app
from service.lifeline import PARENT_VARIABLE
from service.logs import configure_logging
from service.punctual import PunctualProtocol
from service.records import Keys
from service.redis_server import PrivateRedis
from service.settings import Settings

START_PATIENCE = 60.0
"""Seconds that the first worker may take to report."""
STEADY_SECONDS = 30.0
"""A worker that lived so long had no fault in its start: its next pause is the shortest again."""
PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a worker is started again, by how often it died young."""

logger = logging.getLogger(__name__)


class CannotServe(Exception):
    """The service can't start. The message says what to do."""


@dataclass
class Worker:
    """One place for a worker, and the process that fills it at the moment."""

    number: int
    process: subprocess.Popen[str] | None = None
    started: float = 0.0
    deaths: int = 0
    start_again: float = 0.0
    last_words: list[str] = field(default_factory=list)
    reader: threading.Thread | None = None
    quiet: bool = False
    """Its lines aren't shown yet: when it can't start, one sentence is enough."""

    @property
    def pid(self) -> int | None:
        """The id of its process."""
        return None if self.process is None else self.process.pid


class Supervisor:
    """Runs the whole service until SIGINT or SIGTERM. To be used in the main thread."""

    def __init__(self, settings: Settings, workers: int, say: Callable[[str], Any]) -> None:
        """Prepare; `say` gets the lines that are for the person at the terminal."""
        self._settings = settings
        self._workers = [Worker(number) for number in range(1, workers + 1)]
        self._say = say
        self._stop = threading.Event()

    def run(self) -> None:
        """Start, watch, stop.

        Raises:
            CannotServe: something needed isn't there.
            RedisUnavailable: no private server could be started.
        """
        configure_logging(self._settings.log_level)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._signals())
            private: PrivateRedis | None = None
            if self._settings.redis_url is None:
                private = stack.enter_context(PrivateRedis())
                self._settings = self._settings.model_copy(update={"redis_url": private.url})
            allow_connections()
            listener = stack.enter_context(listen(self._settings.host, self._settings.port))
            url = url_of(listener)
            api = stack.enter_context(_Api(self._settings, listener))
            stack.callback(self._stop_workers)
            kind = self._start_workers(api)
            if not self._stop.is_set():
                self._say(f"MicroCoder is ready at {url} ({self._describe(kind, private)}). Stop it with Ctrl-C.")
            self._watch(api, private)
            if not self._stop.is_set():
                raise CannotServe("The API has ended by itself; its log above says why.")
            self._say("MicroCoder stops.")

    def _describe(self, kind: str, private: PrivateRedis | None) -> str:
        count = len(self._workers)
        workers = f"{count} worker{'s' if count != 1 else ''} with {kind} boxes" if count else "no worker"
        return f"{workers}, {'a private Redis' if private is not None else 'the Redis at REDIS_URL'}"

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._stop.set()

        wanted = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` ignores it
            wanted.append(signal.SIGHUP)
        before = {number: signal.signal(number, stop) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # Starting

    def _start_workers(self, api: "_Api") -> str:
        """Start one worker, and the others when it is at work. Returns the kind of its boxes."""
        if not self._workers:
            return ""
        first, *others = self._workers
        first.quiet = True
        self._start(first)
        deadline = time.monotonic() + START_PATIENCE
        with redis.Redis.from_url(self._settings.redis, socket_timeout=5) as client:
            while not self._stop.wait(0.05):
                if not api.is_alive():
                    break
                assert first.process is not None
                if first.process.poll() is not None:
                    raise CannotServe(last_sentence(first))
                if (kind := reported(client, Keys(self._settings.queue), first.pid)) is not None:
                    unmute(first)
                    for worker in others:
                        self._start(worker)
                    return kind
                if time.monotonic() > deadline:
                    raise CannotServe(
                        f"The first worker didn't report within {START_PATIENCE:.0f} seconds: run `microcoder doctor`."
                    )
        return ""

    def _start(self, worker: Worker) -> None:
        worker.last_words.clear()
        worker.started = time.monotonic()
        worker.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "service.cli", "worker", "--sandbox", self._settings.sandbox],
            env=worker_environment(self._settings),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        worker.reader = threading.Thread(target=_pass_on, args=(worker, worker.process), daemon=True)
        worker.reader.start()

    # Watching

    def _watch(self, api: "_Api", private: PrivateRedis | None) -> None:
        while not self._stop.wait(0.2) and api.is_alive():
            if private is not None and private.pid is not None and has_exited(private.pid):
                logger.error("event=redis_died message=The private Redis died; it is started again, empty.")
                private.restart()
            for worker in self._workers:
                self._tend(worker)

    def _tend(self, worker: Worker) -> None:
        now = time.monotonic()
        if worker.process is not None and (status := worker.process.poll()) is not None:
            if now - worker.started > STEADY_SECONDS:
                worker.deaths = 0
            pause = PAUSES[min(worker.deaths, len(PAUSES) - 1)]
            logger.error(
                "event=worker_died worker=%d pid=%d status=%d restart_seconds=%g",
                worker.number,
                worker.process.pid,
                status,
                pause,
            )
            self._reap(worker)
            worker.deaths += 1
            worker.start_again = now + pause
        if worker.process is None and now >= worker.start_again:
            self._start(worker)

    # Stopping

    def _stop_workers(self) -> None:
        """SIGTERM to all, time to finish what they have in hand, then SIGKILL."""
        running = [worker for worker in self._workers if worker.process is not None]
        for worker in running:
            assert worker.process is not None
            worker.process.terminate()
        deadline = time.monotonic() + self._settings.shutdown_grace_seconds + 10
        for worker in running:
            assert worker.process is not None
            try:
                worker.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                logger.error("event=worker_killed worker=%d pid=%d", worker.number, worker.process.pid)
                worker.process.kill()
            self._reap(worker)

    def _reap(self, worker: Worker) -> None:
        assert worker.process is not None
        worker.process.wait()
        if worker.reader is not None:
            worker.reader.join(2)
        if worker.process.stderr is not None and not (worker.reader and worker.reader.is_alive()):
            worker.process.stderr.close()
        worker.process, worker.reader = None, None


class _Api(threading.Thread):
    """uvicorn in a thread: there it leaves the signals to the main thread."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        super().__init__(name="api", daemon=True)
        config = uvicorn.Config(
            create_app(settings),
            log_config=None,
            access_log=False,  # `observing.py` writes one
            http=PunctualProtocol,
            lifespan="on",
            timeout_graceful_shutdown=5,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._listener = listener

    def run(self) -> None:
        self._server.run(sockets=[self._listener])

    def __enter__(self) -> "_Api":
        self.start()
        while not self._server.started and self.is_alive():
            time.sleep(0.01)
        if not self._server.started:
            raise CannotServe("The API didn't start; its log above says why.")
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.should_exit = True
        self.join(15)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        CannotServe: the address can't be had.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # The protocol is named because asyncio looks at it: without, answers wait 40 ms for an acknowledgement.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise CannotServe(
            f"Can't listen on {host}:{port} ({error.strerror}): choose another --port or --host."
        ) from None
    return listener


def allow_connections() -> None:
    """Let this process have as many files open as it may: with 1 024, as usual, a thousand clients are too many."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def url_of(listener: socket.socket) -> str:
    """The address to reach the listener at from this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # where it is reached, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def worker_environment(settings: Settings) -> dict[str, str]:
    """This process's environment with the address of Redis, without the keys, which a worker doesn't need."""
    environment = {name: value for name, value in os.environ.items() if name.upper() != "MICROCODER_API_KEYS"}
    for name in [name for name in environment if name.upper() in {"REDIS_URL", "MICROCODER_REDIS_URL"}]:
        del environment[name]
    return environment | {"REDIS_URL": settings.redis, PARENT_VARIABLE: str(os.getpid())}


def last_sentence(worker: Worker) -> str:
    """What a worker that failed to start said last."""
    if worker.reader is not None:
        worker.reader.join(2)
    said = worker.last_words[-1] if worker.last_words else "It said nothing: run `microcoder worker` to see more."
    found = re.search(r"\bmessage=(.*)", said)
    if found is None:
        unmute(worker)
    return found[1] if found else f"The first worker ended at once: {said.removeprefix('microcoder: ')}"


def unmute(worker: Worker) -> None:
    """Show what it has said until now, and what it will say."""
    worker.quiet = False
    for line in worker.last_words:
        print(line, file=sys.stderr, flush=True)


def has_exited(child: int) -> bool:
    """Whether a child process has ended. Leaves it to be waited for by its owner."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _pass_on(worker: Worker, process: subprocess.Popen[str]) -> None:
    """Copy a worker's stderr to ours, line by line, and keep its last words."""
    assert process.stderr is not None
    for line in process.stderr:
        worker.last_words[:] = [*worker.last_words[-40:], line.rstrip()]
        if not worker.quiet:
            sys.stderr.write(line)
            sys.stderr.flush()


def reported(client: Any, keys: Keys, pid: int | None) -> str | None:
    """The kind of boxes of this machine's worker with this process id, once it is on the list of the living."""
    try:
        names = [name.decode() for name in client.zrange(keys.of("workers"), 0, -1)]
        told = [json.loads(said) for name in names if (said := client.get(keys.of(f"worker:{name}"))) is not None]
    except (redis.ConnectionError, redis.TimeoutError):
        return None
    here = socket.gethostname()
    return next(
        (worker["runtime"]["sandbox"] for worker in told if (worker["pid"], worker["host"]) == (pid, here)), None
    )
