"""Plain values as bytes and back: what a program returned, and what the two processes of an assertion test exchange.

A value is written by its exact base type, through that type's own methods, so an overridden `__eq__`, `__iter__` or
`__class__` gains nothing: what arrives is data. JSON carries it, because JSON can be read without trusting its writer.

    null, booleans, strings, floats, small integers, lists   as they are (NaN and Infinity in Python's spelling)
    anything else                                            {"$": tag, "v": content}

What a call gave is one line, the value. Where that is None, a second line holds the arguments as the call left them,
and a third, where there is one, says why they aren't the answer.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

Tree = Any
"""What JSON can say."""
Reader = Callable[["Decoder", Any], Any]

MAX_DEPTH = 200
MAX_ITEMS = 4_000_000
MAX_COLLISIONS = 1000
SMALL = 1 << 200  # larger integers travel in hexadecimal: linear time both ways, and no limit on digits

_dumps = json.dumps
_loads = json.loads
_STRINGS = re.compile(rb'"(?:[^"\\\\]++|\\\\.)*+"')
_ATOMS = frozenset({bool, str, float, type(None)})
_FLAT = frozenset({bool, str, float, int, type(None)})
_ITERATORS = (
    "generator", "range", "map", "filter", "zip", "enumerate", "reversed", "list_iterator", "tuple_iterator",
    "dict_keys", "dict_values", "dict_items", "deque", "list_reverseiterator", "set_iterator", "array",
    "dict_keyiterator", "dict_valueiterator", "dict_itemiterator", "str_iterator", "str_ascii_iterator",
    "range_iterator", "chain", "islice", "accumulate", "permutations", "combinations", "product", "starmap",
    "takewhile", "dropwhile", "groupby", "count", "cycle", "repeat", "compress", "filterfalse", "zip_longest",
    "combinations_with_replacement", "pairwise", "batched", "callable_iterator", "memoryview", "odict_keys",
    "odict_values", "odict_items", "odict_iterator",
)  # fmt: skip


class Opaque:
    """A value of another kind: equal to nothing but itself."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        return f"<object of type {self.type_name}>"


class Unencodable(ValueError):
    """Too deep, too large, or it failed while it was read."""


class Encoder:
    """Turns values into JSON trees. `opaque(value)` writes what has no plain form."""

    def __init__(self, opaque: Callable[[Any], Tree] | None = None) -> None:
        self.opaque = opaque or describe
        self.items = 0

    def tree(self, value: Any, depth: int = 0) -> Tree:
        kind = type(value)
        if kind in _ATOMS:
            return value
        if depth > MAX_DEPTH:
            raise Unencodable("the value is nested too deeply")
        base = next((base for base in kind.__mro__ if base in self.WRITERS), None)
        if base is not None:
            return self.WRITERS[base](self, value, depth)
        if kind.__name__ in _ITERATORS and module_of(kind) in ("builtins", "itertools", "collections", "array"):
            return {"$": "iterator", "v": self.sequence(value, depth)}
        for base in kind.__mro__:
            if module_of(base).partition(".")[0] == "numpy":
                return self.numpy(value, base, depth)
        return self.other(value, depth)

    def other(self, value: Any, depth: int) -> Tree:
        """Write what is none of the kinds above."""
        return self.opaque(value)

    def sequence(self, values: Iterable[Any], depth: int) -> list[Tree]:
        out = []
        for value in values:
            self.count()
            out.append(self.tree(value, depth + 1))
        return out

    def count(self, items: int = 1) -> None:
        self.items += items
        if self.items > MAX_ITEMS:
            raise Unencodable("the value has too many elements")

    def write_integer(self, value: int, depth: int) -> Tree:
        value = int.__add__(value, 0)
        return value if -SMALL < value < SMALL else {"$": "int", "v": hex(value)}

    def write_real(self, value: float, depth: int) -> Tree:
        return float.__mul__(value, 1.0)

    def write_text(self, value: str, depth: int) -> Tree:
        return str.__str__(value)

    def write_list(self, value: list[Any], depth: int) -> Tree:
        value = list.__getitem__(value, slice(None))
        kinds = set(map(type, value))
        if kinds <= _FLAT:  # the common case, at the speed of C
            self.count(len(value))
            if int not in kinds:
                return value
            numbers = [item for item in value if type(item) is int] if len(kinds) > 1 else value
            if min(numbers) > -SMALL and max(numbers) < SMALL:
                return value
        return self.sequence(value, depth)

    def write_tuple(self, value: tuple[Any, ...], depth: int) -> Tree:
        return {"$": "tuple", "v": self.write_list(list(tuple.__getitem__(value, slice(None))), depth)}

    def write_dict(self, value: dict[Any, Any], depth: int) -> Tree:
        return {"$": "dict", "v": [self.sequence(pair, depth) for pair in list(dict.items(value))]}

    def write_set(self, value: set[Any], depth: int) -> Tree:
        return {"$": "set", "v": self.sequence(list(set.__iter__(value)), depth)}

    def write_frozenset(self, value: frozenset[Any], depth: int) -> Tree:
        return {"$": "frozenset", "v": self.sequence(list(frozenset.__iter__(value)), depth)}

    def write_bytes(self, value: bytes, depth: int) -> Tree:
        return {"$": "bytes", "v": bytes.hex(value)}

    def write_bytearray(self, value: bytearray, depth: int) -> Tree:
        return {"$": "bytearray", "v": bytearray.hex(value)}

    def write_complex(self, value: complex, depth: int) -> Tree:
        return {"$": "complex", "v": [complex.__getattribute__(value, "real"), complex.__getattribute__(value, "imag")]}

    def numpy(self, value: Any, kind: Any, depth: int) -> Tree:
        """Write an array or a scalar of numpy's class `kind`, or of one derived from it."""
        if any(base.__name__ == "ndarray" for base in kind.__mro__):
            tree = self.tree(kind.tolist(value), depth + 1)
            return None if tree is None else {"$": "ndarray", "v": tree}
        plain = kind.item(value) if hasattr(kind, "item") else value
        if isinstance(plain, kind):  # a number longer than Python's own, or nothing that has a plain form
            return float(plain) if kind.__name__ == "longdouble" else self.other(value, depth)
        return self.tree(plain, depth + 1)

    WRITERS: ClassVar[dict[type, Callable[..., Tree]]] = {
        int: write_integer, float: write_real, str: write_text, list: write_list, tuple: write_tuple, dict: write_dict,
        set: write_set, frozenset: write_frozenset, bytes: write_bytes, bytearray: write_bytearray,
        complex: write_complex,
    }  # fmt: skip


def module_of(kind: type) -> str:
    """The name of the module that a class says it is from."""
    name = getattr(kind, "__module__", "")
    return name if isinstance(name, str) else ""


def describe(value: object) -> Tree:
    """What is said of a value that has no plain form: its type's name, and nothing that it could lie with."""
    name = type.__getattribute__(type(value), "__name__")
    return {"$": "object", "v": str.__str__(name)[:100]}


def encode(value: object, opaque: Callable[[Any], Tree] | None = None) -> bytes:
    """Bytes of a value.

    Raises:
        Unencodable: it nests too deeply or has too many elements. Whatever the value's own iterator raises, too.
    """
    return dump(Encoder(opaque).tree(value))


def dump(tree: Tree) -> bytes:
    """A JSON tree as bytes."""
    return _dumps(tree, ensure_ascii=True, separators=(",", ":")).encode("ascii")


class Decoder:
    """Turns JSON trees into values. `extra` maps further tags to functions of the content."""

    def __init__(self, extra: dict[str, Reader] | None = None) -> None:
        self.readers = {**self.READERS, **(extra or {})}

    def value(self, tree: Tree) -> Any:
        kind = type(tree)
        if kind is list:
            return tree if set(map(type, tree)) <= _FLAT else [self.value(item) for item in tree]
        if kind is not dict:
            return tree
        reader = self.readers.get(tree.get("$"))
        if reader is None:
            raise ValueError("unknown tag")
        return reader(self, tree.get("v"))

    def mapping(self, pairs: list[tuple[Tree, Tree]]) -> dict[object, Any]:
        """The dictionary of these pairs."""
        keys = distinct(self.value(key) for key, _ in pairs)
        return dict(zip(keys, (self.value(item) for _, item in pairs), strict=True))

    READERS: ClassVar[dict[str, Reader]] = {
        "int": lambda self, content: int(content, 16),
        "tuple": lambda self, content: tuple(self.value(content)),
        "dict": lambda self, content: self.mapping(content),
        "set": lambda self, content: set(distinct(self.value(content))),
        "frozenset": lambda self, content: frozenset(distinct(self.value(content))),
        "bytes": lambda self, content: bytes.fromhex(content),
        "bytearray": lambda self, content: bytearray.fromhex(content),
        "complex": lambda self, content: complex(*content),
        "ndarray": lambda self, content: self.value(content),
        "iterator": lambda self, content: self.value(content),
        "object": lambda self, content: Opaque(str(content)[:100].encode("utf-8", "replace").decode()),
    }


def freeze(value: object) -> object:
    """A key or member: what can't be one (a forged message) becomes opaque."""
    try:
        hash(value)
    except TypeError:
        return Opaque("unhashable")
    return value


def distinct(members: Iterable[object]) -> list[object]:
    """Keys or members, as a dictionary or a set may have them: hashable, and not chosen to share one hash.

    Raises:
        ValueError: so many do that putting them in would take quadratic time.
    """
    frozen = list(map(freeze, members))
    if len(frozen) - len(set(map(hash, frozen))) > MAX_COLLISIONS:
        raise ValueError("too many members share their hash")
    return frozen


def decode(data: bytes, extra: dict[str, Reader] | None = None) -> Any:
    """The value in `data`, which may be forged: only plain values can come out, and not much larger than `data`.

    Raises:
        ValueError: it isn't an encoded value.
    """
    if data.count(b",") > 2 * MAX_ITEMS and _STRINGS.sub(b"", data).count(b",") > 2 * MAX_ITEMS:
        raise ValueError("too many elements")
    try:
        return Decoder(extra).value(_loads(data))
    except (TypeError, AttributeError, RecursionError, KeyError, ArithmeticError) as error:
        raise ValueError(f"not an encoded value: {type(error).__name__}") from error


class Result(NamedTuple):
    """What a call gave."""

    value: Any
    arguments: list[Any]
    """As the call left them, where it returned None: the answer to an in-place problem is among them."""
    objection: str | None
    """Why none of the arguments is the answer: the program says itself that it returns one."""


def decode_result(data: bytes) -> Result:
    """The result in `data`, which may be forged.

    Raises:
        ValueError: it isn't one, whole and alone.
    """
    lines = data.split(b"\n", 3)
    value = decode(lines[0])
    if value is not None:
        if len(lines) > 1:
            raise ValueError("more than one value")
        return Result(value, [], None)
    if len(lines) not in (2, 3):
        raise ValueError("None comes with the arguments, and perhaps an objection")
    arguments, objection = decode(lines[1]), decode(lines[2]) if len(lines) == 3 else None
    if type(arguments) is not list or type(objection) not in (str, type(None)):
        raise ValueError("arguments are a list, an objection is text")
    return Result(value, arguments, objection)
