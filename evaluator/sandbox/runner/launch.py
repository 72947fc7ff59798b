"""How a program is started, and how it ends, inside a forked child: as under `python program.py`.

Everything that a program may patch is looked up before it runs. What it can reach in this process is its own: its
input, its output, the runner's empty shell. No expected output is here, and no other test's data.
"""

import _thread
import atexit
import builtins
import contextlib
import fcntl
import gc
import io
import json
import linecache
import marshal
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from . import harmless
from .wire import COMPILED, HARMLESS, NUMPY

NAME = "program.py"
PROGRAM = f"/w/{NAME}"
LOOKS_AT_ITSELF = (b"__file__", b"argv[0]", b"program.py")
"""A source with one of these finds itself as a file in scratch. For the others that would only cost time."""
NEEDS_TIDYING = (b"__del__", b"yield", b"open(", b"IOBase", b"Wrapper", b"BufferedWriter")
"""A source with one of these may have output that appears only when its objects are collected at the end."""
OURS = frozenset({"<launch>", "<calls>", "<nodes>", "<values>"})
"""Files whose frames a program's traceback doesn't begin with."""
INTERRUPTED = -int(signal.SIGINT)
CONTEST_MODULES = (
    "string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics", "itertools",
    "functools", "operator", "io", "sys", "json", "builtins", "typing",
)  # fmt: skip
PRELUDE = compile(
    "".join(f"from {name} import *\n" for name in CONTEST_MODULES)
    + f"import {', '.join(CONTEST_MODULES)}\nsys.setrecursionlimit(50000)\n",
    "<prelude>",
    "exec",
)
_exit = os._exit
_write = os.write
_excepthook = sys.excepthook
_format_exception = traceback.format_exception
_print_exception = traceback.print_exception
_kill = os.kill
_collect = gc.collect
_run_exit_functions = atexit._run_exitfuncs
_join_threads = threading._shutdown  # type: ignore[attr-defined]


def read_all(descriptor: int) -> bytes:
    """All bytes of a memfd, from its start, leaving its offset alone."""
    size = os.fstat(descriptor).st_size
    parts = []
    offset = 0
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


def place(stdin: int, stdout: int, stderr: int, keep: tuple[int, ...] = ()) -> Sequence[int]:
    """Make these the standard descriptors, keep `keep` at 3, 4, … and close everything else. Returns the kept ones."""
    moved = [os.dup(descriptor) for descriptor in (stdin, stdout, stderr, *keep)]
    high = [descriptor if descriptor > 15 else lift(descriptor) for descriptor in moved]
    for target, descriptor in enumerate(high):
        os.dup2(descriptor, target, inheritable=target < 3)
    os.closerange(len(high), 4096)
    return range(3, len(high))


def lift(descriptor: int) -> int:
    """The same file above the numbers that are going to be replaced."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, 16)


def open_streams() -> None:
    """sys.stdin, sys.stdout and sys.stderr as the interpreter makes them for files, over descriptors 0, 1 and 2."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        raw = io.FileIO(number, mode, closefd=False)
        raw.name = f"<{name}>"
        buffer = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
        errors = "backslashreplace" if number == 2 else "surrogateescape"
        stream = io.TextIOWrapper(buffer, "utf-8", errors, "\n", line_buffering=number == 2)
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def forget_runner() -> None:
    """Leave no trace of the runner where a program would stumble over it. Once, before anything is forked."""
    for name in [name for name in sys.modules if name.startswith("microcoder_runner")]:
        del sys.modules[name]
    sys.argv = [NAME]
    sys.orig_argv = ["python3", NAME]
    sys.path[:] = [entry for entry in sys.path if entry and not entry.startswith("/proc/")]


def compile_program(source: int, artifact: int, messages: int, bundle: bool) -> NoReturn:
    """Body of the compiling child: source text in, marshalled code and source out. A syntax error is a message."""
    text = read_all(source)
    files: dict[str, str] = {}
    if bundle:
        files = json.loads(text)["files"]
        text = files.pop(json.loads(text)["main"]).encode("utf-8", "surrogatepass")
    _exit(compile_source(text, files, artifact, messages)[1])


def compile_source(text: bytes, files: dict[str, str], artifact: int, messages: int) -> tuple[types.CodeType, int]:
    """The code, and the exit status that tells what is known of it. Ends the process where it can't be compiled."""
    try:
        code = compile(text, PROGRAM, "exec", dont_inherit=True)
        write_all(artifact, marshal.dumps((code, text, files)))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        error.__traceback__ = None
        write_all(messages, "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace"))
        _exit(1)
    status = COMPILED + (HARMLESS if not files and harmless.is_harmless(code) else 0)
    return code, status + (NUMPY if b"numpy" in text and "numpy" in harmless.imports_of(code) else 0)


def load_program(artifact: int, name: str, prelude: bool) -> tuple[types.ModuleType, types.CodeType, bytes]:
    """A fresh module `name` and the code to execute in it."""
    code, source, files = marshal.loads(read_all(artifact))
    os.close(artifact)
    if files:
        write_files(files)
        sys.path.insert(0, os.getcwd())
    module = make_module(name, source)
    if prelude:
        exec(PRELUDE, module.__dict__)
    return module, code, source


def make_module(name: str, source: bytes) -> types.ModuleType:
    """A fresh module `name`, whose lines tracebacks can show."""
    module = types.ModuleType(name)
    module.__file__ = PROGRAM
    module.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules[name] = module
    linecache.cache[PROGRAM] = (lambda: source.decode("utf-8", "replace"),)  # read when it is asked for
    if any(word in source for word in LOOKS_AT_ITSELF):
        write_program(NAME, source)
    return module


def run_script(artifact: int, prelude: bool) -> NoReturn:
    """The whole program, with its input on stdin."""
    run_main(lambda: load_program(artifact, "__main__", prelude))


def run_main(load: Callable[[], tuple[types.ModuleType, types.CodeType, bytes]]) -> NoReturn:
    """The main module, and the end. `load` hands it over: no frame of ours may keep it alive."""
    module, code, source = load()
    scope = module.__dict__
    status = 0
    del module
    hide_frames()
    try:
        exec(code, scope)
    except BaseException as error:
        status = report(error)
    del scope, code
    finish(status, tidy=any(word in source for word in NEEDS_TIDYING))


def hide_frames() -> None:
    """Let the program recurse as deeply as it could without the frames that lie below its own."""
    frames = 1 if sys.version_info < (3, 12) else 0  # there, `exec` counts as well
    frame = sys._getframe(1)
    while frame is not None:
        frame, frames = frame.f_back, frames + 1  # type: ignore[assignment]
    get, change = sys.getrecursionlimit, sys.setrecursionlimit
    sys.getrecursionlimit = lambda: get() - frames
    sys.setrecursionlimit = lambda limit, /: change(limit if limit < 1 else min(limit + frames, 2**31 - 1))
    sys.setrecursionlimit(1000)


def conclude(work: Callable[[], None]) -> NoReturn:
    """Do something that the program has a part in, and end as the interpreter would."""
    try:
        work()
    except BaseException as error:
        finish(report(error) or 1)
    finish(0)


def report(error: BaseException) -> int:
    """Print what the interpreter would print, without our frames. Returns the exit status."""
    if isinstance(error, SystemExit):
        return exit_status(error.code)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in OURS:
        trace = trace.tb_next
    error.__traceback__ = trace
    flush(sys.stdout)
    try:
        if sys.excepthook is not _excepthook:
            sys.excepthook(type(error), error, trace)
        else:
            _print_exception(error)
    except BaseException as second:
        second.__context__ = None
        write_error("Error in sys.excepthook:\n")
        describe_error(second)
        write_error("\nOriginal exception was:\n")
        describe_error(error)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def describe_error(error: BaseException) -> None:
    """A traceback to descriptor 2, whatever the program made of its streams."""
    try:
        text = "".join(_format_exception(error))
    except BaseException:
        text = f"{type(error).__name__}\n"
    write_error(text)


def write_error(text: str) -> None:
    try:
        _write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def exit_status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 255
    flush(sys.stdout)
    write_error(f"{code}\n")
    return 1


def flush(stream: Any) -> bool:
    """Whether all is written. A stream that is gone or closed has nothing to write."""
    try:
        if stream is not None and not stream.closed:
            stream.flush()
    except BaseException as error:
        write_error(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}\n")
        return False
    return True


def finish(status: int, *, tidy: bool = False) -> NoReturn:
    """End as the interpreter does: threads first, then exit functions, buffers, objects."""
    for step in (_join_threads, _run_exit_functions):
        try:
            step()
        except BaseException:
            pass
    written = flush(getattr(sys, "stdout", None))
    flush(getattr(sys, "stderr", None))
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__", None))
    if tidy:
        sys.modules.pop("__main__", None)
        _collect()
    written = written and flush(sys.stdout)
    if status == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _kill(os.getpid(), signal.SIGINT)
    _exit(status if written else 120)  # what the interpreter answers when its output can't be written


def run_command(source: int, name: str, command: list[str]) -> NoReturn:
    """Any interpreter: the source becomes a file in scratch, then the command replaces this process."""
    write_program(name, read_all(source))
    os.closerange(3, 4096)
    if command[0] == "python3":
        command = [sys.executable, "-X", "int_max_str_digits=0", *command[1:]]  # the same Python for both launchers
    os.execvpe(command[0], command, os.environ)


def write_program(name: str, source: bytes) -> None:
    """The program as a file in scratch."""
    with open(name, "wb") as file:
        file.write(source)


def write_files(files: dict[str, str]) -> None:
    """Files with their folders, beneath the working directory. The worker has checked the names."""
    for name, text in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        write_program(name, text.encode("utf-8", "surrogatepass"))


def import_all(names: Iterable[str]) -> None:
    """Import modules, those that are there."""
    for name in names:
        with contextlib.suppress(ImportError):
            __import__(name)


def import_random() -> None:
    """Let `random` begin in the same state in every test, so that a program that doesn't seed it has one verdict.

    It would seed itself anew in each child: that costs time, and makes verdicts flicker.
    """
    register, os.register_at_fork = os.register_at_fork, lambda **functions: None
    try:
        import random
    finally:
        os.register_at_fork = register
    random.seed(0)


def preload() -> None:
    """Do once, before anything is forked, what every program needs: imports, and integers that print at any length.

    Judges run PyPy or an interpreter from before that limit; the time that long integers take counts as any other.
    """
    sys.set_int_max_str_digits(0)
    import_random()
    import_all((*CONTEST_MODULES, "array", "decimal", "fractions", "queue", "cmath", "numbers", "types", "abc"))
    _thread.get_ident()
