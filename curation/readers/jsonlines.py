"""Plain JSON Lines: what this package writes itself, or the simple records of `docs/examples`.

A record of the second kind has `id`, `statement`, `tests` (each with `input`, and `expected` unless it is an
assertion) and may have `title`, `kind`, `entry_point`, `starter`, `limits`, `policy`, `checker`, `references`, `wrong`,
`submissions` (each with `source` and `label`: the accepted ones are references, the others are known to be wrong),
`licence`, `date`, `difficulty`, `tags`, `url`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from curation.problem import BadProblem, Identity, Problem, check_date, make_suite, read_problem
from curation.readers.addresses import read_address
from curation.readers.origins import Origin, Unreadable, clean_text, demand
from evaluator.checkers import read_checker
from evaluator.errors import InvalidSuite
from evaluator.model import TestCase, TestKind

REPEATABLE = ("wrong_answer", "runtime_error", "compile_error")
"""Labels that don't depend on limits: such a program is wrong on any machine."""


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A record of either kind.

    Raises:
        Unreadable: it is neither.
    """
    row = demand(row, "id", "statement", "tests")
    if "source" in row:
        try:
            problem = read_problem(row, f"record {number}")
        except BadProblem as error:
            raise Unreadable("not a row of this format", str(error)) from None
        return replace(problem, id=f"{origin.name}/{problem.id.rpartition('/')[2]}", source=origin.name)
    try:
        date = None if row.get("date") is None else check_date(row["date"])
        suite = make_suite(_iterate_tests(row), None if row.get("checker") is None else read_checker(row["checker"]))
    except (InvalidSuite, ValueError, TypeError, KeyError) as error:
        raise Unreadable("not a row of this format", str(error)) from None
    title, limits = clean_text(row.get("title")), row.get("limits") or {}
    right, wrong = _split_submissions(row.get("submissions") or [])
    return Problem(
        id=f"{origin.name}/{str(row['id']).rpartition('/')[2]}",
        statement=clean_text(row["statement"]),
        suite=suite,
        source=origin.name,
        identity=read_address(str(row["url"]), title) if row.get("url") else Identity(origin.name, title=title),
        entry_point=row.get("entry_point"),
        starter=clean_text(row.get("starter")),
        references=origin.pick([*(row.get("references") or []), *right]),
        wrong=origin.pick([*(row.get("wrong") or []), *wrong]),
        licence=clean_text(row.get("licence")) or origin.licence,
        attribution=origin.attribution,
        date=date,
        difficulty=clean_text(row.get("difficulty")),
        tags=tuple(map(str, row.get("tags") or [])),
        cpu_seconds=limits.get("cpu_seconds"),
        memory_bytes=limits.get("memory_bytes"),
        policy=row.get("policy") or {},
    )


def _iterate_tests(row: dict[str, Any]) -> Iterator[TestCase]:
    kind = row.get("kind") or (TestKind.FUNCTIONAL if row.get("entry_point") else TestKind.STDIN)
    for test in row["tests"]:
        yield TestCase(TestKind(test.get("kind") or kind), test["input"], test.get("expected"), test.get("name"))


def _split_submissions(submissions: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    right = [one["source"] for one in submissions if one.get("source") and one.get("label") == "accepted"]
    wrong = [one["source"] for one in submissions if one.get("source") and one.get("label") in REPEATABLE]
    return right, wrong
