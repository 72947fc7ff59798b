"""The record that every stage takes and gives, and its JSON.

One problem a line, ASCII, fields in a fixed order, so that the same problem always gives the same bytes. What is empty
isn't written. Tests and checker are written as a suite's lines have them (`evaluator/suites.py`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

from evaluator.checkers import read_checker, write_checker
from evaluator.errors import InvalidSubmission, InvalidSuite
from evaluator.livecodebench.documents import iterate_texts, read_record
from evaluator.model import Checker, Limits, Policy, Suite, TestCase, TestKind
from evaluator.suites import read_suite, write_suite

UNKNOWN = "unknown"
"""A licence that nobody has stated for the text of the problem itself."""


class BadProblem(InvalidSubmission):
    """A record that is no problem. The message names place, field and remedy."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Under which names a problem is known. All may be empty; `site` is where it was posed, not who copied it."""

    site: str = ""
    slug: str = ""
    id: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem on its way through the stages. Sizes are bytes, times are seconds.

    `references` are programs said to be right, `wrong` programs said to be wrong, both Python.
    """

    id: str
    """Unique in a corpus: the source's name, a slash, the problem's name there."""
    statement: str
    suite: Suite
    source: str
    identity: Identity = field(default_factory=Identity)
    entry_point: str | None = None
    """What functional tests call: `function` or `Class.method`."""
    starter: str = ""
    """Code that the statement gives to begin with."""
    instruction: str = ""
    """How the answer is to be given. Apart from the statement, so that comparing texts doesn't see it."""
    references: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    licence: str = UNKNOWN
    attribution: str = ""
    date: str | None = None
    """When it was first published: YYYY-MM-DD."""
    difficulty: str = ""
    """What the source says: `easy`, `medium`, `hard`, or nothing."""
    tags: tuple[str, ...] = ()
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    """Options of comparison that differ from the default (`evaluator.model.Policy`)."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What stages found out: by the stage's name, JSON values."""

    @property
    def kind(self) -> TestKind:
        """How its tests talk to a program; a suite's tests are of one kind."""
        return self.suite.tests[0].kind

    def with_note(self, name: str, value: Any) -> "Problem":
        """The problem with one more note."""
        return replace(self, notes={**self.notes, name: value})

    def limits(self) -> Limits:
        """What one test may use: the evaluator's defaults where the problem says nothing."""
        default = Limits()
        return Limits(
            cpu_seconds=self.cpu_seconds or default.cpu_seconds,
            memory_bytes=self.memory_bytes or default.memory_bytes,
        )


def make_suite(tests: Iterable[TestCase], checker: Checker | None = None) -> Suite:
    """A suite under its canonical id.

    Raises:
        InvalidSuite: the tests can't be judged.
    """
    return read_suite(write_suite(tests, checker))


def write_problem(problem: Problem) -> bytes:
    """The problem's line."""
    record: dict[str, Any] = {}
    for name in _NAMES:
        value = getattr(problem, name)
        if name == "identity":
            value = {key.name: getattr(value, key.name) for key in fields(value) if getattr(value, key.name)}
        elif name in ("policy", "notes"):
            value = {key: value[key] for key in sorted(value)}
        elif isinstance(value, tuple):
            value = list(value)
        if value or name in ("id", "statement"):
            record[name] = value
    if problem.suite.checker is not None:
        record["checker"] = write_checker(problem.suite.checker)
    record["tests"] = [_write_test(test) for test in problem.suite.tests]
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


_NAMES = tuple(one.name for one in fields(Problem) if one.name != "suite")


def _write_test(test: TestCase) -> dict[str, str]:
    record = {"kind": str(test.kind), "input": test.input, "expected": test.expected, "name": test.name}
    return {name: value for name, value in record.items() if value is not None}


def read_problem(record: Any, place: str) -> Problem:
    """The problem in a JSON object; `place` says where that came from.

    Raises:
        BadProblem: it is none.
    """
    if not isinstance(record, dict):
        raise BadProblem(f"{place}: a problem is a JSON object, not a {type(record).__name__}.")
    known = {*_NAMES, "tests", "checker"}
    if unknown := [name for name in record if name not in known]:
        raise BadProblem(f"{place}: the field {unknown[0]!r} isn't known; a problem has {', '.join(sorted(known))}.")
    for name in ("id", "statement", "source"):
        if not isinstance(record.get(name), str):
            raise BadProblem(f"{place}: the field {name!r} must be a text; add it.")
    try:
        checker = None if record.get("checker") is None else read_checker(record["checker"])
        suite = make_suite(map(_read_test, record.get("tests") or []), checker)
        Policy(**record.get("policy", {}))
        values = {name: _read_value(name, record[name]) for name in _NAMES if name in record}
        if values.get("date") is not None:
            check_date(values["date"])
        problem = Problem(**values, suite=suite)
        problem.limits()
    except (InvalidSuite, InvalidSubmission, TypeError, ValueError, KeyError) as error:
        raise BadProblem(f"{place}: {error}") from None
    return problem


def check_date(text: Any) -> str:
    """A date as it was given.

    Raises:
        ValueError: it is none.
    """
    try:
        date.fromisoformat(text)
    except (TypeError, ValueError):
        raise ValueError(f"'date' must be written YYYY-MM-DD, not {text!r}.") from None
    return str(text)


def _read_test(record: Any) -> TestCase:
    if not isinstance(record, dict):
        raise InvalidSuite(f"a test is a JSON object, not a {type(record).__name__}.")
    return TestCase(TestKind(record["kind"]), record["input"], record.get("expected"), record.get("name"))


def _read_value(name: str, value: Any) -> Any:
    if name == "identity":
        return Identity(**value)
    if name in ("references", "wrong", "tags"):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise TypeError(f"{name!r} must be a list of texts.")
        return tuple(value)
    if name in ("policy", "notes") and not isinstance(value, dict):
        raise TypeError(f"{name!r} must be an object.")
    return value


def iterate_problems_of(path: Path) -> Iterator[Problem]:
    """The problems of a JSON Lines file, compressed or not, one at a time.

    Raises:
        BadProblem: at the first record that is none.
        UnreadableFile: the file can't be read.
    """
    for number, text in iterate_texts(path):
        yield read_problem(read_record(path, number, text), f"{path}, record {number}")
