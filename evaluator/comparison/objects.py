"""Equality of two values, at any depth, under a relation that says what may differ.

The expected value comes from text (`literals`), the actual one from the program by way of its box: None, bool, int,
float, complex, str, bytes, list, tuple, set, frozenset, dict of exactly these types. An object of any other type equals
nothing: its own idea of equality is never asked. Walks without recursion, so that no nesting harms it.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from evaluator.comparison.literals import GiantInteger, parse
from evaluator.comparison.numerals import Tolerance, close_value
from evaluator.comparison.unordered import leftover, unpaired
from evaluator.comparison.wording import IN_ANY_ORDER, NOTHING, spell_path
from evaluator.model import Order

_KEY_DEPTH = 100
_UNORDERED_DEPTH = 40
_STEPS = 500_000
_INTEGERS: Final = (int, GiantInteger)
_NUMBERS: Final = (int, float, bool, complex, GiantInteger)
_SEQUENCES: Final = (list, tuple)
_PLAIN: Final = {int, str}
_SETS: Final = (set, frozenset)


@dataclass(frozen=True, slots=True)
class Relation:
    """What may differ between equal values. All False: the same types and the same values (nan equals nan)."""

    sequences: bool = False
    """A tuple is a list."""
    numbers: bool = False
    """2, 2.0 and 2+0j are equal, as in Python."""
    booleans: bool = False
    """True is 1 and False is 0, as in Python."""
    keys: bool = False
    """A dictionary's key may be what a JSON key spells: 1 for "1", (1, 2) for "(1, 2)"."""
    tolerance: Tolerance | None = None
    """Where the expected number is a float, or everywhere."""
    sets: bool = False
    """Where a set is expected, a list of its items without repeats will do."""
    sets_as_lists: bool = False
    """Where an ascending list without repeats is expected, a set of its items will do."""
    order: Order = Order.EXACT
    fold: Callable[[str], str] | None = None
    """Strings are equal when they are folded to the same."""
    nan: bool = True


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two values first differ: a path such as `[4].name`, and what stands there."""

    path: str
    expected: object
    actual: object


_SOMEWHERE: Final = Difference("", None, None)
_Pairs = Iterator[tuple[object, Any, Any]]


def first_difference(expected: object, actual: object, relation: Relation) -> Difference | None:
    """Return the first difference in reading order, or None when the values are equal."""
    return _Walk(relation).walk(expected, actual)


class _Walk:
    """One comparison: a relation, and how much it may still spend on pairing what has no order."""

    def __init__(self, relation: Relation) -> None:
        self.relation = relation
        self.steps_left = _STEPS
        self.depth = 0

    def walk(self, expected: object, actual: object) -> Difference | None:
        frames: list[_Pairs] = [iter([(None, expected, actual)])]
        path: list[object] = []
        while frames:
            for key, first, second in frames[-1]:
                if type(first) is type(second) and type(first) in (int, str) and first == second:
                    continue
                self.steps_left -= 1
                inner = self._compare(first, second, outermost=len(frames) == 1 and not self.depth)
                if inner is True:
                    continue
                path.append(key)
                if inner is False and self.depth:
                    return _SOMEWHERE
                if inner is False:
                    return Difference(spell_path(path[1:]), first.value if type(first) is _Differs else first, second)
                frames.append(inner)
                break
            else:
                frames.pop()
                if path:
                    path.pop()
        return None

    def _compare(self, expected: Any, actual: Any, *, outermost: bool) -> bool | _Pairs:
        relation = self.relation
        kind, other = type(expected), type(actual)
        if kind is str:
            if other is not str:
                return False
            return expected == actual or (
                relation.fold is not None and relation.fold(expected) == relation.fold(actual)
            )
        if kind in _NUMBERS:
            return other in _NUMBERS and _same_number(expected, actual, relation)
        if kind in _SEQUENCES:
            return self._compare_sequences(expected, actual, outermost)
        if kind is dict:
            return _pair_keys(expected, actual, relation) if other is dict else False
        if kind in _SETS and (other in _SETS or (relation.sets and other in _SEQUENCES)):
            return self._pair_any_order(list(expected), list(actual))
        if kind is bytes:
            return other is bytes and expected == actual
        return expected is None and actual is None

    def _compare_sequences(self, expected: Any, actual: Any, outermost: bool) -> bool | _Pairs:
        relation = self.relation
        if type(actual) in _SETS and relation.sets_as_lists:
            if relation.order is Order.EXACT and not self._ascends(expected):
                return False
            return self._pair_any_order(expected, list(actual))
        if type(actual) not in _SEQUENCES or (type(actual) is not type(expected) and not relation.sequences):
            return False
        if relation.order is not Order.EXACT and self.depth < _UNORDERED_DEPTH:
            innermost = relation.order is Order.TOKENS and _is_innermost(expected)
            if relation.order is Order.ANY or innermost or (relation.order is Order.LINES and outermost):
                return self._pair_any_order(expected, actual)
        if (
            set(map(type, expected)) <= _PLAIN
            and set(map(type, expected)) == set(map(type, actual))
            and expected == actual
        ):
            return True
        return _pair_in_order(expected, actual)

    def _pair_any_order(self, expected: Any, actual: Any) -> bool | _Pairs:
        # Of one more than are expected, one has no partner: who returns millions isn't sorted for them.
        actual = actual[: len(expected) + 1]
        missing, extra = leftover(*_without_same_places(expected, actual), self._key)
        if len(missing) != len(extra):
            first = missing[0] if missing and len(missing) > len(extra) else NOTHING
            second = extra[0] if first is NOTHING else NOTHING
            return iter([(IN_ANY_ORDER, first, second)])
        if not missing:
            return True
        self.depth += 1
        failed = unpaired(
            missing,
            extra,
            close=lambda first, second: self.walk(first, second) is None,
            affordable=lambda: self.steps_left > 0,
        )
        self.depth -= 1
        return True if failed is None else _differing(failed)

    def _ascends(self, items: Any) -> bool:
        """Whether the items stand in ascending order: else it was chosen, and a set has none to answer with."""
        keys = [self._key(item) for item in items]
        return all(first <= second for first, second in itertools.pairwise(keys))

    def _key(self, value: Any, depth: int = 0) -> tuple[Any, ...]:
        """Return a sortable key: equal keys mean equal values (not the other way round)."""
        kind = type(value)
        relation = self.relation
        if value is None:
            return (0,)
        if kind is complex:
            return (3, repr(value))
        if kind is GiantInteger:
            return (8, value.negative, value.digits, value.residue)
        if kind in _NUMBERS:
            if value != value:
                return (2,) if relation.nan else (9, id(value))
            return (1, value, kind is bool and not relation.booleans)
        if kind is str:
            return (4, relation.fold(value) if relation.fold is not None else value)
        if kind is bytes:
            return (5, value)
        if depth < _KEY_DEPTH and (kind in _SEQUENCES or kind in _SETS):
            keys = [self._key(item, depth + 1) for item in value]
            ordered = kind in _SEQUENCES and relation.order is not Order.ANY
            return (6, tuple(keys if ordered else sorted(keys)))
        if depth < _KEY_DEPTH and kind is dict:
            items = [(_key_text(key, relation), self._key(item, depth + 1)) for key, item in value.items()]
            return (7, tuple(sorted(items)))
        return (9, id(value))


def _same_number(expected: Any, actual: Any, relation: Relation) -> bool:
    kind, other = type(expected), type(actual)
    if kind is GiantInteger or other is GiantInteger:
        return bool(expected.equals(actual)) if other is int else bool(expected == actual)
    if expected != expected or actual != actual:
        return relation.nan and kind is other is float and expected != expected and actual != actual
    if kind is not other and not (relation.booleans if bool in (kind, other) else relation.numbers):
        return False
    if expected == actual:
        return True
    tolerance = relation.tolerance
    if tolerance is None or kind is bool or other is bool:
        return False
    if kind is complex or other is complex:
        return kind is complex and _close_complex(expected, complex(actual) if other is not int else actual, tolerance)
    return (kind is float or tolerance.everywhere) and close_value(expected, actual, tolerance)


def _close_complex(expected: complex, actual: complex, tolerance: Tolerance) -> bool:
    if type(actual) is int and actual.bit_length() > 1000:
        return False
    size = math.hypot(expected.real, expected.imag)
    distance = math.hypot(expected.real - actual.real, expected.imag - actual.imag)
    return math.isfinite(size) and distance <= max(tolerance.absolute, tolerance.relative * size)


def _pair_in_order(expected: Any, actual: Any) -> _Pairs:
    shorter = min(len(expected), len(actual))
    pairs: Iterable[tuple[object, Any, Any]] = zip(range(shorter), expected, actual, strict=False)
    if len(expected) == len(actual):
        return iter(pairs)
    first = expected[shorter] if len(expected) > shorter else NOTHING
    second = actual[shorter] if len(actual) > shorter else NOTHING
    return chain(pairs, [(shorter, first, second)])


def _without_same_places(expected: Any, actual: Any) -> tuple[list[Any], list[Any]]:
    """Drop scalars that stand in the same place on both sides: partners already, whatever the order."""
    shorter = min(len(expected), len(actual))
    pairs = [
        (first, second)
        for first, second in zip(expected, actual, strict=False)
        if type(first) is not type(second) or type(first) not in (int, str) or first != second
    ]
    return (
        [first for first, _ in pairs] + list(expected[shorter:]),
        [second for _, second in pairs] + list(actual[shorter:]),
    )


def _pair_keys(expected: dict[Any, Any], actual: dict[Any, Any], relation: Relation) -> _Pairs:
    """Pair the values of equal keys; a key that only one side has is paired with nothing."""
    used = set()
    for key, value in expected.items():
        partner = key if key in actual else _spelled_key(key, actual) if relation.keys else NOTHING
        if partner is NOTHING or partner in used:
            yield key, value, NOTHING
        else:
            used.add(partner)
            yield key, value, actual[partner]
    if len(used) < len(actual):
        extra = next(key for key in actual if key not in used)
        yield extra, NOTHING, actual[extra]


def _spelled_key(key: object, actual: dict[Any, Any]) -> object:
    if type(key) is not str:
        return NOTHING
    value = parse(key)
    if type(value) not in (int, float, bool, tuple, type(None)) or (type(value) is tuple and not _is_hashable(value)):
        return NOTHING
    return value if value in actual else NOTHING


def _is_hashable(value: tuple[Any, ...]) -> bool:
    return all(type(item) in (int, float, bool, str, bytes) for item in value)


def _key_text(key: object, relation: Relation) -> tuple[str, str]:
    """Return a sortable text for a dictionary's key, the same for what JSON spells the same."""
    if type(key) is str:
        return "", key
    if relation.keys and (key is None or type(key) is bool):
        return "", {None: "null", True: "true", False: "false"}[key]
    if type(key) is int:
        return ("" if relation.keys else "int"), hex(key) if key.bit_length() > 10_000 else str(key)
    return type(key).__name__, repr(key) if type(key) in (float, bytes) else str(id(key))


def _is_innermost(items: Any) -> bool:
    return not any(type(item) in (list, tuple, dict, set, frozenset) for item in items)


def _differing(pair: tuple[Any, Any]) -> _Pairs:
    """Make the walk stop at a pair known to differ, even where its parts would be equal one by one."""
    return iter([(IN_ANY_ORDER, _Differs(pair[0]), pair[1])])


@dataclass(frozen=True, slots=True)
class _Differs:
    value: object
