"""What the worker asks of a runner, as it travels: the fields of an order."""

import json
from typing import Any

from evaluator.executions import Execution
from evaluator.model import Limits, Prelude, Program
from evaluator.model import TestKind as Kind
from evaluator.sandbox.base import Call, Launcher
from evaluator.sandbox.runner.wire import FETCHED

GRACE_SECONDS = 20.0


def spell_limits(limits: Limits) -> dict[str, float]:
    return {
        "cpu": limits.cpu_seconds,
        "wall": limits.wall,
        "memory": limits.memory_bytes,
        "output": limits.output_bytes,
        "processes": limits.processes,
    }


def deadline_of(limits: Limits) -> float:
    """When to give a box up: well after the runner's own hard end (`watch.PATIENCE` times the wall limit)."""
    return 5 * limits.wall + GRACE_SECONDS


def mode_of(program: Program, launcher: Launcher, call: Call) -> dict[str, Any]:
    functional = call.function is not None and call.test_code is None
    prelude = wants_prelude(program, functional)
    if call.is_execution:
        return {"mode": "execution"}
    if launcher is Launcher.COMMAND:
        command = ["python3", "-s", "-P", "-B", "program.py"]
        return {"mode": "command", "file": "program.py", "command": command}
    mode = Kind.ASSERTION if call.test_code is not None else ("function" if functional else "script")
    order = {"mode": str(mode), "prelude": prelude, "entry_point": call.function}
    if call.arguments is None:
        return order
    return {**order, "mode": "tool", "language": program.language, "arguments": call.arguments, "report": call.report}


def wants_prelude(program: Program, functional: bool) -> bool:
    return program.prelude is Prelude.CONTEST or (program.prelude is Prelude.AUTO and functional)


def encode_source(source: str) -> bytes:
    return source.encode("utf-8", "surrogatepass")


def bundle_files(program: Program) -> bytes:
    """A program of several files, or in a language that wants files, in one piece."""
    return json.dumps({"main": program.name, "files": {**dict(program.files), program.name: program.source}}).encode()


def spell_execution(execution: Execution) -> bytes:
    """What the child that runs it reads: names may be many and long, so they don't fit into an order."""
    wanted = {"arguments": execution.arguments, "files": dict(execution.files), "fetch": execution.fetch}
    return json.dumps(wanted).encode("utf-8", "surrogatepass")


def read_fetched(names: tuple[str, ...], data: bytes) -> tuple[tuple[str, bytes], ...]:
    """The files that came back, those that were there. What is no answer to `names` ends the list: the program runs
    beside whoever writes it."""
    found: list[tuple[str, bytes]] = []
    for name in names:
        if len(data) < FETCHED.size:
            break
        [size] = FETCHED.unpack_from(data)
        data = data[FETCHED.size :]
        if size > len(data):
            break
        if size >= 0:
            found.append((name, data[:size]))
            data = data[size:]
    return tuple(found)
