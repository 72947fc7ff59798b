"""Verdicts in LiveCodeBench's own shapes: `*_eval.json` and `*_eval_all.json`, which its score script reads.

A generation's results are one value a test, up to the first that failed: true, or -2 for a wrong answer (false where a
function was called), -3 for a time limit, -4 for anything else.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.livecodebench.estimates import pass_at_k
from evaluator.model import Verdict

KS = (1, 5, 10, 20, 40, 50, 75, 100, 125, 150, 200, 500, 1000)
"""The k of LiveCodeBench's metrics."""
_MESSAGES = {-2: "Wrong Answer", -3: "Time Limit Exceeded", -4: "Runtime Error"}


@dataclass(frozen=True)
class Graded:
    """One generation's verdict. `passed` is the number of tests before the first that failed."""

    verdict: Verdict
    passed: int
    functional: bool
    detail: str | None
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether it counts for pass@k."""
        return self.verdict is Verdict.ACCEPTED

    def results(self) -> list[bool | int]:
        """One value a test, as LiveCodeBench has them."""
        return [True] * self.passed + ([] if self.is_right else [self._value()])

    def metadata(self) -> str:
        """Why, as LiveCodeBench says it, with our verdict beside."""
        if self.is_right:
            return json.dumps({"execution time": self.seconds})
        code = self._value() or -2
        return json.dumps(
            {"error_code": code, "error_message": _MESSAGES[code], "verdict": str(self.verdict), "error": self.detail}
        )

    def _value(self) -> bool | int:
        if self.verdict is Verdict.WRONG_ANSWER:
            return False if self.functional else -2
        return -3 if self.verdict is Verdict.TIME_LIMIT else -4


@dataclass(frozen=True)
class Record:
    """A problem's record, with the verdicts of its generations. `fields` hold question, answers and programs."""

    fields: dict[str, Any]
    graded: tuple[Graded, ...]

    @property
    def right(self) -> int:
        """How many generations are right."""
        return sum(item.is_right for item in self.graded)


def usable_ks(counts: Iterable[int]) -> list[int]:
    """The k for which every problem has enough generations."""
    least = min(counts, default=0)
    return [k for k in KS if k <= least]


def write_score_files(folder: Path, stem: str, records: Sequence[Record]) -> tuple[Path, Path]:
    """Write both files, the records ordered by question id, and return their paths."""
    ordered = sorted(records, key=lambda record: str(record.fields["question_id"]))
    short, long = folder / f"{stem}_eval.json", folder / f"{stem}_eval_all.json"
    metrics: dict[str, Any] = {}
    details: dict[str, dict[int, float]] = {}
    for k in usable_ks(len(record.graded) for record in ordered):
        values = [pass_at_k(len(record.graded), record.right, k) for record in ordered]
        metrics[f"pass@{k}"] = sum(values) / len(values)
        details[f"pass@{k}"] = dict(enumerate(values))
    metrics["detail"] = details
    results = {index: [item.results() for item in record.graded] for index, record in enumerate(ordered)}
    metadata = [[item.metadata() for item in record.graded] for record in ordered]
    write_whole(short, json.dumps([metrics, results, metadata]))
    write_whole(long, json.dumps([_complete(record) for record in ordered], indent=1))
    return short, long


def _complete(record: Record) -> dict[str, Any]:
    return {
        **record.fields,
        "graded_list": [item.is_right for item in record.graded],
        "pass@1": record.right / len(record.graded),
        "metadata": [item.metadata() for item in record.graded],
    }


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole, or not at all. Half surrogate pairs, which UTF-8 can't hold, are replaced."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text, "utf-8", errors="replace")
    draft.replace(path)
