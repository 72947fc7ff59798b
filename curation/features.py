"""What a problem's text and its reference program tell of its difficulty, as numbers.

The statement's features are there for every problem. Those of a program (McCabe's cyclomatic number, Halstead's volume
and difficulty, sizes) need one. Titles aren't read: their letters ("A.", "F.") are the contest's own label.
"""

import ast
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator

import numpy
import numpy.typing

from curation.problem import Problem
from curation.shingles import split_words
from evaluator.model import TestKind

Numbers = numpy.typing.NDArray[numpy.float64]

STATEMENT = (
    "log words", "log description words", "words per sentence", "log formulas", "log numbers", "log largest bound",
    "log least bound", "log constraints", "log examples", "says modulo", "asks for least or greatest", "asks to count",
    "speaks of graphs", "speaks of sequences within", "speaks of chance", "speaks of queries", "speaks of games",
    "speaks of geometry", "gives several cases", "function to complete",
)  # fmt: skip
PROGRAM = (
    "cyclomatic number", "log volume", "log halstead difficulty", "log lines", "deepest loop", "functions", "imports",
)  # fmt: skip
_BOUND = re.compile(r"(?:(\d+)\s*(?:\\times|\\cdot|×|\*)\s*)?10\s*\^\s*\{?\s*(\d{1,2})\b|(?<![\w.])(\d[\d,]{0,18})\b")
_LIMIT = re.compile(r"\\leq?\b|<=|≤|\bbetween\b")
_EXAMPLE = re.compile(r"^[ #*<>]{0,8}(?:Examples?|Samples?(?: Input)?)\b", re.M | re.I)
_TOPICS = tuple(
    re.compile(rf"\b(?:{words})", re.I)
    for words in (
        r"modulo\b|998244353|10\^\{?9\}?\s*\+\s*7",
        r"minim|maxim|fewest|smallest|largest|shortest|longest|optimal",
        r"number of (?:ways|pairs|sub|different|distinct|sequences|possible)|how many",
        r"graph\b|tree\b|vertex|vertices|edges?\b|nodes?\b|path\b|paths\b",
        r"sub-?(?:sequence|array|string|set)s?\b|permutation|prefix|suffix",
        r"probabilit|expected value|at random",
        r"quer(?:y|ies)\b|operations?\b",
        r"alice|bob\b|player|opponent|game\b|wins\b",
        r"coordinate|distance|plane\b|triangle|polygon|grid\b|matrix",
        r"test cases\b",
    )
)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_BRANCHES = (*_LOOPS, ast.If, ast.IfExp, ast.ExceptHandler, ast.Assert, ast.comprehension, ast.match_case)
_OPERATORS = (ast.operator, ast.unaryop, ast.cmpop, ast.boolop)


def describe_statement(problem: Problem) -> Numbers:
    """Numbers under the names of `STATEMENT`."""
    text = problem.statement
    examples = list(_EXAMPLE.finditer(text))
    description = text[: examples[0].start()] if examples else text
    words = split_words(text)
    sentences = max(1, len(re.findall(r"[.?!](?:\s|$)", description)))
    values = [
        math.log1p(len(words)),
        math.log1p(len(description.split())),
        min(60.0, len(description.split()) / sentences),
        math.log1p(text.count("$") / 2 + text.count("\\")),
        math.log1p(len(re.findall(r"\d+", text))),
        *find_bounds(text),
        math.log1p(len(_LIMIT.findall(text))),
        math.log1p(len(examples)),
        *(float(bool(topic.search(description))) for topic in _TOPICS),
        float(problem.kind is not TestKind.STDIN),
    ]
    return numpy.array(values)


def find_bounds(text: str) -> tuple[float, float]:
    """The decimal logarithms of the largest and the least upper bound on lines that state one; 0 where none does."""
    bounds = []
    for line in filter(_LIMIT.search, text.split("\n")):
        found = [0.0]
        for factor, power, plain in _BOUND.findall(line):
            number = int((factor or "1")[:18]) if power else int(plain.replace(",", ""))
            found.append(float(power or 0) + math.log10(max(1, number)))
        bounds.append(min(18.0, max(found)))
    return max(bounds, default=0.0), min(bounds, default=0.0)


def list_words(problem: Problem) -> frozenset[str]:
    """The different words of the description, in front of its examples."""
    return frozenset(word for word in split_words(_EXAMPLE.split(problem.statement)[0]) if not word.isdigit())


def describe_program(problem: Problem) -> Numbers | None:
    """Numbers under the names of `PROGRAM`, of the shortest reference that can be parsed; None where there is none."""
    for source in sorted(problem.references, key=len):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return _measure(tree)
    return None


def _measure(tree: ast.Module) -> Numbers:
    nodes = list(ast.walk(tree))
    volume, difficulty = measure_halstead(tree)
    lines = {line for node in nodes if isinstance(line := getattr(node, "lineno", None), int)}
    values = [
        math.log1p(count_paths(tree)),
        math.log1p(volume),
        math.log1p(difficulty),
        math.log1p(len(lines)),
        float(_find_depth(tree)),
        math.log1p(sum(isinstance(node, (ast.FunctionDef, ast.Lambda)) for node in nodes)),
        math.log1p(sum(isinstance(node, (ast.Import, ast.ImportFrom)) for node in nodes)),
    ]
    return numpy.array(values)


def count_paths(tree: ast.AST) -> int:
    """McCabe's cyclomatic number of a whole program: its decisions and one.

    T. J. McCabe, A complexity measure, IEEE Transactions on Software Engineering 2 (1976), 308–320.
    """
    nodes = list(ast.walk(tree))
    conditions = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    terms = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    return 1 + sum(isinstance(node, _BRANCHES) for node in nodes) + conditions + terms


def measure_halstead(tree: ast.AST) -> tuple[float, float]:
    """Halstead's volume (bits) and difficulty of a program.

    Operators are those of expressions, calls, indexing, assignments and statements; operands are names, attributes and
    constants. M. H. Halstead, Elements of Software Science (1977).
    """
    operators, operands = Counter[str](), Counter[str]()
    for node in ast.walk(tree):
        operators.update(_find_operators(node))
        if isinstance(node, ast.Name):
            operands[node.id] += 1
        elif isinstance(node, ast.Attribute):
            operands[f".{node.attr}"] += 1
        elif isinstance(node, ast.Constant):
            operands[repr(node.value)] += 1
    if not operators or not operands:
        return 0.0, 0.0
    length, vocabulary = operators.total() + operands.total(), len(operators) + len(operands)
    return length * math.log2(vocabulary), len(operators) / 2 * operands.total() / len(operands)


def _find_operators(node: ast.AST) -> Iterator[str]:
    is_statement = isinstance(node, ast.stmt) and not isinstance(node, ast.Expr)
    if is_statement or isinstance(node, (*_OPERATORS, ast.Call, ast.Subscript, ast.Attribute)):
        yield type(node).__name__


def _find_depth(node: ast.AST) -> int:
    below = max(map(_find_depth, ast.iter_child_nodes(node)), default=0)
    return below + isinstance(node, (*_LOOPS, ast.comprehension))
