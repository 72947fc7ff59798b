"""Values out of text: JSON first, then Python literals.

Both parsers take linear time, never recurse on the text's nesting and change no global state (the interpreter's limit
on the digits of an integer stays as it is). What isn't a literal is `INVALID`, never an exception.

The Python grammar is narrower than Python's: no `1_000`, no hexadecimal, no joined strings, no other names than True,
False, None, nan and inf. It reads JSON's `true`, `false` and `null` too, so that mixed spellings parse.
"""

import json
import re
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

_PLAIN_DIGITS = 4_300
"""`int()` refuses more, and needs quadratic time."""
_EXACT_DIGITS = 50_000
_STEP = 4_000
_MODULUS: Final = (1 << 521) - 1
_MAXIMUM_DEPTH = 20_000
_COLLISIONS = 1_000


class Invalid(Enum):
    """The type of `INVALID`."""

    INVALID = "invalid"


INVALID: Final = Invalid.INVALID


@dataclass(frozen=True, slots=True)
class GiantInteger:
    """An integer of more digits than can be converted in linear time: known by sign, length and residue.

    Wrongly equal to another integer only when both have the same length and differ by a multiple of a 521-bit prime.
    """

    negative: bool
    digits: int
    residue: int

    def equals(self, number: int) -> bool:
        """Compare with a true integer, in linear time."""
        bits = number.bit_length()
        if (number < 0) is not self.negative or abs(bits - self.digits * 3.321928094887362) > 4:
            return False
        return abs(number) % _MODULUS == self.residue


def parse_integer(text: str) -> int | GiantInteger:
    """Convert decimal digits with an optional sign, in linear time for a bounded number of exact digits."""
    if len(text) <= _PLAIN_DIGITS:
        return int(text)
    negative = text[0] == "-"
    digits = text.lstrip("+-0")
    exact = len(digits) <= _EXACT_DIGITS
    number = 0
    for start in range(0, len(digits), _STEP):
        piece = digits[start : start + _STEP]
        number = number * 10 ** len(piece) + int(piece)
        if not exact:
            number %= _MODULUS
    if exact:
        return -number if negative else number
    return GiantInteger(negative, len(digits), number)


def parse_json(text: str) -> Any:
    """Parse JSON as Python's `json` does (NaN and Infinity included), or return INVALID."""
    hook = parse_integer if len(text) > _PLAIN_DIGITS and re.search(r"[0-9]{4300}", text) else None
    try:
        return json.loads(text, parse_int=hook)
    except ValueError:
        return INVALID
    except RecursionError:  # nested beyond the interpreter's stack: ours has its own
        return parse_python(text)


def parse(text: str) -> Any:
    """Parse JSON, or else a Python literal, or return INVALID."""
    value = parse_json(text)
    return parse_python(text) if value is INVALID else value


_REAL = r"(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_TOKEN = re.compile(
    rf"""[ \t\r\n\f]*+(?:
      (?P<mark>[\[\](){{}},:])
    | (?P<integer>[+-]?(?:0|[1-9][0-9]*+))(?![0-9A-Za-z_.+-])
    | (?P<float>[+-]?{_REAL})(?![0-9A-Za-z_.+-])
    | (?P<complex>(?P<real>[+-]?{_REAL}(?=[+-]))?+(?P<imaginary>[+-]?{_REAL})j)(?![0-9A-Za-z_.])
    | (?P<bytes>[bB])?(?:'(?P<single>(?:[^'\\\n]|\\.)*+)'|"(?P<double>(?:[^"\\\n]|\\.)*+)")
    | (?P<name>[+-]?[A-Za-z]++(?:\(\))?)
    )""",
    re.X | re.S,
)
_NAMES: Final[dict[str, Any]] = {
    "True": True, "true": True, "False": False, "false": False, "None": None, "null": None,
    "nan": float("nan"), "-nan": float("nan"), "NaN": float("nan"),
    "inf": float("inf"), "Infinity": float("inf"), "-inf": float("-inf"), "-Infinity": float("-inf"),
}  # fmt: skip
_EMPTY_CALLS: Final = {"set()": set, "list()": list, "dict()": dict, "tuple()": tuple, "frozenset()": set}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))", re.S)
_ESCAPES: Final = {
    "\n": "", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "/": "/",
}  # fmt: skip
_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}


@dataclass(slots=True)
class _Open:
    """A container being read. `wants`: what may come next (`item`, `comma`, `colon`, `value`)."""

    closer: str
    items: list[Any] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    wants: str = "item"
    commas: int = 0
    is_dict: bool = False


def parse_python(text: str) -> Any:
    """Parse one Python literal, or return INVALID. Lists, tuples, sets, dictionaries, numbers, strings, bytes."""
    outermost = _Open("")
    stack = [outermost]
    place, end = 0, len(text.rstrip(" \t\r\n\f"))
    while place < end:
        token = _TOKEN.match(text, place, end)
        if token is None:
            return INVALID
        place = token.end()
        top = stack[-1]
        mark = token["mark"]
        if mark in ("[", "(", "{"):
            if top.wants not in ("item", "value") or len(stack) > _MAXIMUM_DEPTH:
                return INVALID
            stack.append(_Open(_CLOSERS[mark]))
            continue
        if mark is None:
            value = _scalar(token)
        elif mark in ",:":
            if not _separate(top, mark):
                return INVALID
            continue
        elif mark != top.closer:
            return INVALID
        else:
            value = _closed(top)
            stack.pop()
        if value is INVALID or not _add(stack[-1], value):
            return INVALID
    return outermost.items[0] if len(stack) == 1 and len(outermost.items) == 1 and not outermost.commas else INVALID


def _add(top: _Open, value: Any) -> bool:
    if top.wants not in ("item", "value"):
        return False
    top.items.append(value)
    top.wants = "comma"
    return True


def _separate(top: _Open, mark: str) -> bool:
    if top.wants != "comma":
        return False
    if mark == ":":
        if top.closer != "}" or (top.commas and not top.is_dict) or len(top.keys) == len(top.items):
            return False
        if len(top.items) != 1 + len(top.keys):
            return False
        top.is_dict = True
        top.keys.append(top.items.pop())
        top.wants = "value"
        return True
    if top.is_dict and len(top.items) != len(top.keys):
        return False
    top.commas += 1
    top.wants = "item"
    return True


def _closed(top: _Open) -> Any:
    if top.wants == "value" or (top.commas and not top.items):
        return INVALID
    if top.closer == "]":
        return top.items
    if top.closer == ")":
        return top.items[0] if len(top.items) == 1 and not top.commas else tuple(top.items)
    if top.is_dict or not top.items:
        whole = len(top.keys) == len(top.items) and all(map(_is_hashable, top.keys)) and not hashes_collide(top.keys)
        return dict(zip(top.keys, top.items, strict=True)) if whole else INVALID
    whole = all(map(_is_hashable, top.items)) and not hashes_collide(top.items)
    return set(top.items) if whole else INVALID


def _is_hashable(value: Any) -> bool:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (list, dict, set)):
            return False
        if type(value) is tuple:
            waiting.extend(value)
    return True


def hashes_collide(items: Collection[Hashable]) -> bool:
    """Say whether a set of these would need quadratic time: numbers can be chosen to share one hash."""
    return len(items) - len(set(map(hash, items))) > _COLLISIONS


def _scalar(token: re.Match[str]) -> Any:
    if (text := token["integer"]) is not None:
        return parse_integer(text)
    if (text := token["float"]) is not None:
        return float(text)
    if (text := token["name"]) is not None:
        return _EMPTY_CALLS[text]() if text in _EMPTY_CALLS else _NAMES.get(text, INVALID)
    if (text := token["imaginary"]) is not None:
        return complex(float(token["real"] or 0), float(text))
    body = token["single"] if token["single"] is not None else token["double"]
    text = _ESCAPE.sub(_unescape, body) if "\\" in body else body
    if token["bytes"] is None:
        return text
    return text.encode("latin-1") if all(ord(character) < 256 for character in text) else INVALID


def _unescape(match: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if (digits := match[group]) is not None:
            code = int(digits, base)
            return chr(code) if code <= 0x10FFFF else match[0]
    return _ESCAPES.get(match[5], match[0])
