"""Suite bytes ↔ test cases."""

import contextlib
import hashlib
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.errors import InvalidSuite
from evaluator.model import TestCase, TestKind
from evaluator.suites import read_arguments, read_suite, suite_id, write_suite

STDIN = TestCase(TestKind.STDIN, "1 2\n", "3\n", "small")
FUNCTIONAL = TestCase(TestKind.FUNCTIONAL, '[1, 2]\n"a"', "[2, 1]")
ASSERTION = TestCase(TestKind.ASSERTION, "assert f(1) == 2")


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_a_suite_is_read_and_written() -> None:
    """Round trip, and the id is the hash of the bytes."""
    data = write_suite([STDIN, FUNCTIONAL, ASSERTION])
    suite = read_suite(data)
    assert suite.tests == (STDIN, FUNCTIONAL, ASSERTION)
    assert suite.id == suite_id(data) == hashlib.sha256(data).hexdigest()
    assert write_suite(suite.tests) == data


def test_writing_is_canonical() -> None:
    """The same tests give the same bytes, however they were written before."""
    loose = b'\n{"input": "1 2\\n", "name":"small", "expected" : "3\\n", "kind": "stdin"}\r\n\n'
    assert write_suite(read_suite(loose).tests) == write_suite([STDIN])
    assert read_suite(loose).id != read_suite(write_suite([STDIN])).id
    assert write_suite([STDIN]) == b'{"kind":"stdin","input":"1 2\\n","expected":"3\\n","name":"small"}\n'


def test_optional_fields_may_be_null() -> None:
    """Null means missing."""
    suite = read_suite(line(kind="stdin", input="", expected=None, name=None))
    assert suite.tests == (TestCase(TestKind.STDIN, ""),)


def test_empty_expected_output_is_not_a_missing_one() -> None:
    """A test may expect nothing."""
    assert read_suite(line(kind="stdin", input="", expected="")).tests[0].expected == ""
    assert b"expected" in write_suite([TestCase(TestKind.STDIN, "", "")])


REFUSED = {
    "nothing": (b"", "no test"),
    "blank lines only": (b"\n \n\n", "no test"),
    "not JSON": (b"kind: stdin\n", "line 1: not JSON"),
    "second line cut": (line(kind="stdin", input="") + b'{"kind": "st', "line 2: not JSON"),
    "not UTF-8": (b'{"kind": "stdin", "input": "\xff"}\n', "line 1: not UTF-8 at byte 28"),
    "list": (b"[1]\n", "line 1: must be a JSON object"),
    "string": (b'"stdin"\n', "line 1: must be a JSON object"),
    "unknown field": (line(kind="stdin", input="", output="1"), "line 1: unknown field 'output'"),
    "kind missing": (line(input=""), "line 1: the field 'kind' is missing"),
    "input missing": (line(kind="stdin"), "line 1: the field 'input' is missing"),
    "unknown kind": (line(kind="stdio", input=""), "'kind' must be one of stdin, functional, assertion"),
    "kind isn't a string": (line(kind=1, input=""), "'kind' must be a string"),
    "input is a number": (line(kind="stdin", input=1), "'input' must be a string, not int"),
    "input is a list": (line(kind="stdin", input=["1"]), "'input' must be a string, not list"),
    "input is null": (line(kind="stdin", input=None), "'input' must be a string"),
    "expected is a number": (line(kind="stdin", input="", expected=3), "'expected' must be a string, not int"),
    "expected is true": (line(kind="functional", input="", expected=True), "'expected' must be a string, not bool"),
    "name is a number": (line(kind="stdin", input="", name=3), "'name' must be a string"),
    "long name": (line(kind="stdin", input="", name="x" * 201), "'name' is longer than 200"),
    "field twice": (b'{"kind": "stdin", "input": "", "input": "1"}\n', "the field 'input' is there twice"),
    "half a surrogate pair": (b'{"kind": "stdin", "input": "\\ud800"}\n', "half of a surrogate pair"),
    "half a surrogate pair expected": (
        b'{"kind": "stdin", "input": "", "expected": "a\\udfff"}\n',
        "half of a surrogate",
    ),
    "deep": (b'{"kind": "stdin", "input": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n", "nested too deeply"),
    "assertion with expected": (line(kind="assertion", input="assert 1", expected="1"), "takes no 'expected'"),
    "argument isn't JSON": (line(kind="functional", input="[1]\nabc"), "'input': argument 2 isn't JSON: 'abc'"),
    "argument over two lines": (line(kind="functional", input="[1,\n2]"), "argument 1 isn't JSON"),
    "blank argument": (line(kind="functional", input="1\n\n2"), "argument 2 isn't JSON"),
    "Python argument": (line(kind="functional", input="(1, 2)"), "argument 1 isn't JSON"),
    "expected isn't a literal": (
        line(kind="functional", input="1", expected="abc"),
        "neither JSON nor a Python literal",
    ),
    "expected is empty": (line(kind="functional", input="1", expected=""), "neither JSON nor a Python literal"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_field_and_remedy(name: str) -> None:
    """What can't be judged is refused before any program runs."""
    data, message = REFUSED[name]
    with pytest.raises(InvalidSuite) as caught:
        read_suite(data)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


def test_lines_are_counted_with_the_blank_ones() -> None:
    """The number is that of an editor."""
    with pytest.raises(InvalidSuite, match="line 4:"):
        read_suite(b"\n" + line(kind="stdin", input="") + b"\n" + b"{}\n")


def test_writing_refuses_what_could_not_be_read() -> None:
    """A suite that was written can be read."""
    for tests in ([], [TestCase(TestKind.STDIN, "\ud800")], [TestCase(TestKind.FUNCTIONAL, "x")]):
        with pytest.raises(InvalidSuite):
            write_suite(tests)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", []),
        ("1", [1]),
        ("1\n", [1]),
        ('[1, 2]\n"a"\nnull\ntrue', [[1, 2], "a", None, True]),
        ('""', [""]),
        ("Infinity\n-Infinity", [float("inf"), float("-inf")]),
    ],
)
def test_arguments_of_a_functional_test(text: str, arguments: list[Any]) -> None:
    """One JSON value a line."""
    assert read_arguments(text) == arguments


def test_expected_value_may_be_a_python_literal() -> None:
    """Where JSON has no word for it."""
    for expected in ("{1, 2}", "(1, 2)", "[None, True]", "'a'", "1" * 10_000):
        assert read_suite(line(kind="functional", input="1", expected=expected)).tests[0].expected == expected


text = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
cases = st.builds(TestCase, st.just(TestKind.STDIN), text, st.none() | text, st.none() | text)


@given(st.lists(cases, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_text_survives(tests: list[TestCase]) -> None:
    """Round trip of whatever a test may hold."""
    assert list(read_suite(write_suite(tests)).tests) == tests


@given(st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_nonsense_is_refused_and_never_crashes(data: bytes) -> None:
    """Only the one exception."""
    with pytest.raises(InvalidSuite):
        read_suite(data)


@pytest.mark.parametrize(
    "data",
    [
        line(kind="functional", input="1" * 5_000_000),
        line(kind="functional", input="1", expected="[" * 2_000_000),
        line(kind="functional", input="[" * 2_000_000),
        b"\n" * 5_000_000,
        b'{"kind": "stdin", "input": ' + b"1" * 4_000_000 + b"}",
        b"{" + b",".join(b'"%d": 1' % number for number in range(200_000)) + b"}",
    ],
)
def test_large_suites_take_linear_time(data: bytes) -> None:
    """Seconds at most for megabytes of anything."""
    start = time.process_time()
    with contextlib.suppress(InvalidSuite):
        read_suite(data)
    assert time.process_time() - start < 5
