"""What stages that have programs judged have in common: boxes or a service, a journal, several problems at a time."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from curation.fan import fan_out
from curation.journal import Journal
from curation.judging import Judging
from curation.problem import Problem
from curation.stage import ConfiguredStage, P

R = TypeVar("R")


class JudgingStage(ConfiguredStage[P]):
    """A stage that looks for what it has to know in a journal, and has it judged where it isn't there."""

    keeps_dropped = True

    def __init__(
        self,
        params: P,
        open_judging: Callable[[], Judging],
        workers: int,
        journal: Path,
        interrupt: threading.Event,
    ) -> None:
        """Judge `workers` problems at a time; findings are looked for in the journal and added to it."""
        super().__init__(params)
        self._open_judging = open_judging
        self._workers = workers
        self._path = journal
        self._interrupt = interrupt

    def examine_all(
        self, problems: Iterable[Problem], examine: Callable[[Judging, Journal, Problem], R]
    ) -> Iterator[tuple[Problem, R]]:
        """Each problem with its finding, in their order. `examine` is called in any thread.

        Raises:
            Interrupted: the build is to end.
        """
        judging = self._open_judging()
        workers = min(self._workers, judging.most)
        with closing(Journal(self._path)) as journal:

            def call(problem: Problem) -> R:
                return examine(judging, journal, problem)

            yield from fan_out(problems, call, workers, self._interrupt, judging.stop)
