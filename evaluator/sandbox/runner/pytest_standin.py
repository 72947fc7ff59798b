"""The part of pytest that test texts use, as `import pytest` gives it where assertion tests run.

pytest itself isn't in a box. What isn't here says so when it is used: a test must never pass because a feature that
would have failed it did nothing. `pytest_session.py` runs what is declared with it.
"""

import math
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

from .exchange import ProgramEnded

MARKS = "_microcoder_marks"
DECORATED = (types.FunctionType, type, staticmethod, classmethod)


class Failed(AssertionError):
    """`pytest.fail`, or `pytest.raises` where nothing was raised."""


class Skipped(Exception):
    """`pytest.skip`."""


class Unsupported(Exception):
    """The test text uses a part of pytest that isn't here."""


def fail(reason: str = "", pytrace: bool = True) -> NoReturn:
    raise Failed(reason)


def skip(reason: str = "", *, allow_module_level: bool = False) -> NoReturn:
    raise Skipped(reason)


def importorskip(name: str, minversion: str | None = None, reason: str | None = None) -> Any:
    try:
        __import__(name)
    except ImportError:
        skip(reason or f"could not import {name!r}")
    return sys.modules[name]


# --- raises -------------------------------------------------------------------------------------------------------


class ExceptionInfo:
    """What `with pytest.raises(…) as info` gives."""

    def __init__(self) -> None:
        self._error: BaseException | None = None

    @property
    def value(self) -> BaseException:
        """The exception, once it was raised."""
        if self._error is None:
            raise AttributeError("nothing was raised yet")
        return self._error

    @property
    def type(self) -> type[BaseException]:
        return type(self.value)

    @property
    def tb(self) -> types.TracebackType | None:
        return self.value.__traceback__

    def match(self, pattern: str) -> bool:
        """Whether the exception's text has the pattern in it; it fails where not."""
        if re.search(pattern, str(self.value)) is None:
            raise Failed(f"the exception says {str(self.value)!r}, which doesn't match {pattern!r}")
        return True

    def errisinstance(self, kind: Any) -> bool:
        return isinstance(self.value, kind)

    def exconly(self) -> str:
        return f"{type(self.value).__name__}: {self.value}"

    def __str__(self) -> str:
        return f"<ExceptionInfo {self._error!r}>"


class raises:
    """`with raises(kind, match=…)`; `raises(kind, function, *arguments)` calls at once and gives the info."""

    def __new__(cls, kind: Any, *call: Any, **options: Any) -> Any:
        context = object.__new__(cls)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not kinds or not all(isinstance(item, type) and issubclass(item, BaseException) for item in kinds):
            raise TypeError(f"raises() expects an exception class, or a tuple of them, not {kind!r}")
        context.__dict__.update(kind=kind, match=None, check=None, info=ExceptionInfo())
        if call:
            with context:
                call[0](*call[1:], **options)
            return context.__dict__["info"]
        context.__dict__.update(match=options.pop("match", None), check=options.pop("check", None))
        if options:
            raise TypeError(f"raises() has no option {next(iter(options))!r}")
        return context

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> ExceptionInfo:
        info: ExceptionInfo = self.__dict__["info"]
        return info

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        facts = self.__dict__
        if error is None:
            names = facts["kind"] if isinstance(facts["kind"], tuple) else (facts["kind"],)
            raise Failed(f"DID NOT RAISE {' or '.join(item.__name__ for item in names)}")
        if isinstance(error, ProgramEnded) or not isinstance(error, facts["kind"]):
            return False
        facts["info"]._error = error
        if facts["match"] is not None:
            facts["info"].match(facts["match"])
        if facts["check"] is not None and not facts["check"](error):
            raise Failed(f"the check of the exception fails for {error!r}")
        return True


# --- approx -------------------------------------------------------------------------------------------------------


class approx:
    """Equal within a tolerance: numbers, sequences, mappings and numpy's arrays of them."""

    __array_ufunc__ = None
    __array_priority__ = 100
    __hash__: Any = None

    def __init__(self, expected: Any, rel: float | None = None, abs: float | None = None, nan_ok: bool = False) -> None:
        if isinstance(expected, (set, frozenset)) or hasattr(type(expected), "__next__"):
            raise TypeError(f"approx() can't compare an unordered or one-time {type(expected).__name__}")
        for tolerance in (rel, abs):
            if tolerance is not None and not tolerance >= 0:
                raise ValueError(f"a tolerance can't be {tolerance}")
        self.expected = expected
        self.rel, self.abs, self.nan_ok = rel, abs, nan_ok

    def __repr__(self) -> str:
        return f"approx({self.expected!r})"

    def __eq__(self, actual: object) -> bool:
        return self.agree(self.expected, actual)

    def __bool__(self) -> bool:
        raise AssertionError("approx() is used in a comparison: did you mean `assert a == approx(b)`?")

    def agree(self, expected: Any, actual: Any) -> bool:
        """Whether two values of any kind are near enough."""
        if is_array(expected) or is_array(actual):
            return self.agree_arrays(expected, actual)
        if isinstance(expected, Mapping):
            same_keys = isinstance(actual, Mapping) and set(expected) == set(actual)
            return same_keys and all(self.agree(item, actual[key]) for key, item in expected.items())
        if is_sequence(expected):
            pairs = zip(expected, actual, strict=True) if is_sequence(actual) and len(expected) == len(actual) else None
            return pairs is not None and all(self.agree(left, right) for left, right in pairs)
        if not is_number(expected) or not is_number(actual):
            return bool(expected == actual)
        return self.agree_numbers(expected, actual)

    def agree_arrays(self, expected: Any, actual: Any) -> bool:
        numpy = __import__("numpy")
        if not (is_array(actual) or is_sequence(actual)):
            return False
        left, right = numpy.asarray(expected), numpy.asarray(actual)
        if left.shape != right.shape and left.shape != ():
            return False
        wanted = numpy.broadcast_to(left, right.shape).ravel().tolist()
        return all(self.agree(mine, other) for mine, other in zip(wanted, right.ravel().tolist(), strict=True))

    def agree_numbers(self, expected: Any, actual: Any) -> bool:
        if expected == actual:
            return True
        if expected != expected or actual != actual:
            return self.nan_ok and bool(expected != expected) and bool(actual != actual)
        if isinstance(expected, complex) or isinstance(actual, complex):
            infinite = not all(math.isfinite(part) for part in (complex(expected).real, complex(expected).imag))
        else:
            infinite = math.isinf(expected) or math.isinf(actual)
        return not infinite and bool(abs(expected - actual) <= self.tolerance(expected))

    def tolerance(self, expected: Any) -> Any:
        """The larger one; a relative one that wasn't asked for doesn't count beside an absolute one that was."""
        number = Decimal if isinstance(expected, Decimal) else float
        absolute = number(str(self.abs if self.abs is not None else 1e-12))
        if self.rel is None and self.abs is not None:
            return absolute
        return max(number(str(self.rel if self.rel is not None else 1e-6)) * abs(expected), absolute)


def is_array(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_number(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    kinds: tuple[type, ...] = (int, float, complex, Decimal, Fraction)
    return isinstance(value, kinds if numpy is None else (*kinds, numpy.number)) and not isinstance(value, bool)


def is_sequence(value: object) -> bool:
    return isinstance(value, (list, tuple))


# --- marks and fixtures -------------------------------------------------------------------------------------------


class Mark:
    """`pytest.mark.name(…)`: a decorator that leaves a note on a function or class."""

    def __init__(self, name: str, arguments: tuple[Any, ...] = (), named: dict[str, Any] | None = None) -> None:
        self.name, self.args, self.kwargs = name, arguments, named or {}

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 1 and not named and isinstance(arguments[0], DECORATED):
            target = getattr(arguments[0], "__func__", arguments[0])
            setattr(target, MARKS, [self, *vars(target).get(MARKS, [])])
            return arguments[0]
        return Mark(self.name, (*self.args, *arguments), {**self.kwargs, **named})


class Marks:
    """`pytest.mark`. A mark of any other name is a label, which changes nothing about the test."""

    def __getattr__(self, name: str) -> Mark:
        if name.startswith("_"):
            raise AttributeError(name)
        return Mark(name)


class Parameters:
    """`pytest.param(…)`: one row of parameters with marks of its own."""

    def __init__(self, values: tuple[Any, ...], marks: tuple[Mark, ...]) -> None:
        self.values, self.marks = values, marks


def param(*values: Any, marks: Any = (), id: str | None = None) -> Parameters:
    return Parameters(values, tuple(marks) if isinstance(marks, Iterable) else (marks,))


class Fixture:
    """A function that prepares something for the tests that name it."""

    def __init__(self, function: Callable[..., Any], scope: str, params: list[Any], autouse: bool, name: str) -> None:
        self.function, self.scope, self.params, self.autouse, self.name = function, scope, params, autouse, name

    def __call__(self, *arguments: Any, **named: Any) -> NoReturn:
        raise Failed(f"fixture {self.name!r} is called directly: name it as a parameter of the test")


def fixture(
    function: Any = None, *, scope: str = "function", params: Iterable[Any] | None = None, autouse: bool = False,
    name: str | None = None, ids: Any = None,
) -> Any:  # fmt: skip
    def decorate(target: Callable[..., Any]) -> Fixture:
        return Fixture(target, scope, list(params or ()), autouse, name or target.__name__)

    return decorate if function is None else decorate(function)


class Request:
    """The fixture `request`, as far as parametrised fixtures need it."""

    def __init__(self, parameter: Any, cleanups: list[Callable[[], Any]]) -> None:
        self.param = parameter
        self._cleanups = cleanups

    def addfinalizer(self, function: Callable[[], Any]) -> None:
        self._cleanups.append(function)


def find_parameters(function: Any) -> list[tuple[str, bool]]:
    """The parameters of a function of the test text that can be given by name, and whether each has a default."""
    bound = 1 if isinstance(function, types.MethodType) else 0
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return []
    positional = code.co_varnames[: code.co_argcount]
    optional = positional[len(positional) - len(function.__defaults__ or ()) :]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    with_default = {*optional, *(function.__kwdefaults__ or ())}
    return [(name, name in with_default) for name in (*positional[bound:], *named)]


def make_module(main: Callable[..., int]) -> types.ModuleType:
    """The module that `import pytest` gives."""
    module = types.ModuleType("pytest", "A stand-in for the part of pytest that test texts use.")
    module.__dict__.update(
        raises=raises, approx=approx, fail=fail, skip=skip, importorskip=importorskip, mark=Marks(), param=param,
        fixture=fixture, main=main, ExceptionInfo=ExceptionInfo, __version__="8",
        __getattr__=refuse,
    )  # fmt: skip
    module.__dict__["fail"].Exception = Failed
    module.__dict__["skip"].Exception = Skipped
    return module


def refuse(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise Unsupported(f"pytest.{name} isn't supported here: see docs/assertions.md for what is")
