"""LiveCodeBench's comparison, rule for rule, as rungs: the same verdict on the same output.

For standard output: strip the whole text, split it at line feeds, strip each line; as many lines; each line the same
text, or all tokens of both read by `decimal.Decimal` and equal. For values (`value_rungs.python_equal`): an outermost
tuple is a list, then `==` as in Python. "Strip" and "token" mean Python's Unicode whitespace. Where LiveCodeBench's comparison raises (a signalling NaN,
integers of more than 50 000 digits) it doesn't accept, and neither do we.
"""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from itertools import zip_longest

from evaluator.comparison.texts import Text
from evaluator.model import Policy

_PIECE = 1 << 20
_VISIBLE = re.compile(rb"[!-~]")


def stripped_lines(expected: Text, actual: Text, policy: Policy) -> bool:
    """Accept the same lines, whitespace around them aside. Would wrongly accept: what `trailing_whitespace` would, and
    drawings whose leading spaces matter.
    """
    return all(first == second for first, second in _line_pairs(expected, actual))


def decimal_lines(expected: Text, actual: Text, policy: Policy) -> bool:
    """Accept lines whose tokens are all decimals of equal value.

    Would wrongly accept: `1_000` for 1000, digits of any script, `01` for the word `1`. Wrongly rejects: rounding
    noise, and other inner whitespace in a line that holds a word.
    """
    return difference(expected, actual) is None


def difference(expected: Text, actual: Text) -> tuple[int, str | None, str | None] | None:
    """Return the first pair of lines that LiveCodeBench tells apart, and the number of that line."""
    start = expected.data.count(b"\n", 0, _start(expected)) + 1
    for number, (first, second) in enumerate(_line_pairs(expected, actual), start):
        if first == second:
            continue
        if first is None or second is None or not _decimals_equal(first, second):
            return number, first, second
    return None


def _line_pairs(expected: Text, actual: Text) -> Iterator[tuple[str | None, str | None]]:
    start = _start(expected)
    first = expected.data[start:].decode("utf-8", "surrogateescape").rstrip()
    second = actual.data[start:].decode("utf-8", "surrogateescape").rstrip()
    if not start:
        first, second = first.lstrip(), second.lstrip()
    return zip_longest(_lines(first), _lines(second))


def _start(text: Text) -> int:
    """Return where to begin: equal lines may be skipped when one of them isn't blank: the strip is the same."""
    return text.line_start if _VISIBLE.search(text.data, 0, text.line_start) is not None else 0


def _lines(text: str) -> Iterator[str]:
    start = 0
    while start <= len(text):
        stop = text.find("\n", start + _PIECE)
        stop = len(text) if stop < 0 else stop
        for line in text[start:stop].split("\n"):
            yield line.strip()
        start = stop + 1


def _decimals_equal(expected: str, actual: str) -> bool:
    # The lengths first, as lists compare: a signalling NaN raises only in a comparison that is really made.
    for first, second in zip_longest(actual.split(), expected.split()):
        if first is None or second is None:
            return False
        one, other = _decimal(first), _decimal(second)
        if one is None or other is None or one.is_nan() or other.is_nan() or one != other:
            return False
    return True


def _decimal(token: str) -> Decimal | None:
    try:
        return Decimal(token)
    except InvalidOperation:
        return None
