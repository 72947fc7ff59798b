"""Test cases out of the forms in which datasets write them: pairs of lists, records, assertions."""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from microcoder_client.cases import TestCase, assertion_test, functional_test, stdin_test
from microcoder_client.exceptions import UnreadableTests

INVALID = object()
_CODE = re.compile(r"^[ \t]*(?:assert\b|def |class |from |import |@|check\()", re.M)
_FUNCTIONAL = frozenset({"functional", "function_call", "call_based", "function"})
_STDIN = frozenset({"stdin", "stdin_stdout", "standard_input", "stdio"})


@dataclass(frozen=True)
class Clues:
    """What was said outside of the tests: the function to call, code that assertions rest on."""

    function: str | None = None
    setup: str = ""


@dataclass(frozen=True)
class Cases:
    """Tests, and the function that they call."""

    tests: tuple[TestCase, ...]
    function: str | None = None


def parse(text: str) -> Any:
    """JSON, or else a Python literal; INVALID for anything else."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return INVALID


def look_like_code(text: str) -> bool:
    """Whether a text is test code: some line starts as Python does."""
    return _CODE.search(text) is not None


def sequence(value: Any) -> list[Any] | None:
    """A list, a tuple or an array as a list; None for anything else."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (str, bytes, Mapping)) or value is None:
        return None
    if callable(listed := getattr(value, "tolist", None)):
        value = listed()
        return value if isinstance(value, list) else None
    return list(value) if isinstance(value, Sequence) else None


def read_assertions(texts: Sequence[Any], clues: Clues) -> Cases:
    """Each text is Python that uses the program's names."""
    before = f"{clues.setup}\n" if clues.setup else ""
    for number, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise UnreadableTests(f"Assertion {number} is {text!r}: write Python code, such as 'assert f(1) == 2'.")
    return Cases(tuple(assertion_test(before + text) for text in texts))


def read_check(code: str, entry_point: str, clues: Clues) -> Cases:
    """HumanEval's way: code that defines `check(candidate)`, to be called with the entry point."""
    called = code if re.search(r"^check\(", code, re.M) else f"{code.rstrip()}\n\ncheck({entry_point})\n"
    return read_assertions([called], clues)


def read_pairs(inputs: Sequence[Any], outputs: Sequence[Any], clues: Clues, where: str) -> Cases:
    """Two lists of one length."""
    if len(inputs) != len(outputs):
        raise UnreadableTests(
            f"In {where}: {len(inputs)} inputs and {len(outputs)} outputs, so nobody knows which belong together."
        )
    pairs = list(zip(inputs, outputs, strict=True))
    return Cases(tuple(_pair_up(pairs, clues.function, where)), clues.function)


def read_records(items: Sequence[Any], clues: Clues, where: str) -> Cases:
    """Objects with `input` and `output`. Their type, or else whether a function is named, says how they are run."""
    pairs: list[tuple[Any, Any]] = []
    functions: set[str | None] = set()
    for number, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise UnreadableTests(f"In {where}: test {number} is a {type(item).__name__}; write an object or code.")
        place = f"test {number} of {where}"
        pairs.append((_field(item, ("input", "stdin"), place), _field(item, _OUTPUTS, place)))
        functions.add(_function(item, clues.function, place))
    if len(functions) > 1:
        raise UnreadableTests(f"In {where}: the tests call {sorted(map(str, functions))}; a row has one function.")
    function = next(iter(functions), None)
    return Cases(tuple(_pair_up(pairs, function, where)), function)


_OUTPUTS = ("output", "expected_output", "expected", "stdout")


def _field(item: Mapping[str, Any], names: Sequence[str], place: str) -> Any:
    for name in names:
        if name in item:
            value = item[name]
            # SandboxFusion's inline problems: {"input": {"stdin": …}, "output": {"stdout": …}}.
            return _field(value, ("stdin", "stdout"), place) if isinstance(value, Mapping) else value
    raise UnreadableTests(f"{place} has no {names[0]!r}: it has {', '.join(map(str, item)) or 'nothing'}.")


def _function(item: Mapping[str, Any], default: str | None, place: str) -> str | None:
    kind = str(item.get("testtype") or item.get("type") or "").lower()
    if kind in _STDIN:
        return None
    metadata = item.get("metadata")
    inner = metadata if isinstance(metadata, Mapping) else {}
    name = item.get("fn_name") or item.get("func_name") or inner.get("func_name") or default
    if kind in _FUNCTIONAL and not name:
        raise UnreadableTests(f"{place} calls a function and doesn't name it: give fn_name, or metadata.func_name.")
    if kind and kind not in _FUNCTIONAL:
        raise UnreadableTests(f"{place} is of the type {kind!r}, which isn't known here.")
    return str(name) if name else None


def _pair_up(pairs: Sequence[tuple[Any, Any]], function: str | None, where: str) -> list[TestCase]:
    for number, (_, expected) in enumerate(pairs):
        # Without it every program that ends would be accepted.
        if expected is None and function is None:
            raise UnreadableTests(f"In {where}: test {number} has no expected output.")
    if function is None:
        return [stdin_test(_lines(given), _lines(expected)) for given, expected in pairs]
    listed = [expected for given, expected in pairs if not isinstance(given, str)]
    # APPS and what came of it put the returned value into a list of its own, in all tests of a problem or in none.
    wrapped = bool(listed) and all(isinstance(value, (list, tuple)) and len(value) == 1 for value in listed)
    return [
        _call(given, expected, wrapped, f"test {number} of {where}") for number, (given, expected) in enumerate(pairs)
    ]


def _lines(value: Any) -> str:
    """Standard input or output: a text, or a list of its lines."""
    items = sequence(value)
    return value if isinstance(value, str) else str(value) if items is None else "\n".join(map(str, items))


def _call(given: Any, expected: Any, wrapped: bool, place: str) -> TestCase:
    """Arguments as text (one JSON value a line: LiveCodeBench, PRIME), or as a list (APPS, TACO)."""
    if isinstance(given, str):
        return TestCase("functional", _argument_lines(given, place), _value_text(expected))
    if isinstance(given, Mapping):
        raise UnreadableTests(f"{place} gives arguments by name; write them as a list, in the function's order.")
    items = sequence(given)
    arguments = [given] if items is None else items
    try:
        return functional_test(_plain(arguments), _plain(expected[0] if wrapped else expected))
    except (TypeError, ValueError) as error:
        raise UnreadableTests(f"{place} holds a value that JSON can't carry ({error}).") from None


def _argument_lines(text: str, place: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if text.strip() and not all(map(_is_json, lines)):
        values = [parse(line) for line in lines]
        if INVALID in values:
            raise UnreadableTests(f"{place}: its arguments aren't one JSON value a line: {text[:60]!r}.")
        return "\n".join(json.dumps(_plain(value)) for value in values)
    return text


def _value_text(expected: Any) -> str:
    if not isinstance(expected, str):
        return json.dumps(_plain(expected))
    return expected if _is_json(expected) or parse(expected) is not INVALID else json.dumps(expected)


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=len)  # of any number of digits
    except (ValueError, RecursionError):
        return False
    return True


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists, at any depth."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    items = sequence(value)
    if items is not None:
        return [_plain(item) for item in items]
    return value.item() if hasattr(value, "item") else value
