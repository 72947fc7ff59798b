"""Tests in one child: the same verdicts as in a child each, and nothing that one test leaves to the next."""

import itertools
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from evaluator.judge import Judge
from evaluator.model import Judgement, Limits, Program, Submission, Suite, TestCase, TestKind, Verdict
from evaluator.sandbox.base import Call, CompileFailure
from evaluator.sandbox.dialogue import Series
from evaluator.sandbox.docker import DockerBackend
from evaluator.sandbox.pool import Pool, open_pool
from evaluator.sandbox.runner.wire import LENGTH, READY, REPLY
from tests.requirements_helper import require

ACCEPTED, WRONG, CRASH, TIME = Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR, Verdict.TIME_LIMIT


@pytest.fixture(scope="module", params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """Boxes of each kind."""
    if request.param == "docker":
        require("docker", DockerBackend().check())
    pool = open_pool(request.param, spare=False)
    yield pool
    pool.close()


def judge(pool: Pool, source: str, *tests: TestCase, series: bool = True, **options: Any) -> Judgement:
    """A judgement, with or without series."""
    program = Program(source, entry_point=options.pop("entry_point", None))
    return Judge(pool, series=series).judge(Submission(program, "suite", **options), Suite("suite", tests))


def both(pool: Pool, source: str, *tests: TestCase, **options: Any) -> list[Verdict]:
    """The verdicts of all tests, the same in a series as apart."""
    first, second = (judge(pool, source, *tests, series=series, fail_fast=False, **options) for series in (True, False))
    assert [test.verdict for test in first.tests] == [test.verdict for test in second.tests]
    assert [test.match for test in first.tests] == [test.match for test in second.tests]
    return [test.verdict for test in first.tests]


def stdin(*pairs: tuple[str, str | None]) -> list[TestCase]:
    return [TestCase(TestKind.STDIN, input_, expected) for input_, expected in pairs]


def numbers(count: int = 6) -> list[TestCase]:
    """Tests of a program that doubles its input."""
    return stdin(*((f"{number}\n", f"{2 * number}\n") for number in range(count)))


def runs(pool: Pool, source: str, inputs: list[str], function: str | None = None) -> list[tuple[int | None, bytes]]:
    """What a series itself gives, as far as it goes; and that the box is fit afterwards."""
    box = pool.take()
    try:
        artifact = box.load(Program(source), Limits())
        assert not isinstance(artifact, CompileFailure)
        assert artifact.harmless
        found = list(box.run_series(artifact, [Call(text.encode(), function=function) for text in inputs], Limits()))
        assert all(run.shared for run in found)
        assert box.reset()
        return [(run.exit_code, run.stdout or run.value or b"") for run in found]
    finally:
        pool.give(box)


def test_every_test_runs_the_whole_program_anew(pool: Pool) -> None:
    """Fresh globals, classes and caches; the input is its own."""
    source = """
import functools, sys
seen = []
class A:
    count = 0
@functools.lru_cache(None)
def f(n):
    A.count += 1
    return n * 2
seen.append(f(int(sys.stdin.readline())))
print(*seen, A.count, __name__)
"""
    assert runs(pool, source, ["1\n", "2\n", "1\n"]) == [
        (0, b"2 1 __main__\n"),
        (0, b"4 1 __main__\n"),
        (0, b"2 1 __main__\n"),
    ]


def test_values_of_functions_come_over(pool: Pool) -> None:
    """As they do from a child each; mutable defaults and module state are new each time."""
    source = "seen = []\ndef f(a, b=[]):\n    seen.append(a); b.append(a)\n    return [seen, tuple(b)]"
    expected = [b'[[1],{"$":"tuple","v":[1]}]', b'[[2],{"$":"tuple","v":[2]}]']
    assert [value for _, value in runs(pool, source, ["1", "2"], "f")] == expected


@pytest.mark.parametrize(
    "source",
    [
        "print(int(input()) * 2)",
        "import sys\ndata = sys.stdin.read().split()\nprint(int(data[0]) * 2)",
        "import sys\nfor line in sys.stdin: print(int(line) * 2)",
        "import sys\nsys.stdout.write(str(2 * int(sys.stdin.buffer.readline())))",
        "import sys\nsys.stdout.buffer.write(b'%d' % (2 * int(sys.stdin.buffer.read())))",
        "import sys\ninput = sys.stdin.readline\nprint = sys.stdout.write\nprint(str(2 * int(input())))",
        "n = int(input())\nprint(2 * n)\nexit()",
        "import sys\nprint(2 * int(input()))\nsys.exit(0)",
        "print(2 * int(input()))\nraise SystemExit",
        "def main():\n    print(2 * int(input()))\nif __name__ == '__main__':\n    main()",
        "import numpy as np\nprint(int(np.array([int(input())]).sum() * 2))",
        "import sys\nsys.setrecursionlimit(10 ** 6)\ndef f(n): return n and 2 + f(n - 1)\nprint(f(int(input())))",
    ],
)
def test_usual_programs_run_in_a_series(pool: Pool, source: str) -> None:
    """And get the same verdicts there."""
    assert len(runs(pool, source, ["1\n", "2\n"])) == 2
    assert both(pool, source, *numbers()) == [ACCEPTED] * 6


@pytest.mark.parametrize(
    ("source", "verdicts"),
    [
        ("n = int(input())\nprint(2 * n if n < 3 else n)", [ACCEPTED] * 3 + [WRONG] * 3),
        ("n = int(input())\nprint(2 * n)\nif n == 3: 1 / 0", [ACCEPTED] * 3 + [CRASH] + [ACCEPTED] * 2),
        ("import sys\nn = int(input())\nprint(2 * n)\nsys.exit(n == 3)", [ACCEPTED] * 3 + [CRASH] + [ACCEPTED] * 2),
        ("n = int(input())\nprint(2 * n)\nwhile n == 3: pass", [ACCEPTED] * 3 + [TIME] + [ACCEPTED] * 2),
        ("import time\nn = int(input())\ntime.sleep(0.3 * (n == 3))\nprint(2 * n)", [ACCEPTED] * 6),
        (
            "n = int(input())\nx = [0] * (10 ** 9 if n == 3 else 1)\nprint(2 * n)",
            [ACCEPTED] * 3 + [Verdict.MEMORY_LIMIT] + [ACCEPTED] * 2,
        ),
        (
            "import sys\nn = int(input())\nif n == 3: sys.stdout.close()\nelse: print(2 * n)",
            [ACCEPTED] * 3 + [WRONG] + [ACCEPTED] * 2,
        ),
        (
            "n = int(input())\nif n == 3:\n    f = lambda: f()\n    f()\nprint(2 * n)",
            [ACCEPTED] * 3 + [CRASH] + [ACCEPTED] * 2,
        ),
    ],
)
def test_what_isnt_accepted_is_told_by_a_child_of_its_own(pool: Pool, source: str, verdicts: list[Verdict]) -> None:
    """With all that belongs to it: the right verdict, and the program's last words."""
    limits = Limits(cpu_seconds=1.0, memory_bytes=256 << 20)
    assert both(pool, source, *numbers(), limits=limits) == verdicts
    judgement = judge(pool, source, *numbers(), limits=limits)
    assert judgement.verdict is next((verdict for verdict in verdicts if verdict is not ACCEPTED), ACCEPTED)


STATEFUL = {
    "builtins": "import builtins\nbuiltins.n = getattr(builtins, 'n', 0) + 1\nprint(builtins.n)",
    "a module's attribute": "import math\nmath.n = getattr(math, 'n', 0) + 1\nprint(math.n)",
    "sys.modules": "import sys\nsys.modules['x'] = 1\nprint(len([m for m in sys.modules if m == 'x']))",
    "an environment": "import os\nos.environ['N'] = os.environ.get('N', '') + '1'\nprint(os.environ['N'])",
    "a file": "file = open('f', 'a+')\nfile.write('x')\nfile.seek(0)\nprint(len(file.read()))",
    "random": "import random\nprint(random.random() >= 0 and 1)",
    "a class of the library": "from collections import Counter as C\nC.n = getattr(C, 'n', 0) + 1\nprint(C.n)",
    "a stream": "import sys, io\nprint(2 if isinstance(sys.stdout, io.StringIO) else 1)\nsys.stdout = io.StringIO()",
    "eval": "n = eval('1')\nprint(n)",
    "a thread": "import threading\nprint(threading.active_count())",
    "decimal's context": "import decimal\nprint(decimal.getcontext().prec // 28)\ndecimal.getcontext().prec *= 2",
    "numpy's error state": "import numpy\nprint(len(numpy.geterr()['divide']) // 4)\nnumpy.seterr(all='ignore')",
}


@pytest.mark.parametrize("what", STATEFUL)
def test_a_program_that_leaves_traces_finds_none(pool: Pool, what: str) -> None:
    """It sees a fresh process in each test, whichever way its tests are run."""
    assert both(pool, STATEFUL[what], *stdin(*[("", "1\n")] * 4)) == [ACCEPTED] * 4


def test_a_changed_recursion_limit_ends_with_the_test(pool: Pool) -> None:
    """As it was found by the first, so by the next."""
    source = "import sys\nprint(sys.getrecursionlimit())\nsys.setrecursionlimit(5000)"
    assert runs(pool, source, [""] * 3) == [(0, b"1000\n")] * 3
    assert both(pool, source, *stdin(*[("", "1000\n")] * 3)) == [ACCEPTED] * 3


def test_a_series_goes_on_while_all_is_accepted(pool: Pool) -> None:
    """Inputs that are too large for it get a child each, and the verdict is the same."""
    big = "1 " * 200_000
    tests = stdin(("1 2\n", "2"), (big, "200000"), ("1\n", "1"))
    assert both(pool, "print(len(input().split()))", *tests) == [ACCEPTED] * 3


def test_large_outputs_leave_the_series(pool: Pool) -> None:
    """More than it takes is printed in a child of its own."""
    assert both(pool, "print('x' * 3_000_000)", *stdin(("", "x" * 3_000_000), ("", "x" * 3_000_000))) == [ACCEPTED] * 2


def test_a_lie_in_the_conversation_gains_nothing(pool: Pool) -> None:
    """Who reaches the descriptor may forge replies: outputs of tests whose inputs it hasn't seen, and no verdict."""
    source = """
import sys
os = [m for m in [getattr(sys, "mod" + "ules")["os"]]][0]
n = int(input())
import struct
try:
    os.write(3, struct.pack("<iQQII", 0, 0, 0, 2, 0) + b"0\\n")
except OSError:
    pass
print(2 * n)
"""
    assert both(pool, source, *numbers()) == [ACCEPTED] * 6
    always = source.replace("print(2 * n)", "print(0)")
    assert both(pool, always, *numbers()) == [ACCEPTED] + [WRONG] * 5


def test_a_later_input_isnt_there_before_its_turn(pool: Pool) -> None:
    """Nothing of it can be read from a descriptor while an earlier test runs."""
    source = """
import sys
os = getattr(sys, "mod" + "ules")["os"]
found = b""
for name in os.listdir("/proc/self/fd"):
    try:
        os.set_blocking(int(name), False)
        found += os.read(int(name), 100000)
    except OSError:
        pass
print(b"7f3a9c" + b"55e1" in found)
"""
    secret = "7f3a9c55e1"
    judgement = judge(pool, source, *stdin(("first", "False\n"), (secret, None)), fail_fast=False)
    assert judgement.tests[0].verdict is ACCEPTED


def test_memory_is_told(pool: Pool) -> None:
    """The most that any test had so far; over the limit, a child of its own says so."""
    source = "n = int(input())\nx = b'x' * (n << 20)\nprint(n)"
    tests = stdin(*((f"{size}\n", f"{size}\n") for size in (1, 40, 1)))
    first, second, third = judge(pool, source, *tests).tests
    assert first.memory_bytes < 20 << 20 < second.memory_bytes < 80 << 20
    assert third.memory_bytes >= 40 << 20
    limited = judge(pool, source, *tests, limits=Limits(memory_bytes=30 << 20), fail_fast=False)
    assert [test.verdict for test in limited.tests] == [ACCEPTED, Verdict.MEMORY_LIMIT, ACCEPTED]


def test_a_cancelled_series_leaves_the_box_fit(pool: Pool) -> None:
    """Closing it early, with a test under way or not, empties the box."""
    box = pool.take()
    try:
        artifact = box.load(Program("print(int(input()) * 2)"), Limits())
        assert not isinstance(artifact, CompileFailure)
        for taken in range(4):
            series = box.run_series(artifact, [Call(b"1\n")] * 8, Limits())
            assert [run.stdout for run in itertools.islice(series, taken)] == [b"2\n"] * taken
            series.close()  # type: ignore[attr-defined]
            assert box.reset()
            assert box.run(artifact, Call(b"4\n"), Limits()).stdout == b"8\n"
    finally:
        pool.give(box)


@pytest.mark.parametrize("answers", [True, False])
def test_a_test_that_is_under_way_may_end_when_the_series_does(answers: bool) -> None:
    """It mostly does within a moment, and to kill its child would take longer."""
    ours, child = socket.socketpair()
    killed: list[bool] = []
    series = Series(ours, Limits(), killed.append)
    reply = REPLY.pack(0, 1_000, 1, 0, 0)
    with child:
        child.sendall(READY + reply)
        runs = series.run_all([Call(b"1"), Call(b"2"), Call(b"3")])
        assert next(runs).exit_code == 0
        if answers:
            child.sendall(reply)
        runs.close()
        assert killed == [not answers]
        sent = child.recv(100)
    assert sent == b"".join(LENGTH.pack(1) + digit for digit in (b"1", b"2")), "and no other is sent"


def test_the_fit_are_told_from_the_unfit(pool: Pool) -> None:
    """By what they import and name."""
    fit = [
        "print(1)",
        "import re\nx = re.compile('a')\ndef f(): return re.compile('b')",
        "import math, heapq\nclass A:\n    def __init__(self): self.x = 1\n    def __lt__(self, o): return self.x < 0",
    ]
    unfit = [
        "import os",
        "import random",
        "open('f')",
        "exec('1')",
        "import sys\nsys.stdout = None",
        "import threading",
        "x = ().__class__",
        "import collections.nothing",
        "from os import *",
        "import math\nmath.pi = 3",
        "import math\nmath.__setattr__('pi', 3)",
        "f = compile('1', '', 'eval')",
        "def f(): return [compile for _ in '1']",
        "import re\nx = re.compile('a')\ndef f(): return compile",
        "import re\nx = re.compile('a')\nclass A:\n    def f(self, compile=compile): return compile",
        "from re import compile",
    ]
    box = pool.take()
    try:
        found = [getattr(box.load(Program(source), Limits()), "harmless", None) for source in (*fit, *unfit)]
    finally:
        pool.give(box)
    assert found == [True] * len(fit) + [False] * len(unfit)
