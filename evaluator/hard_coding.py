"""Whether a program knows its tests: inputs that stand in its source where they are compared with what it is given."""

import ast
import json
from collections.abc import Iterator, Sequence

from evaluator.model import TestCase, TestKind
from evaluator.suspicions import SuspicionKind

LOOKED_AT = 20
"""Tests of a suite that are looked for."""
LONGEST = 2_000
"""Characters of an input that is looked for. Nobody writes longer ones down."""
SHORTEST = 5
"""Characters, without spaces, of a line that says something: programs are full of `1`, `[]` and `abc`."""
ENOUGH = 3
"""Tests whose inputs a source holds before anything is said, half of those that were looked for at least."""
DIGESTS = 3
_DIGEST_LENGTHS = frozenset({32, 40, 56, 64, 96, 128})
_SPACES = str.maketrans("", "", " \t\r'\"")


def is_mentioned(source: str, tests: Sequence[TestCase]) -> bool:
    """Whether the source may hold enough of the tests' inputs: a quick look that says yes too often."""
    pieces = [piece for test in tests[:LOOKED_AT] if (piece := _longest_line(test)) is not None]
    if len(pieces) < ENOUGH:
        return False
    text = source.translate(_SPACES)
    return sum(piece in text for piece in pieces) >= ENOUGH


def find_tables(tree: ast.Module, tests: Sequence[TestCase]) -> Iterator[tuple[int, tuple[SuspicionKind, str]]]:
    """Where the source compares what it is given with inputs of the tests, or looks them up."""
    different = {test.input: test for test in tests[:LOOKED_AT]}.values()
    wanted = [inputs for test in different if (inputs := _spell_input(test))]
    found: set[int] = set()
    line = 0
    for node in _keys(tree):
        spelled = _spell(node)
        hits = [number for number, inputs in enumerate(wanted) if spelled in inputs]
        if len(hits) == 1:  # what stands in several inputs is a word of the problem's
            found.update(hits)
            line = line or node.lineno
    if len(found) >= ENOUGH and 2 * len(found) >= len(wanted):
        yield line, (SuspicionKind.HARD_CODED, f"begins to compare with the inputs of {len(found)} tests")
    digests = [node for node in _keys(tree) if _is_digest(node)]
    if len(digests) >= DIGESTS:
        yield digests[0].lineno, (SuspicionKind.HARD_CODED, f"begins to compare with {len(digests)} digests")


def _longest_line(test: TestCase) -> str | None:
    if test.kind is TestKind.ASSERTION or len(test.input) > LONGEST:
        return None
    line = max((line.translate(_SPACES) for line in test.input.split("\n")), key=len)
    return line if len(line) >= SHORTEST else None


def _spell_input(test: TestCase) -> set[str]:
    """How a source may write a test's input, or a part of it that says enough."""
    if _longest_line(test) is None:
        return set()
    lines = [line for line in test.input.split("\n") if line.strip()]
    if test.kind is TestKind.FUNCTIONAL:
        try:
            values = [json.loads(line) for line in lines]
        except (ValueError, RecursionError):
            return set()
        whole = {repr(values), repr(tuple(values))}
        return {text.translate(_SPACES) for text in (*whole, *map(repr, values))} - _too_short(map(repr, values))
    tokens = test.input.split()
    spelled = {"".join(test.input.split()), "".join(map(str, lines)), repr(lines), repr(tokens), repr(tuple(tokens))}
    spelled |= {line for line in lines if len(line.translate(_SPACES)) >= SHORTEST}
    numbers = [int(token) for token in tokens if token.lstrip("-").isascii() and token.lstrip("-").isdigit()]
    if len(numbers) == len(tokens):
        spelled |= {repr(numbers), repr(tuple(numbers)), repr(numbers[1:])}
    return {text.translate(_SPACES).replace("\n", "") for text in spelled}


def _too_short(texts: Iterator[str]) -> set[str]:
    return {short for text in texts if len(short := text.translate(_SPACES)) < SHORTEST}


def _keys(tree: ast.Module) -> Iterator[ast.expr]:
    """What the source compares with where it decides, and the keys of its tables."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            for part in ast.walk(node.test):
                if isinstance(part, ast.Compare) and isinstance(part.ops[0], (ast.Eq, ast.In)):
                    yield from (part.left, *part.comparators)
        elif isinstance(node, ast.Dict):
            yield from (key for key in node.keys if key is not None)
        elif isinstance(node, ast.MatchValue):
            yield node.value


def _spell(node: ast.expr) -> str:
    """A literal without its spaces and quotes. Nothing, where it isn't one or too short to say anything."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ""
    text = value if isinstance(value, str) else repr(value)
    text = text.translate(_SPACES).replace("\n", "")
    return text if len(text) >= SHORTEST else ""


def _is_digest(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (str, bytes)):
        return False
    if isinstance(node.value, bytes):
        return len(node.value) in (16, 20, 32, 64)
    return len(node.value) in _DIGEST_LENGTHS and set(node.value) <= set("0123456789abcdefABCDEF")
