"""Runs test functions and `Test*` classes as pytest does: with their fixtures, parameters and marks."""

import io
import sys
import types
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

from . import pytest_standin as standin
from .names import Names

MAX_CASES = 100_000
Captured = namedtuple("Captured", "out err")


class Session:
    """The tests of one text. `ledger` counts them."""

    def __init__(self, names: Names, ledger: Any) -> None:
        self.names = names
        self.ledger = ledger
        self.lasting: dict[tuple[str, Any], Any] = {}
        """Values of fixtures that outlive one test."""
        self.cleanups: list[Callable[[], Any]] = []
        self.fixtures: dict[str, standin.Fixture] = {}
        self.hooks: dict[str, Any] = {}

    def enter(self, own: list[tuple[str, Any]]) -> None:
        self.fixtures = {value.name: value for _, value in own if isinstance(value, standin.Fixture)}
        self.hooks = dict(own)
        self.hook("setup_module", self.hooks)

    def leave(self) -> None:
        clean(self.cleanups)
        self.hook("teardown_module", self.hooks)

    def hook(self, name: str, owner: Any, *arguments: Any) -> None:
        """pytest's named functions before and after tests; each may take what it is about, or nothing."""
        function = owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)
        if callable(function):
            function(*arguments[: len(standin.find_parameters(function))])

    def run_class(self, cls: Any) -> None:
        """All test methods of a class, each on an instance of its own."""
        if any("__init__" in vars(base) for base in cls.__mro__[:-1]):
            raise standin.Unsupported(f"{cls.__name__} has an __init__: pytest collects no such class")
        self.hook("setup_class", cls)
        names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base) if name.startswith("test"))
        for name in names:
            if callable(getattr(cls, name)):
                self.run_function(find_static(cls, name), cls)
        self.hook("teardown_class", cls)

    def run_function(self, function: Any, cls: Any) -> None:
        """All cases of a test function: one for each combination of its parameters."""
        plain = getattr(function, "__func__", function)
        marks = [*getattr(plain, standin.MARKS, []), *getattr(cls, standin.MARKS, [])]
        marks += as_list(self.hooks.get("pytestmark")) + as_list(getattr(cls, "pytestmark", None))
        cases: list[tuple[dict[str, Any], tuple[standin.Mark, ...]]] = [({}, ())]
        sources = [expand(*mark.args, **mark.kwargs) for mark in marks if mark.name == "parametrize"]
        for rows in [*map(list, sources), *self.find_parameters(plain, cls)]:
            if len(cases) * len(rows) > MAX_CASES:
                raise standin.Unsupported("a test has too many combinations of parameters")
            cases = [({**had, **row}, (*marked, *more)) for had, marked in cases for row, more in rows]
        for parameters, more in cases:
            self.run_marked(function, cls, parameters, [*marks, *more])

    def find_parameters(self, function: Any, cls: Any) -> Iterator[list[Any]]:
        """The rows of the fixtures with parameters that a test needs, itself or through others."""
        pending = [name for name, _ in standin.find_parameters(function)] + self.find_automatic(cls)
        seen: set[str] = set()
        while pending:
            name = pending.pop(0)
            fixture = self.find_fixture(name, cls)
            if name not in seen and fixture is not None:
                seen.add(name)
                pending += [parameter for parameter, _ in standin.find_parameters(fixture.function)]
                if fixture.params:
                    yield list(expand(f"@{name}", fixture.params))

    def find_fixture(self, name: str, cls: Any) -> standin.Fixture | None:
        found = None if cls is None else find_static(cls, name)
        return found if isinstance(found, standin.Fixture) else self.fixtures.get(name)

    def find_automatic(self, cls: Any) -> list[str]:
        """The names of fixtures that every test uses."""
        own = [] if cls is None else [value for base in cls.__mro__ for value in vars(base).values()]
        found = [*self.fixtures.values(), *own]
        return [fixture.name for fixture in found if isinstance(fixture, standin.Fixture) and fixture.autouse]

    def run_marked(self, function: Any, cls: Any, parameters: dict[str, Any], marks: list[standin.Mark]) -> None:
        self.ledger.ran += 1
        if any(mark.name == "skip" or (mark.name == "skipif" and mark.args and mark.args[0]) for mark in marks):
            self.ledger.skipped += 1
            return
        expected = [mark for mark in marks if mark.name == "xfail" and (not mark.args or mark.args[0])]
        kinds = expected[0].kwargs.get("raises", Exception) if expected else ()
        wanted = [name for mark in marks if mark.name == "usefixtures" for name in mark.args]
        try:
            self.run_case(function, cls, parameters, wanted)
        except standin.Skipped:
            self.ledger.skipped += 1
        except kinds:
            return
        if expected and expected[0].kwargs.get("strict"):
            raise standin.Failed("the test passes but is marked as one that fails (strict xfail)")

    def run_case(self, function: Any, cls: Any, parameters: dict[str, Any], wanted: list[str]) -> None:
        """One test function with one set of parameters."""
        instance = None if cls is None else cls()
        case = Case(self, instance, parameters)
        bound = function if cls is None else function.__get__(instance, cls)
        where, level = (self.hooks, "function") if cls is None else (instance, "method")
        self.hook(f"setup_{level}", where, bound)
        try:
            for name in [*self.find_automatic(cls), *wanted]:
                case.value(name)
            result = bound(**case.find_arguments(bound))
            if isinstance(result, types.CoroutineType):
                __import__("asyncio").run(result)
        finally:
            clean(case.cleanups)
            self.hook(f"teardown_{level}", where, bound)


class Case:
    """One test: the values of the fixtures that it names."""

    def __init__(self, session: Session, instance: Any, parameters: dict[str, Any]) -> None:
        self.session = session
        self.instance = instance
        self.parameters = parameters
        self.values: dict[str, Any] = {}
        self.cleanups: list[Callable[[], Any]] = []

    def find_arguments(self, function: Any, outer: standin.Fixture | None = None) -> dict[str, Any]:
        """What a test or a fixture is called with. One with a default gets only what a row of parameters has."""
        needed = standin.find_parameters(function)
        names = [name for name, optional in needed if not optional or (outer is None and name in self.parameters)]
        return {name: self.value(name, outer) for name in names}

    def value(self, name: str, outer: standin.Fixture | None = None) -> Any:
        """What a parameter of that name stands for."""
        if name in self.parameters:
            return self.parameters[name]
        if name == "request":
            owner = outer.name if outer is not None else ""
            return standin.Request(self.parameters.get(f"@{owner}"), self.cleanups_of(outer))
        if name not in self.values:
            fixture = self.session.find_fixture(name, None if self.instance is None else type(self.instance))
            if fixture is not None:
                self.values[name] = self.prepare(fixture)
            elif name == "candidate":
                self.values[name] = self.session.names.find(name)
            elif name == "capsys":
                self.values[name] = Capture(self.cleanups)
            else:
                raise standin.Unsupported(f"there is no fixture {name!r} here: see docs/assertions.md for what is")
        return self.values[name]

    def prepare(self, fixture: standin.Fixture) -> Any:
        """The value of a fixture: made now, or for an earlier test where its scope is wider."""
        key = (fixture.name, repr(self.parameters.get(f"@{fixture.name}")))
        lasting = self.session.lasting
        if fixture.scope != "function" and key in lasting:
            return lasting[key]
        is_method = self.instance is not None and self.session.fixtures.get(fixture.name) is not fixture
        function = types.MethodType(fixture.function, self.instance) if is_method else fixture.function
        value = function(**self.find_arguments(function, fixture))
        if isinstance(value, types.GeneratorType):
            generator = value
            value = next(generator)
            self.cleanups_of(fixture).append(lambda: next(generator, None))
        if fixture.scope != "function":
            lasting[key] = value
        return value

    def cleanups_of(self, fixture: standin.Fixture | None) -> list[Callable[[], Any]]:
        wider = fixture is not None and fixture.scope != "function"
        return self.session.cleanups if wider else self.cleanups


class Capture:
    """The fixture `capsys`: what the test and the program print."""

    def __init__(self, cleanups: list[Callable[[], Any]]) -> None:
        before = sys.stdout, sys.stderr
        self.out, self.err = sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
        cleanups.append(lambda: self.restore(before))

    def readouterr(self) -> Captured:
        captured = Captured(self.out.getvalue(), self.err.getvalue())
        self.out, self.err = sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
        return captured

    def restore(self, before: tuple[Any, Any]) -> None:
        sys.stdout, sys.stderr = before


def find_static(cls: type, name: str) -> Any:
    """What a class or its bases have under a name, without binding it."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def expand(argnames: Any, argvalues: Any, indirect: Any = False, ids: Any = None, scope: Any = None) -> Iterator[Any]:
    """Each row of a parametrisation, as parameters by name and marks."""
    if indirect:
        raise standin.Unsupported("indirect parameters aren't supported here")
    named = argnames.split(",") if isinstance(argnames, str) else argnames
    listed = [name.strip() for name in named if name.strip()]
    for row in argvalues:
        marks = row.marks if isinstance(row, standin.Parameters) else ()
        content = row.values if isinstance(row, standin.Parameters) else (row,) if len(listed) == 1 else tuple(row)
        if len(content) != len(listed):
            raise standin.Failed(f"{len(listed)} parameters are named, and a row has {len(content)}")
        yield dict(zip(listed, content, strict=True)), marks


def clean(cleanups: list[Callable[[], Any]]) -> None:
    """Undo what was prepared, the latest first."""
    while cleanups:
        cleanups.pop()()
