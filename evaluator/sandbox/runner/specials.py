"""The special methods that an object of the other process may have: which operations of the language reach it there.

What a program's object answers is the program's say. That is right where the test asks for something (its length, its
text, an item) and wrong where the test has the expected value in its hand: `value == 3`, `3 in value`, `value - 3`. So
the operations with a second operand stand apart.
"""

import math
import re
import sys
from collections.abc import Callable
from typing import Any

ASKING = (
    "__len__", "__getitem__", "__setitem__", "__delitem__", "__missing__", "__iter__", "__next__", "__reversed__",
    "__bool__", "__int__", "__float__", "__complex__", "__index__", "__neg__", "__pos__", "__abs__", "__invert__",
    "__round__", "__trunc__", "__floor__", "__ceil__", "__enter__", "__exit__", "__call__", "__aenter__", "__aexit__",
    "__aiter__", "__anext__", "__await__", "__hash__", "__str__", "__repr__", "__format__", "__bytes__", "__dir__",
    "__length_hint__", "__fspath__",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or", "xor", "lshift",
          "rshift")  # fmt: skip
OPERATORS = tuple(f"__{prefix}{name}__" for name in BINARY for prefix in ("", "r", "i") if prefix + name != "idivmod")
ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
ALL = frozenset({*ASKING, *OPERATORS, *ORDER, "__eq__", "__contains__"})
DECIDING = frozenset({"__eq__", "__ne__", "__contains__", *ORDER, *OPERATORS})
"""Those that may have the expected value as their operand, however they are called: `f(1).__eq__(2)`."""
SHOWN = frozenset({"__init__", "__doc__"})
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "__len__": len, "__iter__": iter, "__next__": next, "__reversed__": reversed, "__bool__": bool, "__int__": int,
    "__float__": float, "__complex__": complex, "__abs__": abs, "__round__": round, "__trunc__": math.trunc,
    "__floor__": math.floor, "__ceil__": math.ceil, "__hash__": hash, "__str__": str, "__repr__": repr,
    "__format__": format, "__bytes__": bytes, "__dir__": dir,
}  # fmt: skip
"""Where a builtin function does more than call the method: checks what it gives, or knows another way."""
_NAMES_ONLY = re.compile(r"[\w\s.,|\[\]'\"]*")


def check_annotations(annotations: Any) -> dict[Any, Any]:
    """Annotations that the program shows, for good, where texts among them are names: `inspect` may evaluate them."""
    if not isinstance(annotations, dict):
        raise AttributeError("__annotations__ that are no dictionary stay in the program")
    for text in dict.values(annotations):
        if isinstance(text, str):
            check_name(str.__str__(text))
    return dict(dict.items(annotations))


def check_name(text: str) -> None:
    """Refuse what does more than name a type."""
    if _NAMES_ONLY.fullmatch(text) is None:
        raise AttributeError(f"an annotation that computes something stays in the program: {text[:100]!r}")


def guard_type_hints() -> None:
    """Where the test evaluates annotations (`typing.get_type_hints`), also those inside of others only as names."""
    reference: Any = sys.modules["typing"].ForwardRef  # the prelude has imported it
    for name in ("_evaluate", "evaluate"):
        if (evaluate := getattr(reference, name, None)) is not None:
            setattr(reference, name, _make_checked(evaluate))


def _make_checked(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    def check(reference: Any, *arguments: Any, **named: Any) -> Any:
        check_name(reference.__forward_arg__)
        return evaluate(reference, *arguments, **named)

    return check


def is_member(name: str) -> bool:
    """Whether the program may answer for a member of that name: it is no operation, and no mark of ours."""
    return name in SHOWN or not (name.startswith("_microcoder") or (name.startswith("__") and name.endswith("__")))


def find(kind: type) -> list[str]:
    """The names of the special methods that a class has beyond `object`."""
    found = []
    for name in sorted(ALL):
        owner = next((base for base in kind.__mro__ if name in vars(base)), object)
        if owner is not object:
            found.append(name)
    return found


def perform(value: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    """As the language does: by the class's method, or the builtin function that belongs to it."""
    if name not in ALL:
        raise AttributeError(f"{name} is no operation on an object of another process")
    if name in FUNCTIONS:
        return FUNCTIONS[name](value, *arguments)
    method = getattr(type(value), name, None)
    if method is None:
        raise TypeError(f"{type(value).__name__!r} object has no {name}")
    return method(value, *arguments)
