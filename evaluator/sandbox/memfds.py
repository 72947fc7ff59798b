"""Memory files, by which code, inputs and outputs travel between worker and box."""

import fcntl
import os

SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def seal(descriptor: int) -> None:
    """Let nobody change it any more."""
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)


def seal_input(data: bytes | memoryview) -> int:
    """A memfd with `data`, sealed, at the start, open for reading only: the program can't write to it by any name."""
    writable = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(writable, view) :]
        os.fchmod(writable, 0o444)
        seal(writable)
        return reopen(writable)
    finally:
        os.close(writable)


def reopen(descriptor: int) -> int:
    """A fresh, read-only description of the same memfd: its offset is its own."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)


def read_output(descriptor: int, limit: int, *, end: bool = False) -> bytes:
    """What the program wrote, `limit` bytes at most (the last, if `end`): it may stretch its output to any size."""
    written = os.fstat(descriptor).st_size
    offset = max(0, written - limit) if end else 0
    size = offset + min(written, limit)
    parts: list[bytes] = []
    while offset < size:
        part = os.pread(descriptor, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
