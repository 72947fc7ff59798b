"""Calls of a program's function, as contest judges make them: find it, give it its arguments, write down what it gave.

All of it happens in the program's own process, which knows no expected output: whatever the program does to this
module, it can only decide what its function is said to have returned.
"""

import dis
import functools
import json
import os
import re
import types
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

from . import launch, nodes, streams, values
from .wire import WRITTEN

NOTHING = re.compile(r"(?:None|NoneType|void)(?:$|\s(?!\s*(?:\||or\b)))")
"""The beginning of a declaration that nothing is returned. LeetCode adds "Do not return anything, …" in docstrings."""
DOCUMENTED = re.compile(r":(?:type[ \t]+(\w+)|rtype)[ \t]*:[ \t]*(.+)")
_truncate = os.ftruncate
_seek = os.lseek
_write_all = streams.write_all


def run_function(artifact: int, prelude: bool, path: str, result: int) -> NoReturn:
    """Call the entry point with the arguments on stdin, one JSON value a line; write what came of it to `result`."""
    data = streams.read_all(0)
    module, code, source, _ = launch.load_program(artifact, "program", prelude)

    def call() -> None:
        if not prelude:
            launch.hide_frames()
        arguments = parse_arguments(data)
        try:
            content = perform(module.__dict__, code, source, path, arguments)
        finally:
            if _seek(result, 0, os.SEEK_END):  # the program has written there itself
                _truncate(result, 0)
                _seek(result, 0, os.SEEK_SET)
                _write_all(result, WRITTEN)
        _write_all(result, content)

    launch.conclude(call)


def parse_arguments(data: bytes) -> list[Any]:
    """The arguments, as the test gives them: JSON, else a Python literal."""
    lines = [line for line in data.decode("utf-8", "surrogateescape").split("\n") if line.strip()]
    return [parse_argument(line, number) for number, line in enumerate(lines, start=1)]


def parse_argument(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        pass
    import ast

    try:
        return ast.literal_eval(line.strip())
    except (ValueError, SyntaxError, TypeError):
        raise ValueError(f"argument {number} of the test is neither JSON nor a Python literal") from None


def perform(scope: dict[str, Any], code: types.CodeType, source: bytes, path: str, arguments: list[Any]) -> bytes:
    """Define the program, call its function, and encode what it gave."""
    with_nodes = nodes.are_mentioned(source)
    if with_nodes:
        scope.update(nodes.CLASSES)
    given = scope.get(path)
    exec(code, scope)
    offered = given is not None and scope.get(path) is given  # by the prelude, and the program didn't define it anew
    if path in code.co_names and not hasattr(scope.get("Solution"), path):
        offered = False  # but it imports it
    function = find(scope, path, offered)
    forge = None
    if with_nodes:
        forge = read_signature(function).forge(scope)
        arguments = forge.build_arguments(arguments)
    value = settle(function(*arguments))
    if forge is not None:
        value = nodes.fill_in(value, forge.returned)
    encoder = Encoder(forge)
    lines = [encoder.tree(value)]
    if lines[0] is None:  # an in-place problem: the answer may be an argument
        lines.append(encoder.tree(arguments if forge is None else forge.fill_arguments(arguments)))
        objection = find_objection(function)
        lines += [] if objection is None else [objection]
    return b"\n".join(map(values.dump, lines))


def find(scope: dict[str, Any], path: str, offered: bool = False) -> Any:
    """`function`, `Class.method` on a fresh instance, any dotted way, or `function` where only `class Solution` has it.

    `offered`: the name is the prelude's, such as `merge` and `search`; it isn't what the program is asked for.
    """
    first, *rest = path.split(".")
    if first in scope and not offered:
        found = scope[first]
    elif not rest and isinstance(scope.get("Solution"), type):
        found, rest = scope["Solution"], [first]
    else:
        raise NameError(f"the program defines no {'class' if rest else 'function'} {first!r}")
    for name in rest:
        found = get_attribute(found, name)
    if not callable(found):
        raise TypeError(f"the program's {path!r} can't be called: it is of type {type(found).__name__!r}")
    return found


def get_attribute(owner: Any, name: str) -> Any:
    """An attribute; of a class's instance, unless the class itself will do."""
    where = f"class {owner.__name__!r}" if isinstance(owner, type) else f"object of type {type(owner).__name__!r}"
    if isinstance(owner, type):
        plain = next((base.__dict__[name] for base in owner.__mro__ if name in base.__dict__), None)
        if plain is None and not hasattr(owner, "__getattr__"):
            raise AttributeError(f"the program's {where} has no function {name!r}")
        if not isinstance(plain, (staticmethod, classmethod, type)):
            owner = owner()
    elif not hasattr(owner, name):
        raise AttributeError(f"the program's {where} has no function {name!r}")
    return getattr(owner, name)


def settle(value: Any) -> Any:
    """What a coroutine returns in the end, a list of what an asynchronous generator gives; else the value."""
    if type(value) is types.CoroutineType:
        import asyncio

        return asyncio.run(value)
    if type(value) is types.AsyncGeneratorType:
        import asyncio

        async def collect() -> list[Any]:
            return [item async for item in value]

        return asyncio.run(collect())
    return value


class Signature(NamedTuple):
    """What a function's text says of it."""

    code: types.CodeType | None
    parameters: list[str]
    """Names of the parameters that positional arguments go to."""
    declared: dict[str, str]
    """Annotations as text by parameter, and by `return`."""

    def forge(self, scope: dict[str, Any]) -> nodes.Forge:
        """What makes nodes of its arguments."""
        annotations = [self.declared.get(name, "") for name in self.parameters]
        return nodes.Forge(scope, annotations, self.declared.get("return", ""))


def read_signature(function: Any) -> Signature:
    """The signature of the function that is at the bottom of decorators, bound methods and partial calls.

    Annotations are read as text, so that it doesn't matter whether their names are defined. Where there are none the
    docstring speaks, as in LeetCode's older templates: `:type head: ListNode`, `:rtype: ListNode`.
    """
    bound = 0
    while True:
        if isinstance(function, types.MethodType):
            function, bound = function.__func__, bound + 1
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif isinstance(function, functools.partial):
            function, bound = function.func, bound + len(function.args)
        else:
            break
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return Signature(None, [], {})
    declared = {kind or "return": text.strip() for kind, text in DOCUMENTED.findall(function.__doc__ or "")}
    declared |= {name: spell(annotation) for name, annotation in function.__annotations__.items()}
    return Signature(code, list(code.co_varnames[bound : code.co_argcount]), declared)


def spell(annotation: Any) -> str:
    """An annotation as text."""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if type(annotation) is type else repr(annotation).replace("typing.", "")


def find_objection(function: Any) -> str | None:
    """Why a function that returned None can't have been meant to leave its answer in an argument.

    It may where it declares that it returns nothing, or declares nothing and returns no value on any path.
    """
    signature = read_signature(function)
    if signature.code is None:
        return "the function isn't written in Python"
    declared = signature.declared.get("return")
    if declared is not None:
        return None if NOTHING.match(declared) else f"the function is declared to return {declared[:100]}"
    return "the function returns a value elsewhere" if returns_value(signature.code) else None


def returns_value(code: types.CodeType) -> bool:
    """Whether there is a `return` with anything but None."""
    nothing = False
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        if instruction.opname == "RETURN_VALUE" and (instruction.is_jump_target or not nothing):
            return True  # another branch brings its own value to a return that is jumped to
        nothing = instruction.opname == "LOAD_CONST" and instruction.argval is None
    return False


class Encoder(values.Encoder):
    """Writes more kinds of values than two processes of an assertion test exchange: here, only data matters."""

    def __init__(self, forge: nodes.Forge | None = None) -> None:
        super().__init__()
        self.forge = forge

    def other(self, value: Any, depth: int) -> values.Tree:
        """Nodes, exact numbers, and iterators of any class."""
        kind = type(value)
        reader = None if self.forge is None else self.forge.find_reader(kind)
        if reader is not None:
            return self.sequence(reader(value), depth)
        for exact in (Decimal, Fraction):
            if exact in kind.__mro__:
                return self.number(exact, value, depth)
        if hasattr(kind, "__next__") or values.module_of(kind).partition(".")[0] == "sortedcontainers":
            return {"$": "iterator", "v": self.sequence(value, depth)}
        return self.opaque(value)

    def number(self, kind: type[Decimal] | type[Fraction], value: Any, depth: int) -> values.Tree:
        """The integer that it is, or the nearest float."""
        if kind is Decimal and not Decimal.is_finite(value):
            return Decimal.__float__(value)
        numerator, denominator = kind.as_integer_ratio(value)
        return self.write_integer(numerator, depth) if denominator == 1 else numerator / denominator
