"""The tester's stand-ins for what lives in the program: its objects, its classes, its exceptions.

Each class of the program that the test meets gets a class here, with the same name and the classes of its bases as
bases. So `isinstance`, `except`, `type(a) is type(b)` and a `class` statement that derives from it work as ever,
without asking the program. There are three kinds of instances:

    Handle       everything is done in the program
    Relative     of a class that derives from a plain type (int, str, list, …): the data is here and is compared
    RemoteError  an exception: it can be raised and caught here

What the program says decides nothing that the test has the answer to in its hand. A handle equals no plain value, and
an operation with a plain operand reaches the program only on an object that the test made itself (`Vector(1, 2) * 3`),
never on what a function returned (`abs(f(2) - 2.5) < 1e-6`).
"""

import collections
import types
from collections.abc import Callable, Generator, Iterator
from typing import Any, ClassVar

from . import kinds, sharing, specials, values

NUMBER = "_microcoder_number"
MADE = "_microcoder_made"
PREDICATES = frozenset({"startswith", "endswith", "issubset", "issuperset", "isdisjoint", "difference",
                        "symmetric_difference"})  # fmt: skip
"""Methods of plain types that are given an expected value and say whether, or how, one's own differs from it."""
KEEPING = frozenset({"__enter__", "__neg__", "__pos__", "__invert__"})
"""Operations whose result the test made, if it made the object: it asked for no answer."""
COPYING = frozenset({"__reduce__", "__reduce_ex__", "__getstate__", "__copy__", "__deepcopy__"})
LOCAL = specials.DECIDING | COPYING | {"__class__", NUMBER, MADE}
PROTOCOLS = "__array_"  # by such names numpy hands its work to an object's class, and the other operand with it
NATIVE = (*kinds.PLAIN_BASES, collections.defaultdict, collections.OrderedDict)
Tree = values.Tree


class ClassHandle(type):
    """A class of the program. A class statement of the test that derives from one defines the class there too."""

    tester: ClassVar[Any]
    """Whom to ask. There is one in a process."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> "ClassHandle":
        made = type.__new__(mcs, name, bases, namespace)
        type.__setattr__(made, "_microcoder_is_tests", True)
        type.__setattr__(made, "_microcoder_class", ClassHandle.tester.define(made, bases, namespace, options))
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> None:
        type.__init__(cls, name, bases, namespace)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        result = cls.tester.call(cls, arguments, named)
        if isinstance(result, Remote):
            set_made(result, getattr(cls, "_microcoder_is_tests", False) or class_number(cls) in cls.tester.named)
        return result

    def __getattr__(cls, name: str) -> Any:
        if name.startswith(("_microcoder", PROTOCOLS)):
            raise AttributeError(name)
        return cls.tester.ask("attribute", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("__") and name.endswith("__"):
            type.__setattr__(cls, name, value)
        else:
            cls.tester.ask("set", cls, name, value)

    def __delattr__(cls, name: str) -> None:
        cls.tester.ask("delete", cls, name)

    def __getitem__(cls, key: Any) -> Any:
        return cls.tester.ask("subscript", cls, key)

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls.tester.special(cls, "__iter__"))

    def __len__(cls) -> int:
        return int(cls.tester.special(cls, "__len__"))

    def __bool__(cls) -> bool:
        return True

    def __contains__(cls, member: object) -> bool:
        return any(item is member or item == member for item in cls)


def class_number(cls: type) -> int | None:
    """The number of a class of the program; None where it is one that both sides have."""
    number = type.__getattribute__(cls, "_microcoder_class")
    return number if isinstance(number, int) else None


def number_of(value: Any) -> int | None:
    """The number under which the program knows an object."""
    number = object.__getattribute__(value, "__dict__").get(NUMBER)
    return number if isinstance(number, int) else None


def is_made(value: Any) -> bool:
    """Whether the test made an object itself, by calling a class or by an operator on such an object."""
    return bool(object.__getattribute__(value, "__dict__").get(MADE))


def set_made(value: Any, made: bool) -> None:
    object.__getattribute__(value, "__dict__")[MADE] = made


class Member:
    """What a class of the program has under a name. `super().name` ends here, and so does `Class.name`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        tester = ClassHandle.tester
        if instance is None:
            return tester.ask("attribute", owner, self.name)
        here = next(base for base in type(instance).__mro__ if vars(base).get(self.name) is self)
        if isinstance(instance, Handle) or getattr(type(instance), "_microcoder_is_tests", False):
            return tester.ask("inherited", here, self.name, instance)
        base: Any = kinds.find_base(type(instance))
        if base is not None and hasattr(base, self.name) and not is_made(instance):
            return getattr(base, self.name).__get__(instance, owner)  # its data answers: `text.startswith("yes")`
        return tester.ask("attribute", instance, self.name)


class Remote:
    """What every instance of a class of the program has in common."""

    _microcoder_class: ClassVar[int | None] = None

    def __copy__(self) -> Any:
        return ClassHandle.tester.ask("copy", self, False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return ClassHandle.tester.ask("copy", self, True)

    def __setattr__(self, name: str, value: Any) -> None:
        ClassHandle.tester.ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        ClassHandle.tester.ask("delete", self, name)


class Handle(Remote):
    """An object that lives in the program: what is done to it is done there. It equals no plain value."""

    def __getattribute__(self, name: str) -> Any:
        if name in LOCAL:
            return object.__getattribute__(self, name)
        if (name.startswith(PROTOCOLS) and name != "__array__") or (name in PREDICATES and not is_made(self)):
            raise AttributeError(f"{name} of an object that the test didn't make would let the program decide")
        result = ClassHandle.tester.ask("attribute", self, name)
        if result is self:
            set_made(self, False)
        return result

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(number_of(self))

    def __str__(self) -> str:
        return str(ClassHandle.tester.special(self, "__str__"))

    def __repr__(self) -> str:
        return str(ClassHandle.tester.special(self, "__repr__"))


class Relative(Remote):
    """A value of a class that derives from a plain type. Its data is here; only its own methods are the program's."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array") or number_of(self) is None:
            raise AttributeError(name)
        return ClassHandle.tester.ask("attribute", self, name)

    __hash__: Any = None  # the plain type's comes after this class's in the order of bases: it is put into each class


class RemoteError(Remote):
    """An exception of a class of the program's own."""

    __from_program__ = True

    def __getattr__(self, name: str) -> Any:
        if number_of(self) is None or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return ClassHandle.tester.ask("attribute", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or number_of(self) is None:
            object.__setattr__(self, name, value)
        else:
            ClassHandle.tester.ask("set", self, name, value)

    def __str__(self) -> str:
        text = object.__getattribute__(self, "__dict__").get("_microcoder_text")
        return text if isinstance(text, str) else BaseException.__str__(self)  # type: ignore[arg-type]


# --- operations ---------------------------------------------------------------------------------------------------


def perform(method: Any, self: Any, name: str, *arguments: Any) -> Any:
    """An operation there. `method` is the one here that was reached: not the class's own if `super()` led to it."""
    kind = type(self)
    if getattr(kind, name, None) is method:
        return ClassHandle.tester.special(self, name, *arguments)
    here = next(base for base in kind.__mro__ if vars(base).get(name) is method)
    return ClassHandle.tester.ask("inherited", here, name, self)(*arguments)


def forward(name: str) -> Callable[..., Any]:
    """An operation without a second operand, or with a key: the program's to answer."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if name == "__call__":
            return ClassHandle.tester.call(self, arguments, named)
        made = name in KEEPING and is_made(self)
        result = perform(method, self, name, *arguments)
        if isinstance(result, Remote):
            set_made(result, made)
        return result

    method.__name__ = name
    return method


def combine(name: str, base: type | None) -> Callable[[Any, object], Any]:
    """An operator: the program's between its own objects, and where the test made this one."""
    plain = getattr(base, name, None)

    def method(self: Any, other: object, *more: Any) -> Any:
        if not (isinstance(other, Remote) or is_made(self)):
            return NotImplemented if plain is None else plain(self, other, *more)
        made = is_made(self) or (isinstance(other, Remote) and is_made(other))  # before it comes back as the result
        result = perform(method, self, name, other, *more)
        if isinstance(result, Remote):
            set_made(result, made)
        return result

    method.__name__ = name
    return method


def compare(name: str) -> Callable[[Any, object], Any]:
    """An order: as `combine`, but what isn't allowed says so."""

    def method(self: Any, other: object) -> Any:
        if not (isinstance(other, Remote) or is_made(self)):
            raise TypeError(f"an object of the program can't be compared with {other!r}: only its data could be")
        result = perform(method, self, name, other)
        return result if result is NotImplemented else result is True

    method.__name__ = name
    return method


def equal(self: Any, other: object) -> bool:
    """Between objects of the program, the program says; anything else is unequal."""
    if self is other:
        return True
    return isinstance(other, Handle) and perform(equal, self, "__eq__", other) is True


def contains(self: Any, member: object) -> bool:
    """By the members, which are data. Only what the test made, or a member of the program's own, is asked about."""
    if is_made(self) or isinstance(member, Handle):
        return perform(contains, self, "__contains__", member) is True
    return any(item is member or item == member for item in self)


def hash_of(self: Any) -> int:
    return int(perform(hash_of, self, "__hash__"))


def send_nothing(self: Any, value: Any) -> Any:
    """A coroutine of the program runs there from beginning to end, in one step of ours."""
    raise StopIteration(ClassHandle.tester.ask("await", self))


def await_there(self: Any) -> Generator[None, None, Any]:
    result = ClassHandle.tester.ask("await", self)
    return result
    yield


def find_operations(names: list[str], base: type | None) -> dict[str, Any]:
    """The special methods of a class here. `base`: the plain type that its instances' data is of."""
    found: dict[str, Any] = {}
    for name in names:
        if name in specials.OPERATORS:
            found[name] = combine(name, base)
        elif base is None and name in specials.ORDER:
            found[name] = compare(name)
        elif name in specials.ASKING and (base is None or name not in DATA):
            found[name] = forward(name)
    if base is None:
        owned = {"__eq__": equal, "__contains__": contains, "__hash__": hash_of, "__await__": await_there}
        found.update((name, method) for name, method in owned.items() if name in names)
    return found


DATA = frozenset({"__len__", "__iter__", "__next__", "__reversed__", "__bool__", "__int__", "__float__", "__complex__",
                  "__index__", "__hash__", "__abs__", "__neg__", "__dir__"})  # fmt: skip
"""What is answered from the data of a Relative."""


# --- classes and instances ----------------------------------------------------------------------------------------


def make_class(name: str, bases: list[type], names: list[str], own: list[str], fields: list[str] | None) -> type:
    """A class that stands for one of the program's, where `bases` are already here."""
    if not all(map(specials.is_member, own)):
        raise ValueError("a class has a member that no honest program shows")
    if fields is not None and tuple in bases:
        bases = [collections.namedtuple(name, fields) if base is tuple else base for base in bases]
    useful: list[type] = [base for base in bases if isinstance(base, ClassHandle) or issubclass(base, BaseException)]
    plain = next((found for base in bases if (found := kinds.find_base(base)) is not None), None)
    if plain is not None:
        useful += [base for base in bases if base not in useful and issubclass(base, plain)]
    is_error = any(issubclass(base, BaseException) for base in useful)
    root = RemoteError if is_error else Handle if plain is None else Relative
    namespace: dict[str, Any] = {
        member: Member(member) for member in own if fields is None or not (member in fields or member[0] == "_")
    }
    namespace.update({} if is_error else find_operations(names, plain), __module__="__main__")
    if root is Relative and plain is not None:
        namespace["__hash__"] = plain.__hash__
    if not any(issubclass(base, root) for base in useful):
        useful.insert(0, root)
    try:
        return type.__new__(ClassHandle, name, tuple(useful), namespace)
    except TypeError:  # bases that agree in the program only
        return type.__new__(ClassHandle, name, (root, *([plain] if plain else [])), namespace)


def find_foreign(kind: type) -> type:
    """The class for objects of a type that both sides have but that doesn't pass as data: functions, generators, …"""
    return FOREIGN.get(kind) or FOREIGN.setdefault(kind, make_foreign(kind))


def make_foreign(kind: type) -> type:
    namespace = find_operations(specials.find(kind), None)
    namespace.update(__class__=property(lambda self: kind), __module__="__main__")
    if kind is types.CoroutineType:
        namespace.update(send=send_nothing, __getattribute__=get_from_coroutine)
    return type.__new__(ClassHandle, kind.__name__, (Handle,), namespace)


def get_from_coroutine(self: Any, name: str) -> Any:
    return object.__getattribute__(self, name) if name == "send" else Handle.__getattribute__(self, name)


FOREIGN: dict[type, type] = {
    kind: make_foreign(kind) for kind in (types.FunctionType, types.MethodType, types.GeneratorType)
}
"""Made before anything is forked, as far as nearly every test needs them."""


def make_instance(cls: type, number: int) -> Any:
    """A handle, of an ordinary class."""
    handle: Any = object.__new__(cls)
    object.__getattribute__(handle, "__dict__")[NUMBER] = number
    return handle


def make_relative(cls: type, number: int, data: Any) -> Any:
    """A value of a class that derives from a plain type."""
    base: Any = next((base for base in cls.__mro__ if base in NATIVE), None)
    if base is None or not isinstance(data, kinds.find_base(base) or ()):
        raise ValueError("the data isn't of the class's plain type")
    if base in kinds.MUTABLE:
        value = base.__new__(cls)
        sharing.fill(value, data)
    else:
        value = base.__new__(cls, data)
    object.__getattribute__(value, "__dict__")[NUMBER] = number
    return value


def make_error(cls: type[BaseException], number: int | None, arguments: tuple[Any, ...], text: str | None) -> Any:
    """An exception, as it was raised there."""
    native: Any = next(base for base in cls.__mro__ if base.__module__ != __name__ and type(base) is not ClassHandle)
    try:
        error = native.__new__(cls, *arguments)
        native.__init__(error, *arguments)
    except TypeError:  # it takes other arguments than it keeps
        error = BaseException.__new__(cls)
        error.args = arguments
    inside = object.__getattribute__(error, "__dict__")
    inside["__from_program__"] = True
    if text is not None:
        inside["_microcoder_text"] = text
    if number is not None:
        inside[NUMBER] = number
    return error
