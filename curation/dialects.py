"""How a suite's tests are read as inputs, and how an input becomes a test again: one dialect for each kind of test.

An input is a tuple of Python values: the arguments of a call, or the lines of a text, each a list of words and numbers.
A *probe* is a test without an expected output, whose output is the answer. Tests that are written from it are in the
suite's own form: a call and its value, an assertion, a text and what is printed for it.
"""

import ast
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from curation.problem import Problem
from evaluator.errors import InvalidSuite
from evaluator.model import TestCase, TestKind
from evaluator.suites import read_arguments

TOLERANCE = 1e-6
"""Of floats in assertions that are written here, absolute and relative."""
PROBE = "microcoder_probe"
MAXIMUM_TEXT = 20_000
"""Characters of an input or an output beyond which no test is made of it."""


@dataclass(frozen=True)
class Given:
    """An input. `form` is what the suite does with the call's result before it compares: `{}`, `sorted({})`."""

    values: tuple[Any, ...]
    form: str = "{}"


class Dialect(ABC):
    """Of one problem."""

    keeps_shape = False
    """Whether only values may change, not how many there are."""

    def __init__(self, problem: Problem, function: str | None) -> None:
        """`function` is what is called; a suite on standard input calls nothing."""
        self.problem = problem
        self.function = function
        self.inputs = self.read()

    @abstractmethod
    def read(self) -> list[Given]:
        """The inputs of the suite's tests, as far as they can be read."""

    @abstractmethod
    def probe(self, given: Given) -> TestCase | None:
        """The test that asks for an answer; None for an input that can't be written."""

    @abstractmethod
    def write(self, given: Given, output: str) -> TestCase | None:
        """The test that expects this output of the probe; None where that can't be."""

    def _list_texts(self) -> list[str]:
        """Of the tests that aren't too large to learn from."""
        return [test.input for test in self.problem.suite.tests if len(test.input) <= MAXIMUM_TEXT]

    def prepare(self, source: str) -> str:
        """The program that answers probes."""
        return source

    @property
    def entry_point(self) -> str | None:
        """What probes call."""
        return self.function


class Calls(Dialect):
    """Functional tests: arguments and value are JSON."""

    def read(self) -> list[Given]:
        """One input a test."""
        return [Given(tuple(read_arguments(text))) for text in self._list_texts()]

    def probe(self, given: Given) -> TestCase | None:
        """The arguments, one a line."""
        try:
            lines = [json.dumps(value, allow_nan=False) for value in given.values]
        except ValueError:
            return None
        return TestCase(TestKind.FUNCTIONAL, "\n".join(lines))

    def write(self, given: Given, output: str) -> TestCase | None:
        """The value, where it is JSON."""
        try:
            json.loads(output, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
        probe = self.probe(given)
        return None if probe is None else TestCase(probe.kind, probe.input, output)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} isn't equal to itself everywhere.")


class Assertions(Dialect):
    """Assertions that call one function with literals. Their probes carry arguments as JSON with tuples and sets."""

    @property
    def _forms(self) -> list[str]:
        return sorted({one.form for one in self.inputs})

    @property
    def entry_point(self) -> str:
        """A function behind the program."""
        return PROBE

    def read(self) -> list[Given]:
        """An input for each call in an assertion that compares it, in any of the tests."""
        found: list[Given] = []
        for test in self.problem.suite.tests:
            for name, call, form in iterate_calls(test.input):
                if name in (self.function, "candidate") and (values := _read_literals(call)) is not None:
                    found.append(Given(values, form))
        return found

    def probe(self, given: Given) -> TestCase | None:
        """The form and the arguments, in one argument."""
        try:
            values = [_pack(value) for value in given.values]
            packed = json.dumps([self._forms.index(given.form), values], allow_nan=False)
        except (ValueError, TypeError):
            return None
        return TestCase(TestKind.FUNCTIONAL, packed)

    def prepare(self, source: str) -> str:
        """The program and a function that unpacks, calls, and answers as Python writes values. It imports nothing."""
        choices = ", ".join(f"lambda: {form.format(f'{self.function}(*values)')}" for form in self._forms)
        return f"{source}\n{_UNPACK}\ndef {PROBE}(packed):\n    values = {PROBE}_all(packed[1])\n" + (
            f"    return repr([{choices}][packed[0]]())\n"
        )

    def write(self, given: Given, output: str) -> TestCase | None:
        """`assert f(1) == 2`; where there are floats, within the tolerance."""
        try:
            text = str(json.loads(output))
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return None
        if value != value:
            return None
        call = given.form.format(f"{self.function}({', '.join(map(_spell, given.values))})")
        if not _has_float(value):
            return TestCase(TestKind.ASSERTION, f"assert {call} == {_spell(value)}")
        return TestCase(TestKind.ASSERTION, f"{_CLOSE}\nassert is_close({call}, {_spell(value)})")


_UNPACK = f"""
def {PROBE}_all(items):
    return [{PROBE}_one(item) for item in items]
def {PROBE}_one(item):
    if not isinstance(item, list):
        return item
    kind, items = item[0], {PROBE}_all(item[1])
    if kind == "dict":
        return dict(zip(items[0], items[1]))
    return items if kind == "list" else tuple(items) if kind == "tuple" else set(items)
"""
_CLOSE = f"""def is_close(found, wanted):
    if isinstance(wanted, (list, tuple)):
        return type(found) is type(wanted) and len(found) == len(wanted) and all(map(is_close, found, wanted))
    if isinstance(wanted, dict):
        return isinstance(found, dict) and found.keys() == wanted.keys() and all(
            is_close(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, float) and isinstance(found, (int, float)):
        return found == wanted or abs(found - wanted) <= {TOLERANCE:g} * max(1, abs(wanted))
    return found == wanted"""


def _pack(value: Any) -> Any:
    if isinstance(value, dict):
        return ["dict", [_pack(list(value)), _pack(list(value.values()))]]
    for kind in (list, tuple, set):
        if isinstance(value, kind):
            ordered = sorted(value, key=repr) if kind is set else value
            return [kind.__name__, [_pack(item) for item in ordered]]
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise TypeError
    return value


def _spell(value: Any) -> str:
    """As Python writes it, sets in order: the same in every process."""
    if isinstance(value, set) and value:
        return f"{{{', '.join(sorted(map(_spell, value)))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_spell, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_spell, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_spell(key)}: {_spell(item)}' for key, item in value.items())}}}"
    return repr(value)


def _has_float(value: Any) -> bool:
    if isinstance(value, dict):
        return _has_float(list(value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_float, value))
    return isinstance(value, float)


def _read_literals(call: ast.Call) -> tuple[Any, ...] | None:
    if call.keywords or not call.args:
        return None
    try:
        return tuple(ast.literal_eval(argument) for argument in call.args)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def iterate_calls(code: str) -> Iterator[tuple[str, ast.Call, str]]:
    """Of each assertion that compares a call: the function's name, the call, and the form around it."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and (compared := _find_compared(node.test)) is not None:
            inner = _find_inner_call(compared)
            if inner is not None and isinstance(inner.func, ast.Name):
                whole, text = ast.unparse(compared), ast.unparse(inner)
                form = whole.replace("{", "{{").replace("}", "}}")
                text = text.replace("{", "{{").replace("}", "}}")
                if form.count(text) == 1:
                    yield inner.func.id, inner, form.replace(text, "{}")


_AROUND = frozenset({"sorted", "set", "list", "tuple", "len", "round", "str", "int", "float", "bool", "sum", "dict"})


def _find_compared(test: ast.expr) -> ast.expr | None:
    """What an assertion is about: the left side of `==` or `is`, all of `f(x)` and `not f(x)`, `f(x)` of closeness."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        if isinstance(test.ops[0], (ast.Eq, ast.Is)):
            return test.left
        if isinstance(test.ops[0], (ast.Lt, ast.LtE)) and isinstance(test.left, ast.Call):
            return _find_difference(test.left)  # abs(f(x) - 1) < 1e-6
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ast.Call(ast.Name("bool", ast.Load()), [test.operand], [])
    if isinstance(test, ast.Call) and ast.unparse(test.func) in ("math.isclose", "isclose") and test.args:
        return test.args[0]
    return ast.Call(ast.Name("bool", ast.Load()), [test], []) if isinstance(test, ast.Call) else None


def _find_difference(call: ast.Call) -> ast.expr | None:
    if ast.unparse(call.func) in ("abs", "math.fabs") and len(call.args) == 1 and isinstance(call.args[0], ast.BinOp):
        return call.args[0].left if isinstance(call.args[0].op, ast.Sub) else None
    return None


def _find_inner_call(compared: ast.expr) -> ast.Call | None:
    """The tested call itself, inside builtins that make one value of another."""
    if not isinstance(compared, ast.Call) or not isinstance(compared.func, ast.Name):
        return None
    if compared.func.id in _AROUND and len(compared.args) == 1 and not compared.keywords:
        return _find_inner_call(compared.args[0])
    return compared


class Streams(Dialect):
    """Tests on standard input: lines of words and numbers. Where a line isn't just that, it stays as it is."""

    keeps_shape = True

    def read(self) -> list[Given]:
        """One input a test."""
        return [Given(tuple(map(_read_line, text.split("\n")))) for text in self._list_texts()]

    def probe(self, given: Given) -> TestCase | None:
        """The text."""
        lines = (line if isinstance(line, str) else " ".join(map(str, line)) for line in given.values)
        return TestCase(TestKind.STDIN, "\n".join(lines))

    def write(self, given: Given, output: str) -> TestCase | None:
        """What was printed."""
        probe = self.probe(given)
        return None if probe is None or not output.strip() else TestCase(probe.kind, probe.input, output)


def _read_line(line: str) -> list[int | str] | str:
    words = [_read_word(word) for word in line.split(" ")]
    return words if line.strip() and " ".join(map(str, words)) == line else line


def _read_word(word: str) -> int | str:
    return int(word) if word.lstrip("-").isdecimal() and len(word) < 20 and word == str(int(word)) else word


def open_dialect(problem: Problem) -> Dialect | None:
    """The dialect of a problem's tests; None where nothing is known of what they give to a program."""
    try:
        dialect = _make_dialect(problem)
    except InvalidSuite:
        return None
    return dialect if dialect is not None and dialect.inputs else None


def _make_dialect(problem: Problem) -> Dialect | None:
    if problem.kind is TestKind.STDIN:
        return Streams(problem, None)
    if problem.kind is TestKind.FUNCTIONAL:
        return Calls(problem, problem.entry_point) if problem.entry_point else None
    function = problem.entry_point or _find_function(problem)
    return Assertions(problem, function) if function else None


def _find_function(problem: Problem) -> str | None:
    """What every assertion calls, and the first reference defines."""
    if not problem.references:
        return None
    defined = {node.name for node in ast.parse(problem.references[0]).body if isinstance(node, ast.FunctionDef)}
    called = [{name for name, _, _ in iterate_calls(test.input)} & defined for test in problem.suite.tests]
    common = set.intersection(*called) if called else set()
    return common.pop() if len(common) == 1 else None
