"""Runs the tests that a test text defines but doesn't call: `check(candidate)`, `test_*`, `Test*`, `unittest` cases.

A text that only defines tests would run to its end without having asked anything. What it defines is therefore found
and run, as pytest, unittest or HumanEval's harness would; and a text in which nothing was run at all is an error.
"""

import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import pytest_standin as standin
from .names import TO_SYNTAX_TREE, Names
from .pytest_session import Session

DEFINES = re.compile(rb"^(?:(?:async )?def test|class )", re.MULTILINE)
ACTS = re.compile(rb"^(?:assert\b|check\()", re.MULTILINE)


class NothingRan(Exception):
    """The test text holds tests, and none of them was run."""


class Ledger:
    """What was run, and the first failure. `unittest`'s own results are noted here too, whoever looks at them."""

    def __init__(self) -> None:
        self.ran = 0
        self.skipped = 0
        self.failure: BaseException | None = None
        self.has_main = False
        """Whether the text itself has asked for its tests to be run."""

    def note(self, error: BaseException) -> None:
        self.failure = self.failure or error

    def watch_unittest(self, run_all: Callable[[], None]) -> None:
        """Let every result of `unittest` be noted, and `unittest.main()` run the test text's cases."""
        import unittest

        result: Any = unittest.TestResult
        start, skip, subtest = result.startTest, result.addSkip, result.addSubTest
        self.replace(result, "addFailure")
        self.replace(result, "addError")

        def count(this: Any, test: Any) -> None:
            self.ran += 1
            start(this, test)

        def note_skip(this: Any, test: Any, reason: str) -> None:
            self.skipped += 1
            skip(this, test, reason)

        def note_subtest(this: Any, test: Any, part: Any, error: Any) -> None:
            if error is not None:
                self.note(error[1])
            subtest(this, test, part, error)

        def note_surprise(this: Any, test: Any) -> None:
            self.note(AssertionError(f"{test} was expected to fail and didn't"))

        def main(*_: Any, **__: Any) -> None:
            self.has_main = True
            run_all()

        result.startTest, result.addSkip, result.addSubTest = count, note_skip, note_subtest
        result.addUnexpectedSuccess = note_surprise
        unittest.main = main  # type: ignore[assignment]

    def replace(self, result: Any, name: str) -> None:
        original = getattr(result, name)

        def note(this: Any, test: Any, error: Any) -> None:
            self.note(error[1])
            original(this, test, error)

        setattr(result, name, note)


class Collection:
    """The tests of one text."""

    def __init__(self, names: Names, source: bytes) -> None:
        self.names = names
        self.source = source
        self.ledger = Ledger()
        if b"unittest" in source:
            self.ledger.watch_unittest(self.run_cases)
        if b"pytest" in source:
            sys.modules["pytest"] = standin.make_module(self.run_by_main)

    def run_by_main(self, *_: Any, **__: Any) -> int:
        """`pytest.main(…)`."""
        self.ledger.has_main = True
        self.run_all()
        return 0

    def finish(self) -> None:
        """After the text: run what it only defines.

        Raises:
            NothingRan: there is nothing to run. Whatever the first failing test raises, too.
        """
        obvious = ACTS.search(self.source) is not None and DEFINES.search(self.source) is None
        if self.ledger.failure is None and not self.ledger.has_main and not obvious:
            layout = Layout(self.source)
            if layout.defines:
                self.run_uncalled(layout)
            if not layout.acts and self.ledger.ran == 0:
                raise NothingRan("the test code runs nothing: it calls no test, and defines none that is recognised")
        if self.ledger.failure is not None:
            raise self.ledger.failure
        if 0 < self.ledger.ran == self.ledger.skipped:
            raise NothingRan("every test of the test code was skipped")

    def run_uncalled(self, layout: "Layout") -> None:
        check: Any = self.names.get("check")
        if is_tests(check) and "check" not in layout.called and self.ledger.ran == 0:
            self.run_check(check)
        if self.ledger.ran == 0:
            self.run_all(layout.called)

    def run_check(self, check: Callable[..., Any]) -> None:
        """HumanEval's `check(candidate)`."""
        if not standin.find_parameters(check):
            check()
        elif self.names.tester.entry_point is None:
            raise NothingRan("check(candidate) is defined but not called, and the program names no entry point")
        else:
            check(self.names.find("candidate"))
        self.ledger.ran += 1

    def run_all(self, called: frozenset[str] = frozenset()) -> None:
        """All functions and classes that pytest would collect, and all cases of `unittest`."""
        session = Session(self.names, self.ledger)
        own = list(self.names.items())
        session.enter(own)
        try:
            for name, value in own:
                if name.startswith("test") and is_tests(value) and name not in called:
                    session.run_function(value, None)
                elif name.startswith("Test") and is_plain_class(value) and name not in called:
                    session.run_class(value)
        finally:
            session.leave()
        self.run_cases()

    def run_cases(self) -> None:
        """The cases of `unittest`, up to the first failure."""
        if "unittest" not in sys.modules:
            return
        import unittest

        own = dict(self.names)
        cases = [value for value in own.values() if is_case(value)]
        if cases:
            own.get("setUpModule", nothing)()
        for case in cases:
            if self.ledger.failure is None:
                result = unittest.TestResult()
                result.failfast = True
                unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
        if cases:
            own.get("tearDownModule", nothing)()


def nothing() -> None:
    """What is done where the text has nothing of its own to do."""


def is_tests(value: object) -> bool:
    """Whether a function is one that the test text defines."""
    return isinstance(value, types.FunctionType) and value.__module__ == "__main__"


def is_plain_class(value: object) -> bool:
    return isinstance(value, type) and value.__module__ == "__main__" and not is_case(value)


def is_case(value: object) -> bool:
    unittest = sys.modules.get("unittest")
    if unittest is None or not isinstance(value, type) or value.__module__ != "__main__":
        return False
    return issubclass(value, unittest.TestCase)


class Layout:
    """What the text's outermost statements do: define, call, act."""

    def __init__(self, source: bytes) -> None:
        tree: Any = compile(source, "<test>", "exec", TO_SYNTAX_TREE, dont_inherit=True)
        self.defines = False
        self.acts = False
        called: set[str] = set()
        for statement in tree.body:
            kind = type(statement).__name__
            if kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
                self.defines = True
            elif not is_passive(statement, kind):
                self.acts = True
                called.update(find_loaded(statement))
        self.called = frozenset(called)


def is_passive(statement: Any, kind: str) -> bool:
    """Whether a statement asks nothing of the program: imports, documentation, constants."""
    if kind in ("Import", "ImportFrom"):
        return True
    if kind in ("Assign", "AnnAssign"):
        return not any(type(node).__name__ in ("Call", "Name") for node in walk(statement.value))
    return kind == "Expr" and type(statement.value).__name__ == "Constant"


def find_loaded(statement: Any) -> Iterator[str]:
    """The names that a statement uses, outside of the definitions in it."""
    for node in walk(statement):
        if type(node).__name__ == "Name" and type(node.ctx).__name__ == "Load":
            yield node.id


def walk(node: Any) -> Iterator[Any]:
    pending = [node]
    while pending:
        node = pending.pop()
        if type(node).__name__ in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
            continue
        yield node
        for field in getattr(node, "_fields", ()):
            value = getattr(node, field, None)
            pending.extend(value if isinstance(value, list) else [value])
