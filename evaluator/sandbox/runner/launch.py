"""How a program is started, and how it ends, inside a forked child: as under `python program.py`.

Everything that a program may patch is looked up before it runs. What it can reach in this process is its own: its
input, its output, the runner's empty shell. No expected output is here, and no other test's data.
"""

import _thread
import atexit
import builtins
import contextlib
import gc
import json
import linecache
import marshal
import os
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from . import harmless, prelude
from .streams import read_all, write_all
from .wire import COMPILED, HARMLESS, NUMPY

_register = os.register_at_fork
os.register_at_fork = lambda **functions: None
try:
    # Each would do its own work in every child. `random` would seed itself anew, which makes verdicts flicker;
    # `threading` counts its threads, of which there is one: programs that fork get it back (`watch_forks`).
    import random
    import threading
finally:
    os.register_at_fork = _register

NAME = "program.py"
PROGRAM = f"/w/{NAME}"
LOOKS_AT_ITSELF = (b"__file__", b"argv[0]", b"program.py")
"""A source with one of these finds itself as a file in scratch. For the others that would only cost time."""
NEEDS_TIDYING = (b"__del__", b"yield", b"open(", b"IOBase", b"Wrapper", b"BufferedWriter")
"""A source with one of these may have output that appears only when its objects are collected at the end."""
OURS = frozenset({"<launch>", "<calls>", "<nodes>", "<values>"})
"""Files whose frames a program's traceback doesn't begin with."""
INTERRUPTED = -int(signal.SIGINT)
_close = os.close
_loads = marshal.loads
_Module = types.ModuleType
_modules = sys.modules
_get_recursion_limit, _set_recursion_limit = sys.getrecursionlimit, sys.setrecursionlimit
hidden = [0]
"""Frames below the program's first."""
Loaded = tuple[types.ModuleType, types.CodeType, bytes, bool]
"""A module, the code to execute in it, its source, whether it needs tidying at its end."""
source_text = [b""]
"""The source of the program that runs in this child."""
_exit = os._exit
_write = os.write
_after_fork = threading._after_fork  # type: ignore[attr-defined]
_excepthook = sys.excepthook
_format_exception = traceback.format_exception
_print_exception = traceback.print_exception
_kill = os.kill
_collect = gc.collect
_run_exit_functions = atexit._run_exitfuncs
_join_threads = threading._shutdown  # type: ignore[attr-defined]
_count_threads = _thread._count
_thread_exits = threading._threading_atexits  # type: ignore[attr-defined]
_sys = vars(sys)


def watch_forks() -> None:
    """In a child: let `threading` know of forks from now on, and of the thread that this is."""
    _register(after_in_child=_after_fork)


def forget_runner() -> None:
    """Leave no trace of the runner where a program would stumble over it. Once, before anything is forked."""
    for name in [name for name in sys.modules if name.startswith("microcoder_runner")]:
        del sys.modules[name]
    sys.argv = [NAME]
    sys.orig_argv = ["python3", NAME]
    sys.path[:] = [entry for entry in sys.path if entry and not entry.startswith("/proc/")]


class Compiled(NamedTuple):
    """A program's code, and what is known of it."""

    code: types.CodeType
    status: int
    """The exit status of the child that compiles: see `wire.py`."""
    imported: frozenset[str]
    names: tuple[str, ...] | None
    """The prelude's that it may use; None: all."""


def compile_program(source: int, artifact: int, messages: int, bundle: bool) -> NoReturn:
    """Body of the compiling child: source text in, marshalled code and source out. A syntax error is a message."""
    text = read_all(source)
    files: dict[str, str] = {}
    if bundle:
        files = json.loads(text)["files"]
        text = files.pop(json.loads(text)["main"]).encode("utf-8", "surrogatepass")
    _exit(compile_source(text, files, artifact, messages).status)


def compile_source(text: bytes, files: dict[str, str], artifact: int, messages: int) -> Compiled:
    """Code that is written to `artifact`. Ends the process where there is none."""
    try:
        code = compile(text, PROGRAM, "exec", dont_inherit=True)
        looks, untidy = look_at(text)
        parts = harmless.list_parts(code)
        names = prelude.find_names(parts) if not files else None
        write_all(artifact, marshal.dumps((code, text, files, looks, untidy, names)))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        error.__traceback__ = None
        write_all(messages, "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace"))
        _exit(1)
    imported = harmless.find_imports(parts)
    status = COMPILED + (HARMLESS if not files and harmless.is_harmless(parts, imported) else 0)
    return Compiled(code, status + (NUMPY if "numpy" in imported else 0), imported, names)


def look_at(source: bytes) -> tuple[bool, bool]:
    """Whether a program finds itself as a file, and whether it needs tidying at its end."""
    return any(word in source for word in LOOKS_AT_ITSELF), any(word in source for word in NEEDS_TIDYING)


def load_program(artifact: int, name: str, with_prelude: bool, every_name: bool = False) -> Loaded:
    """A fresh module `name`, the code to execute in it, its source, and whether it needs tidying at its end.

    `every_name`: somebody else than the program will look names up in it.
    """
    code, source, files, looks, untidy, names = _loads(read_all(artifact))
    _close(artifact)
    if files:
        write_files(files)
        sys.path.insert(0, os.getcwd())
    module = make_module(name, source, looks)
    if with_prelude:
        prelude.bind(module.__dict__, None if every_name else names)
    return module, code, source, untidy


def make_module(name: str, source: bytes, looks: bool) -> types.ModuleType:
    """A fresh module `name`, whose lines tracebacks can show. `looks`: it finds itself as a file."""
    module = _Module(name)
    module.__file__ = PROGRAM
    scope = module.__dict__
    scope["__builtins__"] = builtins
    scope["__annotations__"] = {}
    _modules[name] = module
    source_text[0] = source
    if looks:
        write_program(NAME, source)
    return module


def read_source() -> str:
    """For tracebacks: `linecache` calls it when the program's source is asked for."""
    return source_text[0].decode("utf-8", "replace")


def run_script(artifact: int, with_prelude: bool) -> NoReturn:
    """The whole program, with its input on stdin."""
    run_main(load_program, artifact, "__main__", with_prelude)


def run_main(load: Callable[..., Loaded], *arguments: Any) -> NoReturn:
    """The main module, and the end. `load` hands it over: no other frame of ours may keep it alive."""
    module, code, _, untidy = load(*arguments)
    scope = module.__dict__
    status = 0
    del module
    hide_frames()
    try:
        exec(code, scope)
    except BaseException as error:
        status = report(error)
    del scope, code
    finish(status, tidy=untidy)


def hide_frames() -> None:
    """Let the program recurse as deeply as it could without the frames that lie below its own."""
    frames = 1 if sys.version_info < (3, 12) else 0  # there, `exec` counts as well
    frame = sys._getframe(1)
    while frame is not None:
        frame, frames = frame.f_back, frames + 1  # type: ignore[assignment]
    hidden[0] = frames
    set_recursion_limit(1000)


def get_recursion_limit() -> int:
    """`sys.getrecursionlimit` of programs."""
    return _get_recursion_limit() - hidden[0]


def set_recursion_limit(limit: int, /) -> None:
    """`sys.setrecursionlimit` of programs."""
    _set_recursion_limit(limit if limit < 1 else min(limit + hidden[0], 2**31 - 1))


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
    if _count_threads() or _thread_exits:
        attempt(_join_threads)
    attempt(_run_exit_functions)
    written = flush(_sys.get("stdout"))
    flush(_sys.get("stderr"))
    if tidy or _sys.get("stdout") is not _sys.get("__stdout__"):
        for name in ("stdin", "stdout", "stderr"):
            _sys[name] = _sys.get(f"__{name}__")
        if tidy:
            sys.modules.pop("__main__", None)
            _collect()
        written = written and flush(sys.stdout)
    if status == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _kill(os.getpid(), signal.SIGINT)
    _exit(status if written else 120)  # what the interpreter answers when its output can't be written


def attempt(step: Callable[[], object]) -> None:
    """What a program left to be done at its end. Its exceptions change nothing any more."""
    try:
        step()
    except BaseException:
        pass


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


def preload() -> None:
    """Do once, before anything is forked, what every program needs: imports, and integers that print at any length.

    Judges run PyPy or an interpreter from before that limit; the time that long integers take counts as any other.
    """
    sys.set_int_max_str_digits(0)
    random.seed(0)
    linecache.cache[PROGRAM] = (read_source,)
    sys.getrecursionlimit, sys.setrecursionlimit = get_recursion_limit, set_recursion_limit
    os.environ.pop("LD_BIND_NOW", None)  # it was for this interpreter
    prelude.make()
    import_all(("array", "decimal", "fractions", "queue", "cmath", "numbers", "types", "abc"))
    _thread.get_ident()
