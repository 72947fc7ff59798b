"""Where a training's seconds go: to generation, to evaluation or to updates. One of them, at any time."""

import contextlib
import time
from collections.abc import Iterator

UPDATE, GENERATION, EVALUATION = "update", "generation", "evaluation"


class Phases:
    """A stopwatch that always runs, for the phase that it was last told of."""

    def __init__(self) -> None:
        self._phase, self._since = UPDATE, time.perf_counter()
        self._seconds = dict.fromkeys((GENERATION, EVALUATION, UPDATE), 0.0)

    @contextlib.contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """Count for a phase, and then for the one before it."""
        before = self._phase
        self._switch(phase)
        try:
            yield
        finally:
            self._switch(before)

    def drain(self) -> dict[str, float]:
        """The seconds of each phase since the last call."""
        self._switch(self._phase)
        found, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
        return found

    def _switch(self, phase: str) -> None:
        now = time.perf_counter()
        self._seconds[self._phase] += now - self._since
        self._phase, self._since = phase, now
