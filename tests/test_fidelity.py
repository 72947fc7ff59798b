"""A compiled program in a forked runner does what `python program.py` does.

Both launchers run the same programs in the same box: their output, exit status, signal and last words must agree.
"""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.model import Limits, Program
from evaluator.sandbox.base import Box, Call, CompileFailure, Launcher, Run
from tests.boxes_helper import Room, open_room
from tests.fidelity_programs import PROGRAMS
from tests.requirements_helper import require

INPUT = b"first line\nsecond\r\nthird"
LABELLED = Path(__file__).parent.parent.parent / "shared" / "data" / "labelled"
FILES = ("kattis_icpc.jsonl", "apps_stdin.jsonl", "lcb_model_generations.jsonl")
PROGRAMS_PER_FILE = 85
DIFFERENT = {
    # Frames of the runner lie below the program's own; only the recursion limit is corrected for them.
    "format stack", "frames",
    # Said by the compiler, which doesn't run again for every test.
    "syntax warning", "interning",
    # Python before 3.12 guesses at names where it prints a traceback itself, not in `traceback`.
    "name hint", "name hint 2",
    # There is no loader, since there is no file.
    "builtins",
}  # fmt: skip


def run_both(box: Box, source: str, stdin: bytes, limits: Limits) -> list[Run | str]:
    """What each launcher made of a program; a text where it doesn't compile."""
    runs: list[Run | str] = []
    for launcher in Launcher:
        artifact = box.load(Program(source), limits, launcher)
        if isinstance(artifact, CompileFailure):
            runs.append(artifact.message)
            continue
        try:
            runs.append(box.run(artifact, Call(stdin), limits))
        finally:
            artifact.close()
    return runs


def describe(run: Run | str) -> tuple:
    """What must agree. The compiler's message stands for a run that ended with it."""
    if isinstance(run, str):
        return b"", 1, None, None, run.strip().splitlines()[-1].encode()
    last = run.stderr.strip().rpartition(b"\n")[2]
    return run.stdout, run.exit_code, run.signal, run.limit, last


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_launchers_do_the_same(room: Room, name: str):
    compiled, command = map(describe, run_both(room.box, PROGRAMS[name], INPUT, Limits()))
    if name in DIFFERENT:
        assert compiled[1:3] == command[1:3]
    else:
        assert compiled == command


def test_tracebacks_agree_to_the_letter(room: Room):
    for name in (
        "traceback",
        "chained",
        "context",
        "notes",
        "broken str",
        "syntax error at run time",
        "recursion error",
    ):
        compiled, command = run_both(room.box, PROGRAMS[name], INPUT, Limits())
        assert compiled.stderr == command.stderr, name


@pytest.fixture(scope="module")
def any_box() -> Iterator[Box]:
    """A box of the first kind that can be had."""
    for room in open_room("bubblewrap-root" if os.geteuid() == 0 else "bubblewrap-user"):
        yield room.box


def sample() -> list[tuple[str, str, bytes]]:
    """(id, source, input) of real programs, the same ones every time."""
    chosen = []
    for name in FILES:
        found = []
        with (LABELLED / name).open() as lines:
            for problem in map(json.loads, lines):
                if problem["kind"] == "stdin" and problem["tests"]:
                    for number, submission in enumerate(problem["submissions"]):
                        slow = "time" in submission["label"].lower() or "tle" in submission["label"].lower()
                        python = submission.get("language", "python").startswith("python")
                        if python and not slow and "random" not in submission["code"]:
                            found.append((f"{problem['id']}#{number}", submission["code"], problem["tests"]))
        for identity, source, tests in random.Random(name).sample(found, min(PROGRAMS_PER_FILE, len(found))):
            test = min(tests[:5], key=lambda test: len(test["input"]))
            chosen.append((identity, source, test["input"].encode()))
    return chosen


@pytest.mark.shared
def test_both_launchers_do_the_same_with_real_programs(any_box: Box):
    require("shared", None if LABELLED.is_dir() else f"there is no {LABELLED.name} data beside the checkout")
    limits = Limits(cpu_seconds=2)
    programs = sample()
    different, compared = [], 0
    for identity, source, stdin in programs:
        runs = run_both(any_box, source, stdin, limits)
        if any(isinstance(run, Run) and run.limit is not None for run in runs):
            continue  # where a limit falls is a matter of time
        compared += 1
        if describe(runs[0])[:4] != describe(runs[1])[:4]:
            different.append((identity, *map(describe, runs)))
    assert compared >= 0.8 * len(programs)
    assert not different, different[:3]
