"""The numbered programs of `attacks/`, in every kind of box: what each achieves is in `attacks/programs.toml`.

What must be seen from outside is in `test_attacks_host.py`, what comes out of a box in `test_attacks_output.py`, what
a compiler can be led to in `test_attacks_compiler.py`. The list of all, with what stops each: `attacks/catalogue.toml`.
"""

import tomllib

import pytest

from evaluator.judge import Rules, judge_run
from evaluator.model import Limits, Policy, Program, TestCase, TestKind
from evaluator.sandbox.base import Box, Call, Run
from tests.boxes_helper import Room
from tests.hosts_helper import ATTACKS, leave_to_make_attacks, read_attack

PROGRAMS = tomllib.loads((ATTACKS / "programs.toml").read_text())
ELSEWHERE = {
    "004_names_of_ours", "021_services", "048_core", "058_poison", "060_large_legal", "063_bytes", "064_imitation",
    "066_unread", "067_ends", "067_wrong",
}  # fmt: skip
"""Programs that other files of this suite run, with an input, or look at from outside."""


def read_lines(output: bytes) -> dict[str, str]:
    """What a program printed, as name -> outcome."""
    lines = output.decode().splitlines()
    parts = [line.removesuffix(":").partition(": ") for line in lines]
    return {name: outcome for name, _, outcome in parts}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(room: Room, name: str):
    wanted = PROGRAMS[name]
    if wanted.get("long"):
        leave_to_make_attacks(room)
    limits = {"cpu_seconds": 10.0, **wanted.get("limits", {})}
    box = room.box
    for _ in range(wanted.get("runs", 1)):
        run = room.run(read_attack(name), **limits)
        case = TestCase(TestKind.STDIN, "")
        verdict = judge_run(0, case, run, Rules(Limits(**limits), Policy())).verdict
        verdicts = wanted["verdict"] if isinstance(wanted["verdict"], list) else [wanted["verdict"]]
        assert verdict in verdicts and run.limit == wanted.get("limit", run.limit), run
        if "lines" in wanted:
            found = read_lines(run.stdout)
            wrong = {
                name: found.get(name, "no such line")
                for name in {*found, *wanted["lines"]}
                if found.get(name) not in wanted["lines"].get(name, "").split("|")
            }
            assert not wrong, wrong
    assert len(room.processes()) == 1
    assert room.box is box, "the box had to be thrown away"


def test_every_program_is_run():
    assert {path.stem for path in ATTACKS.glob("[0-9]*.py")} == {*PROGRAMS, *ELSEWHERE}


def test_two_programs_at_once_meet_nowhere(room: Room):
    """Both listen on the same port, and both try every channel, while the other does."""
    other = room.start()
    try:
        for name in ("024_listen", "056_channels"):
            runs = run_at_once([room.box, other], read_attack(name))
            for run in runs:
                assert read_lines(run.stdout) == read_lines(runs[0].stdout)
                wanted = PROGRAMS[name]["lines"]
                wrong = {k: v for k, v in read_lines(run.stdout).items() if v not in wanted[k].split("|")}
                assert not wrong
    finally:
        other.close()


def run_at_once(boxes: list[Box], source: str) -> list[Run]:
    """Four runs of a program in each box: while one box's is read, the other's goes on."""
    artifacts = [box.load(Program(source), Limits()) for box in boxes]
    streams = [box.run_all(artifact, [Call(b"")] * 4, Limits()) for box, artifact in zip(boxes, artifacts, strict=True)]
    runs = [run for together in zip(*streams, strict=True) for run in together]
    for artifact in artifacts:
        artifact.close()
    return runs


PROBE = """
import builtins, codecs, gc, heapq, json, math, os, signal, sys, threading
print(json.dumps(sum([1])), len("abc"), open is builtins.open, math.pi > 3.1, heapq.nsmallest(1, [2, 1]))
print(len(sys.meta_path) > 2, sys.gettrace(), sys.getrecursionlimit(), gc.isenabled(), threading.active_count())
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.alarm(0), codecs.lookup("utf-8").name)
print(json.loads("[1]"), os.listdir())
"""
PRISTINE = b"1 3 True True [1]\nTrue None 1000 True 1\nTrue 0 utf-8\n[1] []\n"


def test_a_poisoned_interpreter_is_the_programs_own(room: Room):
    box = room.box
    assert room.run(PROBE).stdout == PRISTINE
    assert b"poisoned" in room.run(read_attack("058_poison"), wall_seconds=3).stdout
    assert room.run(PROBE).stdout == PRISTINE
    assert room.call("def f(x): return x + 1", "f", "1").value is not None
    assert room.check("def f(x): return x + 1", "assert f(1) == 2").failure is None
    assert room.box is box
