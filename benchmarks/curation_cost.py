"""What curation costs: `python -m benchmarks.curation_cost memory|speed …`

    memory [--problems 100000] [--json OUT]     peak memory of every stage but verify, over synthetic problems
    speed DATA [--problems 200] [--json OUT]    problems a minute through verify, on two workers, each judged twice

Memory is measured in a process of its own for each size, by the kernel (`ru_maxrss`): a tenth of the problems first,
then all. Whatever a stage kept of each problem would show as a tenfold growth.

Speed is told twice: by the clock, and by the processor time of this process and its boxes, which a busy machine changes
little.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.contamination import iterate_problems
from benchmarks.curation_faults import shorten
from curation.card import write_card
from curation.exports import export
from curation.judging import LocalJudging
from curation.pipeline import Done, run_stages
from curation.problem import Problem, make_suite, write_problem
from curation.recipe import Recipe
from curation.registry import Workshop, make_stages
from curation.stage import Ledger
from curation.tallies import count_all
from curation.verification import Verify, VerifyParams
from evaluator.model import TestCase, TestKind

WORDS = 4000
STAGES = ("process", "admit", "duplicates", "contamination", "trim", "select")
MEBIBYTE = 1 << 20


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    memory = commands.add_parser("memory")
    memory.add_argument("--problems", type=int, default=100_000)
    memory.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    speed = commands.add_parser("speed")
    speed.add_argument("data", type=Path)
    speed.add_argument("--problems", type=int, default=200)
    for command in (memory, speed):
        command.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args(argv)
    if arguments.command == "memory" and arguments.alone:
        print(json.dumps(build_synthetic(arguments.problems)))
        return 0
    if arguments.command == "memory":
        figures = [measure_memory(size) for size in (arguments.problems // 10, arguments.problems)]
        Console().print(render_memory(figures))
    else:
        figures = [measure_speed(arguments.data, arguments.problems)]
        Console().print_json(json.dumps(figures[0]))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def measure_memory(problems: int) -> dict[str, Any]:
    """The figures of a build in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.curation_cost", "memory", "--alone", "--problems", str(problems)]
    figures: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


class Peaks:
    """Notes the peak of this process at the end of each stage."""

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        self.kept = 0
        self._began = time.monotonic()

    def begin(self, stage: str, total: int | None) -> None:
        """A stage begins."""
        self._began = time.monotonic()

    def advance(self, stage: str) -> None:
        """One problem more."""

    def end(self, stage: str, ledger: Ledger, repeated: bool) -> None:
        """Note its end."""
        self.note(stage)
        self.kept = sum(ledger.kept.values())

    def note(self, name: str) -> None:
        """Note a step's end."""
        self.peaks[name] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEBIBYTE
        self.seconds[name] = round(time.monotonic() - self._began, 1)


def build_synthetic(count: int) -> dict[str, Any]:
    """Build a corpus of so many synthetic problems, without judging; the peaks in MiB and the seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder, peaks = Path(name), Peaks()
        with (folder / "rows.jsonl").open("wb") as file:
            for problem in iterate_synthetic(count, seed=1):
                file.write(write_problem(problem))
        with (folder / "bench.jsonl").open("wb") as file:
            for problem in iterate_synthetic(1000, seed=2):
                file.write(write_problem(problem))
        recipe = Recipe.model_validate(
            {
                "name": "synthetic",
                "sources": [{"name": "rows", "reader": "jsonlines", "path": "rows.jsonl"}],
                "hold_out": [{"name": "bench", "reader": "jsonlines", "path": "bench.jsonl"}],
                "stages": [{stage: None} for stage in STAGES],
            }
        )
        peaks.note("before")
        shop = Workshop(recipe, folder, folder, lambda: LocalJudging("auto", 1), 1, threading.Event())
        done: list[Done] = run_stages(make_stages(shop), folder / "stages", peaks, shop.interrupt)
        peaks.begin("card", None)
        rows = export(done[-1].iterate(), folder)
        write_card(folder, recipe, done, count_all(done[-1].iterate()), rows)
        peaks.note("export and card")
        return {"problems": count, "kept": peaks.kept, "peaks": peaks.peaks, "seconds": peaks.seconds}


def iterate_synthetic(count: int, seed: int) -> Iterator[Problem]:
    """Problems of about 120 words and four tests, drawn: a hundredth are near copies of the one before."""
    draw = random.Random(seed)
    common = ("the", "of", "and", "to", "is", "a", "you", "are", "given", "that", "in", "with", "for", "from", "which")
    words: list[str] = []
    for number in range(count):
        if number % 100 == 99:
            words[draw.randrange(len(words))] = "another"
        else:
            words = [draw.choice(common) if draw.random() < 0.4 else f"word{draw.randrange(WORDS)}" for _ in range(120)]
        tests = [TestCase(TestKind.STDIN, f"{draw.random()} {number}\n", f"{draw.random()}\n") for _ in range(4)]
        yield Problem(
            f"synthetic/{seed}-{number}",
            " ".join(words),
            make_suite(tests),
            "synthetic",
            licence="MIT",
            difficulty=("easy", "medium", "hard", "")[number % 4],
            tags=(f"topic-{number % 12}",),
        )


def measure_speed(data: Path, count: int) -> dict[str, Any]:
    """Verification of LeetCode problems with their 15 longest tests, each twice, two at a time."""
    problems = [shorten(one, 15) for one in iterate_problems(data)][:count]
    with tempfile.TemporaryDirectory() as folder, closing(LocalJudging("bubblewrap", 2)) as boxes:
        list(run_verify(boxes, Path(folder) / "warm", problems[:4]))  # boxes are open before anything is measured
        start = time.monotonic()
        kept = sum(1 for _ in run_verify(boxes, Path(folder) / "journal", problems))
        seconds = time.monotonic() - start
    return {
        "problems": len(problems),
        "kept": kept,
        "tests_run": 2 * sum(len(one.suite.tests) for one in problems),
        "seconds": round(seconds, 1),
        "problems_a_minute": round(60 * len(problems) / seconds),
    }


def run_verify(boxes: LocalJudging, journal: Path, problems: Sequence[Problem]) -> Iterator[Problem]:
    """The stage by itself."""
    unnamed = [replace(one, wrong=()) for one in problems]
    return Verify(VerifyParams(), lambda: boxes, 2, journal, threading.Event()).run(unnamed)


def render_memory(figures: Sequence[dict[str, Any]]) -> Table:
    """Peaks by stage and size."""
    table = Table("after", *(f"{one['problems']:,} problems: peak MiB (seconds)" for one in figures))
    for name in figures[0]["peaks"]:
        table.add_row(name, *(f"{one['peaks'][name]:.0f} ({one['seconds'][name]:.0f})" for one in figures))
    return table


if __name__ == "__main__":
    sys.exit(main())
