"""Workloads of the speed benchmark: what is drawn is what was promised; and everybody who judges them judges them."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.labelled import BadInput, Labelled, Problem, read_problems
from benchmarks.library import Library
from benchmarks.peers.driver import build_source, is_right
from benchmarks.peers.sides import CannotRun, Floor, LiveCodeBenchBatch, PrimeCode, RequestPerTest, Side, Subprocesses
from benchmarks.processor_time import count_processor_seconds
from benchmarks.served import Service
from benchmarks.workloads import (
    GENERATIONS,
    GROUP_SIZE,
    SOURCES,
    Batch,
    Entry,
    draw_reward_batch,
    make_batch,
    make_numpy,
    make_small_workloads,
    make_trivial,
    salt,
    share_out,
    without_loops,
)
from evaluator.errors import SandboxUnavailable
from evaluator.livecodebench.official import OfficialFailed
from evaluator.model import Limits, TestCase, TestKind
from tests.requirements_helper import require

SHARED = Path(__file__).parents[2] / "shared" / "data" / "labelled"
QUICK_LIMITS = Limits(cpu_seconds=1.0)


@pytest.fixture(scope="module")
def generations() -> Path:
    require("shared", None if (SHARED / GENERATIONS).is_file() else f"{SHARED} isn't here")
    return SHARED


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    try:
        library = Library(2)
    except CannotRun as error:
        require("bubblewrap", str(error))
    yield library
    library.close()


def mixed() -> Batch:
    """Right, wrong, crashing and looping programs, of both kinds; one that exits early, one with its own duplicate."""
    numbers = tuple(TestCase(TestKind.STDIN, f"{n}\n", f"{2 * n}\n") for n in range(3))
    pairs = tuple(TestCase(TestKind.FUNCTIONAL, f"{n}\n[1]", f"[{n}, 1]") for n in range(3))
    double = Problem("double", numbers, (), limits=QUICK_LIMITS)
    method = Problem("method", pairs, (), "Solution.join", limits=QUICK_LIMITS)
    programs = [
        (double, "accepted", "print(2 * int(input()))\n"),
        (double, "accepted", "print(2 * int(input()))\n"),
        (double, "accepted", "import sys\nprint(2 * int(input()))\nsys.stdout.flush()\nsys.exit()\n"),
        (double, "wrong_answer", "print(3 * int(input()))\n"),
        (double, "runtime_error", "raise ValueError(input())\n"),
        (double, "compile_error", "print(\n"),
        (double, "time_limit", "n = int(input())\nwhile n:\n    pass\nprint(0)\n"),
        (method, "accepted", "class Solution:\n    def join(self, n, rest):\n        return [n, *rest]\n"),
        (method, "wrong_answer", "class Solution:\n    def join(self, n, rest):\n        return [*rest, n]\n"),
    ]
    entries = [Entry(problem, Labelled(str(n), label, text)) for n, (problem, label, text) in enumerate(programs)]
    return Batch("mixed", tuple(entries))


# The reward batch


def test_the_reward_batch_has_the_shares_of_the_generations(generations: Path):
    batch = draw_reward_batch(generations)
    programs = [item for problem in read_problems(generations / GENERATIONS) for item in problem.submissions]
    labels = Counter(item.label for item in programs if item.text)
    assert len(batch.entries) == 512
    assert {name: batch.shares[name] / 512 for name in labels} == pytest.approx(
        {name: count / labels.total() for name, count in labels.items()}, abs=1 / 512
    )
    groups = Counter(entry.problem.id for entry in batch.entries)
    assert len(groups) == 64
    assert set(groups.values()) == {GROUP_SIZE}
    assert {entry.problem.limits for entry in batch.entries} == {Limits(cpu_seconds=6.0)}


def test_every_program_belongs_to_its_problem_with_all_tests(generations: Path):
    known = {problem.id: problem for name in SOURCES for problem in read_problems(generations / name)}
    for entry in draw_reward_batch(generations).entries:
        problem = known[entry.problem.id]
        texts = {(item.label, item.text) for item in problem.submissions}
        assert (entry.program.label, entry.program.text.rpartition("\n# sample ")[0] or entry.program.text) in texts
        assert entry.problem.tests == problem.tests
        assert len(problem.tests) >= 5


def test_a_seed_decides_what_is_drawn(generations: Path):
    assert draw_reward_batch(generations, 16, seed=3) == draw_reward_batch(generations, 16, seed=3)
    assert draw_reward_batch(generations, 16, seed=3) != draw_reward_batch(generations, 16, seed=4)


def test_as_many_programs_repeat_another_as_in_the_generations(generations: Path):
    batch = draw_reward_batch(generations)
    assert batch.duplicates == round(512 * 37 / 3440) == 6
    assert salt(batch, 1).duplicates == 6


def test_the_variant_lacks_the_looping_programs_and_nothing_else(generations: Path):
    batch = draw_reward_batch(generations, 16)
    short = without_loops(batch)
    rest = [entry for entry in batch.entries if entry.program.label != "time_limit"]
    assert len(rest) < len(batch.entries)
    assert list(short.entries) == rest


def test_too_few_problems_are_told_of(tmp_path: Path):
    for name in SOURCES:
        (tmp_path / name).write_text("")
    with pytest.raises(BadInput, match="holds 0 fit problems, and 64 are to be drawn"):
        draw_reward_batch(tmp_path)


def test_shares_are_whole_and_add_up():
    assert share_out(Counter(a=1, b=1, c=1), 8) == {"a": 3, "b": 3, "c": 2}
    assert share_out(Counter(a=1646, b=1521, c=216, d=57), 512) == {"a": 245, "b": 226, "c": 32, "d": 9}


def test_a_salted_batch_shares_no_text_with_an_earlier_run():
    batch = make_trivial(5)
    texts = [{entry.program.text for entry in salt(batch, number).entries} for number in (1, 2)]
    assert not texts[0] & texts[1]
    assert len(texts[0]) == 5


# Whoever judges


def test_the_library_says_of_small_workloads_what_they_are_labelled(library: Library):
    for batch in make_small_workloads(2):
        for judge in (library.judge, library.judge_in_forks):
            judged = judge(salt(batch, 1))
            assert judged.count_right(batch) == 2, batch.name
            assert judged.seconds > 0


def test_the_library_counts_the_tests_that_ran(library: Library):
    batch = mixed()
    judged, answers = library.run(batch)
    assert [answer.verdict for answer in answers] == [entry.program.label for entry in batch.entries]
    assert [answer.tests for answer in answers] == [3, 3, 3, 2, 1, 0, 2, 3, 1]
    assert judged.count_right(batch) == len(batch.entries)


@pytest.mark.parametrize("kind", [Subprocesses, RequestPerTest, LiveCodeBenchBatch])
def test_peers_tell_right_from_wrong(kind: type):
    batch = mixed()
    try:
        side: Side = kind() if kind is RequestPerTest else kind(2)
    except (OfficialFailed, SandboxUnavailable) as error:
        require("livecodebench" if kind is LiveCodeBenchBatch else "bubblewrap", str(error))
    try:
        judged = side.judge(batch)
    finally:
        side.close()
    assert judged.accepted == tuple(entry.is_right for entry in batch.entries)
    assert judged.seconds > 1.0  # the looping program's limit


def test_the_service_says_what_the_library_says():
    batch = mixed()
    service = Service(1)
    try:
        judged = service.judge(batch)
        assert judged.accepted == tuple(entry.is_right for entry in batch.entries)
        assert 10 << 20 < service.memory_bytes < 1 << 30
    finally:
        service.close()


def test_what_cannot_run_says_what_to_do():
    with pytest.raises(CannotRun, match="check --sandboxfusion-url"):
        RequestPerTest("http://127.0.0.1:9")
    try:
        PrimeCode(1).close()
    except CannotRun as error:
        assert "pip install verl" in str(error)


# The floor


@pytest.fixture(scope="module")
def floor() -> Iterator[Floor]:
    floor = Floor(1)
    yield floor
    floor.close()


def burning(seconds: float, tests: int, then: str = "") -> Batch:
    """A program that needs so much processor time for each of its tests."""
    source = f"import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end:\n    pass\n{then}\n"
    return make_batch("burning", source, [("", "")] * tests, 1, limits=QUICK_LIMITS)


def test_the_floor_is_the_programs_own_processor_time(floor: Floor):
    assert floor.measure(burning(0.2, 3), [3]) == pytest.approx(0.6, abs=0.1)
    assert floor.measure(burning(0.2, 3), [1]) == pytest.approx(0.2, abs=0.05)
    assert floor.measure(make_trivial(10, 10), [10] * 10) < 0.1
    assert floor.measure(make_batch("sleep", "import time\ntime.sleep(0.5)\n", [("", "")], 1), [1]) < 0.1


def test_imports_that_a_warm_evaluator_saves_are_not_in_the_floor(floor: Floor):
    assert floor.measure(make_numpy(5, 2), [2] * 5) < 0.1


@pytest.mark.parametrize("then", ["raise SystemExit(3)", "import os; os._exit(3)", "import os; os.abort()"])
def test_a_program_that_ends_its_process_is_measured_on_all_its_tests(floor: Floor, then: str):
    assert floor.measure(burning(0.2, 3, then), [3]) == pytest.approx(0.6, abs=0.1)


def test_a_looping_program_costs_its_limit(floor: Floor):
    loop = make_batch("loop", "while True:\n    pass\n", [("", ""), ("", "")], 1, limits=QUICK_LIMITS)
    assert floor.measure(loop, [1]) == pytest.approx(1.0, abs=0.1)


def test_what_does_not_compile_costs_nothing(floor: Floor):
    broken = make_batch("broken", "print(\n", [("", "")], 1)
    whole = Batch("both", (*broken.entries, *burning(0.2, 1).entries))
    assert floor.measure(whole, [1, 1]) == pytest.approx(0.2, abs=0.05)


def test_functions_are_called(floor: Floor):
    source = "from time import process_time\ndef wait(seconds):\n    end = process_time() + seconds\n"
    source += "    while process_time() < end:\n        pass\n"
    call = make_batch("call", source, [("0.3", "null")], 1, entry_point="wait")
    assert floor.measure(call, [1]) == pytest.approx(0.3, abs=0.05)


def test_as_many_processors_share_the_floor():
    both = Floor(2)
    try:
        entries = burning(0.3, 1).entries * 2
        assert both.measure(Batch("two", entries), [1, 1]) == pytest.approx(0.3, abs=0.06)
    finally:
        both.close()


def test_processor_time_counts_children_that_ended_and_their_children():
    burn = "import time\nwhile time.process_time() < 0.3: pass\n"
    nested = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n{burn}"
    before = count_processor_seconds()
    subprocess.run([sys.executable, "-c", nested], check=True)
    assert count_processor_seconds() - before == pytest.approx(0.65, abs=0.2)


# What an interpreter for each test is given


def test_a_function_call_is_written_after_the_program():
    source = build_source("class A:\n    def f(self, x): return x", "A.f", has_prelude=False)
    assert source.rstrip().endswith("print(json.dumps(A().f(*_arguments)))")
    assert build_source("print(1)", None, has_prelude=False) == "print(1)"
    assert build_source("print(1)", None, has_prelude=True).endswith("print(1)")


@pytest.mark.parametrize(
    ("output", "expected", "function", "right"),
    [
        ("1  2\n", "1 2", None, True),
        ("1\n2", "1 2", None, True),
        ("1 3", "1 2", None, False),
        ("noise\n[1, 2]\n", "[1,2]", "f", True),
        ("[1, 3]\n", "[1,2]", "f", False),
        ("", "[1,2]", "f", False),
    ],
)
def test_outputs_are_compared(output: str, expected: str, function: str | None, right: bool):
    assert is_right(output, expected, function) is right


def test_entries_are_right_where_their_label_says_so():
    [entry] = make_trivial(1).entries
    assert entry.is_right
    assert not replace(entry, program=replace(entry.program, label="time_limit")).is_right
