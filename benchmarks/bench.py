"""What every part of `compare` stands on: how large it is, what is open already, and how contenders take turns."""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from benchmarks.library import Library, count_processors
from benchmarks.peers.sides import CannotRun, Judged, LiveCodeBenchBatch
from benchmarks.processor_time import count_processor_seconds
from benchmarks.served import Service
from benchmarks.workloads import Batch, salt

T = TypeVar("T")
Figures = dict[str, Any]
SETTLING = 0.1
"""Seconds after a contender until its processes have ended: only then its processor time is its parents'."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    rounds: int = 5
    slow_rounds: int = 5
    """Of what takes long: the reward batch with looping programs, and the small workloads."""
    groups: int = 64
    """Of the reward batch, with 8 programs each."""
    programs: int = 256
    """Of the trivial batch, with 15 tests each."""
    fork_tests: int = 300
    requests: int = 200
    """To learn the latency of one."""
    queued: int = 10_000
    copies: int = 8
    """Of each small workload."""
    scales: tuple[int, ...] = (1, 2, 4)
    peers: bool = True
    """The slow ones on the reward batch too."""


QUICK = Size(
    rounds=2, slow_rounds=1, groups=4, programs=48, fork_tests=60, requests=30, queued=500, copies=2,
    scales=(1, 2), peers=False,
)  # fmt: skip
"""Small enough for a minute and a half. Everything is real, the figures are rough."""


@dataclass
class Bench:
    """What is open, for the length of a `with` block."""

    size: Size
    data: Path
    sandbox: str = "bubblewrap"
    sandboxfusion_url: str | None = None
    say: Callable[[str], None] = lambda text: None
    """Told what is being done."""
    skipped: dict[str, str] = field(default_factory=dict)
    """What couldn't be measured, and why."""
    processors: int = field(default_factory=count_processors)
    calls: int = 0
    """Of contenders, so far."""
    spent: dict[str, list[float]] = field(default_factory=dict)
    """Processor seconds of each contender in each of the last turns."""
    _open: dict[tuple[str, int], Any] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def library(self, workers: int | None = None) -> Library:
        """The library with so many workers; as many as processors, if nobody says."""
        workers = workers or self.processors
        return self._once(("library", workers), lambda: Library(workers, self.sandbox))

    def service(self, workers: int | None = None) -> Service:
        """The service with so many workers."""
        workers = workers or self.processors
        return self._once(("service", workers), lambda: Service(workers, self.sandbox))

    def livecodebench(self, processes: int) -> LiveCodeBenchBatch:
        """LiveCodeBench's evaluator with so many processes."""
        return self._once(("livecodebench", processes), lambda: LiveCodeBenchBatch(processes))

    def open(self, side: "Closable") -> Any:
        """Close it at the end."""
        self._stack.callback(side.close)
        return side

    def try_to_open(self, name: str, opener: Callable[[], "Closable"]) -> Any:
        """What `opener` opens; None, and a reason among what was skipped, where it can't be had."""
        try:
            return self.open(opener())
        except CannotRun as error:
            self.skipped[name] = str(error)
            return None

    def _once(self, key: tuple[str, int], opener: Callable[[], T]) -> T:
        if key not in self._open:
            self.say(f"starting {key[0]} ({key[1]})")
            self._open[key] = self.open(opener())  # type: ignore[arg-type]
        found: T = self._open[key]
        return found

    def take_turns(
        self, title: str, contenders: Mapping[str, Callable[[int], T]], rounds: int | None = None
    ) -> dict[str, list[T]]:
        """Call every contender once a round, with a number that no other call gets. Each round begins with another."""
        found: dict[str, list[T]] = {name: [] for name in contenders}
        self.spent = {name: [] for name in contenders}
        names = list(contenders)
        rounds = rounds or self.size.rounds
        for number in range(rounds):
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                self.say(f"{title}: {name}, round {number + 1} of {rounds}")
                self.calls += 1
                before = count_processor_seconds()
                found[name].append(contenders[name](self.calls))
                time.sleep(SETTLING)
                self.spent[name].append(count_processor_seconds() - before)
        return found

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything."""
        self._stack.close()


def salted(judge: Callable[[Batch], T], batch: Batch) -> Callable[[int], T]:
    """A contender: judges the batch, every time under texts that it didn't have before."""
    return lambda number: judge(salt(batch, number))


def timed(judge: Callable[[Batch], Judged]) -> Callable[[Batch], float]:
    """Only the seconds."""
    return lambda batch: judge(batch).seconds


class Closable(Protocol):
    """What is closed at the end."""

    def close(self) -> None:
        """End what it started."""


def record_rounds(values: Iterable[float], digits: int = 4) -> Figures:
    """Median, spread and all values, as the JSON has them."""
    figures = [round(value, digits) for value in values]
    return {
        "median": round(statistics.median(figures), digits), "lowest": min(figures), "highest": max(figures),
        "rounds": figures,
    }  # fmt: skip


def record_ratio(name: str, above: Iterable[float], below: Iterable[float]) -> Figures:
    """A ratio made in each round: the median under its name, all of it under `name_rounds`."""
    record = record_rounds((up / down for up, down in zip(above, below, strict=True)), 3)
    return {name: record["median"], f"{name}_rounds": record}
