"""Process: one form for statements and tests; what tests alone can't judge is taken out, or its comparison declared."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

from curation.languages import UNDETERMINED, detect_language
from curation.problem import Problem, make_suite
from curation.stage import ConfiguredStage, Params
from curation.statements import Demand, find_demands, normalise_statement, write_instruction
from evaluator.model import TestCase, TestKind


class ProcessParams(Params):
    """Settings of `process`."""

    languages: tuple[str, ...] = ("en",)
    """Of the statement. One that can't be told (too short) is kept, and marked."""
    images: Literal["drop", "keep"] = "drop"
    several_answers: Literal["drop", "keep"] = "drop"
    """What becomes of problems that accept several answers and have no checker; `keep` marks them."""
    without_statement: Literal["drop", "keep"] = "drop"


class Process(ConfiguredStage[ProcessParams]):
    """See the module."""

    name = "process"

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Each problem by itself."""
        for problem in problems:
            processed = self._process(problem)
            if processed is not None:
                yield processed

    def _process(self, problem: Problem) -> Problem | None:
        statement = normalise_statement(problem.statement)
        if not statement:
            if self._params.without_statement == "drop":
                self.drop(problem, "no statement")
                return None
            self.mark("no statement")
        demands = find_demands(problem.statement)
        if Demand.INTERACTION in demands:
            self.drop(problem, Demand.INTERACTION)
            return None
        if Demand.IMAGE in demands:
            if self._params.images == "drop":
                self.drop(problem, Demand.IMAGE)
                return None
            self.mark("mentions images")
        if Demand.ILLUSTRATION in demands:
            self.mark(Demand.ILLUSTRATION)
        language = detect_language(statement) if statement else UNDETERMINED
        if language not in (*self._params.languages, UNDETERMINED):
            self.drop(problem, "statement in another language", language)
            return None
        if statement and language == UNDETERMINED:
            self.mark("language can't be told")
        declared = self._declare_comparison(problem, demands)
        if declared is None:
            return None
        changed = replace(declared, statement=statement, suite=make_suite(*_even_out(declared)))
        return replace(changed, instruction=write_instruction(changed)).with_note("language", language)

    def _declare_comparison(self, problem: Problem, demands: set[Demand]) -> Problem | None:
        """Comparison options for what the statement allows; None where only a checker could tell."""
        if problem.suite.checker is not None:
            return problem
        judged_by_code = problem.kind is TestKind.ASSERTION
        if Demand.ANY_ORDER in demands and not judged_by_code:
            self.mark("compared in any order")
            problem = replace(problem, policy={"order": "lines", **problem.policy})
        if Demand.ANY_CASE in demands and not judged_by_code:
            self.mark("compared in any case")
            problem = replace(problem, policy={"ignore_case": True, **problem.policy})
        if Demand.CHECKER in demands and not judged_by_code:
            if self._params.several_answers == "drop":
                self.drop(problem, Demand.CHECKER)
                return None
            self.mark(Demand.CHECKER)
            problem = problem.with_note("several_answers", True)
        return problem


def _even_out(problem: Problem) -> tuple[list[TestCase], Any]:
    """Tests with one kind of line end, standard input and output ending in one, and no two alike."""
    tests: dict[TestCase, None] = {}
    for test in problem.suite.tests:
        if test.kind is TestKind.STDIN:
            expected = None if test.expected is None else _end_line(test.expected)
            test = replace(test, input=_end_line(test.input), expected=expected)
        elif test.kind is TestKind.ASSERTION:
            test = replace(test, input=test.input.replace("\r\n", "\n"))
        tests.setdefault(test)
    return list(tests), problem.suite.checker


def _end_line(text: str) -> str:
    text = text.replace("\r\n", "\n")
    return text if not text or text.endswith("\n") else text + "\n"
