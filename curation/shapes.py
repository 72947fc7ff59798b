"""What the inputs of a suite have in common: likely invariants, which inputs made from them should keep.

Statements say what inputs are valid, in words; here it is guessed from the inputs that are there: the types at each
place, the range of numbers, lengths, order, distinct items, the letters of texts, and how arguments depend on each
other. After M. D. Ernst et al., Dynamically discovering likely program invariants, IEEE TSE 27 (2001), 99–123.

Strict: everything that holds of all inputs is kept. Loose: types, signs, whether lists may be empty, the pattern of
texts; numbers may be twice as large and lists twice as long as any that is there, so that borders are looked at.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Path = tuple[Any, ...]
"""A place in an input: the argument's number, then `*` for what is in it, `key` and `value` for a dictionary."""
PATTERNS = 4
"""Texts of more patterns than this are free."""
ROOM = 4
"""Loose: how much longer a short list may be."""
EVIDENCE = 2
"""Lists that must have a property before it is believed; loose: one more."""
REPEATED = 2
"""Words that are there so often on average are a vocabulary, to which nothing is added."""


@dataclass
class Traits:
    """What the values at one place have in common."""

    values: list[Any] = field(default_factory=list)
    """All distinct ones, for choosing among."""
    kinds: set[type] = field(default_factory=set)
    low: float = float("inf")
    high: float = float("-inf")
    shortest: int = 1 << 60
    longest: int = 0
    characters: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    lists: int = 0
    """Those of two items or more."""
    orders: set[str] = field(default_factory=set)
    """Properties that each of them has."""
    manners: set[str] | None = None
    """Properties that every text here has."""
    words: Counter[str] = field(default_factory=Counter)

    def add(self, value: Any) -> None:
        """Take a value into account."""
        self.kinds.add(type(value))
        if len(self.values) < 200 and not any(type(one) is type(value) and one == value for one in self.values):
            self.values.append(value)
        if _is_number(value):
            self.low, self.high = min(self.low, value), max(self.high, value)
        elif hasattr(value, "__len__"):
            self.shortest, self.longest = min(self.shortest, len(value)), max(self.longest, len(value))
            if isinstance(value, str):
                self.characters.update(value)
                self.patterns.add(describe_text(value))
                manners = describe_manners(value)
                self.manners = manners if self.manners is None else self.manners & manners
                self.words.update(value.split())
            elif isinstance(value, (list, tuple)) and len(value) > 1:
                found = describe_order(value)
                self.orders = self.orders & found if self.lists else found
                self.lists += 1

    def admits(self, value: Any, strict: bool) -> bool:
        """Whether a value could be at this place."""
        if type(value) not in self.kinds:
            return False
        if _is_number(value):
            low, high = (self.low, self.high) if strict else (self._floor(), self._ceiling())
            return bool(low <= value <= high)
        if not hasattr(value, "__len__"):
            return True
        longest = self.longest if strict or self.is_fixed else 2 * self.longest + ROOM
        shortest = self.shortest if strict or self.is_fixed else min(self.shortest, 1)
        if not shortest <= len(value) <= longest:
            return False
        if isinstance(value, str):
            return self._admits_text(value, strict)
        is_ordered = isinstance(value, (list, tuple)) and len(value) > 1
        is_evident = self.lists >= (EVIDENCE if strict else EVIDENCE + 1)
        return not (is_ordered and self.orders and is_evident) or self.orders <= describe_order(value)

    @property
    def is_fixed(self) -> bool:
        """Whether tuples here are records: all of one length, of different things or few."""
        return self.kinds == {tuple} and self.shortest == self.longest

    def _floor(self) -> float:
        """Zero where nothing below was seen."""
        return self.low * 2 - 1 if self.low < 0 else 0

    def _ceiling(self) -> float:
        return self.high * 2 + 1 if self.high > 0 else max(0, self.high)

    def _admits_text(self, value: str, strict: bool) -> bool:
        if strict and not set(value) <= self.characters:
            return False
        if not {_class_of(one) for one in value} <= {_class_of(one) for one in self.characters}:
            return False
        manners = (self.manners or set()) if strict else (self.manners or set()) - {"trimmed"}
        if value and not manners <= describe_manners(value):
            return False
        if self._is_vocabulary and not set(value.split()) <= self.words.keys():
            return False
        return len(self.patterns) > PATTERNS or describe_text(value) in self.patterns or not value

    @property
    def _is_vocabulary(self) -> bool:
        """Whether texts here are made of few words, over and over: `north`, `three`."""
        return any(map(str.isalpha, self.words)) and len(self.words) * REPEATED <= self.words.total()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _class_of(character: str) -> str:
    if character.isdigit():
        return "0"
    return ("A" if character.isupper() else "a") if character.isalpha() else character


def describe_text(text: str) -> str:
    """The pattern of a text of signs among letters or digits, runs as one: `12-ab` is like `3-x`. Others have none."""
    classes = list(map(_class_of, text))
    kinds = {"a" if one in "aA0" else one for one in classes if one != " "}
    return re.sub(r"(.)\1+", r"\1", "".join(classes)) if len(kinds) > 1 and "a" in kinds else ""


def describe_manners(text: str) -> set[str]:
    """Properties of a text: brackets that match, no needless spaces."""
    found = set()
    if text == " ".join(text.split()):
        found.add("trimmed")
    if _is_balanced(text):
        found.add("balanced")
    if all(map(_is_balanced, text.split())):
        found.add("balanced words")
    return found


def _is_balanced(text: str) -> bool:
    open_brackets: list[str] = []
    for one in text:
        if one in "([{<":
            open_brackets.append(one)
        elif one in ")]}>" and (not open_brackets or open_brackets.pop() + one not in ("()", "[]", "{}", "<>")):
            return False
    return not open_brackets


def describe_order(values: Sequence[Any]) -> set[str]:
    """Properties of a list of two items or more."""
    found = set()
    try:
        if all(a <= b for a, b in pairwise(values)):
            found.add("ascending")
        if all(a >= b for a, b in pairwise(values)):
            found.add("descending")
    except TypeError:
        pass
    if len(set(map(repr, values))) == len(values):
        found.add("distinct")
    if all(isinstance(value, (list, tuple, str)) for value in values):
        lengths = {len(value) for value in values}
        if len(lengths) == 1:
            found.add("of one length")
            if lengths == {len(values)}:
                found.add("square")
    return found


Relation = tuple[str, Callable[[Any, Any], bool]]
RELATIONS: tuple[Relation, ...] = (
    ("at most", lambda a, b: _is_number(a) and _is_number(b) and a <= b),
    ("less", lambda a, b: _is_number(a) and _is_number(b) and a < b),
    ("at most the length", lambda a, b: type(a) is int and hasattr(b, "__len__") and a <= len(b)),
    ("less than the length", lambda a, b: type(a) is int and hasattr(b, "__len__") and a < len(b)),
    ("the length", lambda a, b: type(a) is int and hasattr(b, "__len__") and a == len(b)),
    ("as long", lambda a, b: hasattr(a, "__len__") and hasattr(b, "__len__") and len(a) == len(b)),
    ("one longer", lambda a, b: hasattr(a, "__len__") and hasattr(b, "__len__") and len(a) == len(b) + 1),
    ("no longer", lambda a, b: hasattr(a, "__len__") and hasattr(b, "__len__") and len(a) <= len(b)),
    ("among", lambda a, b: isinstance(b, (list, tuple)) and a in b),
    ("within", lambda a, b: isinstance(a, str) and isinstance(b, str) and a in b),
)  # fmt: skip
FIRM = frozenset({"the length", "as long", "one longer", "less than the length", "at most the length", "among"})
"""Those that are kept when loose, too."""


class Shape:
    """What a suite's inputs have in common."""

    def __init__(self, inputs: Sequence[tuple[Any, ...]], *, strict: bool) -> None:
        """Learn from these, at least one."""
        self.strict = strict
        self.traits: dict[Path, Traits] = {}
        for values in inputs:
            for path, value in iterate_places(values):
                self.traits.setdefault(path, Traits()).add(value)
        self._counts = {len(values) for values in inputs}
        several = [values for values in inputs if len(values) == len(inputs[0])]
        self._relations = [
            (one, other, holds)
            for one in range(len(inputs[0]))
            for other in range(len(inputs[0]))
            for name, holds in RELATIONS
            if one != other and (strict or name in FIRM) and all(holds(v[one], v[other]) for v in several)
        ]

    def admits(self, values: tuple[Any, ...]) -> bool:
        """Whether an input is of this shape."""
        return (
            len(values) in self._counts
            and all(
                holds(values[one], values[other])
                for one, other, holds in self._relations
                if len(values) > max(one, other)
            )
            and all(
                path in self.traits and self.traits[path].admits(value, self.strict)
                for path, value in iterate_places(values)
            )
        )


def iterate_places(values: tuple[Any, ...]) -> Iterator[tuple[Path, Any]]:
    """Every value in an input, with its place. The places of what a record of few things holds are told apart."""
    pending: list[tuple[Path, Any]] = [((number,), value) for number, value in enumerate(values)]
    while pending:
        path, value = pending.pop()
        yield path, value
        pending += list_children(path, value)


def list_children(path: Path, value: Any) -> list[tuple[Path, Any]]:
    """What a value holds, with its places."""
    if isinstance(value, dict):
        return [((*path, "key"), key) for key in value] + [((*path, "value"), item) for item in value.values()]
    if isinstance(value, (list, tuple)):
        return [((*path, "*"), item) for item in value]
    if isinstance(value, set):
        return [((*path, "*"), item) for item in sorted(value, key=repr)]
    return []
