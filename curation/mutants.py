"""Mutants: a program with one small fault each, made from its syntax tree. Those that a suite accepts show its holes.

The faults, by kind:

- `comparison`: `<` for `<=` and the like, `==` for `!=`, `in` for `not in`;
- `arithmetic`: `+` for `-`, `*` for `+`, `//` for `/`, `%` for `//`, a lost minus sign, bits and shifts;
- `constant`: an integer or a float one more or one less, the other truth value, a text emptied or filled;
- `logic`: `and` for `or`, a lost `not`;
- `condition`: a condition negated, always true, always false;
- `bounds`: a `range`, a slice or an index that begins or ends one off;
- `statement`: a statement left out, `break` for `continue`;
- `result`: `None` returned;
- `call`: `min` for `max`, `any` for `all`, `sorted`, `set`, `abs` and the like left out, a keyword left out.

Faults equal in `ast.dump` to another, or to the program, are left out. Docstrings, annotations and imports stay. After
R. A. DeMillo, R. J. Lipton, F. G. Sayward, Hints on test data selection, Computer 11 (1978), 34–41.
"""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Add,), ast.Div: (ast.FloorDiv, ast.Mult),
    ast.FloorDiv: (ast.Div, ast.Mod), ast.Mod: (ast.FloorDiv,), ast.Pow: (ast.Mult,), ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,), ast.BitXor: (ast.BitAnd,),
}  # fmt: skip
SWAPPED = {
    "min": "max", "max": "min", "any": "all", "all": "any", "lower": "upper", "upper": "lower", "append": "extend",
    "islower": "isupper", "isupper": "islower", "startswith": "endswith", "endswith": "startswith",
    "find": "rfind", "index": "rindex", "lstrip": "rstrip", "rstrip": "lstrip",
    "bisect_left": "bisect_right", "bisect_right": "bisect_left", "popleft": "pop", "appendleft": "append",
}  # fmt: skip
UNWRAPPED = frozenset({"abs", "sorted", "set", "list", "int", "float", "round", "reversed", "str", "tuple"})
DROPPED = (ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Delete)


@dataclass(frozen=True)
class Mutant:
    """A program with one fault."""

    kind: str
    line: int
    source: str


@dataclass
class _Site:
    """Where a fault can be: what stands in a field of a node (at a place of its list) is replaced."""

    kind: str
    line: int
    parent: ast.AST
    field: str
    place: int | None
    new: Any

    def exchange(self) -> None:
        """Put the fault there; a second time, take it away again."""
        if self.place is None:
            old = getattr(self.parent, self.field)
            setattr(self.parent, self.field, self.new)
        else:
            values = getattr(self.parent, self.field)
            old, values[self.place] = values[self.place], self.new
        self.new = old


def make_mutants(source: str, most: int, seed: str) -> list[Mutant]:
    """At most `most` mutants, kinds in turn so that none crowds out the others; the same for the same seed.

    A program that Python can't parse has none.
    """
    draw = random.Random(seed)
    try:
        tree = ast.parse(source)
        seen = {ast.dump(tree)}
        by_kind: dict[str, list[_Site]] = {}
        for site in _find_sites(tree):
            by_kind.setdefault(site.kind, []).append(site)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    for sites in by_kind.values():
        draw.shuffle(sites)
    mutants: list[Mutant] = []
    while by_kind and len(mutants) < most:
        for kind in sorted(by_kind):
            site = by_kind[kind].pop()
            if not by_kind[kind]:
                del by_kind[kind]
            if (made := _apply(tree, site, seen)) is not None and len(mutants) < most:
                mutants.append(made)
    return mutants


def _apply(tree: ast.Module, site: _Site, seen: set[str]) -> Mutant | None:
    site.exchange()
    try:
        dumped = ast.dump(tree)
        if dumped in seen:
            return None
        seen.add(dumped)
        return Mutant(site.kind, site.line, ast.unparse(ast.fix_missing_locations(tree)) + "\n")
    except (RecursionError, ValueError):
        return None
    finally:
        site.exchange()


def _find_sites(tree: ast.Module) -> Iterator[_Site]:
    """Every fault that there can be, in the order of the text."""
    pending: list[ast.AST] = [tree]
    while pending:
        parent = pending.pop()
        children: list[ast.AST] = []
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "decorator_list", "type_params", "format_spec"):
                continue
            for place, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.AST) and not isinstance(node, (ast.Import, ast.ImportFrom, ast.JoinedStr)):
                    line = getattr(node, "lineno", getattr(parent, "lineno", 0))
                    for kind, new in _replace(node, parent, field):
                        yield _Site(kind, line, parent, field, place, new)
                    if not _is_text(node):
                        children.append(node)
        pending.extend(reversed(children))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _replace(node: ast.AST, parent: ast.AST, field: str) -> Iterator[tuple[str, Any]]:
    """What may stand in a node's place, with the kind of the fault."""
    if isinstance(node, ast.cmpop):
        yield from (("comparison", other()) for other in COMPARISONS[type(node)])
    elif isinstance(node, ast.operator):
        yield from (("arithmetic", other()) for other in OPERATORS.get(type(node), ()))
    elif isinstance(node, ast.boolop):
        yield "logic", ast.Or() if isinstance(node, ast.And) else ast.And()
    elif isinstance(node, ast.stmt):
        yield from _replace_statement(node)
    elif isinstance(node, ast.expr):
        if _is_condition(parent, field):
            yield "condition", ast.UnaryOp(ast.Not(), node)
            yield from (("condition", ast.Constant(value)) for value in (True, False))
        yield from _replace_expression(node)
    elif isinstance(node, ast.keyword) and isinstance(parent, ast.Call) and node.arg is not None:
        yield "call", ast.keyword(node.arg, ast.Constant(None))


def _is_condition(parent: ast.AST, field: str) -> bool:
    return (field == "test" and isinstance(parent, (ast.If, ast.While, ast.IfExp))) or field == "ifs"


def _replace_statement(node: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    if isinstance(node, ast.Break):
        yield "statement", ast.Continue()
    elif isinstance(node, ast.Continue):
        yield "statement", ast.Break()
    elif isinstance(node, DROPPED) and not _is_text(node):
        yield "statement", ast.Pass()
    elif isinstance(node, ast.Return) and not (node.value is None or _is_constant(node.value, None)):
        yield "result", ast.Return(ast.Constant(None))


def _replace_expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Constant):
        yield from (("constant", ast.Constant(value)) for value in _change_constant(node.value))
    elif isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.Not):
            yield "logic", node.operand
        elif isinstance(node.op, ast.USub):
            yield "arithmetic", node.operand
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield from (("bounds", ast.Subscript(node.value, one, ast.Load())) for one in _shift_index(node.slice))
    elif isinstance(node, ast.Call):
        yield from _replace_call(node)


def _change_constant(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return value + 1, value - 1
    if isinstance(value, float):
        return value + 1, value - 1
    if isinstance(value, str):
        return ("",) if value else ("x",)
    return ()


def _shift_index(index: ast.expr) -> Iterator[ast.expr]:
    if not isinstance(index, ast.Slice):
        if not isinstance(index, (ast.Tuple, ast.Constant)):
            yield from (_add(index, by) for by in (1, -1))
        return
    lower, upper, step = index.lower, index.upper, index.step
    if lower is None or not _is_constant(lower, 0):
        yield ast.Slice(ast.Constant(1) if lower is None else _add(lower, 1), upper, step)
    if lower is not None:
        yield ast.Slice(_add(lower, -1), upper, step)
    yield ast.Slice(lower, ast.Constant(-1) if upper is None else _add(upper, -1), step)
    if upper is not None:
        yield ast.Slice(lower, _add(upper, 1), step)


def _replace_call(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    called = node.func
    if isinstance(called, ast.Name):
        if called.id == "range" and not node.keywords:
            ends = range(min(2, len(node.args)))
            for place in ends:
                for by in (1, -1):
                    arguments = [*node.args]
                    arguments[place] = _add(arguments[place], by)
                    yield "bounds", ast.Call(called, arguments, [])
        elif called.id in SWAPPED:
            yield "call", ast.Call(ast.Name(SWAPPED[called.id], ast.Load()), node.args, node.keywords)
        elif called.id in UNWRAPPED and len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
            yield "call", node.args[0]
    elif isinstance(called, ast.Attribute):
        if called.attr in SWAPPED:
            swapped = ast.Attribute(called.value, SWAPPED[called.attr], ast.Load())
            yield "call", ast.Call(swapped, node.args, node.keywords)
        elif called.attr in ("strip", "copy", "lower", "upper") and not node.args:
            yield "call", called.value


def _add(node: ast.expr, by: int) -> ast.expr:
    """One more or one less, folded where it is a number."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + by)
    return ast.BinOp(node, ast.Add() if by > 0 else ast.Sub(), ast.Constant(abs(by)))


def _is_constant(node: ast.expr, value: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
