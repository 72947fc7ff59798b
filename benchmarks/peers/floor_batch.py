"""The floor: processor time that the programs themselves need, which nobody who runs them can save.

Each program is compiled first, outside of the measurement. Then its tests, up to the last that counts, run one after
another in one child, forked from this interpreter, which has imported what the evaluator's runner has, numpy, and all
names of the contest prelude: no import is counted that a warm evaluator saves, and no fork but one. Where a program
ends the child, its other tests get a new one. The figure is the child's processor time as `wait4` reports it, user and
system, less what a child with an empty program needs (measured after each tenth program, so in the same minute).
Output goes to /dev/null, and is compared with nothing. A program over its limit is killed there.

It is meant to be low: one that isolates each test from the others, as ours does where a program isn't harmless, has to
pay for that above the floor.

One program a line on standard input, one answer a line on standard output, both JSON.
"""

import contextlib
import gc
import io
import json
import math
import mmap
import os
import resource
import signal
import sys
from pathlib import Path
from types import CodeType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
import numpy  # noqa: F401

from evaluator.sandbox.runner import launch, prelude, streams

EMPTY = compile("", "<empty>", "exec")
EVERY = 10
"""Programs between two measurements of the empty one."""
PATIENCE = 10
"""Times its limit that a program may take on the wall: then it waits for something that doesn't come."""
SCOPE: dict[str, Any] = {}
PLACE = mmap.mmap(-1, mmap.PAGESIZE)
"""Shared with the children: how many tests were begun."""


def main() -> None:
    """Answer requests until there are no more."""
    launch.preload()
    SCOPE.update(prelude.names)
    gc.collect()
    gc.freeze()
    for number, line in enumerate(sys.stdin.buffer):
        answer = measure(**json.loads(line))
        empty = [run(EMPTY, [""], None, False, 1.0)[0]] if number % EVERY == 0 else []
        print(json.dumps(answer | {"empty": empty}), flush=True)


def measure(source: str, entry_point: str | None, prelude: bool, inputs: list[str], seconds: float) -> dict[str, Any]:
    """Processor seconds of the tests in all, and how many children they needed."""
    try:
        code = compile(source, "program.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {"seconds": 0.0, "children": 0}
    spent, children, rest = 0.0, 0, inputs
    while rest:
        took, begun = run(code, rest, entry_point, prelude, seconds)
        spent, children, rest = spent + took, children + 1, rest[max(1, begun) :]
    return {"seconds": spent, "children": children}


def run(code: CodeType, inputs: list[str], entry_point: str | None, prelude: bool, seconds: float) -> tuple[float, int]:
    """Processor seconds of a child, and how many of the tests it began."""
    PLACE[:8] = bytes(8)
    given = [write_input(text) for text in inputs]
    child = os.fork()
    if child == 0:
        try:
            for number, stdin in enumerate(given, start=1):
                PLACE[:8] = number.to_bytes(8, "little")
                with contextlib.suppress(BaseException):
                    execute(code, stdin, entry_point, prelude, seconds)
        finally:
            os._exit(0)
    for stdin in given:
        os.close(stdin)
    _, _, usage = os.wait4(child, 0)
    return usage.ru_utime + usage.ru_stime, int.from_bytes(PLACE[:8], "little")


def write_input(text: str) -> int:
    """A file in memory, at its start."""
    descriptor = os.memfd_create("stdin")
    streams.write_all(descriptor, text.encode("utf-8", "surrogatepass"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def execute(code: CodeType, stdin: int, entry_point: str | None, prelude: bool, seconds: float) -> None:
    """One test, in the child."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(math.ceil(PATIENCE * seconds))
    silence = os.open(os.devnull, os.O_RDWR)
    for target, descriptor in enumerate((stdin, silence, silence)):
        os.dup2(descriptor, target)
    os.close(silence)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, streams.open_stream(io.FileIO(number, "w" if number else "r", closefd=False), name))
    scope = {**(SCOPE if prelude else {}), "__builtins__": __builtins__}
    scope["__name__"] = "__main__" if entry_point is None else "program"
    if entry_point is None:
        exec(code, scope)
        sys.stdout.flush()
        return
    arguments = [json.loads(line) for line in sys.stdin.read().split("\n") if line.strip()]
    exec(code, scope)
    owner, _, name = entry_point.rpartition(".")
    function = getattr(scope[owner](), name) if owner else scope[name]
    function(*arguments)


if __name__ == "__main__":
    main()
