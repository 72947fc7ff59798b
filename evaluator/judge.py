"""Runs a suite; the only place that turns a Run into a Verdict."""

from collections.abc import Callable
from typing import Protocol

from evaluator.model import Judgement, Submission, Suite


class Judge(Protocol):
    """Interface while the class is being written (same names, same arguments)."""

    def judge(
        self, submission: Submission, suite: Suite, *, cancelled: Callable[[], bool], progress: Callable[[], None]
    ) -> Judgement: ...
