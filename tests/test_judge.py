"""From facts to verdicts, in real boxes; and what is said when boxes die, which here are really killed."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.errors import SandboxUnavailable
from evaluator.judge import Judge
from evaluator.model import (
    Judgement,
    Limits,
    Policy,
    Program,
    Reason,
    RewardScheme,
    Submission,
    Suite,
    TestCase,
    TestKind,
    TestOrder,
    Verdict,
)
from evaluator.sandbox.base import Artifact, Box, Call
from evaluator.sandbox.bubblewrap import BubblewrapBackend
from evaluator.sandbox.channel import LoadedProgram, RunnerBox
from evaluator.sandbox.pool import Pool
from evaluator.suspicions import SuspicionKind
from tests.boxes_helper import NAMESPACE, find_processes
from tests.requirements_helper import require

ECHO = "print(input())"
MARK = "# kills its box"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """One pool for all tests that don't kill boxes."""
    backend = BubblewrapBackend()
    try:
        pool = Pool(backend, backend.start(), spare=False)
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))
    yield pool
    pool.close()


def stdin(input_: str, expected: str | None) -> TestCase:
    """A test on standard input."""
    return TestCase(TestKind.STDIN, input_, expected)


def judge(pool: Pool, source: str | None, *tests: TestCase, entry_point: str | None = None, **options) -> Judgement:
    """A judgement of a program on some tests."""
    program = None if source is None else Program(source, entry_point=entry_point)
    callbacks = {name: options.pop(name) for name in ("cancelled", "progress") if name in options}
    return Judge(pool).judge(Submission(program, "suite", **options), Suite("suite", tests), **callbacks)


def verdicts(judgement: Judgement) -> list[Verdict]:
    """Each test's verdict."""
    return [test.verdict for test in judgement.tests]


# --- verdicts -----------------------------------------------------------------------------------------------------


def test_a_right_program_is_accepted(pool: Pool):
    judgement = judge(pool, ECHO, stdin("1\n", "1\n"), stdin("2\n", "2"))
    assert (judgement.verdict, judgement.reward, judgement.first_failed) == (Verdict.ACCEPTED, 1.0, None)
    assert all(test.match.matched and test.output is None for test in judgement.tests)
    assert judgement.runtime.sandbox == "bubblewrap"
    assert judgement.wall_seconds > 0 and judgement.cpu_seconds >= 0 and judgement.memory_bytes >= 0


def test_many_large_outputs_fill_neither_worker_nor_record(pool: Pool):
    """Twenty outputs of a mebibyte of zero bytes, each of which JSON spells with six characters: the first is kept."""
    flood = "import sys; sys.stdout.write('\\0' * (1 << 20))"
    judgement = judge(pool, flood, *[stdin(f"{number}\n", None) for number in range(20)])
    assert judgement.verdict is Verdict.ACCEPTED
    assert judgement.tests[0].output == "\0" * (1 << 20)
    assert len(json.dumps([test.output for test in judgement.tests])) < 9 << 20


@pytest.mark.parametrize(
    ("source", "verdict", "said"),
    [
        ("print(1)", Verdict.WRONG_ANSWER, "expected"),
        ("1 / 0", Verdict.RUNTIME_ERROR, "ZeroDivisionError"),
        ("import sys; print(2); sys.exit(3)", Verdict.RUNTIME_ERROR, "exit status 3"),
        ("import os; print(2, flush=True); os.kill(os.getpid(), 9)", Verdict.RUNTIME_ERROR, "signal 9"),
        ("while True: pass", Verdict.TIME_LIMIT, "0.3 s of processor time"),
        ("print(2, flush=True)\nwhile True: pass", Verdict.TIME_LIMIT, "0.3 s"),
        ("import time; time.sleep(60)", Verdict.TIME_LIMIT, "on the wall"),
        ("x = bytearray(10 ** 9)\nprint(2)", Verdict.MEMORY_LIMIT, "memory"),
        ("x = b'x' * (200 << 20)\nprint(2)", Verdict.MEMORY_LIMIT, "memory"),
        ("raise MemoryError", Verdict.MEMORY_LIMIT, "MemoryError"),
        ("print('x' * 10 ** 6)", Verdict.OUTPUT_LIMIT, "bytes"),
        ("print(2)\nx = [0] * 10 ** 8\n1 / 0", Verdict.MEMORY_LIMIT, "memory"),
        ("if True print(2)", Verdict.COMPILE_ERROR, "SyntaxError"),
        ("print(2)\nreturn 3", Verdict.COMPILE_ERROR, "SyntaxError"),
    ],
)
def test_limits_come_first_then_the_programs_end_then_its_output(pool: Pool, source: str, verdict: Verdict, said: str):
    limits = Limits(cpu_seconds=0.3, wall_seconds=1.5, memory_bytes=100 << 20, output_bytes=100_000)
    judgement = judge(pool, source, stdin("", "2\n"), limits=limits)
    assert (judgement.verdict, judgement.reward) == (verdict, 0.0)
    assert said in judgement.detail


def test_without_code_there_is_nothing_to_run(pool: Pool):
    judgement = judge(pool, None, stdin("1", "1"))
    assert (judgement.verdict, judgement.reward, judgement.tests) == (Verdict.NO_CODE, 0.0, ())


def test_without_an_expected_output_the_output_is_the_answer(pool: Pool):
    judgement = judge(pool, ECHO, stdin("a\n", None))
    assert (judgement.verdict, judgement.tests[0].output) == (Verdict.ACCEPTED, "a\n")
    call = TestCase(TestKind.FUNCTIONAL, "[1, 2]")
    judgement = judge(pool, "def f(x): return {'sum': sum(x)}", call, entry_point="f")
    assert json.loads(judgement.tests[0].output) == {"sum": 3}
    assert judge(pool, "def f(x): return {sum(x)}", call, entry_point="f").tests[0].output == "{3}"
    assert judge(pool, "1 / 0", stdin("", None)).verdict is Verdict.RUNTIME_ERROR


def test_functional_tests_compare_values(pool: Pool):
    tests = [TestCase(TestKind.FUNCTIONAL, f"{n}\n2", json.dumps([n, 2 * n])) for n in range(3)]
    assert judge(pool, "def f(a, b): return [a, a * b]", *tests, entry_point="f").verdict is Verdict.ACCEPTED
    assert judge(pool, "def f(a, b): return [a, b]", *tests, entry_point="f").verdict is Verdict.WRONG_ANSWER
    for source in (
        "def f(a, b): exit(0)",
        "import os\ndef f(a, b): os._exit(0)",
        "def f(a, b): raise KeyError",
        "x = 1",
    ):
        assert judge(pool, source, *tests, entry_point="f").verdict is Verdict.RUNTIME_ERROR


def test_a_value_counts_whatever_the_exit_status(pool: Pool):
    tests = [TestCase(TestKind.FUNCTIONAL, str(n), str(n)) for n in range(4)]
    source = "import os, atexit\natexit.register(os._exit, 3)\ndef f(x): return x"
    assert verdicts(judge(pool, source, *tests, entry_point="f")) == [Verdict.ACCEPTED] * 4


def test_assertion_tests_tell_wrong_from_broken(pool: Pool):
    test = TestCase(TestKind.ASSERTION, "assert f(1) == 2")
    for source, verdict in (
        ("def f(x): return 2", Verdict.ACCEPTED),
        ("def f(x): return 3", Verdict.WRONG_ANSWER),
        ("def f(x): return x.y", Verdict.RUNTIME_ERROR),
        ("import os\ndef f(x): os._exit(0)", Verdict.RUNTIME_ERROR),
        ("def f(x): return bytearray(10 ** 12)", Verdict.MEMORY_LIMIT),
    ):
        assert judge(pool, source, test, entry_point="f").verdict is verdict, source


def test_many_assertion_tests_are_all_judged(pool: Pool):
    tests = [TestCase(TestKind.ASSERTION, f"assert f({n}) == {n}") for n in range(5)]
    assert verdicts(judge(pool, "def f(x): return x", *tests, entry_point="f")) == [Verdict.ACCEPTED] * 5
    found = verdicts(judge(pool, "def f(x): return min(x, 2)", *tests, entry_point="f"))
    assert found == [Verdict.ACCEPTED] * 3 + [Verdict.WRONG_ANSWER, Verdict.SKIPPED]


@pytest.mark.parametrize("wrong", ["print(0)", "1 / 0", "while True: pass"])
def test_fail_fast_skips_the_rest(pool: Pool, wrong: str):
    source = f"n = int(input())\nif n == 1:\n  {wrong}\nelse: print(n)"
    tests = [stdin(f"{n}\n", f"{n}\n") for n in range(4)]
    limits = Limits(cpu_seconds=0.3)
    judgement = judge(pool, source, *tests, limits=limits)
    assert [verdicts(judgement)[0], *verdicts(judgement)[2:]] == [Verdict.ACCEPTED, Verdict.SKIPPED, Verdict.SKIPPED]
    assert (judgement.first_failed, judgement.reward) == (1, 0.0)
    assert judgement.verdict is judgement.tests[1].verdict
    judgement = judge(pool, source, *tests, limits=limits, fail_fast=False)
    assert [verdict is Verdict.ACCEPTED for verdict in verdicts(judgement)] == [True, False, True, True]
    assert judge(pool, source, *tests, limits=limits, fail_fast=False, reward=RewardScheme.FRACTION).reward == 0.75
    assert judge(pool, source, *tests, limits=limits, reward=RewardScheme.FRACTION).reward == 0.25


def test_the_policy_is_followed(pool: Pool):
    assert judge(pool, "print('1.0000001')", stdin("", "1.0\n")).verdict is Verdict.ACCEPTED
    exact = Policy(profile="exact")
    assert judge(pool, "print('1.0000001')", stdin("", "1.0\n"), policy=exact).verdict is Verdict.WRONG_ANSWER


def test_cancelling_ends_the_work_between_tests(pool: Pool):
    done: list[int] = []
    judgement = judge(
        pool, ECHO, *[stdin("1\n", "1\n")] * 50, cancelled=lambda: len(done) >= 3, progress=lambda: done.append(1)
    )
    assert (judgement.verdict, judgement.reward, len(done)) == (Verdict.CANCELLED, None, 3)
    assert verdicts(judgement) == [Verdict.ACCEPTED] * 3 + [Verdict.SKIPPED] * 47
    assert judge(pool, ECHO, stdin("1\n", "1\n")).verdict is Verdict.ACCEPTED


def test_a_tight_time_limit_is_not_about_compiling(pool: Pool):
    source = "x = 0\n" + "x = x + 1\n" * 20_000 + "print(x)"
    judgement = judge(pool, source, stdin("", "20000"), limits=Limits(cpu_seconds=0.3, memory_bytes=16 << 20))
    assert judgement.verdict is not Verdict.COMPILE_ERROR


def test_stderr_keeps_its_end(pool: Pool):
    judgement = judge(pool, "import sys\nprint('x' * 100_000, file=sys.stderr)\nraise MemoryError", stdin("", ""))
    assert judgement.tests[0].stderr.endswith("MemoryError\n")
    assert len(judgement.tests[0].stderr) <= 2000
    assert judgement.verdict is Verdict.MEMORY_LIMIT


# --- boxes that die -----------------------------------------------------------------------------------------------


class MortalBox(RunnerBox):
    """A real box that is killed when it is asked to run a marked program, as if that program had broken out."""

    hopeless = False
    """Killed by whatever it runs."""

    def find_runner(self) -> int:
        """The host's id of the runner."""
        artifact = super().load(Program(NAMESPACE), Limits())
        namespace = int(next(super().run_all(artifact, [Call(b"")], Limits())).stdout)
        artifact.close()
        return find_processes(namespace)[0]

    def load(self, program: Program, *arguments, **options):
        if MARK in program.source and "compile" in program.source:
            os.kill(self.find_runner(), signal.SIGKILL)
        return super().load(program, *arguments, **options)

    def run_all(self, artifact: Artifact, calls, limits: Limits, **options):
        self.die_of(artifact)
        return super().run_all(artifact, calls, limits, **options)

    def open_series(self, program: Program, function, limits: Limits):
        dies = self.hopeless or (MARK in program.source and "compile" not in program.source)
        runner = self.find_runner() if dies else 0
        opened = super().open_series(program, function, limits)
        if dies:
            os.kill(runner, signal.SIGKILL)
            while Path(f"/proc/{runner}/fd").exists() and any(Path(f"/proc/{runner}/fd").iterdir()):
                time.sleep(0.01)  # until it has no file left, its end is under way
        return opened

    def die_of(self, artifact: Artifact) -> None:
        """Be killed, if this program does that."""
        assert isinstance(artifact, LoadedProgram)
        if self.hopeless or (MARK in artifact.program.source and "compile" not in artifact.program.source):
            os.kill(self.find_runner(), signal.SIGKILL)


class MortalBackend(BubblewrapBackend):
    """Starts mortal boxes."""

    def __init__(self, hopeless: bool = False) -> None:
        self.boxes: list[Box] = []
        self.hopeless = hopeless

    def start(self):
        box = super().start()
        box.__class__ = MortalBox
        box.hopeless = self.hopeless
        self.boxes.append(box)
        return box


@pytest.fixture
def mortals(pool: Pool) -> Iterator[MortalBackend]:
    """A backend of mortal boxes."""
    backend = MortalBackend()
    yield backend
    for box in backend.boxes:
        box.close()


@pytest.mark.parametrize(
    ("test", "source"),
    [
        (stdin("1\n", "1\n"), f"print(1)  {MARK}"),
        (TestCase(TestKind.FUNCTIONAL, "1", "1"), f"def f(x): return x  {MARK}"),
        (TestCase(TestKind.ASSERTION, "assert f(1) == 1"), f"def f(x): return x  {MARK}"),
    ],
)
def test_a_program_that_kills_two_boxes_beside_a_living_canary_is_to_blame(
    mortals: MortalBackend, test: TestCase, source: str
):
    pool = Pool(mortals, mortals.start())
    judgement = judge(pool, source, test, entry_point="f")
    assert (judgement.verdict, judgement.reward) == (Verdict.RUNTIME_ERROR, 0.0)
    [note] = judgement.suspicions
    assert note.kind is SuspicionKind.BOX_ENDED
    assert "two fresh boxes" in note.detail
    assert judge(pool, ECHO, stdin("1\n", "1\n")).verdict is Verdict.ACCEPTED
    pool.close()


def test_the_other_tests_of_such_a_program_are_judged_all_the_same(mortals: MortalBackend):
    pool = Pool(mortals, mortals.start(), spare=False)
    judgement = judge(pool, f"print(1)  {MARK}", *[stdin("", "1\n")] * 2, fail_fast=False)
    assert verdicts(judgement) == [Verdict.RUNTIME_ERROR] * 2
    pool.close()


def test_a_program_that_kills_the_compilers_box_does_not_compile(mortals: MortalBackend):
    pool = Pool(mortals, mortals.start(), spare=False)
    judgement = judge(pool, f"compile = 1  {MARK}", stdin("", ""))
    assert judgement.verdict is Verdict.COMPILE_ERROR
    assert "ends the compiler's box" in judgement.detail
    assert [note.kind for note in judgement.suspicions] == [SuspicionKind.BOX_ENDED]
    pool.close()


def test_when_the_canary_dies_too_the_failure_is_ours(mortals: MortalBackend):
    mortals.hopeless = True
    pool = Pool(mortals, mortals.start(), spare=False)
    judgement = judge(pool, ECHO, stdin("1\n", "1\n"))
    assert (judgement.verdict, judgement.reward, judgement.reason) == (Verdict.INTERNAL_ERROR, None, Reason.BOX_LOST)
    pool.close()


def test_a_box_that_is_lost_once_costs_a_repetition(mortals: MortalBackend):
    pool = Pool(mortals, mortals.start())
    runner = mortals.boxes[0].find_runner()
    killer = threading.Timer(0.8, os.kill, (runner, signal.SIGKILL))
    killer.start()
    tests = [stdin(f"{n}\n", f"{n}\n") for n in range(5)]
    judgement = judge(pool, "import time; time.sleep(0.4); print(input())", *tests)
    assert (judgement.verdict, judgement.reward, judgement.suspicions) == (Verdict.ACCEPTED, 1.0, ())
    assert [test.index for test in judgement.tests] == list(range(5))
    killer.join()
    pool.close()


def test_boxes_that_died_before_are_no_programs_fault(mortals: MortalBackend):
    pool = Pool(mortals, mortals.start())
    pool._spare.result()
    for box in mortals.boxes[:2]:
        os.kill(box.find_runner(), signal.SIGKILL)
    time.sleep(0.3)
    judgement = judge(pool, ECHO, stdin("1\n", "1\n"))
    assert (judgement.verdict, judgement.suspicions) == (Verdict.ACCEPTED, ())
    pool.close()


def test_when_no_box_can_be_had_the_failure_is_ours(mortals: MortalBackend, monkeypatch: pytest.MonkeyPatch):
    pool = Pool(mortals, mortals.start(), spare=False)

    def refuse():
        raise SandboxUnavailable("no more boxes")

    monkeypatch.setattr(mortals, "start", refuse)
    judgement = judge(pool, f"print(1)  {MARK}", stdin("", "1\n"))
    assert (judgement.verdict, judgement.reward) == (Verdict.INTERNAL_ERROR, None)
    assert "no more boxes" in judgement.detail
    pool.close()


# The order of tests


def test_an_adaptive_order_finds_failures_soon_and_keeps_the_numbers(pool: Pool):
    """What failed others goes first; skipped tests, and the one that failed, have the suite's own numbers."""
    tests = [stdin(f"{number}\n", f"{number}\n") for number in range(5)]
    wrong = "n = int(input())\nprint(n if n != 3 else 0)"
    referee = Judge(pool)
    suite = Suite("ordered", tuple(tests))

    def judge_adaptively(source: str, **options) -> list[Verdict]:
        submission = Submission(Program(source), "ordered", test_order=TestOrder.ADAPTIVE, **options)
        judgement = referee.judge(submission, suite)
        assert [test.index for test in judgement.tests] == [0, 1, 2, 3, 4]
        failed = [test.index for test in judgement.tests if test.verdict is Verdict.WRONG_ANSWER]
        assert judgement.first_failed == (failed[0] if failed else None)
        return verdicts(judgement)

    accepted, failed, skipped = Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.SKIPPED
    assert judge_adaptively(wrong) == [accepted] * 3 + [failed, skipped]
    assert judge_adaptively(wrong) == [skipped] * 3 + [failed, skipped]
    assert judge_adaptively("print(input())") == [accepted] * 5
    assert judge_adaptively(wrong, fail_fast=False) == [accepted] * 3 + [failed, accepted]
    assert judge_adaptively("print(3)") == [failed, skipped, skipped, accepted, skipped]


def test_a_suite_of_several_kinds_is_no_series(pool: Pool):
    """Each kind is run as what it is."""
    source = "def f(x):\n    return x + 1\nif __name__ == '__main__':\n    print(f(int(input())))"
    tests = (
        stdin("1\n", "2\n"),
        TestCase(TestKind.FUNCTIONAL, "1", "2"),
        TestCase(TestKind.ASSERTION, "assert f(1) == 2"),
    )
    judgement = judge(pool, source, *tests, *tests, entry_point="f")
    assert verdicts(judgement) == [Verdict.ACCEPTED] * 6
