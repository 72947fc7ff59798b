"""LiveCodeBench's problems for a model: read, selected, asked. Their tests are the re-scoring's business."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STDIN_FORM = "Write a Python program that reads its input from standard input and prints its answer to standard output."
CALL_FORM = "Complete this code; its class and the method's name and arguments stay as they are:"
ASK = "Put the whole program into one block of code that begins with ```python. Nothing after the block counts."


@dataclass(frozen=True)
class BenchmarkProblem:
    """A row of `code_generation_lite`, without its tests."""

    question_id: str
    statement: str
    starter: str
    platform: str
    difficulty: str
    date: str
    has_private_tests: bool

    def messages(self) -> list[dict[str, str]]:
        """What the model is asked: the wording is ours, not LiveCodeBench's."""
        form = f"{CALL_FORM}\n\n```python\n{self.starter}\n```" if self.starter.strip() else STDIN_FORM
        return [{"role": "user", "content": f"{self.statement}\n\n{form}\n\n{ASK}"}]


def read_problems(
    paths: Sequence[Path], *, start: str = "", end: str = "", limit: int | None = None
) -> list[BenchmarkProblem]:
    """The problems of some JSON Lines files, in the files' order.

    Args:
        paths: a release is its files: `test6.jsonl` of `code_generation_lite` is v6.
        start, end: dates, `YYYY-MM-DD`, both included.
        limit: so many at most, spread evenly over those selected.

    Raises:
        ValueError: a line is no problem, or none is left.
    """
    found = []
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            try:
                problem = _read(json.loads(line))
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise ValueError(f"{path.name}, line {number} is no problem of LiveCodeBench's: {error!r}") from None
            if (start or "0") <= problem.date <= (end or "9"):
                found.append(problem)
    if not found:
        raise ValueError(f"No problem of {', '.join(path.name for path in paths)} is within the dates.")
    if limit is not None and limit < len(found):
        found = [found[place * len(found) // limit] for place in range(limit)]
    return found


def _read(row: dict[str, str]) -> BenchmarkProblem:
    private = row.get("private_test_cases") or ""
    return BenchmarkProblem(
        row["question_id"],
        row["question_content"],
        row.get("starter_code") or "",
        row["platform"],
        row["difficulty"],
        row["contest_date"][:10],
        private not in ("", "[]"),
    )
