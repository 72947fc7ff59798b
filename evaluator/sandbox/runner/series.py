"""A program's tests one after another in one child: a fork costs more than most tests do.

Only for programs that leave no trace (`harmless.py`). Each test runs the whole program anew in fresh globals, on
streams of its own, and is handed over only when the one before has ended: the child never holds an input that isn't
due. The worker is at the other end of the conversation, and believes nothing that it wouldn't believe of a program's
output. Whatever takes long, fails or looks odd is repeated in a child of its own.

    worker  length, input         child  READY or, where it compiles, its status; then per test: REPLY, output, value
"""

import builtins
import io
import marshal
import os
import resource
import sys
import time
import types
from typing import Any, NoReturn

from . import calls, harmless, launch, prelude, streams
from .wire import HARMLESS, LENGTH, NUMPY, READY, REPLY

ODD = -1
"""The exit status of a test that changed something which outlasts it."""
_clock = time.process_time_ns
_read, _close, _exit = os.read, os.close, os._exit
_read_all, _write_all, _compile_source = streams.read_all, streams.write_all, launch.compile_source
_usage = resource.getrusage
_builtins = vars(builtins)


def serve(artifact: int, with_prelude: bool, path: str | None, conversation: int) -> NoReturn:
    """Body of the child of a program that was compiled before."""
    code, source, _, _, _, names = marshal.loads(_read_all(artifact))
    os.close(artifact)
    imported = harmless.find_imports(harmless.list_parts(code))
    series = Series(launch.Compiled(code, 0, imported, names), source, with_prelude, path)
    _write_all(conversation, READY)
    go_on(series, conversation)


def compile_and_serve(
    source: int, artifact: int, messages: int, with_prelude: bool, path: str | None, conversation: int
) -> NoReturn:
    """Compile, and go on where that is possible here; else end as the compiling child does."""
    text = _read_all(source)
    compiled = _compile_source(text, {}, artifact, messages)
    status = compiled.status
    if not status & HARMLESS or (status & NUMPY and "numpy" not in sys.modules):
        _exit(status)
    _close(artifact)
    _close(messages)
    series = Series(compiled, text, with_prelude, path)
    _write_all(conversation, bytes((status,)))
    go_on(series, conversation)


def go_on(series: "Series", conversation: int) -> NoReturn:
    """Run what comes, until the worker hangs up."""
    while (data := receive(conversation)) is not None:
        _write_all(conversation, series.run(data))
    _exit(0)


def receive(conversation: int) -> bytes | None:
    """The next input; None when there will be none."""
    head = read_exactly(conversation, LENGTH.size)
    return None if head is None else read_exactly(conversation, *LENGTH.unpack(head))


def read_exactly(descriptor: int, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        part = _read(descriptor, size - len(data))
        if not part:
            return None
        data = data + part if data else part
    return data


def peak() -> int:
    """Bytes that were resident at most."""
    return _usage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Series:
    """One program, run again and again."""

    def __init__(self, compiled: launch.Compiled, source: bytes, with_prelude: bool, path: str | None) -> None:
        self.code, self.source = compiled.code, source
        self.name = "__main__" if path is None else "program"
        self.path = path
        self.scope: dict[str, Any] = {"__file__": launch.PROGRAM, "__builtins__": builtins}
        if with_prelude:
            prelude.bind(self.scope, compiled.names)
        for name in compiled.imported:
            __import__(name)
        # Their numbers of names: to look at the names themselves is to copy what they lie on (see `harmless.py`).
        self.known = [_builtins, *[vars(sys.modules[name]) for name in compiled.imported if name != "sys"]]
        self.before = [len(scope) for scope in self.known]
        self.recursion_limit: int | None = prelude.RECURSION_LIMIT if with_prelude else None
        self.digits = sys.get_int_max_str_digits()
        self.resident = peak()

    def run(self, data: bytes) -> bytes:
        """One test: its reply."""
        stdout = io.BytesIO()
        streams = self.open_streams(data, stdout)
        module = types.ModuleType(self.name)
        sys.modules[self.name] = module
        scope = module.__dict__
        scope.update(self.scope, __name__=self.name, __annotations__={})
        if self.recursion_limit is None:
            launch.hide_frames()
            self.recursion_limit = sys.getrecursionlimit()
        sys.setrecursionlimit(self.recursion_limit)
        sys.set_int_max_str_digits(self.digits)
        status, value = 0, b""
        begun = _clock()
        try:
            if self.path is None:
                exec(self.code, scope)
            else:
                value = calls.perform(scope, self.code, self.source, self.path, calls.parse_arguments(data))
            streams[1].flush()
            output = stdout.getvalue()
        except SystemExit as error:
            status, output = self.end(error, streams[1], stdout)
        except BaseException:  # told in full by the child that repeats it
            status, output = 1, b""
        spent = _clock() - begun
        if [sys.stdin, sys.stdout, sys.stderr] != streams or [*map(len, self.known)] != self.before:
            status = ODD
        return REPLY.pack(status, spent, peak() - self.resident, len(output), len(value)) + output + value

    def open_streams(self, data: bytes, stdout: io.BytesIO) -> list[io.TextIOWrapper]:
        """Streams in memory. What could tell them from files makes a program unfit for a series."""
        sys.stdin = io.TextIOWrapper(io.BytesIO(data if self.path is None else b""), "utf-8", "surrogateescape", "\n")
        sys.stdout = io.TextIOWrapper(stdout, "utf-8", "surrogateescape", "\n")
        sys.stderr = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", "\n")
        return [sys.stdin, sys.stdout, sys.stderr]

    def end(self, error: SystemExit, stream: io.TextIOWrapper, stdout: io.BytesIO) -> tuple[int, bytes]:
        """The program ended by itself. A function that does so hasn't returned."""
        if self.path is not None:
            return 1, b""
        try:
            stream.flush()
            return (0 if error.code is None or (error.code == 0 and type(error.code) is int) else 1), stdout.getvalue()
        except ValueError:  # it had closed its output
            return 1, b""
