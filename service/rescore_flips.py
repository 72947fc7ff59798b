"""The changed verdicts of a run, each explained: against the published ones, and against LiveCodeBench run here."""

import json
import shlex
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluator.livecodebench.errata import find_erratum
from evaluator.livecodebench.flips import Case, FlipReason, explain
from evaluator.livecodebench.generations import Answers
from evaluator.livecodebench.rows import Problem
from evaluator.livecodebench.score_files import write_whole
from evaluator.model import Verdict
from service.rescore_results import Key, Outcome, Rules, digest_of
from service.rescoring import Source, make_work, write_tests

if TYPE_CHECKING:
    from evaluator.livecodebench.official import OfficialVerdict  # its boxes are for Linux; a service can judge instead

PUBLISHED, OFFICIAL = "published", "official"


@dataclass(frozen=True)
class Changed:
    """A generation whose verdict isn't the other side's. `other`: whether that side accepted it."""

    question_id: str
    generation: int
    against: str
    """`published`, or `official`: LiveCodeBench's evaluator, run here on the same tests."""
    other: bool
    verdict: str
    reason: FlipReason
    proof: str
    command: str
    official: bool | None = None
    """What LiveCodeBench's evaluator, run here, says."""


@dataclass(frozen=True)
class Other:
    """What another side says of a generation."""

    against: str
    accepted: bool
    remark: dict[str, Any]


def find_changes(
    answers: Iterable[Answers], outcomes: dict[Key, Outcome], official: dict[Key, "OfficialVerdict"]
) -> dict[tuple[str, int], list[Other]]:
    """The generations of which another side says something else, by problem and number."""
    changes: dict[tuple[str, int], list[Other]] = {}
    for item in answers:
        id = item.question_id or ""
        for number, program in enumerate(item.programs):
            key = Key(id, digest_of(program))
            outcome = outcomes.get(key)
            if outcome is None or outcome.verdict is Verdict.INTERNAL_ERROR:
                continue
            sides = []
            if item.published:
                sides.append(Other(PUBLISHED, item.published[number], item.remarks[number]))
            if (verdict := official.get(key)) is not None:
                sides.append(Other(OFFICIAL, verdict.accepted, verdict.metadata))
            ours = outcome.verdict is Verdict.ACCEPTED
            if differ := [side for side in sides if side.accepted != ours]:
                changes[id, number] = differ
    return changes


class Explainer:
    """Explains changed verdicts, problem by problem."""

    def __init__(
        self,
        answers: list[Answers],
        outcomes: dict[Key, Outcome],
        official: dict[Key, "OfficialVerdict"],
        rules: Rules,
        command: list[str],
        retry: Callable[[Any], bool],
    ) -> None:
        """`command` is the one to re-run a case with, but for its name; `retry` judges a `Work` and says whether it
        is accepted."""
        self._answers = {item.question_id: item for item in answers}
        self._outcomes = outcomes
        self._official = official
        self._rules = rules
        self._command = command
        self._retry = retry

    def explain_all(self, source: Source) -> list[Changed]:
        """All changes, in the order of their ids."""
        changes = find_changes(self._answers.values(), self._outcomes, self._official)
        wanted = {id for id, _ in changes}
        found: list[Changed] = []
        if wanted:
            for problem in source.iterate(wanted):
                mine = [(number, sides) for (id, number), sides in changes.items() if id == problem.id]
                found += self._explain_problem(problem, mine)
        return sorted(found, key=lambda item: (item.against, item.question_id, item.generation))

    def _explain_problem(self, problem: Problem, changes: list[tuple[int, list[Other]]]) -> list[Changed]:
        tests = problem.read_tests()
        item = self._answers[problem.id]
        erratum = find_erratum(problem.id, problem.fields["question_title"])
        found = []
        for number, sides in changes:
            text = item.programs[number]
            key = Key(problem.id, digest_of(text))
            outcome = self._outcomes[key]
            official = self._official.get(key)
            for side in sides:
                has_given = side.against == PUBLISHED and number < len(item.given)
                flip = explain(
                    Case(
                        published=side.accepted,
                        remark=side.remark,
                        source=text,
                        given=item.given[number] if has_given else None,
                        tests=tests,
                        verdict=outcome.verdict,
                        detail=outcome.detail,
                        index=outcome.first_failed,
                        cpu_seconds=outcome.slowest,
                        limit=self._rules.cpu_seconds,
                        erratum=erratum,
                        accepted_by_theirs=self._try_their_comparison(side, outcome, problem, text),
                    )
                )
                command = shlex.join([*self._command, "--only", f"{problem.id}#{number}", "--verbose"])
                accepted = None if official is None else official.accepted
                verdict = str(outcome.verdict)
                found.append(
                    Changed(
                        problem.id,
                        number,
                        side.against,
                        side.accepted,
                        verdict,
                        flip.reason,
                        flip.proof,
                        command,
                        accepted,
                    )
                )
        return found

    def _try_their_comparison(self, side: Other, outcome: Outcome, problem: Problem, text: str) -> bool | None:
        """Whether a wrong answer of ours is right under LiveCodeBench's comparison."""
        if not side.accepted or outcome.verdict is not Verdict.WRONG_ANSWER or self._rules.profile == "livecodebench":
            return None
        rules = replace(self._rules, profile="livecodebench")
        return self._retry(make_work(outcome.key, text, problem, write_tests(problem.read_tests()), rules))


def write_changes(folder: Path, changes: list[Changed]) -> None:
    """`flips.jsonl`, a line a change."""
    lines = [json.dumps({**asdict(change), "reason": str(change.reason)}) for change in changes]
    write_whole(folder / "flips.jsonl", "".join(line + "\n" for line in lines))
