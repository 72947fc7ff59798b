"""Plain values as bytes and back: what is written is data, and what is read can be nothing else."""

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.sandbox.runner.values import MAX_DEPTH, Opaque, Unencodable, decode, encode

atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
hashable = st.recursive(atoms, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5)
values = st.recursive(
    atoms | st.sets(hashable, max_size=4) | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(hashable, inner, max_size=4),
    max_leaves=20,
)


def same(left: object, right: object) -> bool:
    """Equal, of the same types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return len(left) == len(right) and all(map(same, left.items(), right.items()))
    return left == right


@given(values)
def test_what_is_written_is_read(value: object):
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 2**200, -(2**200), 0, -0.0, "\ud800", "", b"", (), {}, set()])
def test_edges_survive(value: object):
    assert same(decode(encode(value)), value)
    assert same(decode(encode([value, value])), [value, value])


def test_integers_of_any_length_survive():
    for value in (10**50_000, -(10**50_000)):
        assert decode(encode(value)) == value


def test_nan_survives():
    assert math.isnan(decode(encode(math.nan)))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, {1: 2}), {1: 2}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (deque([1, 2]), [1, 2]),
        (range(3), [0, 1, 2]),
        ((n for n in (1, 2)), [1, 2]),
        (map(str, [1]), ["1"]),
        ({1: 2}.keys(), [1]),
        (np.int32(5), 5),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array(["a"]), ["a"]),
        (np.str_("a"), "a"),
        (bytearray(b"x"), bytearray(b"x")),
    ],
)
def test_relatives_of_plain_values_become_plain(value: object, plain: object):
    assert same(decode(encode(value)), plain)


class Liar(list):
    def __eq__(self, other):
        return True

    __hash__ = None

    def __iter__(self):
        return iter([9])

    def __len__(self):
        return 9

    def __getitem__(self, index):
        return 9

    __class__ = str


class Number(int):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __add__(self, other):
        return 99

    __int__ = __index__ = __add__


class Text(str):
    def __str__(self):
        return "lie"

    __repr__ = __format__ = __str__

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class Pairs(dict):
    def items(self):
        return [(9, 9)]

    __iter__ = items


def test_overridden_methods_gain_nothing():
    value = [Liar([1, 2]), Number(3), Text("x"), Pairs({1: 2}), type("F", (float,), {"__float__": lambda s: 9.0})(1.5)]
    assert same(decode(encode(value)), [[1, 2], 3, "x", {1: 2}, 1.5])


def test_other_objects_become_opaque_and_equal_nothing():
    class Equal:
        def __eq__(self, other):
            return True

        __hash__ = None

    for value in (Equal(), object(), print, Decimal(1), Fraction(1, 2), len):
        read = decode(encode(value))
        assert isinstance(read, Opaque)
        assert read != 1
    assert decode(encode([Equal()]))[0].type_name == "Equal"


def test_opaque_values_can_be_written_by_the_caller():
    assert decode(encode([object()], lambda value: {"$": "mine", "v": 7}), {"mine": lambda _, content: content}) == [7]


def test_recursion_depth_and_size_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("evaluator.sandbox.runner.values.MAX_ITEMS", 1000)
    loop: list = []
    loop.append(loop)
    deep: list = []
    for _ in range(MAX_DEPTH + 5):
        deep = [deep]
    for value in (loop, deep, iter(int, 1)):
        with pytest.raises(Unencodable):
            encode(value)
    with pytest.raises(Unencodable):
        encode([None] * 1001)


def test_errors_of_the_values_own_iterator_come_through():
    def broken():
        yield 1
        raise KeyError("own")

    with pytest.raises(KeyError):
        encode(broken())


@pytest.mark.parametrize("data", [
    b"", b"nonsense", b"{}",
    b'{"$":"evil","v":1}', b'{"$":"int","v":5}', b'{"$":"int","v":"zz"}', b'{"$":"dict","v":[1]}',
    b'{"$":"dict","v":[[1]]}', b'{"$":"complex","v":[1,2,3]}', b'{"$":"bytes","v":"xyz"}', b'{"$":["x"]}', b'{"v":1}',
    b'{"$":"set","v":3}', b"[" * 100_000, b'{"$":"tuple","v":' * 5000, b"\xff\xfe", b'{"$":null,"v":1}', b"1 2",
    b'{"$":"complex","v":["a","b"]}', b"9" * 10_000, b'{"$":"complex","v":[1%b,0]}' % (b"0" * 400),
])  # fmt: skip
def test_forged_bytes_are_a_value_error(data: bytes):
    with pytest.raises(ValueError):
        decode(data)


TAGS = ("int", "tuple", "dict", "set", "frozenset", "bytes", "bytearray", "complex", "ndarray", "iterator", "object")


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.fixed_dictionaries({"$": st.sampled_from(TAGS), "v": inner}),
    max_leaves=8))  # fmt: skip
def test_whatever_is_forged_comes_out_plain_or_not_at_all(tree: object):
    try:
        value = decode(json.dumps(tree).encode())
    except ValueError:
        return
    assert_plain(value)


def assert_plain(value: object) -> None:
    """Nothing but plain types, all the way down."""
    kinds = (type(None), bool, int, float, str, bytes, bytearray, complex, Opaque)
    if type(value) in (list, tuple, set, frozenset):
        for item in value:
            assert_plain(item)
    elif type(value) is dict:
        for pair in value.items():
            assert_plain(pair)
    else:
        assert type(value) in kinds, type(value)
