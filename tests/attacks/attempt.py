"""No attack: what the numbered programs begin with. One line for each attempt: its name and what came of it."""

import ctypes
import errno
import os

LIBC = ctypes.CDLL(None, use_errno=True)


class Nothing(Exception):
    """There was nothing to read."""


def read(path):
    """The first byte of a file."""
    with open(path, "rb") as file:
        if not file.read(1):
            raise Nothing


def attempt(name, call):
    """Print `name: ok`, or the name of the error."""
    try:
        call()
        outcome = "ok"
    except OSError as error:
        outcome = errno.errorcode.get(error.errno, type(error).__name__)
    except Exception as error:
        outcome = type(error).__name__
    print(f"{name}: {outcome}", flush=True)


def call(intel, arm, *arguments):
    """A system call by its numbers on x86-64 and aarch64; what fails raises OSError."""
    number = arm if os.uname().machine == "aarch64" else intel
    result = LIBC.syscall(number, *[ctypes.c_long(part) if isinstance(part, int) else part for part in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def write(path, data=b"x"):
    """Open for writing, create where it isn't there, write."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(file, data)
    finally:
        os.close(file)
