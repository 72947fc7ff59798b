"""Descriptors, and the three streams over them: what the runner keeps ready, and what a child makes of it."""

import _socket
import fcntl
import io
import os
import socket
import sys

SMALL = 1 << 14
"""Bytes that are read without asking how many there are."""
NULL = 15
"""The runner's descriptor of /dev/null, as all from 3 to here."""
# Looked up once: in a child, each object that is touched is a page that has to be copied.
_pread, _write, _dup2, _close_range = os.pread, os.write, os.dup2, os.closerange


def read_all(descriptor: int) -> bytes:
    """All bytes of a memfd, from its start, leaving its offset alone."""
    part = _pread(descriptor, SMALL, 0)
    if len(part) < SMALL:
        return part
    size = os.fstat(descriptor).st_size
    parts = [part]
    offset = SMALL
    while offset < size:
        part = os.pread(descriptor, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


def reserve_numbers(connection: socket.socket) -> _socket.socket:
    """Keep low descriptors busy with nothing, so that what is received has numbers above all that a child arranges.

    Returns the connection under such a number, as an object without Python code in it.
    """
    number = fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, NULL + 1)
    connection.close()
    null = os.open("/dev/null", os.O_RDWR)
    for low in range(3, NULL + 1):
        if low != null:
            os.dup2(null, low, False)
    return _socket.socket(fileno=number)


def place(descriptors: tuple[int, ...]) -> None:
    """Make these the descriptors 0, 1, 2, … and close all others. The first three outlive an `exec`."""
    target = 0
    for descriptor in descriptors:
        _dup2(descriptor, target, target < 3)
        target += 1
    _close_range(target, 4096)


def open_streams() -> None:
    """sys.stdin, sys.stdout and sys.stderr as the interpreter makes them for files, over descriptors 0, 1 and 2.

    Once, before anything is forked: they are the runner's until a child puts its own files below them. So files are
    there while they are made, as streams ask what is below.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        kept = os.dup(number)
        file = os.memfd_create(name)
        os.dup2(file, number)
        stream = open_stream(io.FileIO(number, "w" if number else "r", closefd=False), name)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        os.dup2(kept, number)
        os.close(kept)
        os.close(file)


def open_stream(raw: io.FileIO, name: str) -> io.TextIOWrapper:
    """The text stream over a file that plays one of the three."""
    raw.name = f"<{name}>"
    buffer = io.BufferedReader(raw) if name == "stdin" else io.BufferedWriter(raw)
    errors = "backslashreplace" if name == "stderr" else "surrogateescape"
    stream = io.TextIOWrapper(buffer, "utf-8", errors, "\n", line_buffering=name == "stderr")
    stream.mode = "r" if name == "stdin" else "w"  # type: ignore[misc]
    return stream
