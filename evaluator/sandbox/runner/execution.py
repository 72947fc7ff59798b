"""Programs that are run for their own sake: from source, with arguments and files, of which some come back.

Nothing was compiled before: as under `python program.py arguments`, a source that can't be compiled is a run that ends
with status 1. What else is to be known of it goes to a private descriptor (`wire.py`), which is closed before the
program runs.
"""

import binascii
import ctypes
import json
import os
import stat
import struct
import sys
import traceback
from typing import Any, NoReturn

from . import launch, streams, tools
from .wire import FETCHED, NOT_COMPILED

OPENAT2, AT_FDCWD, RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS = 437, -100, 0x08, 0x02


def run_source(source: int, order: int, report: int) -> NoReturn:
    """Run it, and bring back what is asked for, where anything is."""
    wanted = json.loads(streams.read_all(order))
    os.close(order)
    try:
        write_files(wanted["files"])
    except OSError as error:
        launch.write_error(f"The files of this request can't be written: {error.strerror}.\n")
        os._exit(1)
    if not wanted["fetch"]:
        run(source, wanted, report)
    status = tools.attend(lambda: run(source, wanted, report))
    if os.fstat(report).st_size == 0:  # else it couldn't be compiled, which stands there
        for name in wanted["fetch"]:
            fetch(name, report)
    tools.end_alike(status)


def write_files(files: dict[str, str]) -> None:
    """Files, given in base 64, beneath the working directory. The names have been checked."""
    for name, text in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        launch.write_program(name, binascii.a2b_base64(text))


def run(source: int, wanted: dict[str, Any], report: int) -> NoReturn:
    """The program. Modules among the files can be imported."""
    sys.argv = [launch.NAME, *wanted["arguments"]]
    if wanted["files"]:
        sys.path.insert(0, os.getcwd())
    launch.run_main(load_source, source, report)


def load_source(source: int, report: int) -> launch.Loaded:
    """A module and its code. Ends the process where there is none."""
    text = streams.read_all(source)
    os.close(source)
    try:
        code = compile(text, launch.PROGRAM, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        error.__traceback__ = None
        launch.write_error("".join(traceback.format_exception(error)))
        streams.write_all(report, NOT_COMPILED)
        os._exit(1)
    os.close(report)
    looks, untidy = launch.look_at(text)
    return launch.make_module("__main__", text, looks), code, text, untidy


def fetch(name: str, report: int) -> None:
    """Append a regular file's bytes behind their number, or that there is none."""
    data = None
    try:
        file = open_beneath(name)
        if stat.S_ISREG(os.fstat(file).st_mode):
            data = streams.read_all(file)
        os.close(file)
    except OSError:
        pass  # nothing there, or a link to what isn't the program's own
    if data is None:
        streams.write_all(report, FETCHED.pack(-1))
    else:
        streams.write_all(report, FETCHED.pack(len(data)) + data)


def open_beneath(name: str) -> int:
    """A file beneath the working directory, wherever links lead while others move them about.

    Raises:
        OSError: there is none, or the way to it leaves the working directory.
    """
    how = struct.pack("QQQ", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    path = os.fsencode(name)
    file: int = ctypes.CDLL(None, use_errno=True).syscall(OPENAT2, AT_FDCWD, path, how, len(how))
    if file < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return file
