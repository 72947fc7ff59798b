"""What faults befall: a Redis, the API and workers as processes of their own, and programs whose verdicts are known."""

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import redis

from benchmarks.faults_worker import STEPS, VARIABLE
from service.redis_server import find_server

TESTS = [{"kind": "stdin", "input": f"{number}\n", "expected": f"{number + 1}\n"} for number in range(3)]
PROGRAMS = {
    "print(int(input()) + 1)": "accepted",
    "n = int(input())\nprint(n + (1 if n < 1 else 2))": "wrong_answer",
    "n = int(input())\nprint(n + 1)\nprint([][n])": "runtime_error",
    "print(int(input()) + 1": "compile_error",
    "import time\ntime.sleep(0.2)\nprint(int(input()) + 1)": "accepted",
    "n = int(input())\nwhile True: pass": "time_limit",
}
"""One for each way to end, with its verdict."""
LIMITS = {"cpu_seconds": 0.4, "wall_seconds": 6}
PATIENCE = 150.0
"""Seconds after which an evaluation counts as lost."""
JUDGED = re.compile(r"event=judged evaluation=(\S+) index=(\d+) verdict=(\S+)")


class Unexpected(Exception):
    """The service did what it shouldn't, so that the rest can't be tried."""


class CannotTry(Exception):
    """This machine lacks something. The message says what."""


@dataclass
class Outcome:
    """What became of the submissions."""

    submissions: int = 0
    lost: int = 0
    """Without any judgement."""
    wrong: int = 0
    """With another verdict or reward than the right one."""
    masked: int = 0
    """`internal_error` without a reward: nothing was learnt, nothing wrong was said."""
    again: int = 0
    """Judged more than once, as a worker that is hit makes it necessary."""
    differently: int = 0
    """Judged more than once, with another verdict."""
    went_on: float | None = None
    """Seconds from the fault to the next judgement."""
    done: float | None = None
    """Seconds from the fault to the last one."""
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """What wasn't as it should be, beyond lost and wrong."""

    @property
    def good(self) -> bool:
        """Nothing lost, nothing wrong, nothing else amiss."""
        return not (self.lost or self.wrong or self.differently or self.faults)

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self) | {"good": self.good}

    def demand(self, holds: object, sentence: str) -> None:
        """Note a fault where something doesn't hold."""
        if not holds:
            self.faults.append(sentence)


class RedisProcess:
    """A Redis of one's own. With `keep`, its data outlive it; `wrap` are words put before its command."""

    def __init__(self, folder: Path, server: str, *, keep: bool = False, **environment: str) -> None:
        """Start it."""
        self.folder, self._server, self._keep, self._environment = folder, server, keep, environment
        self.socket = Path(tempfile.mkdtemp(prefix="faults-", dir="/tmp")) / "r.sock"
        self.url = f"unix://{self.socket}"
        self.start()

    def start(self) -> None:
        """Start, or start again."""
        options = {
            "port": "0", "unixsocket": str(self.socket), "dir": str(self.folder), "save": "",
            "appendonly": "yes" if self._keep else "no", "maxmemory-policy": "noeviction",
        }  # fmt: skip
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self.process = subprocess.Popen(
            [self._server, *words], env=os.environ | self._environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        with self.client() as client:
            wait_until(lambda: ping(client), 20, "Redis didn't start")

    def client(self) -> redis.Redis:
        """A connection."""
        return redis.Redis.from_url(self.url, socket_timeout=5)

    def kill(self) -> None:
        """As a crash does."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it for good."""
        self.process.send_signal(signal.SIGCONT)
        self.kill()
        self.socket.unlink(missing_ok=True)
        self.socket.parent.rmdir()


def ping(client: redis.Redis) -> bool:
    """Whether it answers."""
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def wait_until(holds: Callable[[], Any], seconds: float, sentence: str) -> Any:
    """What `holds` says once it is true."""
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        if time.monotonic() > deadline:
            raise Unexpected(f"{sentence} within {seconds:g} s.")
        time.sleep(0.02)
    return value


def end(process: "subprocess.Popen[str]") -> None:
    """End a process, whatever state it is in."""
    process.kill()
    process.communicate()


@dataclass
class WorkerProcess:
    """A worker, and the file of its log."""

    process: subprocess.Popen[bytes]
    log: Path


class Scene:
    """The service, in pieces."""

    def __init__(
        self,
        *,
        lease: float = 10,
        keep: bool = False,
        redis_folder: Path | None = None,
        redis_server: str | None = None,
        redis_environment: dict[str, str] | None = None,
        api_wrap: Sequence[str] = (),
        **settings: str,
    ) -> None:
        """Start Redis and the API; `settings` are environment for API and workers."""
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        self.workers: list[WorkerProcess] = []
        try:
            server, environment = redis_server or find_server(), redis_environment or {}
            self.redis = RedisProcess(redis_folder or self.folder, server, keep=keep, **environment)
            self._stack.callback(self.redis.close)
            inherited = {name: value for name, value in os.environ.items() if "REDIS_URL" not in name}
            self.environment = inherited | {
                "REDIS_URL": self.redis.url,
                "MICROCODER_LEASE_SECONDS": f"{lease:g}",
                "MICROCODER_SANDBOX": "bubblewrap",
                "MICROCODER_RESULT_CACHE_BYTES": "0",
                **settings,
            }
            self.start_api(api_wrap)
        except BaseException:
            self._stack.close()
            raise
        self._stack.callback(self._end_workers)

    def start_api(self, wrap: Sequence[str] = ()) -> None:
        """Start it, or another beside it, to which all that follows goes."""
        self.api_log = self.folder / "api.log"
        with self.api_log.open("wb") as log:
            self.api = subprocess.Popen(
                [*wrap, sys.executable, "-m", "service.cli", "serve", "--port", "0", "--workers", "0"],
                env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        self._stack.callback(end, self.api)
        assert self.api.stdout is not None
        if not select.select([self.api.stdout], [], [], 60)[0]:
            raise Unexpected("The API didn't become ready.")
        found = re.search(r"http://\S+:(\d+)", self.api.stdout.readline())
        if found is None:
            raise Unexpected(f"The API ended: {self.api_log.read_text()[-300:]}")
        self.url, self.port = found[0], int(found[1])
        self.http = self._stack.enter_context(httpx.Client(base_url=self.url, timeout=60))

    def _end_workers(self) -> None:
        for worker in self.workers:
            with suppress(ProcessLookupError):
                worker.process.send_signal(signal.SIGCONT)
            worker.process.kill()
            worker.process.wait()

    def __enter__(self) -> "Scene":
        """The scene."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End all of it."""
        self._stack.close()

    def start_worker(
        self,
        fault: str | None = None,
        *,
        number: str = "KILL",
        count: int | None = None,
        wrap: Sequence[str] = (),
        ready: bool = False,
        **more: str,
    ) -> WorkerProcess:
        """Start one; `fault` names the step at which it is hit. `ready`: wait until it is at work."""
        environment = self.environment | more
        if fault is not None:
            environment[VARIABLE] = f"{fault}:{count or STEPS[fault].count}:{number}"
        path = self.folder / f"worker-{len(self.workers)}.log"
        with path.open("wb") as log:
            command = [*wrap, sys.executable, "-m", "benchmarks.faults_worker"]
            process = subprocess.Popen(command, env=environment, stderr=log, start_new_session=True)
        self.workers.append(WorkerProcess(process, path))
        if ready:
            before = self.living()
            wait_until(lambda: self.living() > before, 30, "The worker didn't report")
        return self.workers[-1]

    def living(self) -> int:
        """Workers that report."""
        return int(self.http.get("/health").json()["workers"])

    @contextmanager
    def supervised(self, **more: str) -> Iterator[list[int]]:
        """Start workers that end again, as `serve` and compose do. Gives the exit statuses of those that ended."""
        ended: list[int] = []
        stop = threading.Event()

        def tend() -> None:
            current = self.workers[-1] if self.workers else self.start_worker(**more)
            while not stop.wait(0.1):
                if (status := current.process.poll()) is not None:
                    ended.append(status)
                    stop.wait(min(0.5 * len(ended), 5))
                    current = self.start_worker(**more)

        thread = threading.Thread(target=tend)
        thread.start()
        try:
            yield ended
        finally:
            stop.set()
            thread.join()

    # Submissions

    def post(self, count: int = 6, id: str | None = None, *, salt: str = "", only: str | None = None) -> str:
        """Post so many programs, of every kind in turn."""
        answer = self.http.post("/v1/evaluations", json=self.body(count, id, salt=salt, only=only))
        answer.raise_for_status()
        return str(answer.json()["id"])

    def body(self, count: int, id: str | None = None, *, salt: str = "", only: str | None = None) -> dict[str, Any]:
        """What is posted."""
        sources = [source for source, verdict in PROGRAMS.items() if only in (None, verdict)]
        programs = [f"{sources[number % len(sources)]}\n# {number} {salt}\n" for number in range(count)]
        named = {} if id is None else {"id": id}
        submissions = [{"program": {"source": source}} for source in programs]
        return {**named, "suite": {"tests": TESTS}, "limits": LIMITS, "submissions": submissions}

    def counts(self, id: str) -> dict[str, int] | None:
        """How much of it is done; None where that isn't to be had just now."""
        with suppress(httpx.HTTPError):
            answer = self.http.get(f"/v1/evaluations/{id}", params={"detail": "summary"})
            if answer.is_success:
                return dict(answer.json()["counts"])
        return None

    def await_begin(self, id: str, done: int = 1) -> None:
        """Until some of it is judged, and more is being judged."""

        def begun() -> bool:
            counts = self.counts(id)
            return counts is not None and counts["done"] >= done and counts["running"] > 0

        wait_until(begun, 60, "The work didn't begin")

    def finish(self, ids: Sequence[str], since: float, outcome: Outcome | None = None) -> Outcome:
        """Wait for all, and look at them. `since` is the moment of the fault."""
        outcome = outcome or Outcome()
        before = {id: (self.counts(id) or {"done": 0})["done"] for id in ids}
        left = set(ids)
        while left and time.monotonic() - since < PATIENCE:
            for id in list(left):
                counts = self.counts(id)
                if counts is None:
                    continue
                if outcome.went_on is None and counts["done"] > before[id]:
                    outcome.went_on = time.monotonic() - since
                if counts["done"] == counts["total"]:
                    left.discard(id)
            time.sleep(0.03)
        outcome.done = None if left else time.monotonic() - since
        for id in ids:
            self.check(id, outcome)
        self.count_repeats(outcome)
        return outcome

    def check(self, id: str, outcome: Outcome) -> None:
        """Compare an evaluation's judgements with what is right."""
        answer = self.http.get(f"/v1/evaluations/{id}", params={"detail": "summary"})
        if not answer.is_success:
            outcome.faults.append(f"evaluation {id} can't be fetched: {answer.status_code}")
            return
        sources = list(PROGRAMS.values())
        for number, item in enumerate(answer.json()["judgements"]):
            outcome.submissions += 1
            right = sources[number % len(sources)]
            compare(outcome, item, right)

    def count_repeats(self, outcome: Outcome) -> None:
        """Look into the workers' logs for what was judged more than once."""
        verdicts: dict[tuple[str, str], list[str]] = defaultdict(list)
        for worker in self.workers:
            for evaluation, index, verdict in JUDGED.findall(worker.log.read_text(errors="replace")):
                verdicts[evaluation, index].append(verdict)
        outcome.again += sum(len(found) > 1 for found in verdicts.values())
        outcome.differently += sum(len(set(found)) > 1 for found in verdicts.values())


def compare(outcome: Outcome, item: dict[str, Any] | None, right: str) -> None:
    """Count one judgement."""
    if item is None:
        outcome.lost += 1
    elif item["verdict"] == "internal_error":
        outcome.masked += 1
        outcome.wrong += item["reward"] is not None
    elif (item["verdict"], item["reward"]) != (right, 1.0 if right == "accepted" else 0.0):
        outcome.wrong += 1
        outcome.notes.append(f"{right} came out as {item['verdict']}")
