"""Files of JSON records, one record at a time, whatever they are wrapped in.

A file is recognised by its content: gzip or Zstandard around it or not, a JSON array or JSON Lines within. A file is
never held as a whole, only the record that is being read.
"""

import gzip
import importlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from evaluator.errors import InvalidSubmission

GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
PIECE = 1 << 20
_OUTSIDE = re.compile(rb'["{}\[\],]')
_INSIDE = re.compile(rb'["\\]')


class UnreadableFile(InvalidSubmission):
    """A file isn't what it should be. The message names file, place and remedy."""


def open_plain(path: Path) -> io.BufferedReader:
    """Open a file for reading, decompressed where it is compressed.

    Raises:
        UnreadableFile: there is no such file, or nothing here can decompress it.
    """
    try:
        opened = path.open("rb")
    except OSError as error:
        raise UnreadableFile(f"Can't read {path}: {error.strerror}.") from None
    start = opened.peek(4)[:4]
    if start.startswith(GZIP):
        opened.close()
        return io.BufferedReader(
            cast(io.RawIOBase, gzip.open(path))
        )  # unlike a GzipFile on `opened`, it closes its file
    if start == ZSTANDARD:
        return _open_zstandard(path, opened)
    return opened


def _open_zstandard(path: Path, opened: IO[bytes]) -> io.BufferedReader:
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError:
        opened.close()
        raise UnreadableFile(
            f"{path} is compressed with Zstandard: `pip install zstandard`, or decompress it."
        ) from None
    reader = zstandard.ZstdDecompressor().stream_reader(opened, read_across_frames=True)
    return io.BufferedReader(reader)


def iterate_texts(path: Path) -> Iterator[tuple[int, bytes]]:
    """The records of a file as bytes, each with its number, which counts from 1 (lines, or items of the array).

    Raises:
        UnreadableFile: at the first thing that can't be read.
    """
    try:
        with open_plain(path) as stream:
            start = _first_byte(stream)
            if start == b"[":
                yield from enumerate(_split(stream, base=1), start=1)
            elif start:
                yield from _iterate_lines(stream)
    except (OSError, EOFError) as error:
        raise UnreadableFile(f"{path} can't be decompressed ({error}); is it complete?") from None
    except _CutOff:
        raise UnreadableFile(f"{path} ends in the middle of a record; is it complete?") from None


def read_record(path: Path, number: int, text: bytes) -> Any:
    """What a record says.

    Raises:
        UnreadableFile: it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"{path}, record {number} isn't JSON ({error}).") from None


class _CutOff(Exception):
    pass


def _first_byte(stream: io.BufferedReader) -> bytes:
    """The first byte that isn't whitespace or part of a byte order mark. The stream stands before it."""
    while (byte := stream.peek(1)[:1]) and byte in b" \t\r\n\xef\xbb\xbf":
        stream.read(1)
    return byte


def _iterate_lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """JSON Lines; or objects written over several lines, one after the other."""
    first = stream.readline()
    if not _is_whole(first):
        yield from enumerate(_split(stream, base=0, before=first), start=1)
        return
    yield 1, first
    for number, line in enumerate(stream, start=2):
        if line.strip():
            yield number, line


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return line.strip().endswith(b"}")  # a broken record of one line: reported as such
    return True


def _split(stream: IO[bytes], base: int, before: bytes = b"") -> Iterator[bytes]:
    """The values at nesting depth `base`: items of an array (1), or values that follow each other (0)."""
    depth, inside, escaped = 0, False, False
    current = bytearray()
    piece = before or stream.read(PIECE)
    while piece:
        position = start = 0
        if escaped:
            position, escaped = 1, False
        while found := (_INSIDE if inside else _OUTSIDE).search(piece, position):
            sign, position = found[0], found.end()
            if inside:
                if sign == b'"':
                    inside = False
                elif position == len(piece):
                    escaped = True
                else:
                    position += 1
                continue
            if sign == b'"':
                inside = True
                continue
            closes = sign in b"}]"
            opens = sign in b"{["
            ends = depth == base if sign == b"," else closes and depth == (base or 1)
            keeps = closes and base == 0
            if ends:
                current += piece[start : position if keeps else found.start()]
                if current.strip(b" \t\r\n,"):
                    yield bytes(current)
                current.clear()
                start = position
            depth += opens - closes
            if opens and depth == base == 1:
                current.clear()
                start = position
        current += piece[start:]
        piece = stream.read(PIECE)
    if inside or depth:
        raise _CutOff
