"""Problems for tests of curation, written for these tests."""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from curation.judging import LocalJudging
from curation.problem import Identity, Problem, make_suite
from curation.stage import Stage
from evaluator.errors import SandboxUnavailable
from evaluator.model import TestCase, TestKind
from tests.requirements_helper import require

STATEMENT = (
    "You are given the heights of the towers along a street, from west to east. A tower can be seen from the west if "
    "every tower before it is lower. Print how many towers can be seen from the west."
)


@contextmanager
def open_boxes() -> Iterator[LocalJudging]:
    """Two boxes of this machine, for a module's tests."""
    try:
        judging = LocalJudging("bubblewrap", 2)
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))
    with closing(judging):
        yield judging


def make_problem(name: str = "towers", **fields: Any) -> Problem:
    """A problem that reads a number and prints twice it, unless `fields` says otherwise."""
    given = {
        "id": f"set/{name}",
        "statement": STATEMENT,
        "suite": make_suite([stdin(f"{number}\n", f"{2 * number}\n") for number in (1, 20, 300)]),
        "source": "set",
        "references": ("print(2 * int(input()))",),
        "licence": "MIT",
    }
    return Problem(**{**given, **fields})


def stdin(given: str, expected: str | None) -> TestCase:
    """A test on standard input."""
    return TestCase(TestKind.STDIN, given, expected)


def call(*lines: str, expected: str | None) -> TestCase:
    """A functional test, its arguments as lines of JSON."""
    return TestCase(TestKind.FUNCTIONAL, "\n".join(lines), expected)


def leetcode(slug: str, id: str = "") -> Identity:
    """A name on LeetCode."""
    return Identity("leetcode", slug, id, slug.replace("-", " "))


def run(stage: Stage, *problems: Problem) -> list[Problem]:
    """What a stage keeps; every problem is accounted for."""
    kept = list(stage.run(problems))
    ledger = stage.ledger
    assert sum(ledger.came.values()) == len(problems)
    assert sum(ledger.came.values()) == sum(ledger.kept.values()) + sum(ledger.dropped.values())
    assert sum(ledger.kept.values()) == len(kept)
    return kept


def ids(problems: Iterable[Problem]) -> list[str]:
    """Their names without the source."""
    return [problem.id.removeprefix("set/") for problem in problems]
