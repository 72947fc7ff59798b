"""What a suite may say of its checker, and what is refused before any program runs."""

import json
from typing import Any

import pytest

from evaluator.checkers import policy_of, read_checker, write_checker
from evaluator.comparison.ladder import compare
from evaluator.errors import InvalidSuite
from evaluator.model import Checker, CheckerName, CheckerProgram, Convention, NamedChecker, TestCase, TestKind
from evaluator.suites import read_suite, write_suite

FILES = {"check.py": "raise SystemExit(0)"}
PROGRAM = {"convention": "testlib", "files": FILES}
CHECKERS: list[Checker] = [
    NamedChecker(CheckerName.TOKENS),
    NamedChecker(CheckerName.FLOAT_TOLERANCE, 1e-6, 1e-9),
    NamedChecker(CheckerName.FLOAT_TOLERANCE, relative_tolerance=1e-9),
    CheckerProgram((("check.py", "exit(0)"),), Convention.TESTLIB),
    CheckerProgram(
        (("v/a.cpp", "int main() {}"), ("v/a.h", "ä")), Convention.KATTIS, "cpp", None, ("x", "-1"), 3.5, 1 << 28
    ),
    CheckerProgram((("a.py", ""), ("b.py", "")), Convention.KATTIS, main="b.py"),
]


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: type(checker).__name__)
def test_a_checker_travels_with_its_suite(checker: Checker) -> None:
    """Written and read again it is the same, and it changes the suite's id."""
    tests = [TestCase(TestKind.STDIN, "1\n", "1\n"), TestCase(TestKind.FUNCTIONAL, "1", "1")]
    data = write_suite(tests, checker)
    suite = read_suite(data)
    assert (suite.checker, list(suite.tests)) == (checker, tests)
    assert suite.id != read_suite(write_suite(tests)).id
    assert write_suite(suite.tests, suite.checker) == data
    assert read_checker(json.loads(json.dumps(write_checker(checker)))) == checker


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("tokens", "must be an object, not str"),
        ({}, "'checker.convention' must be one of testlib, kattis, not None"),
        ({"name": "magic"}, "'checker.name' must be one of tokens, float_tolerance"),
        ({"name": ["tokens"]}, "'checker.name' must be one of tokens"),
        ({"name": "tokens", "absolute_tolerance": 1.0}, "unknown field 'checker.absolute_tolerance'"),
        ({"name": "float_tolerance"}, "needs 'absolute_tolerance' or 'relative_tolerance' above 0"),
        ({"name": "float_tolerance", "absolute_tolerance": 0}, "above 0"),
        ({"name": "float_tolerance", "absolute_tolerance": -1}, "must be between 0 and"),
        ({"name": "float_tolerance", "absolute_tolerance": True}, "must be a finite number, not True"),
        ({"name": "float_tolerance", "absolute_tolerance": float("nan")}, "must be a finite number"),
        ({**PROGRAM, "convention": "domjudge"}, "not 'domjudge'; a built-in checker has a 'name' instead"),
        ({**PROGRAM, "language": "rust"}, "'checker.language' must be one of python, cpp, not 'rust'"),
        ({**PROGRAM, "language": ["cpp"]}, "'checker.language' must be one of"),
        ({**PROGRAM, "extra": 1}, "unknown field 'checker.extra'; this checker has convention, language"),
        ({**PROGRAM, "files": {}}, "with at least one file"),
        ({**PROGRAM, "files": ["check.py"]}, "must be an object"),
        ({**PROGRAM, "files": {"check.py": 7}}, "the content of 'check.py' must be text"),
        ({**PROGRAM, "files": {"check.py": "\ud800"}}, "must be text"),
        ({**PROGRAM, "files": {"README": ""}}, "holds no source file: one whose name ends in .py"),
        ({**PROGRAM, "language": "cpp"}, "holds no source file: one whose name ends in .cc"),
        ({**PROGRAM, "files": {"a.py": "", "b.py": ""}}, "name the file to run, one of a.py, b.py"),
        ({**PROGRAM, "main": "other.py"}, "'checker.main' must be one of the source files, not 'other.py'"),
        ({**PROGRAM, "files": {"check.py": "x" * (5 << 20)}}, "may hold 64 files of 4194304 characters"),
        ({**PROGRAM, "files": {f"{number}.py": "" for number in range(65)}}, "may hold 64 files"),
        ({**PROGRAM, "flags": "strict"}, "must be a list of at most 64 strings"),
        ({**PROGRAM, "flags": [1]}, "must be a list of at most 64 strings"),
        ({**PROGRAM, "flags": ["\0"]}, "none of them NUL"),
        ({**PROGRAM, "cpu_seconds": 0}, "'checker.cpu_seconds' must be between 0.1 and 30, not 0"),
        ({**PROGRAM, "cpu_seconds": "5"}, "'checker.cpu_seconds' must be a finite number, not '5'"),
        ({**PROGRAM, "memory_bytes": 1}, "'checker.memory_bytes' must be between"),
    ],
)
def test_what_is_no_checker_is_refused(record: Any, message: str) -> None:
    """With field and remedy; in a suite, with the line."""
    with pytest.raises(InvalidSuite) as caught:
        read_checker(record)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500
    line = json.dumps({"checker": record}).encode() + b"\n"
    with pytest.raises(InvalidSuite, match="line 1: "):
        read_suite(line + b'{"kind": "stdin", "input": ""}\n')


@pytest.mark.parametrize(
    "name", ["../a.py", "/a.py", "a/../b.py", "a//b.py", "./a.py", "a/", "", ".", "a b.py", "ä.py", "a\n.py"]
)
def test_a_file_stays_beneath_its_folder(name: str) -> None:
    """Names are resolved by nobody: what could leave the folder is no name."""
    with pytest.raises(InvalidSuite, match=r"no name for a file|holds no source file"):
        read_checker({**PROGRAM, "files": {name: ""}})


def test_a_checker_is_in_the_first_line_only() -> None:
    """And judges no assertion test, which judges by itself."""
    header, test = b'{"checker": {"name": "tokens"}}\n', b'{"kind": "stdin", "input": ""}\n'
    for data in (test + header, header + header + test):
        with pytest.raises(InvalidSuite, match="line 2: a suite has one checker, in its first line"):
            read_suite(data)
    with pytest.raises(InvalidSuite, match="line 2: an assertion test judges by itself"):
        read_suite(header + b'{"kind": "assertion", "input": "assert f()"}\n')
    with pytest.raises(InvalidSuite, match="unknown field 'input' beside 'checker'"):
        read_suite(b'{"checker": {"name": "tokens"}, "input": ""}\n' + test)
    with pytest.raises(InvalidSuite, match="holds no test"):
        read_suite(header)


@pytest.mark.parametrize(
    ("name", "expected", "output", "accepted"),
    [
        ("tokens", "1 2\n3\n", b"1\n2 3", True),
        ("tokens", "1 2\n3\n", b"1 2 3 3", False),
        ("tokens", "0.5\n", b"0.50", False),
        ("tokens", "7\n", b"7.0", False),
        ("tokens", "True\n", b"true", False),
        ("tokens", "[1, 2]\n", b"[1,2]", False),
        ("case_insensitive", "TRUE 7\n", b"true 7", True),
        ("case_insensitive", "7\n", b"7.0", False),
        ("any_order", "7 True\n", b"true 7", False),
        ("any_order", "7\n", b"7.0", False),
        ("tokens", "0.333333\n", b"0.3333331", False),
        ("tokens", "yes\n", b"YES", False),
        ("float_tolerance", "0.333333\n", b"0.3333331", True),
        ("float_tolerance", "0.333333\n", b"0.33334", False),
        ("float_tolerance", "3\n", b"3.0000001", True),
        ("float_tolerance", "1 2\n3\n", b"1\n2\n3.0", True),
        ("float_tolerance", "nan\n", b"1", False),
        ("case_insensitive", "Yes 1\n", b"YES\n1", True),
        ("case_insensitive", "Yes\n", b"No", False),
        ("line_permutation", "a b\nc\n", b"c\na b", True),
        ("line_permutation", "a b\nc\n", b"c\nb a", False),
        ("line_permutation", "a\na\nb\n", b"a\nb\nb", False),
        ("any_order", "a b\nc\n", b"c\nb a", True),
        ("any_order", "a b\nc\n", b"c a\nb", False),
    ],
)
def test_built_in_checkers_are_policies(name: str, expected: str, output: bytes, accepted: bool) -> None:
    """Tokens, tolerance, case and order, as their names say."""
    tolerance = 1e-6 if name == "float_tolerance" else None
    policy = policy_of(NamedChecker(CheckerName(name), tolerance, tolerance))
    assert compare(expected, output, policy).matched is accepted
