"""LiveCodeBench's comparison, rule for rule, as rungs: the same verdict on the same output.

For standard output: strip the whole text, split it at line feeds, strip each line; as many lines; each line the same
text, or all tokens of both read by `decimal.Decimal` and equal. For values (`value_rungs.python_equal`): an outermost
tuple is a list, then `==` as in Python. "Strip" and "token" mean Python's Unicode whitespace. Where LiveCodeBench's
comparison raises (a signalling NaN, integers of more than 50 000 digits) it doesn't accept, and neither do we.
"""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from itertools import zip_longest

from evaluator.comparison.pairs import Pair
from evaluator.comparison.texts import Text, skip_common_tokens, split_tokens

_PIECE = 1 << 20
_VISIBLE = re.compile(rb"[!-~]")


def stripped_lines(pair: Pair) -> bool:
    """Accept the same lines, whitespace around them aside. Would wrongly accept: what `trailing_whitespace` would, and
    drawings whose leading spaces matter.
    """
    return all(first == second for first, second in _line_pairs(pair))


def decimal_lines(pair: Pair) -> bool:
    """Accept lines whose tokens are all decimals of equal value.

    Would wrongly accept: `1_000` for 1000, digits of any script, `01` for the word `1`. Wrongly rejects: rounding
    noise, and other inner whitespace in a line that holds a word.
    """
    return difference(pair) is None


def difference(pair: Pair) -> tuple[int, str | None, str | None] | None:
    """Return the first pair of lines that LiveCodeBench tells apart, and the number of that line."""
    start = pair.expected.data.count(b"\n", 0, _start(pair.expected)) + 1
    for number, (first, second) in enumerate(_line_pairs(pair), start):
        if first == second:
            continue
        if first is None or second is None or not _decimals_equal(first, second):
            return number, first, second
    return None


def _line_pairs(pair: Pair) -> Iterator[tuple[str | None, str | None]]:
    start = _start(pair.expected)
    first = pair.expected.data[start:].decode("utf-8", "surrogateescape").rstrip()
    second = pair.actual.data[start:].decode("utf-8", "surrogateescape").rstrip()
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
    """Say whether all tokens are decimals and equal in pairs. Looks first at tokens of different text: they decide."""
    start = skip_common_tokens(expected, actual)
    for first, second in zip_longest(split_tokens(expected[start:]), split_tokens(actual[start:])):
        if first != second and (first is None or second is None or not _decimal_equal(first, second)):
            return False
    return all(_decimal_equal(token, token) for token in split_tokens(expected))


def _decimal_equal(expected: str, actual: str) -> bool:
    first, second = _decimal(expected), _decimal(actual)
    return first is not None and second is not None and not (first.is_nan() or second.is_nan()) and first == second


def _decimal(token: str) -> Decimal | None:
    try:
        return Decimal(token)
    except InvalidOperation:
        return None
