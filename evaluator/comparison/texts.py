"""An output as lines and tokens, read lazily.

Whitespace is ASCII whitespace: space, tab, line feed, carriage return, vertical tab, form feed. Lines end with a line
feed; a carriage return before it is trailing whitespace. Anything else, a no-break space too, belongs to a token.

Two outputs are prepared together: what they have in common at their beginning is skipped, so that two outputs of 10 MB
that differ in their last token cost little more than a byte-wise comparison. Lines and tokens are produced in pieces,
so that memory stays bounded by the outputs' own size.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import AnyStr

_PIECE = 1 << 20
_WINDOW = 1 << 16
_SHAPE = bytes(32 if bytes((code,)).isspace() else 120 for code in range(256))
"""Turns whitespace into a space and all else into an x."""
_BLANK_FIRST_LINE = re.compile(rb"[ \t\r\v\f]*+\n")


@dataclass(frozen=True)
class Text:
    """One of the two outputs. What lies before `start` is the same in both; `line_start` begins the line of `start`."""

    data: bytes
    start: int
    line_start: int
    end: int
    """Behind the last token: what follows is whitespace."""

    def lines(self) -> Iterator[bytes]:
        """Yield the lines from `start` on, up to the last that isn't blank."""
        return _split(self.data, self.start, self.end)

    def whole_lines(self) -> Iterator[bytes]:
        """Yield the lines from `line_start` on: the first one is complete."""
        return _split(self.data, self.line_start, self.end)

    def tokens(self) -> Iterator[bytes]:
        """Yield every token from `start` on."""
        return split_tokens(self.data[self.start : self.end])

    @cached_property
    def has_blank_line(self) -> bool:
        """Whether a blank line stands anywhere, the end included (a last line feed alone isn't one)."""
        return self.starts_blank or b"\n\n" in self.data.translate(None, b" \t\r\v\f")

    @property
    def starts_blank(self) -> bool:
        """Whether the first line is blank and another one follows."""
        return _BLANK_FIRST_LINE.match(self.data) is not None

    @property
    def has_blank_end(self) -> bool:
        """Whether the first line or the last is blank."""
        return self.starts_blank or self.data.count(b"\n", self.end) > 1


def prepare_tidy(expected: bytes, actual: bytes) -> tuple[Text, Text]:
    """Make two texts of two outputs, without the commonest whitespace at the ends of lines where that saves time."""
    texts = prepare(expected, actual)
    if len(expected) - texts[0].line_start < _PIECE:
        return texts
    return prepare(*(data.replace(b"\r\n", b"\n").replace(b" \n", b"\n") for data in (expected, actual)))


def prepare(expected: bytes, actual: bytes) -> tuple[Text, Text]:
    """Make two texts of two outputs."""
    common = _common_length(expected, actual)
    line_start = expected.rfind(b"\n", 0, common) + 1
    start = _token_start(expected, line_start, common)
    return (
        Text(expected, start, line_start, len(expected.rstrip())),
        Text(actual, start, line_start, len(actual.rstrip())),
    )


def skip_common_tokens(first: AnyStr, second: AnyStr) -> int:
    """Return where two long lines may be compared from on: behind tokens that are the same in both."""
    return _token_start(first, 0, _common_length(first, second))


def split_tokens(line: AnyStr) -> Iterator[AnyStr]:
    """Yield the tokens of a line; in a `str`, between any whitespace of Unicode."""
    if len(line) <= _PIECE:
        return iter(line.split())
    return chain.from_iterable(piece.split() for piece in _token_pieces(line, 0, len(line)))


def count_tokens(data: bytes, start: int, end: int) -> int:
    """Count the tokens of a slice without making them."""
    shape = data[start:end].translate(_SHAPE)
    return shape.count(b" x") + shape.startswith(b"x")


def _token_pieces(data: AnyStr, start: int, end: int) -> Iterator[AnyStr]:
    """Cut between tokens. A piece that is a single token is looked at again with twice the length."""
    size = _PIECE
    while start < end:
        piece = data[start : min(start + size, end)]
        if start + size < end:
            parts = piece.rsplit(None, 1)
            if len(parts) < 2 and not piece[:1].isspace():
                size *= 2
                continue
            if not piece[-1:].isspace():
                piece = piece[: len(piece) - len(parts[-1])]
        yield piece
        start += len(piece)
        size = _PIECE


def _split(data: bytes, start: int, end: int) -> Iterator[bytes]:
    return chain.from_iterable(piece.split(b"\n") for piece in _line_pieces(data, start, end))


def _line_pieces(data: bytes, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        stop = data.find(b"\n", start + _PIECE, end)
        stop = end if stop < 0 else stop
        yield data[start:stop]
        start = stop + 1


def _token_start(data: AnyStr, low: int, place: int) -> int:
    """Return the start of the token before the one at `place`, or `low` where that is near or there is no such token.

    One earlier token must stay, lest the rest of a line seem blank when the line isn't.
    """
    if place - low <= _WINDOW:
        return low
    parts = data[place - _WINDOW : place].rsplit(None, 2)
    return place - _WINDOW + len(parts[0]) if len(parts) == 3 else low


def _common_length(first: AnyStr, second: AnyStr) -> int:
    """Return how many bytes are the same at the beginning."""
    shorter = min(len(first), len(second))
    place = 0
    while place < shorter and first[place : place + _PIECE] == second[place : place + _PIECE]:
        place += _PIECE
    low, high = min(place, shorter), min(place + _PIECE, shorter)
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
