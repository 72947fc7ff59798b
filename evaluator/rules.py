"""What a submission's runs are judged by: its limits, its policy, and the suite's checker where there is one."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from evaluator.checker_box import CheckerBox, Ruling
from evaluator.comparison import answers
from evaluator.comparison.ladder import compare, compare_value
from evaluator.model import CheckerProgram, Limits, Match, Policy, TestCase, TestResult
from evaluator.suspicions import Suspicion

MAX_OUTPUTS = 8 << 20
"""Bytes of all outputs that a judgement keeps, as JSON has them: a zero byte takes six there."""


def nothing() -> None:
    """No one to tell."""


@dataclass(frozen=True)
class Rules:
    """What a submission's runs are judged by."""

    limits: Limits
    policy: Policy
    checkers: CheckerBox | None = None
    checker: CheckerProgram | None = None
    progress: Callable[[], None] = nothing
    suspicions: list[Suspicion] = field(default_factory=list)
    keep_outputs: bool = False

    def compare(self, test: TestCase, output: bytes) -> Match | None:
        """Standard output against what is expected. None: nothing is.

        Raises:
            CheckerFailed: the suite's checker gives no answer.
        """
        if self.checker is not None:
            return self.check(test, output)
        return None if test.expected is None else compare(test.expected, output, self.policy)

    def compare_value(self, test: TestCase, value: object) -> Match | None:
        """A returned value against the expected one. A checker reads it as a line of JSON."""
        if self.checker is not None:
            return self.check(test, answers.spell(value).encode("utf-8", "surrogatepass") + b"\n")
        return None if test.expected is None else compare_value(test.expected, value, self.policy)

    def check(self, test: TestCase, output: bytes) -> Match:
        """What the suite's checker says."""
        assert self.checkers is not None and self.checker is not None
        ruling: Ruling = self.checkers.check(self.checker, test, output, self.progress)
        if ruling.suspicion is not None:
            self.suspicions.append(ruling.suspicion)
        return ruling.match


class Allowance:
    """How much of the outputs of one judgement is kept: who runs a thousand tests mustn't fill a worker and Redis."""

    def __init__(self) -> None:
        """Nothing is kept yet."""
        self._left = MAX_OUTPUTS

    def keep(self, result: TestResult) -> TestResult:
        """The result, without its output where that doesn't fit any more."""
        if result.output is None:
            return result
        size = len(json.dumps(result.output))
        if size > self._left:
            return replace(result, output=None)
        self._left -= size
        return result
