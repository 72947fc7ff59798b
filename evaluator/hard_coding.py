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
"""Characters of an input that says something: programs are full of `1`, `[]` and `abc`."""
ENOUGH = 3
"""Tests whose inputs a source holds before anything is said, half of those that were looked for at least."""
DIGESTS = 3
_DIGEST_LENGTHS = frozenset({32, 40, 56, 64, 96, 128})
_MARKS = str.maketrans("", "", " \t\r'\",[]()")
_QUOTES = str.maketrans("", "", "'\"")


def is_mentioned(source: str, tests: Sequence[TestCase]) -> bool:
    """Whether the source may hold enough of the tests' inputs: a quick look that says yes too often."""
    pieces = [piece for test in tests[:LOOKED_AT] if (piece := _longest_line(test)) is not None]
    if len(pieces) < ENOUGH:
        return False
    text = source.translate(_MARKS)
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
    """What a source that knows the test must hold, without spaces, quotes and brackets."""
    if test.kind is TestKind.ASSERTION or not SHORTEST <= len(test.input.strip()) <= LONGEST:
        return None
    return max((line.translate(_MARKS) for line in test.input.split("\n")), key=len) or None


def _spell_input(test: TestCase) -> set[str]:
    """How a source may write a test's input, or an argument or a line of it, where that says enough."""
    if _longest_line(test) is None:
        return set()
    lines = [line for line in test.input.split("\n") if line.strip()]
    values: list[object]
    if test.kind is TestKind.FUNCTIONAL:
        try:
            values = [json.loads(line) for line in lines]
        except (ValueError, RecursionError):
            return set()
        values += [list(values), tuple(values)]
    else:
        tokens = test.input.split()
        numbers = [int(token) for token in tokens if token.lstrip("-").isdecimal()]
        values = [test.input, *lines, lines, tokens, tuple(tokens)]
        values += [numbers, tuple(numbers), numbers[1:]] if len(numbers) == len(tokens) else []
    return {text for value in values if (text := _shorten(value))}


def _shorten(value: object) -> str:
    """A value as text: single spaces, no quotes. Nothing, where that is too short to say anything."""
    text = " ".join((value if isinstance(value, str) else repr(value)).translate(_QUOTES).split())
    return text if len(text) >= SHORTEST else ""


def _keys(tree: ast.Module) -> Iterator[ast.expr]:
    """What the source compares with where it decides, and the keys of its tables.

    Each node once, and none inside of another: the text is hostile, and conditions nest a hundred deep.
    """
    nodes = list(ast.walk(tree))  # parents before children
    with_comparison, with_table = _find_holders(nodes, ast.Compare), _find_holders(nodes, ast.Dict)
    deciding: set[ast.AST] = set()
    for node in nodes:
        if node in deciding:
            deciding.update(ast.iter_child_nodes(node))
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.In)):
                yield from (part for part in (node.left, *node.comparators) if part not in with_comparison)
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            deciding.add(node.test)
        elif isinstance(node, ast.Dict):
            yield from (key for key in node.keys if key is not None and key not in with_table)
        elif isinstance(node, ast.MatchValue):
            yield node.value


def _find_holders(nodes: list[ast.AST], kind: type[ast.AST]) -> set[ast.AST]:
    """The nodes that are of a kind or hold one that is. `nodes`: parents before children."""
    holders: set[ast.AST] = set()
    for node in reversed(nodes):
        if isinstance(node, kind) or not holders.isdisjoint(ast.iter_child_nodes(node)):
            holders.add(node)
    return holders


def _spell(node: ast.expr) -> str:
    """A literal, shortened; nothing, where it isn't one."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ""
    return _shorten(value)


def _is_digest(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (str, bytes)):
        return False
    if isinstance(node.value, bytes):
        return len(node.value) in (16, 20, 32, 64)
    return len(node.value) in _DIGEST_LENGTHS and set(node.value) <= set("0123456789abcdefABCDEF")
