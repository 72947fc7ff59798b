"""The accuracy benchmark: other graders' rules as they are documented, both rates and their intervals, and the whole
command in real boxes."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import accuracy, tables
from benchmarks.accuracy import EVALUATORS, main
from benchmarks.graders import GRADERS, Grader, judge0_text, prime_code_text, prime_code_value, sandbox_fusion_text
from benchmarks.labelled import Labelled, Problem
from benchmarks.livecodebench_grader import LiveCodeBench, Process
from benchmarks.rates import Counts, total, wilson_interval
from benchmarks.recordings import Comparisons
from benchmarks.referees import BoxPools, Outcome
from evaluator.errors import SandboxUnavailable
from evaluator.livecodebench.official import OfficialFailed
from evaluator.model import Limits, Policy, TestCase, TestKind
from tests.requirements_helper import require

COMPARED = ("microcoder_no_checkers", "microcoder_exact", "prime_code", "sandbox_fusion", "judge0")
ANY_DIGIT = """
import sys
sys.exit(42 if sys.stdin.read().strip().isdigit() else 43)
"""
RECORDS = [
    {
        "id": "set/double", "kind": "stdin", "checker": None, "time_limit_s": 2, "fn_name": None, "fn_class": None,
        "tests": [{"input": "1\n", "expected": "2.0 yes\n"}, {"input": "2\n", "expected": "4.0 yes\n"}],
        "submissions": [
            {"code": "print(2.0 * int(input()), 'yes')", "label": "accepted"},
            {"code": "print(2.0 * int(input()), 'yes', end='  ')", "label": "accepted"},
            {"code": "print(2.0 * int(input()), 'YES')", "label": "wrong_answer"},
            {"code": "print(2.0 * int(input()), 'yes'); raise SystemExit(1)", "label": "runtime_error"},
        ],
    },
    {
        "id": "set/digit", "kind": "stdin", "checker": "custom", "checker_files": {"check/check.py": ANY_DIGIT},
        "checker_flags": "", "time_limit_s": 2, "tests": [{"input": "", "expected": "1\n"}],
        "submissions": [{"code": "print(7)", "label": "accepted"}, {"code": "print('x')", "label": "wrong_answer"}],
    },
    {
        "id": "set/pair", "kind": "functional", "fn_name": "f", "fn_class": None, "checker": None, "time_limit_s": 2,
        "tests": [{"input": "1", "expected": "[1, 0.3]"}],
        "submissions": [
            {"code": "def f(n):\n    return n, 0.1 + 0.2\n", "label": "accepted"},
            {"code": "def f(n):\n    return n\n", "label": "wrong_answer"},
        ],
    },
    {
        "id": "set/assert", "kind": "assert", "fn_name": None, "checker": None, "time_limit_s": 2,
        "tests": [{"input": "assert f() == 1", "expected": ""}],
        "submissions": [{"code": "def f():\n    return 1\n", "label": "accepted"}],
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def pools() -> Iterator[BoxPools]:
    """Boxes by bubblewrap."""
    try:
        pools = BoxPools("bubblewrap")
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))
    yield pools
    pools.close()


@pytest.fixture(scope="module")
def livecodebench() -> Iterator[LiveCodeBench]:
    """LiveCodeBench's own code, where its package is installed or can be."""
    try:
        grader = LiveCodeBench()
    except (OfficialFailed, SandboxUnavailable) as error:
        require("livecodebench", str(error))
    yield grader
    grader.close()


def write(path: Path, *records: dict) -> Path:
    """A labelled file."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def stdin_problem(code: str, *tests: tuple[str, str], seconds: float = 1.0) -> Problem:
    """A problem with one program."""
    cases = tuple(TestCase(TestKind.STDIN, input_, expected) for input_, expected in tests)
    return Problem("p", cases, (Labelled("p#0", "accepted", code),), limits=Limits(cpu_seconds=seconds))


# Other graders' rules


@pytest.mark.parametrize(
    ("expected", "output", "accepts"),
    [
        ("1\n2\n", "1\n2", True),  # stripped texts
        ("1 \n 2\n", "1\n2\n", True),  # expected lines stripped
        ("1\n2", "  1\n2  \n", True),  # output lines stripped
        ("1\n\n2\n", "1\n2\n", True),  # empty lines aside
        ("1\n2\n", "1\n\n2\n", True),
        ("1.0\n2.0\n", "1.00001\n2.0\n", True),  # allclose
        ("-100000\n5\n", "-100001\n5\n", True),  # a negative number isn't "digits"
        ("100000\n", "100001\n", False),  # two strings of digits are exact
        ("0.0000001\n", "0.0000002\n", False),
        ("inf\n", "1e999\n", True),
        ("nan\n", "NaN\n", False),
        ("1 2\n", "1  2\n", False),  # tokens don't count
        ("1 2\n", "2 1\n", False),  # nor sets of them
        ("YES\n", "yes\n", False),
        ("1\n2\n", "1\n", False),
        ("", "\n\n", True),
    ],
)
def test_prime_code_on_text(expected, output, accepts):
    assert (prime_code_text(expected, output.encode()) is None) is accepts


@pytest.mark.parametrize(
    ("expected", "value", "accepts"),
    [
        ("[1, 2]", (1, 2), True),
        ("[1, 2]", 1, True),  # the first item will do
        ("[[1, 2], [3, 4]]", [(1, 2), (3, 4)], False),  # a tuple isn't a list, deeper
        ("[[[1, 2], [3, 4]]]", [(1, 2), (3, 4)], True),
        ('{"1": 2}', {1: 2}, True),  # the dictionary stands in a list then, and is its first item
        ('{"1": 2}', {"1": 2}, False),
        ('{"a": 2}', {"a": 2}, True),
        ('[{"1": 2}, {"3": 4}]', [{1: 2}], True),  # only the first is kept
        ("0.3", 0.1 + 0.2, False),
        ("[1, 2]", {1, 2}, False),  # no JSON form
        ("[]", None, False),
        ("[null]", None, True),
    ],
)
def test_prime_code_on_values(expected, value, accepts):
    assert (prime_code_value(expected, value) is None) is accepts


@pytest.mark.parametrize(
    ("expected", "output", "accepts"),
    [
        ("Yes\n", "YES \n", True),
        ("1 2\n", "1 2.0000001\n", False),  # a float only as a whole line
        ("2\n", "2.00001\n", True),
        ("2\n", "2.001\n", False),
        ("1000\n", "1_000\n", True),
        ("0\n", "0.0000000000000001\n", True),
        ("a\n\n", "a\n", True),
        ("a\nb\n", "a\n\nb\n", False),
        ("a b\n", "a  b\n", False),
    ],
)
def test_sandbox_fusion_on_text(expected, output, accepts):
    assert (sandbox_fusion_text(expected, output.encode()) is None) is accepts


@pytest.mark.parametrize(
    ("expected", "output", "accepts"),
    [
        ("a\nb\n", "a  \nb\r\n\n\n", True),
        ("a\nb\n", " a\nb\n", False),
        ("a\nb\n", "a\n\nb\n", False),
        ("5\n", "5.0\n", False),
        ("A\n", "a\n", False),
    ],
)
def test_judge0_on_text(expected, output, accepts):
    assert (judge0_text(expected, output.encode()) is None) is accepts


# Counting


def test_both_kinds_of_error_are_counted_and_an_internal_error_is_neither():
    counts = Counts()
    for label, verdict in [
        ("accepted", "accepted"), ("accepted", "time_limit"), ("accepted", "internal_error"),
        ("wrong_answer", "accepted"), ("wrong_answer", "runtime_error"), ("time_limit", "internal_error"),
    ]:  # fmt: skip
        counts.add(Outcome(f"{label}>{verdict}", label, verdict, "because"))
    record = counts.record
    assert (record["programs"], record["accepted_labels"], record["rejected_labels"]) == (6, 3, 3)
    assert (record["false_rejects"], record["false_accepts"], record["internal_errors"]) == (1, 1, 2)
    assert (record["false_reject_rate"], record["false_accept_rate"]) == (1 / 3, 1 / 3)
    assert len(record["disagreements"]) == 4


@pytest.mark.parametrize(
    ("events", "trials", "interval"),
    [(0, 10, [0.0, 0.2775]), (5, 10, [0.2366, 0.7634]), (10, 10, [0.7225, 1.0]), (1, 100, [0.00177, 0.05449])],
)
def test_the_interval_is_wilsons(events, trials, interval):
    assert wilson_interval(events, trials) == pytest.approx(interval, abs=5e-5)


def test_without_programs_there_is_no_rate():
    record = Counts().record
    assert record["false_reject_rate"] is None
    assert record["false_accept_interval"] is None


def test_files_are_added_up():
    one, other = Counts(), Counts()
    one.add(Outcome("a", "accepted", "wrong_answer", ""))
    other.add(Outcome("b", "accepted", "accepted", ""))
    other.skipped["why"] += 3
    whole = total([one.record, other.record])
    assert (whole["programs"], whole["false_rejects"], whole["false_reject_rate"]) == (2, 1, 0.5)
    assert whole["skipped"] == {"why": 3}
    assert "disagreements" not in whole


# Recorded runs


def test_a_run_that_ended_badly_is_a_rejection_for_all(pools):
    graders = tuple(grader for grader in GRADERS if grader.name in COMPARED)
    problem = stdin_problem("print(2)\nraise SystemExit(3)", ("", "2\n"))
    judged = Comparisons(graders, pools).judge(problem)
    assert {name: outcomes[0].verdict for name, outcomes in judged.items()} == dict.fromkeys(COMPARED, "runtime_error")


def test_a_grader_that_has_rejected_stays_so_and_the_others_go_on(pools):
    problem = stdin_problem("print(input())", ("1 ", "1\n"), ("2", "2\n"), ("x", "X\n"))
    judged = Comparisons(GRADERS, pools).judge(problem)
    found = {name: (outcomes[0].verdict, outcomes[0].reason[:6]) for name, outcomes in judged.items()}
    assert found["microcoder_exact"] == ("wrong_answer", "test 0")
    assert found["judge0"] == ("wrong_answer", "test 2")
    assert found["sandbox_fusion"][0] == "accepted"


def test_our_profiles_take_the_answer_of_a_call_as_the_judge_does(pools):
    tests = (TestCase(TestKind.FUNCTIONAL, "[2, 1]", "[1, 2]"),)
    code = "def order(items):\n    items.sort()\n"
    problem = Problem("p", tests, (Labelled("p#0", "accepted", code),), entry_point="order")
    graders = (Grader("ours", Policy()), Grader("theirs", None, prime_code_text, prime_code_value))
    judged = Comparisons(graders, pools).judge(problem)
    assert {name: outcomes[0].verdict for name, outcomes in judged.items()} == {
        "ours": "accepted",
        "theirs": "wrong_answer",
    }


def test_large_outputs_are_compared_whole(pools):
    problem = stdin_problem("print('x' * 3_000_000 + 'y')", ("", "x" * 3_000_000 + "z\n"), seconds=5)
    judged = Comparisons(GRADERS, pools).judge(problem)
    assert {outcomes[0].verdict for outcomes in judged.values()} == {"wrong_answer"}


# LiveCodeBench's own code


@pytest.mark.parametrize(
    ("code", "accepts"),
    [
        ("print(int(input()) * 2)", True),
        ("print(int(input()) * 3)", False),
        ("import sys\nprint(int(sys.stdin.buffer.readline()) * 2)", False),  # the version of the package has no buffer
        ("n = int(input())\nprint(n * 2)\nraise SystemExit(1)", True),  # the exit status doesn't count there
        ("import os\nos._exit(0)", False),
        ("while True: pass", False),
        ("x = bytearray(1 << 33)\nprint(int(input()) * 2)", False),
        ("import socket\nsocket.create_connection(('192.0.2.1', 80), 0.1)\nprint(int(input()) * 2)", False),
        ("open('/tmp/x', 'w').write('1')\nprint(int(input()) * 2)", True),
        (f"open({str(Path(__file__).parent / 'x')!r}, 'w')\nprint(int(input()) * 2)", False),
    ],
)
def test_livecodebench_judges_in_its_own_way_and_in_a_sandbox(livecodebench, code, accepts):
    [outcome] = livecodebench.judge(stdin_problem(code, ("1\n", "2\n"), ("4\n", "8\n")))["livecodebench"]
    assert (outcome.verdict == "accepted") is accepts, outcome.reason


def test_livecodebench_calls_functions(livecodebench):
    tests = (TestCase(TestKind.FUNCTIONAL, "1\n2", "[1, 2]"),)
    code = "class Solution:\n    def f(self, a, b):\n        return (a, b)\n"
    problem = Problem("p", tests, (Labelled("p#0", "accepted", code),), entry_point="Solution.f")
    assert livecodebench.judge(problem)["livecodebench"][0].verdict == "accepted"


def test_livecodebench_leaves_out_what_it_has_no_rule_for(livecodebench):
    problem = Problem("p", (TestCase(TestKind.ASSERTION, "assert f()"),), (Labelled("p#0", "accepted", ""),))
    assert "assertion" in livecodebench.judge(problem)["livecodebench"]


def test_a_process_that_dies_is_started_again_and_then_the_program_is_rejected(tmp_path):
    count = f"open({str(tmp_path / 'count')!r}, 'a').write('x')"
    process = Process([sys.executable, "-c", f"import sys; {count}; sys.stdin.readline()"])
    answer = process.ask({}, 20)
    assert (answer["accepts"], "twice" in answer["says"]) == (False, True)
    assert (tmp_path / "count").read_text() == "xx"


def test_a_process_that_hangs_is_ended(tmp_path):
    code = f"import os, time; open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(60)"
    assert not Process([sys.executable, "-c", code]).ask({}, 1.5)["accepts"]
    for pid in (tmp_path / "pids").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


# The command


def test_the_command_measures_all_of_ours_and_the_comparisons(pools, tmp_path, capsys):
    path, out, page = write(tmp_path / "set.jsonl", *RECORDS), tmp_path / "out.json", tmp_path / "page.md"
    page.write_text("before\n\n{}\nold\n{}\nafter\n".format(*tables.markers("accuracy")))
    names = ",".join(("microcoder", *COMPARED))
    assert main([str(path), "--evaluators", names, "--json", str(out), "--markdown", str(page)]) == 0
    document = json.loads(out.read_text())
    assert document["runtime"]["sandbox"] == "bubblewrap"
    errors = {
        name: [item["id"] for item in record["files"]["set.jsonl"]["disagreements"]]
        for name, record in document["evaluators"].items()
    }
    assert errors == {
        "microcoder": [],
        "microcoder_no_checkers": ["set/digit#0"],
        "microcoder_exact": ["set/double#1", "set/digit#0", "set/pair#0"],
        "prime_code": ["set/digit#0", "set/pair#0", "set/pair#1"],
        "sandbox_fusion": ["set/double#2", "set/digit#0"],
        "judge0": ["set/digit#0"],
    }
    overall = document["evaluators"]["judge0"]["overall"]
    assert (overall["programs"], sum(overall["skipped"].values())) == (6, 3)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| `microcoder` | 9 | 0 | 0.00 % (0.00–" in text
    assert "set/" not in capsys.readouterr().out


def test_an_earlier_run_lends_the_evaluators_that_are_not_measured_now(pools, tmp_path):
    path, out = write(tmp_path / "set.jsonl", *RECORDS), tmp_path / "out.json"
    base = [str(path), "--json", str(out)]
    assert main([*base, "--evaluators", "judge0"]) == 0
    assert main([*base, "--evaluators", "microcoder", "--reuse", str(out)]) == 2  # it would overwrite what it reads
    earlier = out.rename(tmp_path / "earlier.json")
    assert main([*base, "--evaluators", "microcoder", "--reuse", str(earlier)]) == 0
    assert list(json.loads(out.read_text())["evaluators"]) == ["microcoder", "judge0"]
    assert main([*base, "--evaluators", "microcoder", "--reuse", str(earlier), "--limit", "1"]) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "no such file"),
        (["{set}", "--json", "no/out.json"], "no such folder"),
        (["{set}", "--markdown", "{set}"], "begin accuracy"),
        (["{set}", "--evaluators", "judge0", "--sandbox", "paper"], "no sandbox 'paper'"),
        (["{set}", "--evaluators", "judge0", "--reuse", "nowhere.json"], "no figures"),
    ],
)
def test_what_cannot_be_measured_ends_with_a_sentence(pools, arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "set.jsonl", RECORDS[0])
    assert main([argument.format(set=path) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert said.rstrip().rpartition("\n")[2].startswith("accuracy: ")
    assert says in said


def test_an_unknown_evaluator_is_refused_with_the_names_that_there_are(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["x", "--evaluators", "microcoder,oracle"])
    assert ended.value.code == 2
    assert "'oracle' is no evaluator; there are microcoder, " in capsys.readouterr().err


def test_every_evaluator_is_measured_by_default():
    assert accuracy.parse(["x"]).evaluators == EVALUATORS
    assert EVALUATORS[0] == "microcoder"
    assert set(EVALUATORS) == {"microcoder", "livecodebench", *(grader.name for grader in GRADERS)}
