"""What the test lends to the program: functions to call, and objects with public attributes and operations.

In the program's process they are empty stand-ins. Everything they do is asked of the tester, which answers within
bounds of its own.
"""

from collections.abc import Callable
from typing import Any

NUMBER = "_microcoder_number"
SERVANT = "_microcoder_servant"
CALLBACKS: dict[Callable[..., Any], int] = {}
"""Stand-ins for functions, with the number that the tester knows each by."""
DESCRIPTORS: dict[str, Callable[..., Any]] = {kind.__name__: kind for kind in (staticmethod, classmethod, property)}
_classes: dict[tuple[str, ...], type] = {}


class Foreign:
    """An object of the test's own."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"an object of the test has no attribute {name!r}")
        return servant_of(self).ask("peek", number_of(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        servant_of(self).ask("poke", number_of(self), name, value)


def number_of(value: Any) -> int:
    number: int = object.__getattribute__(value, "__dict__")[NUMBER]
    return number


def servant_of(value: Any) -> Any:
    return object.__getattribute__(value, "__dict__")[SERVANT]


def make_callback(servant: Any, number: int, name: str | None, text: str | None) -> Callable[..., Any]:
    """A function that calls one of the test's."""

    def callback(*arguments: Any, **named: Any) -> Any:
        return servant.ask("callback", number, arguments, named)

    callback.__doc__ = text
    callback.__name__ = callback.__qualname__ = name or "callback"
    CALLBACKS[callback] = number
    return callback


def make_object(servant: Any, number: int, names: list[str]) -> Any:
    """An object that stands for one of the test's, with these special methods."""
    key = tuple(names)
    kind = _classes.get(key)
    if kind is None:
        kind = _classes[key] = type("Foreign", (Foreign,), {name: forward(name) for name in names})
    made: Any = object.__new__(kind)
    object.__getattribute__(made, "__dict__").update({NUMBER: number, SERVANT: servant})
    return made


def forward(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if name == "__call__":
            return servant_of(self).ask("callback", number_of(self), arguments, named)
        return servant_of(self).ask("operate", number_of(self), name, arguments)

    def wait(self: Any) -> Any:
        return method(self)
        yield

    return wait if name == "__await__" else method
