"""Admit and trim: whose text may be used, from when, how large; and which tests of a large suite stay."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date

from pydantic import Field

from curation.problem import UNKNOWN, Problem, make_suite
from curation.stage import ConfiguredStage, Params
from evaluator.model import TestCase


class AdmitParams(Params):
    """Settings of `admit`."""

    licences: tuple[str, ...] | None = None
    """Only these; None: all but `unknown`. To take texts whose licence nobody states, name `unknown`."""
    published_from: date | None = None
    published_until: date | None = None
    undated: bool = True
    """Whether problems without a date are kept when there is a cut-off."""
    statement_characters: int = Field(20_000, ge=1)


class Admit(ConfiguredStage[AdmitParams]):
    """Leaves out problems whose licence, date or size isn't wanted."""

    name = "admit"

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Each problem by itself."""
        for problem in problems:
            reason, detail = self._object_to(problem)
            if reason:
                self.drop(problem, reason, detail)
            else:
                yield problem

    def _object_to(self, problem: Problem) -> tuple[str, str]:
        params = self._params
        allowed = problem.licence != UNKNOWN if params.licences is None else problem.licence in params.licences
        if not allowed:
            return "licence isn't admitted", problem.licence
        if len(problem.statement) > params.statement_characters:
            return "statement is too long", str(len(problem.statement))
        if params.published_from is None and params.published_until is None:
            return "", ""
        if problem.date is None:
            return ("", "") if params.undated else ("has no date", "")
        day = date.fromisoformat(problem.date)
        early = params.published_from is not None and day < params.published_from
        late = params.published_until is not None and day > params.published_until
        return ("outside of the dates", problem.date) if early or late else ("", "")


class TrimParams(Params):
    """Settings of `trim`."""

    tests: int = Field(15, ge=1)
    """Kept of a suite: those with the longest inputs, in their order."""
    least: int = Field(1, ge=1)
    test_bytes: int = Field(4 << 20, ge=1)
    """Input and expected output of one test; larger ones are left out."""


class Trim(ConfiguredStage[TrimParams]):
    """Bounds the tests of each problem. After the filters, which compare all tests."""

    name = "trim"

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Each problem by itself."""
        for problem in problems:
            tests = [test for test in problem.suite.tests if _size_of(test) <= self._params.test_bytes]
            if len(tests) < self._params.least:
                self.drop(problem, "too few tests", str(len(tests)))
                continue
            tests = choose_longest(tests, self._params.tests)
            if len(tests) < len(problem.suite.tests):
                self.mark("tests trimmed")
                problem = replace(problem, suite=make_suite(tests, problem.suite.checker))
            yield problem


def choose_longest(tests: list[TestCase], count: int) -> list[TestCase]:
    """The tests with the longest inputs, in their order; the earlier of two that are alike."""
    ranked = sorted(range(len(tests)), key=lambda place: (-len(tests[place].input), place))
    return [tests[place] for place in sorted(ranked[:count])]


def _size_of(test: TestCase) -> int:
    return len(test.input) + len(test.expected or "")
