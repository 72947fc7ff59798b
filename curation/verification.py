"""Verify: every reference program passes its whole suite, twice, and every program known to be wrong fails.

A problem is kept when all its references are accepted in both runs, with the same outputs, and none needs more than a
part of its limits. What it used is noted as `margins`: measured, so different from build to build, and not part of the
corpus. Problems without a reference can't be verified; they are kept apart, whole, with all others that were dropped.

What is judged is written to a journal at once: a build that was interrupted doesn't judge it again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, islice
from typing import Any, Literal

from pydantic import Field

from curation.examination import JudgingStage
from curation.journal import Journal, make_key
from curation.judging import Judging, Order, Outcome
from curation.problem import Problem
from curation.stage import Params
from evaluator.model import Verdict

OURS = (Verdict.INTERNAL_ERROR, Verdict.CANCELLED)
NEEDY = (Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT, Verdict.OUTPUT_LIMIT)
"""Verdicts that cost the most to come by: a reference with one is out after its first run, at its first such test."""


class VerifyParams(Params):
    """Settings of `verify`."""

    runs: int = Field(2, ge=2)
    """Of each reference. A program that is wrong once in three runs is caught by two with 5 chances in 9, a test."""
    margin: float = Field(1.5, ge=1)
    """A reference may need 1/margin of its time limit: one nearer to it would fail on a busier machine."""
    wrong: Literal["drop", "mark"] = "drop"
    """What becomes of a problem whose tests accept a program known to be wrong."""


@dataclass(frozen=True)
class Finding:
    """What judging a problem's programs showed. Of each reference, one outcome a run."""

    references: tuple[tuple[Outcome, ...], ...]
    wrong: tuple[Outcome, ...]

    @property
    def is_ours(self) -> bool:
        """Whether something wasn't judged."""
        return any(one.verdict in OURS for runs in (*self.references, self.wrong) for one in runs)


class Verify(JudgingStage[VerifyParams]):
    """See the module."""

    name = "verify"

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Several at a time, in their order.

        Raises:
            Interrupted: the build is to end.
        """
        for problem, finding in self.examine_all(problems, self._examine):
            if finding is None:
                self.drop(problem, "no reference program")
                continue
            reason, detail = self._object_to(problem, finding)
            if reason:
                self.drop(problem, reason, detail)
            else:
                yield self._note(problem, finding)

    def _examine(self, judging: Judging, journal: Journal, problem: Problem) -> Finding | None:
        """Judge all programs, or remember how they were judged. None: there is no reference."""
        if not problem.references:
            return None
        key = self._key(problem)
        known = journal.find(key)
        if known is not None:
            return _read_finding(known)
        first = [Order(source, fail_fast=True) for source in (*problem.references, *problem.wrong)]
        outcomes = judging.judge(problem, first)
        references, wrong = outcomes[: len(problem.references)], outcomes[len(problem.references) :]
        finding = Finding(self._repeat(judging, problem, references), tuple(wrong))
        if not finding.is_ours:
            journal.add(key, {"id": problem.id, **asdict(finding)})
        return finding

    def _repeat(self, judging: Judging, problem: Problem, first: Sequence[Outcome]) -> tuple[tuple[Outcome, ...], ...]:
        """All runs of each reference, of which the first is made, until its first failure."""
        left = [self._list_runs(one) for one in first]
        orders = [Order(source, run) for source, runs in zip(problem.references, left, strict=True) for run in runs]
        outcomes = iter(judging.judge(problem, orders) if orders else ())
        return tuple((one, *islice(outcomes, len(runs))) for one, runs in zip(first, left, strict=True))

    def _list_runs(self, first: Outcome) -> range:
        """Those still to be made. A program that failed is run whole, to see whether it always fails alike."""
        if first.verdict in (*NEEDY, *OURS):
            return range(0)
        return range(1 if first.verdict == Verdict.ACCEPTED else 0, self._params.runs)

    def _key(self, problem: Problem) -> str:
        """The same for problems that are judged alike."""
        limits = problem.limits()
        rules = (problem.suite.id, problem.entry_point, asdict(limits), dict(problem.policy), self._params.runs)
        return make_key(rules, problem.references, problem.wrong)

    def _object_to(self, problem: Problem, finding: Finding) -> tuple[str, str]:
        """Why the problem can't be kept: a reason and a detail, or two empty texts."""
        if finding.is_ours:
            return "couldn't be judged", _first_detail(finding)
        verdicts = [judge_runs(runs) for runs in finding.references]
        if "flaky" in verdicts:
            return "a reference isn't deterministic", ""
        rejected = [
            runs[0] for runs, verdict in zip(finding.references, verdicts, strict=True) if verdict != "accepted"
        ]
        if rejected and len(rejected) < len(verdicts):
            if any(one.verdict == Verdict.WRONG_ANSWER for one in rejected):
                return "references disagree", rejected[0].detail
            return "a reference fails", f"{rejected[0].verdict}: {rejected[0].detail}"
        if rejected:
            return "no reference passes", f"{rejected[0].verdict}: {rejected[0].detail}"
        slowest = max(one.slowest for runs in finding.references for one in runs)
        if slowest * self._params.margin > problem.limits().cpu_seconds:
            return "a reference is too near to its time limit", f"{slowest:.2f} s"
        survivors = [one for one in finding.wrong if one.verdict == Verdict.ACCEPTED]
        if survivors and self._params.wrong == "drop":
            return "a program known to be wrong passes", f"{len(survivors)} of {len(finding.wrong)}"
        return "", ""

    def _note(self, problem: Problem, finding: Finding) -> Problem:
        survivors = sum(one.verdict == Verdict.ACCEPTED for one in finding.wrong)
        if survivors:
            self.mark("a program known to be wrong passes")
        if finding.wrong:
            self.mark("wrong programs known, all fail" if not survivors else "wrong programs known, some pass")
        noted: dict[str, Any] = {
            "references": len(finding.references),
            "runs": self._params.runs,
            "wrong": len(finding.wrong),
            "wrong_passing": survivors,
        }
        outcomes = [one for runs in finding.references for one in runs]
        margins = {
            "cpu_seconds": round(max(one.slowest for one in outcomes), 4),
            "cpu_limit": problem.limits().cpu_seconds,
            "memory_bytes": max(one.memory_bytes for one in outcomes),
            "memory_limit": problem.limits().memory_bytes,
        }
        return problem.with_note("verified", noted).with_note("margins", margins)


def judge_runs(runs: Sequence[Outcome]) -> str:
    """`accepted`, a verdict, or `flaky` where two runs differ in a test's verdict or in what was printed.

    A run that ended at its first failure says nothing about the tests that it skipped.
    """
    return "flaky" if any(_differ(one, other) for one, other in combinations(runs, 2)) else runs[0].verdict


def _differ(one: Outcome, other: Outcome) -> bool:
    pairs = zip(one.tests, other.tests, strict=False)
    if any(verdict != another for verdict, another in pairs if Verdict.SKIPPED not in (verdict, another)):
        return True
    if Verdict.ACCEPTED not in (one.verdict, other.verdict):
        return False
    return one.verdict != other.verdict or (None not in (one.outputs, other.outputs) and one.outputs != other.outputs)


def _first_detail(finding: Finding) -> str:
    outcomes = (one for runs in (*finding.references, finding.wrong) for one in runs)
    return next((one.detail for one in outcomes if one.verdict in OURS), "")


def _read_finding(record: dict[str, Any]) -> Finding:
    references = tuple(tuple(map(_read_outcome, runs)) for runs in record["references"])
    return Finding(references, tuple(map(_read_outcome, record["wrong"])))


def _read_outcome(record: dict[str, Any]) -> Outcome:
    outputs = record["outputs"]
    return Outcome(
        **{**record, "tests": tuple(record["tests"]), "outputs": None if outputs is None else tuple(outputs)}
    )
