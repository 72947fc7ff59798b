"""What passes as data between the two processes of an assertion test, beyond `values`: by exact type, and back.

The common types of the standard library and numpy's arrays arrive as themselves, written field by field through their
own type's methods. Types and functions of the standard library pass by name. A subclass that the program made, and
everything else, is for the side that writes to describe (`others`).
"""

import array
import binascii
import collections
import datetime
import decimal
import fractions
import sys
import types
from collections.abc import Callable
from typing import Any

from . import references, sharing, values

PLAIN_BASES = (int, float, complex, str, bytes, tuple, frozenset, list, dict, set, bytearray)
MUTABLE = frozenset({list, dict, set, bytearray, collections.deque, collections.defaultdict, collections.Counter,
                     collections.OrderedDict})  # fmt: skip
NUMPY_KINDS = frozenset("biufcSUmM")
CONSTANTS = {type(value): (name, value) for name, value in {"...": ..., "NotImplemented": NotImplemented}.items()}
COMPOUND = frozenset({list, dict})
_ATOMS = frozenset({bool, str, float, type(None)})
Others = Callable[["Encoder", Any, int], values.Tree]


class Encoder(values.Encoder):
    """Writes one message. `others` writes what has no plain form; `shared` knows what both sides hold."""

    def __init__(self, others: Others, shared: sharing.Shared, *, adopt: bool = False) -> None:
        super().__init__()
        self.others = others
        self.shared = shared
        self.group = sharing.Group()
        self.adopts = adopt
        """Whether containers that aren't shared yet become it."""

    def tree(self, value: Any, depth: int = 0) -> values.Tree:
        kind = type(value)
        if kind in _ATOMS:
            return value
        if depth > values.MAX_DEPTH:
            raise values.Unencodable("the value is nested too deeply")
        writer = WRITERS.get(kind)
        if writer is None:
            writer = find_writer(value)
        if writer is None:
            return self.others(self, value, depth)
        if kind in MUTABLE or writer is write_array:
            return self.container(value, depth, writer)
        return writer(self, value, depth)

    def container(self, value: Any, depth: int, writer: Callable[..., values.Tree]) -> values.Tree:
        """A list or the like. One that both sides hold is written with its key, so that it stays the same object."""
        key = self.shared.keys.get(id(value))
        if key is None:
            if not self.adopts or len(self.group.keys) >= sharing.MAX_CONTAINERS:
                return writer(self, value, depth)
            key = self.shared.add(value)
        if key in self.group.keys:
            return {"$": "shared", "v": [key]}
        self.group.enter(key)
        tree = {"$": "shared", "v": [key, writer(self, value, depth)]}
        self.group.leave()
        return tree


def find_writer(value: object) -> Callable[..., values.Tree] | None:
    """For what can't be looked up by its type: numpy's values, and what passes by name."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.ndarray):
            return write_array if value.dtype.kind in NUMPY_KINDS or value.dtype.kind == "O" else None
        if isinstance(value, numpy.generic):
            return write_scalar if value.dtype.kind in NUMPY_KINDS else None
    if type(value).__name__ == "Field" and type(value).__module__ == "dataclasses":
        return write_field
    return write_name if references.find_name(value) is not None else None


def write_name(encoder: Encoder, value: Any, depth: int) -> values.Tree:
    return {"$": "named", "v": references.find_name(value)}


def write_field(encoder: Encoder, value: Any, depth: int) -> values.Tree:
    """A field of a dataclass, as `dataclasses.fields`, `asdict` and `replace` need it."""
    return {"$": "field", "v": [value.name, value.init, value.repr, value.compare, value._field_type.name]}


def read_field(decoder: values.Decoder, content: list[values.Tree]) -> Any:
    name, init, shown, compared, kind = content
    dataclasses = __import__("dataclasses")
    field = dataclasses.field(init=bool(init), repr=bool(shown), compare=bool(compared))
    field.name = str(name)
    kinds = (dataclasses._FIELD, dataclasses._FIELD_CLASSVAR, dataclasses._FIELD_INITVAR)
    field._field_type = next(found for found in kinds if found.name == kind)
    return field


def write_array(encoder: Encoder, value: Any, depth: int) -> values.Tree:
    if value.dtype.kind == "O":
        return {"$": "array", "v": ["O", list(value.shape), encoder.sequence(value.ravel().tolist(), depth)]}
    data = binascii.b2a_base64(value.tobytes(), newline=False).decode("ascii")
    return {"$": "array", "v": [value.dtype.str, list(value.shape), data]}


def write_scalar(encoder: Encoder, value: Any, depth: int) -> values.Tree:
    data = binascii.b2a_base64(value.tobytes(), newline=False).decode("ascii")
    return {"$": "scalar", "v": [value.dtype.str, data]}


def read_array(decoder: values.Decoder, content: list[values.Tree]) -> Any:
    kind, shape, data = content
    numpy = __import__("numpy")
    if kind == "O":
        flat = numpy.empty(len(data), dtype=object)
        for index, item in enumerate(decoder.value(data)):
            flat[index] = item
    else:
        flat = numpy.frombuffer(binascii.a2b_base64(data), read_dtype(numpy, kind)).copy()
    return flat.reshape(shape)


def read_scalar(decoder: values.Decoder, content: list[values.Tree]) -> Any:
    numpy = __import__("numpy")
    return numpy.frombuffer(binascii.a2b_base64(content[1]), read_dtype(numpy, content[0]))[0]


def read_dtype(numpy: Any, text: values.Tree) -> Any:
    dtype = numpy.dtype(text) if type(text) is str else None
    if dtype is None or dtype.kind not in NUMPY_KINDS:
        raise ValueError("an array of unknown type")
    return dtype


def write_datetime(encoder: Encoder, value: datetime.datetime, depth: int) -> values.Tree:
    if value.tzinfo is not None and type(value.tzinfo) is not datetime.timezone:
        return encoder.others(encoder, value, depth)
    fields = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, value.fold]
    return {"$": "datetime", "v": [*fields, encoder.tree(value.tzinfo, depth + 1)]}


def write_time(encoder: Encoder, value: datetime.time, depth: int) -> values.Tree:
    if value.tzinfo is not None and type(value.tzinfo) is not datetime.timezone:
        return encoder.others(encoder, value, depth)
    fields = [value.hour, value.minute, value.second, value.microsecond, value.fold]
    return {"$": "time", "v": [*fields, encoder.tree(value.tzinfo, depth + 1)]}


def read_datetime(decoder: values.Decoder, content: list[values.Tree]) -> datetime.datetime:
    *fields, fold, zone = content
    return datetime.datetime(*fields).replace(tzinfo=decoder.value(zone), fold=fold)


def read_time(decoder: values.Decoder, content: list[values.Tree]) -> datetime.time:
    *fields, fold, zone = content
    return datetime.time(*fields).replace(tzinfo=decoder.value(zone), fold=fold)


def write_timezone(encoder: Encoder, value: datetime.timezone, depth: int) -> values.Tree:
    return {"$": "timezone", "v": [encoder.tree(value.utcoffset(None)), value.tzname(None)]}


def read_timezone(decoder: values.Decoder, content: list[values.Tree]) -> datetime.timezone:
    zone = datetime.timezone(decoder.value(content[0]))
    return zone if zone.tzname(None) == content[1] else datetime.timezone(decoder.value(content[0]), content[1])


def fields(tag: str, *names: str) -> Callable[..., values.Tree]:
    """A writer of these attributes, in this order."""

    def write(encoder: Encoder, value: Any, depth: int) -> values.Tree:
        return {"$": tag, "v": [encoder.tree(getattr(value, name), depth + 1) for name in names]}

    return write


def pairs(tag: str) -> Callable[..., values.Tree]:
    """A writer of a dictionary's relative."""

    def write(encoder: Encoder, value: Any, depth: int) -> values.Tree:
        return {"$": tag, "v": [encoder.sequence(pair, depth) for pair in list(value.items())]}

    return write


def members(tag: str) -> Callable[..., values.Tree]:
    """A writer of something that has members in an order."""

    def write(encoder: Encoder, value: Any, depth: int) -> values.Tree:
        return {"$": tag, "v": encoder.sequence(list(value), depth)}

    return write


def write_defaultdict(encoder: Encoder, value: collections.defaultdict[Any, Any], depth: int) -> values.Tree:
    factory = encoder.tree(value.default_factory, depth + 1)
    return {"$": "defaultdict", "v": [factory, [encoder.sequence(pair, depth) for pair in list(value.items())]]}


def read_defaultdict(decoder: values.Decoder, content: list[values.Tree]) -> collections.defaultdict[Any, Any]:
    factory = decoder.value(content[0])
    return collections.defaultdict(factory if callable(factory) else None, decoder.mapping(content[1]))


def write_deque(encoder: Encoder, value: collections.deque[Any], depth: int) -> values.Tree:
    return {"$": "deque", "v": [encoder.sequence(list(value), depth), value.maxlen]}


def write_typed_array(encoder: Encoder, value: "array.array[Any]", depth: int) -> values.Tree:
    return {"$": "typed array", "v": [value.typecode, encoder.sequence(value.tolist(), depth)]}


def write_constant(encoder: Encoder, value: object, depth: int) -> values.Tree:
    return {"$": "constant", "v": CONSTANTS[type(value)][0]}


def read_counter(decoder: values.Decoder, content: list[values.Tree]) -> collections.Counter[Any]:
    counter: collections.Counter[Any] = collections.Counter()
    dict.update(counter, decoder.mapping(content))
    return counter


def read_set(decoder: values.Decoder, content: list[values.Tree]) -> set[Any]:
    """With the members in the order that they had: it depends on how large the table once grew."""
    order = values.distinct(decoder.value(content))
    grown = set(order)
    compact = set(grown)
    return compact if list(grown) != order and list(compact) == order else grown


def own(name: str) -> Callable[..., values.Tree]:
    """A writer of `values.Encoder`, by its name."""
    writer: Callable[..., values.Tree] = getattr(values.Encoder, name)
    return writer


BASE_WRITERS: dict[type, Callable[..., values.Tree]] = {
    int: own("write_integer"), float: own("write_real"), complex: own("write_complex"), str: own("write_text"),
    bytes: own("write_bytes"), tuple: own("write_tuple"), frozenset: own("write_frozenset"), list: own("write_list"),
    dict: own("write_dict"), set: own("write_set"), bytearray: own("write_bytearray"),
}  # fmt: skip
WRITERS: dict[type, Callable[..., values.Tree]] = {
    **BASE_WRITERS,
    range: fields("range", "start", "stop", "step"),
    slice: fields("slice", "start", "stop", "step"),
    datetime.date: fields("date", "year", "month", "day"),
    datetime.timedelta: fields("timedelta", "days", "seconds", "microseconds"),
    datetime.datetime: write_datetime,
    datetime.time: write_time,
    datetime.timezone: write_timezone,
    decimal.Decimal: lambda encoder, value, depth: {"$": "decimal", "v": str(value)},
    fractions.Fraction: fields("fraction", "numerator", "denominator"),
    collections.Counter: pairs("counter"),
    collections.OrderedDict: pairs("ordered"),
    collections.defaultdict: write_defaultdict,
    collections.deque: write_deque,
    array.array: write_typed_array,
    types.MappingProxyType: pairs("proxy"),
    type({}.keys()): members("keys"),
    type({}.values()): members("values"),
    type({}.items()): members("items"),
    types.EllipsisType: write_constant,
    types.NotImplementedType: write_constant,
    types.TracebackType: lambda encoder, value, depth: None,
}
READERS: dict[str, Callable[..., Any]] = {
    **values.Decoder.READERS,
    "named": lambda decoder, content: references.resolve(*content),
    "field": read_field,
    "array": read_array,
    "scalar": read_scalar,
    "set": read_set,
    "range": lambda decoder, content: range(*decoder.value(content)),
    "slice": lambda decoder, content: slice(*decoder.value(content)),
    "date": lambda decoder, content: datetime.date(*content),
    "timedelta": lambda decoder, content: datetime.timedelta(*content),
    "datetime": read_datetime,
    "time": read_time,
    "timezone": read_timezone,
    "decimal": lambda decoder, content: decimal.Decimal(content),
    "fraction": lambda decoder, content: fractions.Fraction(*decoder.value(content)),
    "counter": read_counter,
    "ordered": lambda decoder, content: collections.OrderedDict(decoder.mapping(content)),
    "defaultdict": read_defaultdict,
    "deque": lambda decoder, content: collections.deque(decoder.value(content[0]), content[1]),
    "typed array": lambda decoder, content: array.array(content[0], decoder.value(content[1])),
    "proxy": lambda decoder, content: types.MappingProxyType(decoder.mapping(content)),
    "keys": lambda decoder, content: dict.fromkeys(decoder.value(content)).keys(),
    "values": lambda decoder, content: dict(enumerate(decoder.value(content))).values(),
    "items": lambda decoder, content: dict(decoder.value(content)).items(),
    "constant": lambda decoder, content: dict(CONSTANTS.values())[content],
}
MALFORMED = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, ImportError, MemoryError,
)  # fmt: skip
"""What reading a tree raises where no honest writer wrote it."""


class Decoder(values.Decoder):
    """Reads one message. `extra` reads the tags that belong to one side."""

    def __init__(self, extra: dict[str, Callable[..., Any]], shared: sharing.Shared) -> None:
        self.extra = extra  # apart from READERS: to copy those would touch each function's page in each child
        self.shared = shared
        self.group = sharing.Group()

    def value(self, tree: values.Tree) -> Any:
        kind = type(tree)
        if kind is list:
            return [self.value(item) if type(item) in COMPOUND else item for item in tree]
        if kind is not dict:
            return tree
        tag = tree.get("$")
        reader = self.extra.get(tag) or READERS.get(tag)
        if reader is None:
            raise ValueError("an unknown tag")
        return reader(self, tree.get("v"))


def read_shared(decoder: Any, content: list[values.Tree]) -> Any:
    """A container that both sides hold: the one that is here already, brought to this content, or a new one."""
    key, *rest = content
    mine = decoder.shared.objects.get(key)
    if not rest:
        if mine is None:
            raise ValueError("an unknown container")
        return mine
    if mine is None:
        mine = sharing.make_blank(rest[0])
        if mine is not None:  # before its members are read: one of them may be itself
            decoder.shared.add(mine, key)
    decoder.group.enter(key, {"$": "shared", "v": content})
    value = decoder.value(rest[0])
    decoder.group.leave()
    if mine is None:
        decoder.shared.add(value, key)
        return value
    sharing.fill(mine, value)
    return mine


READERS["shared"] = read_shared


def find_base(kind: type) -> type | None:
    """The plain type that a class derives from."""
    return next((base for base in kind.__mro__ if base in PLAIN_BASES), None)
