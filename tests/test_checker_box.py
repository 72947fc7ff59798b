"""Checkers in real boxes: both conventions, both languages, and what is said when one breaks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluator.judge import Judge
from evaluator.model import (
    CheckerProgram,
    Convention,
    Judgement,
    Limits,
    Policy,
    Program,
    Reason,
    RewardScheme,
    Submission,
    TestCase,
    TestKind,
    Verdict,
)
from evaluator.sandbox.docker import DockerBackend
from evaluator.sandbox.pool import Pool, open_pool
from evaluator.suites import read_suite, write_suite
from evaluator.suspicions import SuspicionKind
from tests.requirements_helper import require

KATTIS_DATA = Path(__file__).parents[2] / "shared" / "data" / "labelled" / "kattis_icpc.jsonl"
ACCEPTED, WRONG, OURS = Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.INTERNAL_ERROR

# Any two positive numbers with the sum of the input are right.
TESTLIB_PYTHON = """
import sys
total, found = int(open(sys.argv[1]).read()), open(sys.argv[2]).read().split()
if len(found) != 2:
    print("two numbers are asked for, not", len(found), file=sys.stderr)
    sys.exit(2)
a, b = map(int, found)
sys.exit(0 if a > 0 < b and a + b == total else 1)
"""
TESTLIB_CPP = """
#include <bits/stdc++.h>
int main(int count, char **arguments) {
    std::ifstream input(arguments[1]), output(arguments[2]), answer(arguments[3]);
    long long total, a, b, best;
    std::string rest;
    if (!(input >> total) || !(answer >> best)) return 3;
    if (!(output >> a >> b) || output >> rest) { std::cerr << "two numbers are asked for"; return 2; }
    return a > 0 && b > 0 && a + b == total ? 0 : 1;
}
"""
KATTIS_PYTHON = """
import sys
from helper import total_of
with open(sys.argv[3] + "judgemessage.txt", "w") as message:
    a, b = map(int, sys.stdin.read().split())
    message.write(f"{a} and {b}, flags {sys.argv[4:]}")
sys.exit(42 if a > 0 < b and a + b == total_of(sys.argv[1]) else 43)
"""
KATTIS_CPP = """
#include "validate.h"
int main(int count, char **arguments) {
    long long total = total_of(arguments[1]), a, b;
    std::ofstream message(std::string(arguments[3]) + "/judgemessage.txt");
    if (!(std::cin >> a >> b)) { message << "two numbers are asked for"; return 43; }
    message << "the sum is " << a + b;
    return a > 0 && b > 0 && a + b == total ? 42 : 43;
}
"""
CHECKERS = {
    "testlib-python": CheckerProgram((("check.py", TESTLIB_PYTHON),), Convention.TESTLIB),
    "testlib-cpp": CheckerProgram((("check.cpp", TESTLIB_CPP),), Convention.TESTLIB, "cpp"),
    "kattis-python": CheckerProgram(
        (
            ("validate.py", KATTIS_PYTHON),
            ("helper.py", "def total_of(path):\n    return int(open(path).read())\n"),
        ),
        Convention.KATTIS,
        main="validate.py",
        flags=("strict", "-x"),
    ),
    "kattis-cpp": CheckerProgram(
        (
            ("validator/validate.h", "#include <bits/stdc++.h>\nlong long total_of(const char *path);\n"),
            ("validator/validate.cc", KATTIS_CPP),
            (
                "common/input.cc",
                '#include "../validator/validate.h"\n'
                "long long total_of(const char *path) { long long n; std::ifstream(path) >> n; return n; }\n",
            ),
        ),
        Convention.KATTIS,
        "cpp",
    ),
}


@pytest.fixture(scope="module", params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def referee(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """A judge for each kind of box."""
    if request.param == "docker":
        require("docker", DockerBackend().check())
    pool = open_pool(request.param, spare=False)
    yield Judge(pool)
    pool.close()


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Boxes for what doesn't depend on their kind."""
    pool = open_pool("bubblewrap", spare=False)
    yield pool
    pool.close()


def stdin(input_: str, expected: str | None) -> TestCase:
    return TestCase(TestKind.STDIN, input_, expected)


def judge(judge: Judge, source: str, checker: CheckerProgram, *tests: TestCase, **options: Any) -> Judgement:
    """A judgement by a suite that has a checker."""
    suite = read_suite(write_suite(tests, checker))
    program = Program(source, entry_point=options.pop("entry_point", None))
    judgement = judge.judge(Submission(program, suite.id, **options), suite)
    if judgement.reason is Reason.CHECKER_FAILED and "This box has no g++" in (judgement.detail or ""):
        require("compiler", judgement.detail)
    return judgement


def printing(text: str) -> str:
    return f"import sys; sys.stdout.write({text!r})"


def in_testlib(source: str, **options: Any) -> CheckerProgram:
    return CheckerProgram((("check.py", source),), Convention.TESTLIB, **options)


@pytest.mark.parametrize("name", CHECKERS)
def test_several_answers_are_right(referee: Judge, name: str) -> None:
    """Right, another right one, wrong, malformed; whatever the policy says."""
    tests = stdin("7\n", "3 4\n"), stdin("2\n", "1 1\n")
    halves = "n = int(input()); print(n // 2, n - n // 2)"
    for source, verdict in (
        (halves, ACCEPTED),
        ("n = int(input()); print(1); print(n - 1)", ACCEPTED),
        ("n = int(input()); print(0, n)", WRONG),
        ("print(3, 4)", WRONG),  # the expected answer of another test
    ):
        judgement = judge(referee, source, CHECKERS[name], *tests, policy=Policy(profile="exact"))
        assert judgement.verdict is verdict, judgement
        assert not judgement.suspicions
    assert judgement.first_failed == 1
    assert judgement.tests[0].match is not None
    assert judgement.tests[0].match.rung == "checker"


def test_a_checker_says_why(referee: Judge) -> None:
    """The judge's message of a Kattis validator, the last words of a testlib checker."""
    test = stdin("7\n", "3 4\n")
    wrong = judge(referee, "print(3, 5)", CHECKERS["kattis-python"], test)
    assert wrong.detail == "checker: 3 and 5, flags ['strict', '-x']"
    wrong = judge(referee, "print(3, 5)", CHECKERS["kattis-cpp"], test)
    assert wrong.detail == "checker: the sum is 8"
    wrong = judge(referee, "print(3)", CHECKERS["testlib-python"], test)
    assert wrong.detail == "checker: two numbers are asked for, not 1"
    silent = judge(referee, "print(3, 5)", CHECKERS["testlib-python"], test)
    assert silent.detail == "checker: It rejects this output."


def test_a_returned_value_goes_to_the_checker_as_json(pool: Pool) -> None:
    """Any index of a maximum is right."""
    checker = in_testlib(
        "import json, sys\n"
        "numbers, index = json.loads(open(sys.argv[1]).readline()), json.load(open(sys.argv[2]))\n"
        "sys.exit(0 if type(index) is int and numbers[index] == max(numbers) else 1)\n"
    )
    test = TestCase(TestKind.FUNCTIONAL, "[5, 1, 5]", "0")
    for body, verdict in (("0", ACCEPTED), ("2", ACCEPTED), ("1", WRONG), ("'0'", WRONG), ("{0}", WRONG)):
        judgement = judge(Judge(pool), f"def f(a): return {body}", checker, test, entry_point="f")
        assert judgement.verdict is verdict, body
    crash = judge(Judge(pool), "def f(a): return 1 / 0", checker, test, entry_point="f")
    assert crash.verdict is Verdict.RUNTIME_ERROR


def test_without_an_expected_answer_the_input_is_enough(pool: Pool) -> None:
    """The answer's file is empty then."""
    checker = in_testlib(
        "import sys\na, b, c = (open(path).read() for path in sys.argv[1:])\nsys.exit(0 if b == a and not c else 1)"
    )
    assert judge(Judge(pool), "print(input())", checker, stdin("1\n", None)).verdict is ACCEPTED
    assert judge(Judge(pool), "print(2)", checker, stdin("1\n", None)).verdict is WRONG


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(0, ACCEPTED), (1, WRONG), (2, WRONG), (4, WRONG), (8, WRONG), (3, OURS), (7, OURS), (42, OURS)],
)
def test_exit_statuses_of_testlib(pool: Pool, code: int, verdict: Verdict) -> None:
    """3 is the jury's own fault; points, and what isn't known, are no answer."""
    judgement = judge(Judge(pool), "print(1)", in_testlib(f"import sys; sys.exit({code})"), stdin("", "2"))
    assert judgement.verdict is verdict
    assert judgement.reason is (Reason.CHECKER_FAILED if verdict is OURS else None)
    assert judgement.reward == {ACCEPTED: 1.0, WRONG: 0.0, OURS: None}[verdict]


@pytest.mark.parametrize(("code", "verdict"), [(42, ACCEPTED), (43, WRONG), (0, OURS), (1, OURS)])
def test_exit_statuses_of_kattis(pool: Pool, code: int, verdict: Verdict) -> None:
    """A validator that just ends accepts nothing."""
    checker = CheckerProgram((("check.py", f"import sys; sys.exit({code})"),), Convention.KATTIS)
    assert judge(Judge(pool), "print(1)", checker, stdin("", "2")).verdict is verdict


BROKEN = {
    "syntax": ("def", "can't be compiled"),
    "exception": ("1 / 0", "ended with an exception"),
    "signal": ("import os; os.kill(os.getpid(), 11)", "ended by signal 11"),
    "memory": ("x = b'x' * (3 << 30)", "expected answer either"),
    "time": ("while True: pass", "more than 0.5 s of processor time"),
    "output": ("import sys\nwhile True: sys.stderr.write('x' * 100000)", "expected answer either"),
    "processes": ("import os\nwhile True: os.fork()", "expected answer either"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_checker_is_our_failure(pool: Pool, fault: str) -> None:
    """It never rejects a program, and its box serves the next one."""
    source, message = BROKEN[fault]
    checker = in_testlib(source, cpu_seconds=0.5, memory_bytes=256 << 20)
    judgement = judge(Judge(pool), "print(1)", checker, stdin("", "2"))
    assert (judgement.verdict, judgement.reason, judgement.reward) == (OURS, Reason.CHECKER_FAILED, None)
    assert message in (judgement.detail or "")
    assert judge(Judge(pool), "print(3, 4)", CHECKERS["testlib-python"], stdin("7\n", "3 4")).verdict is ACCEPTED


def test_our_failure_outranks_an_earlier_wrong_answer(pool: Pool) -> None:
    """A fraction can't be told while one test wasn't judged."""
    checker = in_testlib("import sys\nsys.exit(1 if open(sys.argv[1]).read() == 'a' else 3)")
    judgement = judge(
        Judge(pool), "print(1)", checker, stdin("a", ""), stdin("b", ""), fail_fast=False, reward=RewardScheme.FRACTION
    )
    assert [test.verdict for test in judgement.tests] == [WRONG, OURS]
    assert (judgement.verdict, judgement.reward, judgement.first_failed) == (OURS, None, 1)


EXHAUSTING = {
    "an exception": "open(sys.argv[2]).read().encode('ascii')",
    "time": "while len(open(sys.argv[2]).read()) > 3: pass",
    "memory": "x = b'x' * (len(open(sys.argv[2]).read()) << 29)",
    "its own box": "import os\nif len(open(sys.argv[2]).read()) > 3: os.abort()",
}


@pytest.mark.parametrize("fault", EXHAUSTING)
def test_breaking_the_checker_is_no_way_out(pool: Pool, fault: str) -> None:
    """It can judge the expected answer, so the output is to blame: no reward of None, and a suspicion."""
    checker = in_testlib(f"import sys\n{EXHAUSTING[fault]}\nsys.exit(0)", cpu_seconds=0.5, memory_bytes=256 << 20)
    judgement = judge(Judge(pool), printing("äöü" * 20), checker, stdin("", ""))
    assert (judgement.verdict, judgement.reward) == (WRONG, 0.0)
    assert [note.kind for note in judgement.suspicions] == [SuspicionKind.CHECKER_BROKEN]


@pytest.mark.parametrize("source", ["pass", "print('x')"])
def test_breaking_the_checker_is_no_way_out_where_nothing_is_expected(pool: Pool, source: str) -> None:
    """No output vouches for a checker that reads two numbers, the empty one least of all."""
    checker = in_testlib("import sys\na, b = map(int, open(sys.argv[2]).read().split())\nsys.exit(0 if a < b else 1)")
    judgement = judge(Judge(pool), source, checker, stdin("1\n", None))
    assert (judgement.verdict, judgement.reward) == (WRONG, 0.0)
    assert [note.kind for note in judgement.suspicions] == [SuspicionKind.CHECKER_BROKEN]
    assert judge(Judge(pool), "print(1, 2)", checker, stdin("1\n", None)).verdict is ACCEPTED


def test_a_program_leaves_nothing_for_the_checker(pool: Pool) -> None:
    """Checkers run in a box that never ran a program: no file, no process, no module of the program's is there."""
    checker = in_testlib("import os, sys\nsys.exit(0 if sorted(os.listdir('.')) == [] else 1)")
    evil = "import os\nopen('check.py', 'w').write('raise SystemExit(0)')\nos.makedirs('feedback')\nprint(1)"
    assert judge(Judge(pool), evil, checker, stdin("", "")).verdict is ACCEPTED


def test_a_checker_can_change_nothing(pool: Pool) -> None:
    """Input, output and answer are sealed; what it leaves behind is gone before the next test."""
    tries = (
        "import os, sys\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        open(path, 'r+').write('x')\n        sys.exit(1)\n    except OSError:\n        pass\n"
        "if os.path.exists('left'): sys.exit(1)\n"
        "open('left', 'w').close()\nif os.fork() == 0:\n    import time; time.sleep(600)\nsys.exit(0)\n"
    )
    judgement = judge(Judge(pool), "print(1)", in_testlib(tries), *[stdin(str(number), "") for number in range(5)])
    assert judgement.verdict is ACCEPTED, judgement


def test_large_outputs_are_not_copied_into_scratch(pool: Pool) -> None:
    """30 MB of input and of output, with a scratch of less: a checker reads them where they are."""
    checker = in_testlib("import sys\na, b, c = map(open, sys.argv[1:])\nsys.exit(0 if a.read() == b.read() else 1)")
    big = "x" * 30_000_000 + "\n"
    assert judge(Judge(pool), "print(input())", checker, stdin(big, "")).verdict is ACCEPTED


def test_many_checkers_take_turns(pool: Pool) -> None:
    """More than are kept compiled: the first is compiled anew."""
    referee = Judge(pool)
    for number in [*range(20), 0]:
        checker = in_testlib(f"import sys\nsys.exit(0 if open(sys.argv[2]).read() == '{number}' else 1)")
        assert judge(referee, f"print({number}, end='')", checker, stdin("", "")).verdict is ACCEPTED


def kattis_programs() -> list[Any]:
    """The labelled programs of the problems with validators of their own."""
    if not KATTIS_DATA.exists():
        return [pytest.param(None, None, id="no-data")]
    records = map(json.loads, KATTIS_DATA.read_text("utf-8").splitlines())
    return [
        pytest.param(record, item, id=f"{record['id'].rpartition('/')[2]}-{number}")
        for record in records
        if record["checker"] == "custom"
        for number, item in enumerate(record["submissions"])
    ]


def validator_of(record: dict[str, Any]) -> CheckerProgram:
    """Where a package has a folder and a lone file, the folder is the validator (the file is an older one)."""
    files = record["checker_files"]
    if any("/" in name for name in files):
        files = {name: text for name, text in files.items() if "/" in name}
    native = not any(name.endswith(".py") for name in files)
    flags = tuple((record.get("checker_flags") or "").split())
    return CheckerProgram(tuple(files.items()), Convention.KATTIS, "cpp" if native else "python", flags=flags)


@pytest.fixture(scope="module")
def kattis_judge(pool: Pool) -> Judge:
    """One judge, so that each validator is compiled once."""
    return Judge(pool)


@pytest.mark.parametrize(("record", "item"), kattis_programs())
def test_kattis_validators_judge_their_labelled_programs(
    kattis_judge: Judge, record: dict[str, Any] | None, item: dict[str, Any] | None
) -> None:
    """54 programs of 23 problems: accepted or not, as the jury says."""
    require("data", None if record else f"{KATTIS_DATA} isn't there")
    assert record is not None and item is not None
    seconds = record["time_limit_s"]
    tests = [stdin(test["input"], test["expected"]) for test in record["tests"]]
    limits = Limits(cpu_seconds=2 * seconds, wall_seconds=8 * seconds)
    judgement = judge(kattis_judge, item["code"], validator_of(record), *tests, limits=limits)
    assert (judgement.verdict is ACCEPTED) is (item["label"] == "accepted"), judgement.detail
    assert judgement.verdict is not OURS
