"""What a trivial test costs: on one box of each backend, against a bare fork and against a fresh interpreter.

    python -m benchmarks.throughput [--tests N] [--rounds N] [--json OUT]

Every contender runs the same program (`print(int(input()) + 1)`) on the same input; the rounds are interleaved, so that
a change of the machine's speed meets all of them. The floor is `fork` + `_exit` + `wait4` in a process that has loaded
and preloaded exactly what the runner has. Figures are milliseconds a test: median of the rounds, and the ratio to the
floor in the same round.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evaluator.errors import SandboxUnavailable
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call, CompileFailure
from evaluator.sandbox.pool import BACKENDS, load_backend

PROGRAM = "print(int(input()) + 1)\n"
FORK_LOOP = """
import gc, os, sys, time
sys.path.insert(0, sys.argv[1])
from evaluator.sandbox.runner import main, launch
launch.preload()
gc.collect(); gc.freeze()
sys.stdout.write("ready\\n"); sys.stdout.flush()
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.wait4(child, 0)
    sys.stdout.write(f"{time.perf_counter() - start}\\n"); sys.stdout.flush()
"""


def open_fork_loop(stack: ExitStack) -> Callable[[int], float]:
    """The floor: seconds for n bare forks of a process that is what the runner is."""
    root = str(Path(__file__).parent.parent)
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-s", "-P", "-c", FORK_LOOP, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"MALLOC_ARENA_MAX": "1", "PYTHONHASHSEED": "0"},
        )
    )
    stack.callback(process.stdin.close)
    assert process.stdout.readline() == "ready\n"

    def run(tests: int) -> float:
        process.stdin.write(f"{tests}\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    return run


def open_box(stack: ExitStack, backend: str) -> Callable[[int], float]:
    """Seconds for n tests on a warm box, the next one waiting while the last is looked at."""
    box = load_backend(backend).start()
    stack.callback(box.close)
    limits = Limits(cpu_seconds=2)
    artifact = box.load(Program(PROGRAM), limits)
    assert not isinstance(artifact, CompileFailure)
    stack.callback(artifact.close)

    def run(tests: int) -> float:
        start = time.perf_counter()
        for result in box.run_all(artifact, (Call(b"41\n") for _ in range(tests)), limits):
            assert result.stdout == b"42\n", result
        return time.perf_counter() - start

    return run


def run_subprocesses(tests: int) -> float:
    """Seconds for n fresh interpreters: what most graders do for each test."""
    start = time.perf_counter()
    for _ in range(tests):
        done = subprocess.run([sys.executable, "-c", PROGRAM], input=b"41\n", capture_output=True, check=True)
        assert done.stdout == b"42\n"
    return time.perf_counter() - start


def measure(tests: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds a test, by contender and round."""
    with ExitStack() as stack:
        contenders: dict[str, tuple[Callable[[int], float], int]] = {"fork": (open_fork_loop(stack), tests)}
        for name in BACKENDS:
            try:
                contenders[name] = (open_box(stack, name), tests)
            except SandboxUnavailable as error:
                print(f"{name}: left out. {error}", file=sys.stderr)
        contenders["subprocess"] = (run_subprocesses, max(5, tests // 20))
        figures: dict[str, list[float]] = {name: [] for name in contenders}
        for run, _ in contenders.values():
            run(5)  # warm-up
        for _ in range(rounds):
            for name, (run, count) in contenders.items():
                figures[name].append(run(count) / count * 1000)
    return figures


def main() -> int:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__.split("\n")[0])
    parser.add_argument("--tests", type=int, default=300, help="tests a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    figures = measure(arguments.tests, arguments.rounds)
    table = Table("contender", "ms a test", "tests a second", "ratio to a bare fork", "lowest", "highest")
    summary = {}
    for name, values in figures.items():
        ratios = [value / floor for value, floor in zip(values, figures["fork"], strict=True)]
        middle, ratio = statistics.median(values), statistics.median(ratios)
        summary[name] = {"ms": round(middle, 3), "ratio": round(ratio, 3), "rounds_ms": [round(v, 3) for v in values]}
        low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
        table.add_row(name, f"{middle:.2f}", f"{1000 / middle:.0f}", f"{ratio:.2f}", low, high)
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps({"tests": arguments.tests, "contenders": summary}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
