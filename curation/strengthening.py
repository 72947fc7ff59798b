"""Strengthen: how many mutants of the reference a suite lets pass, and tests for suites that let too many pass.

See `weaknesses.py` for how it is found out. What is found is noted as `mutation`. A suite is weak when it kills too
small a part of the mutants that made inputs can tell from the reference, or accepts a program known to be wrong.
Tests are only added, so that what a suite rejects it rejects afterwards, too; and every reference passes those added.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from curation.examination import JudgingStage
from curation.journal import Journal, make_key
from curation.judging import Judging
from curation.problem import Problem, make_suite
from curation.weaknesses import (
    LEAST_INPUTS,
    Examination,
    StrengthenParams,
    Unjudged,
    Weakness,
    read_weakness,
)


class Strengthen(JudgingStage[StrengthenParams]):
    """See the module."""

    name = "strengthen"

    def __init__(
        self,
        params: StrengthenParams,
        seed: int,
        open_judging: Callable[[], Judging],
        workers: int,
        journal: Path,
        interrupt: threading.Event,
    ) -> None:
        """Draw by this seed; the rest is as in every stage that judges."""
        super().__init__(params, open_judging, workers, journal, interrupt)
        self._seed = seed

    @property
    def params(self) -> dict[str, Any]:
        """The settings, and the seed."""
        return {**super().params, "seed": self._seed}

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Several at a time, in their order.

        Raises:
            Interrupted: the build is to end.
        """
        for problem, found in self.examine_all(problems, self._examine):
            yield from self._act(problem, found)

    def _examine(self, judging: Judging, journal: Journal, problem: Problem) -> Weakness:
        """Find out, or remember."""
        key = self._key(problem)
        if (known := journal.find(key)) is not None:
            return read_weakness(known)
        try:
            found = Examination(self._params, judging, problem, str(self._seed)).examine()
        except Unjudged:
            return Weakness(unable="something couldn't be judged")
        journal.add(key, found.document())
        return found

    def _key(self, problem: Problem) -> str:
        """The same for problems of which the same is found."""
        params = {name: value for name, value in self.params.items() if name != "act"}
        rules = (problem.id, problem.suite.id, problem.entry_point, asdict(problem.limits()), dict(problem.policy))
        notes = [problem.notes.get(name) for name in ("guards", "inputs")]
        return make_key(params, rules, problem.references, problem.wrong, notes)

    def _act(self, problem: Problem, found: Weakness) -> Iterator[Problem]:
        is_weak = self._is_weak(found)
        if found.unable:
            self.mark(f"not known: {found.unable}")
        elif not is_weak:
            self.mark("strong")
        if is_weak and self._params.act == "drop":
            passing = found.passing + found.wrong_passing
            self.drop(problem, "its tests are weak", f"{passing} of {found.killed + passing} wrong programs pass")
            return
        note = describe(found)
        if is_weak and found.tests and self._params.act == "strengthen":
            self.mark("weak, strengthened")
            tests = [*problem.suite.tests, *found.tests]
            problem = replace(problem, suite=make_suite(tests, problem.suite.checker))
            note["added"] = len(found.tests)
        elif is_weak:
            self.mark("weak")
        yield problem.with_note("mutation", note)

    def _is_weak(self, found: Weakness) -> bool:
        score = found.score
        return found.wrong_passing > 0 or (score is not None and score <= self._params.weak_until)


def describe(found: Weakness) -> dict[str, Any]:
    """What is noted: counts, and the part that is killed, of the mutants that can be told from the reference."""
    note: dict[str, Any] = {"mutants": found.mutants, "killed": found.killed}
    if found.unable:
        return {**note, "unable": found.unable}
    survived = found.mutants - found.killed
    if found.inputs >= LEAST_INPUTS:
        note |= {"told_apart": found.told_apart, "probably_equivalent": survived - found.passing}
    if found.wrong_passing:
        note |= {"wrong_passing": found.wrong_passing, "wrong_killed": found.wrong_killed}
    if found.score is not None:
        note["score"] = round(found.score, 4)
    if found.tests and found.score_after is not None:
        note["score_after"] = round(found.score_after, 4)
    return note
