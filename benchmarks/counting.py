"""Boxes that count the runs that they make in series: nothing of it is in a judgement, because it must not matter."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

from evaluator.model import Limits, Program
from evaluator.sandbox.base import Artifact, Backend, Box, Call, CompileFailure, Run, Series


@dataclass
class Counter:
    """Runs in series, of one thread's boxes."""

    runs: int = 0

    def count(self, runs: Generator[Run, None, None]) -> Generator[Run, None, None]:
        """The same runs, counted."""
        with closing(runs):
            for run in runs:
                self.runs += 1
                yield run


@dataclass
class CountingSeries:
    """A series that counts its runs."""

    series: Series
    counter: Counter

    def run_all(self, calls: Iterable[Call]) -> Generator[Run, None, None]:
        """As the series does it."""
        return self.counter.count(self.series.run_all(calls))

    def close(self) -> None:
        """As the series does it."""
        self.series.close()


class CountingBox:
    """A box in every respect, but that it counts."""

    def __init__(self, box: Box, counter: Counter) -> None:
        self._box = box
        self._counter = counter

    def __getattr__(self, name: str) -> Any:
        """Whatever else a box has."""
        return getattr(self._box, name)

    def run_series(self, artifact: Artifact, calls: Sequence[Call], limits: Limits) -> Generator[Run, None, None]:
        """As the box does it."""
        return self._counter.count(self._box.run_series(artifact, calls, limits))

    def open_series(
        self, program: Program, function: str | None, limits: Limits
    ) -> tuple[Artifact | CompileFailure, Series | None]:
        """As the box does it."""
        loaded, series = self._box.open_series(program, function, limits)
        return loaded, None if series is None else CountingSeries(series, self._counter)


@dataclass
class CountingBackend:
    """Starts boxes that count."""

    backend: Backend
    counter: Counter
    name: str = "counting"

    def start(self) -> Box:
        """A fresh box."""
        return cast(Box, CountingBox(self.backend.start(), self.counter))
