"""Suite bytes ↔ test cases.

A suite is JSON Lines, one test a line; the first line may be its checker (`checkers.py`):

    {"checker": {"name": "float_tolerance", "relative_tolerance": 1e-9}}
    {"kind": "stdin", "input": "1 2\\n", "expected": "3\\n", "name": "small"}

`kind` and `input` are required, `expected` and `name` may be missing (without `expected` the output itself is the
answer). A suite's id is the SHA-256 of its bytes as uploaded; `write_suite` is canonical, so that the same tests always
give the same id. Whatever can't be judged is refused here, with line, field and remedy, before any program runs.
"""

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from evaluator.checkers import read_checker, write_checker
from evaluator.comparison.literals import INVALID, parse, parse_json
from evaluator.errors import InvalidSuite
from evaluator.model import Checker, Suite, TestCase, TestKind

MAXIMUM_TESTS = 100_000
MAXIMUM_LINE_BYTES = 1 << 28
MAXIMUM_NAME_CHARACTERS = 200
_FIELDS = ("kind", "input", "expected", "name")
_KINDS = ", ".join(TestKind)


def suite_id(data: bytes) -> str:
    """Return the SHA-256 of a suite's bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def read_suite(data: bytes) -> Suite:
    """Read a whole suite.

    Raises:
        InvalidSuite: the bytes are no suite; the message names line, field and remedy.
    """
    records = _iterate_records(io.BytesIO(data))
    checker: Checker | None = None
    tests: list[TestCase] = []
    for number, record in records:
        if "checker" in record:
            if tests or checker is not None:
                raise InvalidSuite(f"line {number}: a suite has one checker, in its first line.")
            checker = _read_header(record, number)
            continue
        if len(tests) == MAXIMUM_TESTS:
            raise InvalidSuite(f"line {number}: a suite holds at most {MAXIMUM_TESTS} tests; split it.")
        tests.append(_read_test(record, number))
        if checker is not None and tests[-1].kind is TestKind.ASSERTION:
            raise InvalidSuite(f"line {number}: an assertion test judges by itself; the suite's checker can't.")
    if not tests:
        raise InvalidSuite("The suite holds no test: send one JSON object a line, with 'kind' and 'input'.")
    return Suite(suite_id(data), tuple(tests), checker)


def write_suite(tests: Iterable[TestCase], checker: Checker | None = None) -> bytes:
    """Write tests as a suite, canonically: the same tests give the same bytes, and so the same id.

    Raises:
        InvalidSuite: there is no test, or what was written couldn't be read back.
    """
    records: list[dict[str, Any]] = [] if checker is None else [{"checker": write_checker(checker)}]
    for test in tests:
        record = {"kind": str(test.kind), "input": test.input, "expected": test.expected, "name": test.name}
        records.append({name: value for name, value in record.items() if value is not None})
    data = b"".join(
        json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n" for record in records
    )
    read_suite(data)
    return data


def read_arguments(text: str) -> list[Any]:
    """Return the arguments of a functional test: one JSON value a line; an empty text means no argument.

    Raises:
        InvalidSuite: a line isn't JSON.
    """
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    if lines == [""]:
        return []
    arguments = []
    for number, line in enumerate(lines, start=1):
        argument = parse_json(line)
        if argument is INVALID:
            raise InvalidSuite(
                f"argument {number} isn't JSON: {_shorten(line)}. Write one JSON value a line, one line an argument."
            )
        arguments.append(argument)
    return arguments


def _iterate_records(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the lines one by one, with their numbers. Blank ones are skipped, but counted."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, _read_record(line, number)


def _read_header(record: dict[str, Any], number: int) -> Checker:
    for unknown in record.keys() - {"checker"}:
        raise InvalidSuite(f"line {number}: unknown field {_shorten(unknown)} beside 'checker'; take it out.")
    try:
        return read_checker(record["checker"])
    except InvalidSuite as error:
        raise InvalidSuite(f"line {number}: {error}") from None


def _read_test(record: dict[str, Any], number: int) -> TestCase:
    for unknown in record.keys() - set(_FIELDS):
        raise InvalidSuite(f"line {number}: unknown field {_shorten(unknown)}; a test has {', '.join(_FIELDS)}.")
    for required in ("kind", "input"):
        if required not in record:
            raise InvalidSuite(f"line {number}: the field '{required}' is missing; add it.")
    for field, value in record.items():
        _check_text(field, value, number)
    if record["kind"] not in tuple(TestKind):
        raise InvalidSuite(f"line {number}: 'kind' must be one of {_KINDS}, not {_shorten(record['kind'])}.")
    name = record.get("name")
    if name is not None and len(name) > MAXIMUM_NAME_CHARACTERS:
        raise InvalidSuite(f"line {number}: 'name' is longer than {MAXIMUM_NAME_CHARACTERS} characters; shorten it.")
    test = TestCase(TestKind(record["kind"]), record["input"], record.get("expected"), name)
    _check_kind(test, number)
    return test


def _read_record(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > MAXIMUM_LINE_BYTES:
        raise InvalidSuite(f"line {number}: longer than {MAXIMUM_LINE_BYTES} bytes; make the test smaller.")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidSuite(f"line {number}: not UTF-8 at byte {error.start}; encode the suite as UTF-8.") from None
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            repeated.append(next(name for name, times in Counter(names).items() if times > 1))
        return dict(pairs)

    try:
        record = json.loads(text, object_pairs_hook=collect)
    except RecursionError:
        raise InvalidSuite(f"line {number}: nested too deeply; every field of a test is a string.") from None
    except ValueError as error:
        raise InvalidSuite(f"line {number}: not JSON ({error}); write one JSON object a line.") from None
    if not isinstance(record, dict):
        raise InvalidSuite(f"line {number}: must be a JSON object, not {type(record).__name__}.")
    if repeated:
        raise InvalidSuite(f"line {number}: the field {_shorten(repeated[0])} is there twice; keep one.")
    return record


def _check_text(name: str, value: object, number: int) -> None:
    if value is None and name in ("expected", "name"):
        return
    if not isinstance(value, str):
        remedy = "write it as the text of that value" if name in ("input", "expected") else "write it as a string"
        raise InvalidSuite(f"line {number}: '{name}' must be a string, not {type(value).__name__}; {remedy}.")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidSuite(f"line {number}: '{name}' holds half of a surrogate pair, which isn't text; remove it.")


def _check_kind(test: TestCase, number: int) -> None:
    """Refuse what this kind of test can't use."""
    if test.kind is TestKind.ASSERTION and test.expected is not None:
        raise InvalidSuite(f"line {number}: an assertion test takes no 'expected'; leave it out.")
    if test.kind is not TestKind.FUNCTIONAL:
        return
    try:
        read_arguments(test.input)
    except InvalidSuite as error:
        raise InvalidSuite(f"line {number}: 'input': {error}") from None
    if test.expected is not None and parse(test.expected) is INVALID:
        raise InvalidSuite(
            f"line {number}: 'expected' is neither JSON nor a Python literal: {_shorten(test.expected)}. "
            "Write the returned value as JSON; text needs its quotes."
        )


def _shorten(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}… ({len(text)} characters)"
