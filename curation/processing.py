"""Process: one form for statements and tests; what tests alone can't judge is taken out, or its comparison declared."""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from curation.fan import fan_out
from curation.languages import NAMES, UNDETERMINED, detect_language
from curation.problem import Problem, make_suite
from curation.stage import Params, Stage
from curation.statements import Demand, find_demands, normalise_statement, write_instruction
from curation.translation import TranslateIn, Translation, Translator
from evaluator.model import TestCase, TestKind


class ProcessParams(Params):
    """Settings of `process`."""

    languages: tuple[str, ...] = Field(("en",), min_length=1)
    """Of the statement. One that can't be told (too short) is kept, and marked."""
    translate: TranslateIn | None = None
    """Who translates statements in other languages into the first of these; None: they are left out."""
    images: Literal["drop", "keep"] = "drop"
    several_answers: Literal["drop", "keep"] = "drop"
    """What becomes of problems that accept several answers and have no checker; `keep` marks them."""
    without_statement: Literal["drop", "keep"] = "drop"


@dataclass(frozen=True)
class Draft:
    """A problem whose statement is Markdown, what that asks for, and its language."""

    problem: Problem
    demands: set[Demand]
    language: str


class Process(Stage):
    """See the module."""

    name = "process"

    def __init__(
        self,
        params: ProcessParams,
        seed: int = 1,
        journal: Path = Path(os.devnull),
        interrupt: threading.Event | None = None,
    ) -> None:
        """What a translator says is kept in `journal`, and not asked again."""
        super().__init__()
        self._params = params
        self._seed = seed
        self._journal = journal
        self._interrupt = interrupt or threading.Event()

    @property
    def params(self) -> dict[str, Any]:
        """The settings; the seed where a model is asked. Not how many threads ask."""
        settings = self._params.model_dump(mode="json", exclude={"translate": {"workers"}})
        return settings if self._params.translate is None else {**settings, "seed": self._seed}

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Each problem by itself.

        Raises:
            Interrupted: the build is to end.
            BadEndpoint: who translates doesn't answer.
        """
        drafts = (draft for problem in problems if (draft := self._begin(problem)) is not None)
        for draft, translation in self._translate(drafts):
            finished = self._finish(draft if translation is None else self._replace(draft, translation))
            if finished is not None:
                yield finished

    def _begin(self, problem: Problem) -> Draft | None:
        statement = normalise_statement(problem.statement)
        if not statement:
            if self._params.without_statement == "drop":
                self.drop(problem, "no statement")
                return None
            self.mark("no statement")
        demands = find_demands(problem.statement)
        if self._refuse(problem, demands):
            return None
        language = detect_language(statement) if statement else UNDETERMINED
        if statement and language == UNDETERMINED:
            self.mark("language can't be told")
        elif language not in (*self._params.languages, UNDETERMINED) and self._params.translate is None:
            self.drop(problem, "statement in another language", language)
            return None
        return Draft(replace(problem, statement=statement), demands, language)

    def _translate(self, drafts: Iterable[Draft]) -> Iterator[tuple[Draft, Translation | None]]:
        """Each with its translation, where it needs one; several at a time, in their order."""
        settings, languages = self._params.translate, (*self._params.languages, UNDETERMINED)
        if settings is None:
            yield from ((draft, None) for draft in drafts)
            return
        opened = Translator(settings, self._params.languages, self._seed, self._journal, self._interrupt)
        with closing(opened) as translator:

            def translate(draft: Draft) -> Translation | None:
                return None if draft.language in languages else translator.translate(draft.problem, draft.language)

            yield from fan_out(drafts, translate, settings.workers, self._interrupt)

    def _replace(self, draft: Draft, translation: Translation) -> Draft | None:
        """The draft in its new language; None where the translation failed, or shows what can't be judged."""
        assert self._params.translate is not None
        if translation.fault is not None:
            self.drop(draft.problem, translation.fault, f"{draft.language}; {translation.detail}")
            return None
        demands = find_demands(translation.text)
        if self._refuse(draft.problem, demands):
            return None
        self.mark(f"translated from {NAMES.get(draft.language, draft.language)}")
        note = {"from": draft.language, "model": self._params.translate.model}
        problem = replace(draft.problem, statement=translation.text).with_note("translated", note)
        return Draft(problem, draft.demands | demands, self._params.languages[0])

    def _finish(self, draft: Draft | None) -> Problem | None:
        declared = None if draft is None else self._declare_comparison(draft.problem, draft.demands)
        if draft is None or declared is None:
            return None
        changed = replace(declared, suite=make_suite(*_even_out(declared)))
        return replace(changed, instruction=write_instruction(changed)).with_note("language", draft.language)

    def _refuse(self, problem: Problem, demands: set[Demand]) -> bool:
        """Leave out what needs interaction or images."""
        if Demand.INTERACTION in demands:
            self.drop(problem, Demand.INTERACTION)
            return True
        if Demand.IMAGE in demands:
            if self._params.images == "drop":
                self.drop(problem, Demand.IMAGE)
                return True
            self.mark("mentions images")
        if Demand.ILLUSTRATION in demands:
            self.mark(Demand.ILLUSTRATION)
        return False

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
