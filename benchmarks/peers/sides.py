"""Whoever judges a batch beside us, and the floor below all of them: each starts a process in a room of its own."""

import asyncio
import importlib.util
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx

from benchmarks.livecodebench_grader import Process, write_sample
from benchmarks.peers.driver import describe, is_right
from benchmarks.peers.enclosure import enclose, our_python
from benchmarks.workloads import Batch, Entry
from evaluator.livecodebench.official import prepare_environment

HERE = Path(__file__).parent
PATIENCE = 1_800
"""Seconds that a peer may take for a batch."""
START_PATIENCE = 30
RECENT = 50
"""Measurements of the empty program that count: a small batch has few of its own."""


class CannotRun(Exception):
    """A side can't be had here. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a side made of a batch: seconds on the wall, and for each program whether it was accepted."""

    seconds: float
    accepted: tuple[bool, ...]

    def count_right(self, batch: Batch) -> int:
        """Programs that were accepted and should be, or weren't and shouldn't."""
        pairs = zip(batch.entries, self.accepted, strict=True)
        return sum(entry.is_right == accepted for entry, accepted in pairs)


class Side(Protocol):
    """A way to judge a batch."""

    def judge(self, batch: Batch) -> Judged:
        """Judge it, as fast as possible."""

    def close(self) -> None:
        """End what it started."""


class _Enclosed:
    """A side whose process answers JSON with JSON."""

    def __init__(self, python: Path, script: str) -> None:
        self._process = Process(enclose(python, HERE / script))

    def _ask(self, **request: Any) -> Judged:
        answer = self._process.ask(request, PATIENCE)
        if "seconds" not in answer:
            raise CannotRun(f"{type(self).__name__}'s process {answer['says']}; start it by hand to see why.")
        return Judged(answer["seconds"], tuple(answer["accepted"]))

    def close(self) -> None:
        """End its process."""
        self._process.close()


class LiveCodeBenchBatch(_Enclosed):
    """LiveCodeBench's `evaluate_generations` from PyPI, with so many processes."""

    def __init__(self, processes: int) -> None:
        """Prepare its environment."""
        super().__init__(prepare_environment(), "livecodebench_batch.py")
        self._processes = processes

    def judge(self, batch: Batch) -> Judged:
        """One time limit for all, in whole seconds, as it takes it."""
        seconds = max(round(entry.problem.limits.cpu_seconds) for entry in batch.entries)
        samples = [write_sample(entry.problem) for entry in batch.entries]
        programs = [entry.program.text for entry in batch.entries]
        return self._ask(samples=samples, programs=programs, seconds=seconds, processes=self._processes)


class PrimeCode(_Enclosed):
    """verl's `prime_code`, where verl is installed beside us."""

    def __init__(self, processes: int) -> None:
        """Look for it.

        Raises:
            CannotRun: it isn't here.
        """
        if importlib.util.find_spec("verl") is None:
            raise CannotRun("verl isn't installed in this environment; pip install verl to compare with prime_code.")
        super().__init__(our_python(), "prime_code_batch.py")
        self._processes = processes

    def judge(self, batch: Batch) -> Judged:
        """Its own time limits apply."""
        samples = [write_sample(entry.problem) for entry in batch.entries]
        return self._ask(
            samples=samples, programs=[entry.program.text for entry in batch.entries], processes=self._processes
        )


class Subprocesses(_Enclosed):
    """A fresh interpreter for each test, as many at a time as there are processors."""

    def __init__(self, processes: int) -> None:
        """Start it."""
        super().__init__(our_python(), "subprocess_batch.py")
        self._processes = processes

    def judge(self, batch: Batch) -> Judged:
        """The limit counts on the wall."""
        return self._ask(programs=[describe(entry) for entry in batch.entries], processes=self._processes)


class RequestPerTest:
    """A server that starts an interpreter for each request and test: a real SandboxFusion, or its way restated."""

    def __init__(self, url: str | None = None, *, clients: int = 8) -> None:
        """Use the server at `url`; without one, start the restated one.

        Raises:
            CannotRun: it doesn't answer.
        """
        self._stack = ExitStack()
        self._url = url.rstrip("/") if url else "http://server"
        self._socket = None if url else self._start()
        self._clients = clients
        try:
            asyncio.run(self._greet())
        except (httpx.HTTPError, ValueError) as error:
            self.close()
            raise CannotRun(f"No SandboxFusion answers at {self._url} ({error}); check --sandboxfusion-url.") from None

    @property
    def socket(self) -> str | None:
        """The Unix socket of the restated server."""
        return self._socket

    def _start(self) -> str:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="request-server-")))
        socket = folder / "socket"
        command = enclose(our_python(), HERE / "request_server.py", str(socket), writable=folder)
        process = subprocess.Popen(command, start_new_session=True)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        deadline = time.monotonic() + START_PATIENCE
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise CannotRun("The restated server doesn't start; run benchmarks/peers/request_server.py to see why.")
            time.sleep(0.02)
        return str(socket)

    def _connect(self) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(uds=self._socket) if self._socket else None
        return httpx.AsyncClient(transport=transport, base_url=self._url, timeout=120)

    async def _greet(self) -> None:
        async with self._connect() as client:
            answer = await client.post("/run_code", json={"code": "print(42)", "language": "python"})
            answer.raise_for_status()
            if answer.json()["run_result"]["stdout"] != "42\n":
                raise ValueError("it can't run a program")

    def judge(self, batch: Batch) -> Judged:
        """Several programs at a time; the tests of one in order, up to the first that fails."""
        return asyncio.run(self._judge(batch))

    async def _judge(self, batch: Batch) -> Judged:
        gate = asyncio.Semaphore(self._clients)
        async with self._connect() as client:
            start = time.perf_counter()
            accepted = await asyncio.gather(*(self._judge_one(client, gate, entry) for entry in batch.entries))
            return Judged(time.perf_counter() - start, tuple(accepted))

    @staticmethod
    async def _judge_one(client: httpx.AsyncClient, gate: asyncio.Semaphore, entry: Entry) -> bool:
        program = describe(entry)
        async with gate:
            for given, expected in program["tests"]:
                request = {
                    "code": program["source"], "language": "python", "stdin": given,
                    "run_timeout": program["seconds"],
                }  # fmt: skip
                answer = (await client.post("/run_code", json=request)).json()
                ran = answer["run_result"]
                if answer["status"] != "Success" or not is_right(ran["stdout"], expected, program["entry_point"]):
                    return False
        return True

    def close(self) -> None:
        """End the server, if it is ours."""
        self._stack.close()


class Floor:
    """Processor time that the programs need, whoever runs them: see `floor_batch`."""

    def __init__(self, processes: int) -> None:
        """As many processes as the others may use: so their programs disturb each other as they do there."""
        self._processes = [Process(enclose(our_python(), HERE / "floor_batch.py")) for _ in range(processes)]
        self._empty: list[float] = []

    def measure(self, batch: Batch, tests: Iterable[int]) -> float:
        """The programs' processor seconds, over the number of processors. `tests`: how many of each are to be run."""
        queue = list(zip(batch.entries, tests, strict=True))[::-1]

        def work(process: Process) -> list[dict[str, Any]]:
            answers = []
            while queue:
                entry, count = queue.pop()
                answers.append(process.ask(_describe(entry, count), PATIENCE))
            return answers

        with ThreadPoolExecutor(len(self._processes)) as threads:
            answers = [answer for part in threads.map(work, self._processes) for answer in part]
        if lost := [answer["says"] for answer in answers if "seconds" not in answer]:
            raise CannotRun(f"The floor can't be measured: its process {lost[0]}.")
        self._empty += [seconds for answer in answers for seconds in answer["empty"]]
        empty = statistics.fmean(self._empty[-RECENT:])
        spent: float = sum(answer["seconds"] - empty * answer["children"] for answer in answers)
        return spent / len(self._processes)

    def close(self) -> None:
        """End its processes."""
        for process in self._processes:
            process.close()


def _describe(entry: Entry, count: int) -> dict[str, Any]:
    problem = entry.problem
    return {
        "source": entry.program.text,
        "entry_point": problem.entry_point,
        "prelude": problem.prelude == "contest",
        "inputs": [test.input for test in problem.tests[:count]],
        "seconds": problem.limits.cpu_seconds,
    }
