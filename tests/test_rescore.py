"""`microcoder rescore`: real commands on real boxes; resuming, reports and score files; a scripted judge where time is
what matters."""

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from benchmarks import rescoring
from evaluator.errors import SandboxUnavailable
from evaluator.livecodebench.estimates import pass_at_k
from evaluator.livecodebench.official import OfficialFailed, prepare_environment
from evaluator.livecodebench.rows import Selection
from evaluator.model import Suite
from evaluator.sandbox.bubblewrap import find_bwrap
from evaluator.suites import read_suite, suite_id
from service import suite_store
from service.batch import Interrupted, Item, LocalJudging
from service.rescore_limit import hold
from service.rescore_results import Key, OtherRun, Results, Rules, digest_of
from service.rescore_run import stem_of
from service.rescoring import Flow, Source, Survey, iterate_work
from tests.requirements_helper import require
from tests.served_helper import MICROCODER

SHARED = Path(__file__).parents[2] / "shared" / "data" / "lcb"
RULES = Rules("microcoder", 2.0)

RIGHT = "print(int(input()) + 1)"
WRONG = "print(7)"
SPACED = "print(int(input()) + 1, end='  \\n\\n')"
SLOW = "while True: pass"
CALL = "class Solution:\n    def add(self, xs: List[int], k: int) -> List[int]:\n        return [x + k for x in xs]"
COUNTER = (
    "class Solution:\n    calls = []\n    def add(self, xs, k):\n        self.calls.append(1)\n"
    "        return [x + k for x in xs] if len(self.calls) == 1 else []"
)


@pytest.fixture(scope="module", autouse=True)
def boxes() -> None:
    """All of this needs a box."""
    try:
        find_bwrap()
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))


def row(
    id: str, function: str | None = None, tests: list[tuple[str, str]] | None = None, **fields: Any
) -> dict[str, Any]:
    pairs = tests or (
        [("[1, 2]\n1", "[2, 3]"), ("[]\n1", "[]"), ("[5]\n5", "[10]")] if function else [("1\n", "2\n"), ("5", "6")]
    )
    kind = "functional" if function else "stdin"
    cases = [{"input": input, "output": output, "testtype": kind} for input, output in pairs]
    return {
        "question_title": f"Title of {id}", "question_content": "Add.", "question_id": id,
        "platform": "leetcode" if function else "atcoder", "contest_id": "c", "contest_date": "2024-01-06T00:00:00",
        "starter_code": "", "difficulty": "easy",
        "public_test_cases": json.dumps(cases), "private_test_cases": "[]",
        "metadata": json.dumps({"func_name": function} if function else {}), **fields,
    }  # fmt: skip


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    rows = [row("a1"), row("a2", contest_date="2024-02-03T00:00:00", difficulty="hard"), row("f1", "add")]
    path.write_text("".join(json.dumps(item) + "\n" for item in rows))
    return path


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(records))
    return path


def rescore(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*MICROCODER, "rescore", *map(str, arguments)]
    if "--compare" not in command:
        command += ["--sandbox", "bubblewrap"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def verdicts(folder: Path) -> dict[tuple[str, str], str]:
    return {(line["question_id"], line["program"]): line["verdict"] for line in read_lines(folder / "results.jsonl")}


# A whole run


def test_a_file_of_generations_is_rescored(tmp_path: Path, problems: Path) -> None:
    failed = {"error_code": -2, "inputs": "1\n", "expected": "2\n", "output": "2  \n\n"}
    other = {"error_code": -2, "inputs": "99\n", "expected": "100\n", "output": "7"}
    stateful = {
        "error_code": -2,
        "inputs": "[[], 1]",
        "expected": "[]",
        "output": "[9]",
        "error_message": "Wrong Answer",
    }
    generations = write(
        tmp_path / "Model_eval_all.json",
        [
            {"question_id": "a1", "code_list": [RIGHT, WRONG, RIGHT], "graded_list": [True, False, False],
             "metadata": ["{}", "{}", json.dumps(other)]},
            {"question_id": "a2", "code_list": [SPACED, "", WRONG], "graded_list": [False, False, True],
             "metadata": [json.dumps(failed), "{}", "{}"]},
            {"question_id": "f1", "code_list": [CALL, COUNTER, "def add(xs, k): return xs"],
             "graded_list": [True, False, False], "metadata": ["{}", json.dumps(stateful), "{}"]},
            {"question_id": "gone", "code_list": [RIGHT] * 3, "graded_list": [True] * 3, "metadata": ["{}"] * 3},
        ],
    )  # fmt: skip
    out = tmp_path / "out"

    done = rescore(generations, "--problems", problems, "--out", out)

    assert done.returncode == 0, done.stderr
    assert "1 problems aren't in the files of problems: gone." in done.stdout
    assert "5 of 9 verdicts agree" in done.stdout

    lines = {(line["question_id"], line["program"]): line for line in read_lines(out / "results.jsonl")}
    assert len(lines) == 8, "the program that is there twice was run once"
    right = lines["a1", digest_of(RIGHT)]
    assert [test["rung"] for test in right["tests"]] == ["exact", "trailing_whitespace"]
    wrong = lines["a1", digest_of(WRONG)]
    assert (wrong["first_failed"], wrong["tests"][0]["difference"]) == (0, "line 1, token 1: expected '2', found '7'")
    assert lines["a2", digest_of("")]["verdict"] == "no_code"

    changed = {(item["question_id"], item["generation"]): item for item in read_lines(out / "flips.jsonl")}
    assert {place: item["reason"] for place, item in changed.items()} == {
        ("a1", 2): "published test set differs",
        ("a2", 0): "unexplained",  # LiveCodeBench's comparison would accept this: the published file lies
        ("a2", 2): "unexplained",
        ("f1", 1): "state between tests",
    }
    assert "line 2, `calls = []`" in changed["f1", 1]["proof"]

    records = json.loads((out / "Model_eval_all.json").read_text())
    assert [record["graded_list"] for record in records] == [
        [True, False, True],
        [True, False, False],
        [True, True, False],
    ]
    metrics, results, _ = json.loads((out / "Model_eval.json").read_text())
    values = [pass_at_k(3, sum(record["graded_list"]), 1) for record in records]
    assert metrics["pass@1"] == pytest.approx(sum(values) / 3) == pytest.approx(5 / 9)
    assert results["2"] == [[True] * 3, [True] * 3, [False]]
    report = (out / "report.md").read_text()
    assert "| pass@1 | 55.6 %" in report
    assert_page(out / "report.html", "55.6 %", "state between tests", "Model, re-scored")


class Page(HTMLParser):
    """Checks that everything that is opened is closed, and that nothing is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.pictures = 0
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pictures += tag == "svg"
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_page(path: Path, *texts: str) -> None:
    page = Page()
    source = path.read_text()
    page.feed(source)
    assert page.open == []
    assert page.fetched == []
    assert "url(" not in source
    assert "<script" not in source
    assert page.pictures >= 5
    for text in texts:
        assert text in page.text


def test_text_of_programs_and_problems_is_no_markup(tmp_path: Path) -> None:
    problems = tmp_path / "p.jsonl"
    problems.write_text(json.dumps(row("<b>1", tests=[("1\n", "<i>|x")])) + "\n")
    remark = {"error_code": -2, "inputs": "<u>", "expected": "<s>|", "output": "?"}
    generations = write(
        tmp_path / "<m>.json",
        [
            {
                "question_id": "<b>1",
                "code_list": ["print('<i>|x')"],
                "graded_list": [False],
                "metadata": [json.dumps(remark)],
            }
        ],
    )
    out = tmp_path / "out"

    assert rescore(generations, "--problems", problems, "--out", out).returncode == 0
    assert_page(out / "report.html", "<u>", "<b>1#0")
    rows = [line for line in (out / "report.md").read_text().splitlines() if line.startswith("| `<b>1#0`")]
    assert len(rows[0].replace("\\|", "").split("|")) == 7


def test_half_surrogate_pairs_stop_nothing(tmp_path: Path) -> None:
    problems = tmp_path / "p.jsonl"
    problems.write_text(json.dumps(row("q", question_title="\ud800")) + "\n")
    remark = {"error_code": -2, "inputs": "\ud800", "expected": "x", "output": "\udfff"}
    generations = write(
        tmp_path / "g.json",
        [{"question_id": "q", "code_list": [RIGHT, "print('\ud800')"], "graded_list": [False, False],
          "metadata": [json.dumps(remark), "{}"]}],
    )  # fmt: skip

    done = rescore(generations, "--problems", problems, "--out", tmp_path / "out")

    assert done.returncode == 0, done.stderr
    assert "published test set differs" in (tmp_path / "out" / "report.md").read_text()
    assert "q#1" in rescore(generations, "--problems", problems, "--only", "q#1", "--verbose").stdout


def test_three_runs_say_the_same(tmp_path: Path, problems: Path) -> None:
    """The last of them on a machine that has more to do than it can."""
    records = [
        {"question_id": "a1", "code_list": [RIGHT, WRONG, SLOW]},
        {"question_id": "f1", "code_list": [CALL, COUNTER, "def add(xs, k): return set(xs)"]},
    ]
    generations = write(tmp_path / "g.json", records)
    found = []
    for number in range(3):
        out = tmp_path / f"out{number}"
        load = [subprocess.Popen(["yes"], stdout=subprocess.DEVNULL) for _ in range(6 if number == 2 else 0)]
        try:
            assert rescore(generations, "--problems", problems, "--out", out, "--timeout", 1).returncode == 0
        finally:
            for process in load:
                process.kill()
                process.wait()
        found.append((verdicts(out), (out / "g_eval_all.json").read_text().count("true")))

    assert found[0] == found[1] == found[2]
    assert sorted(found[0][0].values()) == ["accepted"] * 3 + ["time_limit"] + ["wrong_answer"] * 2


# Going on


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    problems = tmp_path / "p.jsonl"
    problems.write_text("".join(json.dumps(row(f"q{number:03}")) + "\n" for number in range(120)))
    records = [
        {"question_id": f"q{number:03}", "code_list": [f"{RIGHT}  # {number}", f"{WRONG}  # {number}"]}
        for number in range(120)
    ]
    generations = write(tmp_path / "g.json", records)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    arguments = [generations, "--problems", problems, "--workers", 2]
    assert rescore(*arguments, "--out", whole).returncode == 0

    command = [*MICROCODER, "rescore", *map(str, arguments), "--out", str(killed), "--sandbox", "bubblewrap"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    results = killed / "results.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (results.exists() and results.read_bytes().count(b"\n") >= 20):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = results.read_bytes()
    kept = before[: before.rfind(b"\n") + 1]
    assert 20 <= kept.count(b"\n") < 240
    results.write_bytes(kept + b'{"question_id": "q1')  # as if killed while it wrote

    done = rescore(*arguments, "--out", killed)

    assert done.returncode == 0, done.stderr
    assert f"{kept.count(bytes([10]))} were judged before, {240 - kept.count(bytes([10]))} judged now" in done.stdout
    assert verdicts(killed) == verdicts(whole)
    assert set(kept.splitlines()) <= set(results.read_bytes().splitlines()), "what was finished is as it was"
    ids = [line["question_id"] for line in read_lines(results)]
    assert ids == sorted(ids)
    assert json.loads((killed / "g_eval.json").read_text())[:2] == json.loads((whole / "g_eval.json").read_text())[:2]

    again = rescore(*arguments, "--out", killed)
    assert "240 were judged before, 0 judged now" in again.stdout


def test_results_of_other_rules_are_not_mixed(tmp_path: Path, problems: Path) -> None:
    generations = write(tmp_path / "g.json", [{"question_id": "a1", "code_list": [RIGHT]}])
    out = tmp_path / "out"
    assert rescore(generations, "--problems", problems, "--out", out).returncode == 0

    other = rescore(generations, "--problems", problems, "--out", out, "--profile", "exact")

    assert other.returncode == 2
    assert "profile microcoder instead of exact" in other.stderr
    assert "give another --out" in other.stderr


def test_a_problem_whose_tests_have_changed_is_judged_again(tmp_path: Path, problems: Path) -> None:
    results = Results(tmp_path / "out", RULES)
    key = Key("a1", digest_of(RIGHT))
    results.add(make_line(key, "accepted"))
    results.close()

    again = Results(tmp_path / "out", RULES)
    again.close()

    assert again.has(key, "s")
    assert not again.has(key, "another suite")
    with pytest.raises(OtherRun, match=r"cpu_seconds 2\.0 instead of 3\.0"):
        Results(tmp_path / "out", Rules("microcoder", 3.0))


def test_what_failed_by_our_own_fault_is_judged_again(tmp_path: Path) -> None:
    results = Results(tmp_path / "out", RULES)
    key = Key("a1", digest_of(RIGHT))
    results.add(make_line(key, "internal_error"))
    results.close()

    again = Results(tmp_path / "out", RULES)
    assert not again.has(key, "s")
    again.add(make_line(key, "accepted"))
    again.sort()

    assert [line["verdict"] for line in read_lines(again.path)] == ["accepted"]


def make_line(key: Key, verdict: str, seconds: float = 0.1) -> dict[str, Any]:
    tests = [
        {"test": 0, "verdict": verdict, "rung": None, "difference": None, "cpu_seconds": seconds, "memory_bytes": 1}
    ]
    return {
        "question_id": key.question_id, "program": key.digest, "suite": "s", "functional": False, "verdict": verdict,
        "detail": None, "first_failed": None, "tests_given": 1, "cpu_seconds": seconds, "memory_bytes": 1,
        "seconds": 0.1, "tests": tests,
    }  # fmt: skip


# Near the limit, with a judge that is scripted


class Scripted:
    """A judge whose programs take the seconds that their text says, a number a run; `w`: by the clock on the wall."""

    batch, most, grace = 1, 4, 1.0

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = 0
        self.seen: list[tuple[str, int]] = []
        self.stopped = False

    def judge(self, items: list[Item]) -> list[dict[str, Any]]:
        [item] = items
        with self.lock:
            self.running += 1
            others = self.running - 1
        time.sleep(0.01)
        source = item.submission.program.source
        with self.lock:
            word = source.split()[sum(seen == source for seen, _ in self.seen)]
            self.seen.append((source, others))
            self.running -= 1
        limits = item.submission.limits
        seconds = min(float(word.strip("w")), limits.cpu_seconds + 0.01)
        is_stopped = word.startswith("w") or seconds > limits.cpu_seconds
        return [judgement(("time_limit" if is_stopped else "accepted", seconds))]

    def stop(self) -> None:
        self.stopped = True


def judgement(*tests: tuple[str, float]) -> dict[str, Any]:
    """A document of the service, of the verdict and the seconds of each test."""
    results = [
        {"index": index, "verdict": verdict, "match": None, "cpu_seconds": spent, "memory_bytes": 1, "detail": verdict}
        for index, (verdict, spent) in enumerate(tests)
    ]
    failed = next((test for test in results if test["verdict"] not in ("accepted", "skipped")), None)
    return {
        "verdict": failed["verdict"] if failed else "accepted", "detail": failed and failed["detail"],
        "first_failed": failed and failed["index"], "cpu_seconds": sum(spent for _, spent in tests), "memory_bytes": 1,
        "tests": results,
    }  # fmt: skip


def flow_of(
    tmp_path: Path, problems: Path, programs: list[str], interrupt: threading.Event
) -> tuple[Scripted, Callable, list]:
    from evaluator.livecodebench.generations import Answers

    results = Results(tmp_path / "flow", RULES)
    written: list[dict[str, Any]] = []

    def write(line: dict[str, Any]) -> None:
        results.add(line)
        written.append(line)

    judging = Scripted()
    works = iterate_work([Answers("a1", programs)], Source((problems,)), RULES, results, Survey(), lambda count: None)
    flow = Flow(judging, 4, RULES, write, interrupt)

    def go() -> None:
        try:
            flow.judge_all(works)
        finally:
            results.close()

    return judging, go, written


@pytest.mark.parametrize(
    ("program", "first", "verdict", "alone"),
    [
        ("2.05 9", None, "accepted", 0),  # the limit is 2 s: 5 % more is within
        ("9 1", None, "time_limit", 0),  # still running at 2.3 s
        ("2.2 2.0", "time_limit", "accepted", 1),
        ("2.2 2.2 2.2 2.0", "time_limit", "accepted", 3),
        ("2.2 2.2 2.2 2.2 1", "time_limit", "time_limit", 3),
        ("2.2 9 1", "time_limit", "time_limit", 1),
        ("w0.1 0.1", "time_limit", "accepted", 1),
        ("w0.1 w0.1 0.1", "time_limit", "time_limit", 1),
    ],
)
def test_what_is_a_little_over_the_limit_is_run_again_alone(
    tmp_path: Path, problems: Path, program: str, first: str | None, verdict: str, alone: int
) -> None:
    quick = [f"0.1 0.1 {number}" for number in range(40)]
    judging, go, written = flow_of(tmp_path, problems, [program, *quick], threading.Event())

    go()

    lines = {line["program"]: line for line in written}
    line = lines[digest_of(program)]
    assert len(lines) == len(written) == 41
    assert line["verdict"] == verdict
    assert line.get("first_run", {}).get("verdict") == first
    assert line.get("first_run", {}).get("alone", 0) == alone
    assert sum(seen == program for seen, _ in judging.seen) == 1 + alone
    if alone:
        assert judging.seen[-alone:] == [(program, 0)] * alone, "after all others, and without them"
    assert any(others for _, others in judging.seen), "the others ran at the same time"


def test_a_test_that_needs_too_much_is_a_time_limit_whatever_came_of_it() -> None:
    slow = judgement(("accepted", 1.0), ("wrong_answer", 2.2), ("skipped", 0.0))
    held = hold(slow, 2.0, fail_fast=True)
    assert (held["verdict"], held["first_failed"], held["cpu_seconds"]) == ("time_limit", 1, 3.2)
    assert held["detail"] == "The program used 2.20 s of processor time, and the limit is 2 s."

    early = judgement(("accepted", 2.2), ("wrong_answer", 0.5))
    assert [test["verdict"] for test in hold(early, 2.0, fail_fast=True)["tests"]] == ["time_limit"]
    assert [test["verdict"] for test in hold(early, 2.0, fail_fast=False)["tests"]] == ["time_limit", "wrong_answer"]

    late = judgement(("wrong_answer", 0.5), ("accepted", 2.2))
    assert (held := hold(late, 2.0, fail_fast=False))["verdict"] == "wrong_answer"
    assert held["first_failed"] == 0
    kept = [("accepted", 2.1), ("memory_limit", 2.2), ("internal_error", 2.2)]
    for untouched in map(judgement, kept):
        assert hold(untouched, 2.0, fail_fast=True) == untouched


def test_a_program_that_is_near_the_limit_is_counted_and_listed(tmp_path: Path, problems: Path) -> None:
    record = {"question_id": "a1", "code_list": [RIGHT, WRONG], "graded_list": [True, True], "metadata": ["{}", "{}"]}
    generations = write(tmp_path / "g.json", [record])
    out = tmp_path / "out"
    assert rescore(generations, "--problems", problems, "--out", out).returncode == 0
    lines = read_lines(out / "results.jsonl")
    lines[0]["first_run"] = {"verdict": "time_limit", "cpu_seconds": 6.5, "seconds": 6.6, "alone": 2}
    (out / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    done = rescore(generations, "--problems", problems, "--out", out)

    sentence = "1 programs were near the time limit and were judged again alone: 1 of them got another verdict then."
    assert sentence in done.stdout
    report = (out / "report.md").read_text()
    listed = f"- a1 {lines[0]['program'][:8]}: time_limit beside others, {lines[0]['verdict']} alone, in the last of 2"
    assert sentence in report and listed in report
    assert_page(out / "report.html", listed[2:])


def test_an_interrupted_run_keeps_what_is_judged(tmp_path: Path, problems: Path) -> None:
    interrupt = threading.Event()
    judging, go, written = flow_of(tmp_path, problems, [f"0.1 0.1 {number}" for number in range(500)], interrupt)
    threading.Timer(0.15, interrupt.set).start()

    with pytest.raises(Interrupted):
        go()

    assert judging.stopped
    assert 0 < len(written) < 500
    again = Results(tmp_path / "flow", RULES)
    again.close()
    assert len(again.outcomes) == len(written)


# Each problem's tests once


def test_the_tests_of_a_problem_are_decoded_once(
    tmp_path: Path, problems: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evaluator.livecodebench.generations import Answers

    decoded = []

    def count(data: bytes) -> Suite:
        decoded.append(suite_id(data))
        return read_suite(data)

    monkeypatch.setattr(suite_store, "read_suite", count)
    answers = [Answers(id, [f"{RIGHT}  # {number}" for number in range(6)]) for id in ("a1", "f1")]
    written: list[dict[str, Any]] = []
    results = Results(tmp_path / "out", RULES)
    works = iterate_work(answers, Source((problems,)), RULES, results, Survey(), lambda count: None)
    with contextlib.closing(LocalJudging("bubblewrap", 2)) as judging:
        Flow(judging, 2, RULES, written.append, threading.Event()).judge_all(works)
    results.close()

    assert [line["verdict"] for line in written].count("accepted") == 6
    assert len(written) == 12
    assert sorted(decoded) == sorted({line["suite"] for line in written})


# Other ways to call it


def test_one_case_is_run_again_with_everything_that_it_does(tmp_path: Path, problems: Path) -> None:
    generations = write(
        tmp_path / "g.json", [{"question_id": "a1", "code_list": [RIGHT, "import sys\nprint(7); sys.exit('no')"]}]
    )

    done = rescore(generations, "--problems", problems, "--only", "a1#1", "--verbose")

    assert done.returncode == 0, done.stderr
    for text in (
        "a1#1  Title of a1",
        "print(7)",
        "test 0: runtime_error",
        "expected:\n    2",
        "found:\n    7",
        "stderr:\n    no",
    ):
        assert text in done.stdout
    assert not (tmp_path / "g_rescored").exists()
    assert "has no generation a1#2" in rescore(generations, "--problems", problems, "--only", "a1#2").stderr
    assert "such as abc311_c#0" in rescore(generations, "--problems", problems, "--only", "a1#x").stderr


def test_the_command_beside_a_changed_verdict_runs_as_it_is_printed(tmp_path: Path, problems: Path) -> None:
    record = {"question_id": "f1", "code_list": [CALL, COUNTER], "graded_list": [True, False], "metadata": ["{}"] * 2}
    folder = tmp_path / "a folder"
    folder.mkdir()
    generations = write(folder / "g.json", [record])
    assert rescore(generations, "--problems", problems, "--out", tmp_path / "out").returncode == 0
    [change] = read_lines(tmp_path / "out" / "flips.jsonl")
    assert f"$ {change['command']}\n" in (tmp_path / "out" / "report.md").read_text()

    path = f"{Path(MICROCODER[0]).parent}:{os.environ['PATH']}"
    again = subprocess.run(
        change["command"], shell=True, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )

    assert again.returncode == 0, again.stderr
    assert "f1#1  Title of f1" in again.stdout and "verdict: accepted" in again.stdout


def test_two_folders_are_compared(tmp_path: Path) -> None:
    def folder(name: str, right: list[list[bool]]) -> Path:
        (tmp_path / name).mkdir()
        records = [{"question_id": str(number), "graded_list": one} for number, one in enumerate(right)]
        write(tmp_path / name / f"{name}_eval_all.json", records)
        return tmp_path / name

    one = folder("one", [[True], [False], [False], [False]])
    two = folder("two", [[False], [True], [True], [False]])

    done = rescore("--compare", one, two)

    assert done.returncode == 0, done.stderr
    assert "4 problems in common" in done.stdout
    assert "25.0 %" in done.stdout and "50.0 %" in done.stdout and "+25.0" in done.stdout
    assert "1 problems where A is better: 0" in done.stdout
    assert "2 problems where B is better: 1, 2" in done.stdout
    assert rescore("--compare", one, tmp_path).returncode == 2


def test_problems_and_dates_are_selected(tmp_path: Path, problems: Path) -> None:
    records = [{"question_id": id, "code_list": [RIGHT]} for id in ("a1", "a2")]
    generations = write(tmp_path / "g.json", records)

    done = rescore(generations, "--problems", problems, "--out", tmp_path / "out", "--start-date", "2024-02-01")

    assert "1 generations of 1 problems" in done.stdout
    assert "aren't in the files" not in done.stdout
    assert [record["question_id"] for record in json.loads((tmp_path / "out" / "g_eval_all.json").read_text())] == [
        "a2"
    ]
    none = rescore(generations, "--problems", problems, "--platform", "codeforces", "--out", tmp_path / "none")
    assert none.returncode == 2
    assert "nothing to judge" in none.stderr


def test_a_selected_problem_that_isnt_there_is_told_from_one_that_isnt_selected(tmp_path: Path, problems: Path) -> None:
    from evaluator.livecodebench.generations import Answers

    record = dict.fromkeys(row("z"), "x") | {"contest_date": "2020-01-01"}
    answers = [Answers("z", [RIGHT], record=record), Answers("y", [RIGHT])]
    survey, results = Survey(), Results(tmp_path / "out", RULES)
    source = Source((problems,), selection=Selection(platforms=frozenset({"atcoder"})))

    assert list(iterate_work(answers, source, RULES, results, survey, lambda count: None)) == []
    results.close()

    assert survey.missing == ["y"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Give a file of generations and --problems"),
        (["{missing}", "--problems", "{problems}"], "No such file"),
        (["{problems}", "--problems", "{problems}"], "neither 'code_list' nor 'output_list'"),
        (["{generations}", "--problems", "{generations}"], "rows of LiveCodeBench's code_generation_lite"),
        (["{generations}", "--problems", "{problems}", "--release", "v7"], "No file of v7"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, problems: Path, arguments: list[str], complaint: str) -> None:
    generations = write(tmp_path / "g.json", [{"question_id": "a1", "code_list": [RIGHT]}])
    names = {"missing": tmp_path / "missing", "problems": problems, "generations": generations}

    done = rescore(*(argument.format(**names) for argument in arguments), cwd=tmp_path)

    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_gives_its_name_to_what_is_written() -> None:
    names = (
        "M_eval_all.json",
        "M.json",
        "M.jsonl.gz",
        "M_codegeneration_output.json",
        "M_codegeneration_output_eval_all.json",
    )
    assert {stem_of(Path("folder") / name) for name in names} == {"M"}
    assert stem_of(Path("Scenario.codegeneration_10_0.2_eval_all.json")) == "Scenario.codegeneration_10_0.2"


# LiveCodeBench beside it


@pytest.fixture(scope="module")
def environment() -> Path:
    """The Python of LiveCodeBench's own environment, which `--official` makes on demand."""
    try:
        return prepare_environment()
    except OfficialFailed as error:
        require("livecodebench", str(error))
        raise


def test_livecodebench_judges_beside_ours(tmp_path: Path, problems: Path, environment: Path) -> None:
    """Programs on which its runner is known to differ, and one that leaves without a word."""
    silent = "import os\nos._exit(0)"
    threaded = (
        f"import threading, time\ndef main():\n    time.sleep(0.3)\n    {RIGHT}\nthreading.Thread(target=main).start()"
    )
    programs = [RIGHT, WRONG, threaded, silent, "import os\nprint(int(os.read(0, 99)) + 1)"]
    record = {"question_id": "a1", "code_list": programs, "graded_list": [False, False, False, False, True]}
    generations = write(tmp_path / "g.json", [record])
    out = tmp_path / "out"

    done = rescore(generations, "--problems", problems, "--out", out, "--official")

    assert done.returncode == 0, done.stderr
    official = {line["program"]: line for line in read_lines(out / "official.jsonl")}
    said = [official[digest_of(program)]["accepted"] for program in programs]
    assert said == [True, False, False, False, False]
    assert official[digest_of(silent)]["metadata"]["error_code"] == -5
    flips = read_lines(out / "flips.jsonl")
    changed = {item["generation"]: item["reason"] for item in flips if item["against"] == "official"}
    assert changed == {2: "thread not waited for", 4: "stdin buffer"}
    assert "Of the 2 verdicts that differ from the published ones" in done.stdout
    assert "repeats 1 as published" in done.stdout and "With 1 it agrees with ours" in done.stdout
    assert "3 of 5 verdicts agree with LiveCodeBench's evaluator" in done.stdout

    before = (out / "official.jsonl").read_bytes()
    assert rescore(generations, "--problems", problems, "--out", out, "--official").returncode == 0
    assert (out / "official.jsonl").read_bytes() == before, "what it has judged isn't asked for again"


def test_both_sides_are_timed_on_the_same_programs(
    tmp_path: Path, problems: Path, environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"question_id": "a1", "code_list": [RIGHT, WRONG, SLOW, "import os\nprint(int(os.read(0, 99)) + 1)"]}
    generations, out = write(tmp_path / "g.json", [record]), tmp_path / "figures.json"

    arguments = [generations, "--problems", problems, "--timeout", 1, "--json", out]
    assert rescoring.main([str(argument) for argument in arguments]) == 0

    figures = json.loads(out.read_text())
    assert (figures["all"]["programs"], figures["without_time_limits"]["programs"]) == (4, 3)
    assert 0.5 <= figures["all"]["floor"] < 1, "a second of the one that never ends, over two workers"
    for side in ("ours", "theirs"):
        assert figures["all"][side] > figures["without_time_limits"][side] > 0
    assert [(item["generation"], item["reason"]) for item in figures["differences"]] == [(3, "stdin buffer")]
    assert "a1#3: accepted here, rejected there: stdin buffer" in capsys.readouterr().out


def test_livecodebenchs_own_script_reads_what_is_written(tmp_path: Path, problems: Path, environment: Path) -> None:
    records = [
        {"question_id": "a1", "code_list": [RIGHT, WRONG]}, {"question_id": "a2", "code_list": [RIGHT, RIGHT]},
        {"question_id": "f1", "code_list": ["def add(xs, k): return xs", CALL]},
    ]  # fmt: skip
    out = tmp_path / "out"
    assert rescore(write(tmp_path / "g.json", records), "--problems", problems, "--out", out).returncode == 0

    command = [environment, "-m", "livecodebench.evaluation.compute_scores", "--eval_all_file", out / "g_eval_all.json"]
    script = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert script.returncode == 0, script.stderr
    theirs = float(re.search(r"^Pass@1: (.*)$", script.stdout, re.M)[1])
    metrics, _, _ = json.loads((out / "g_eval.json").read_text())
    assert theirs == pytest.approx(metrics["pass@1"], abs=1e-12)
    assert f"pass@1 | {100 * theirs:.1f} %" in (out / "report.md").read_text()
    assert re.search(r"^Hard Pass@1: 1.0$", script.stdout, re.M)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs LiveCodeBench's files in ../shared/data/lcb")
@pytest.mark.shared
def test_real_generations_agree_with_their_published_verdicts(tmp_path: Path) -> None:
    """Of 40 problems; what differs was rejected on a test that isn't public."""
    path = next(SHARED.glob("O1-Mini*_eval_all.json"))
    out = tmp_path / "out"

    done = rescore(path, "--problems", SHARED / "problems_v6.jsonl", "--limit", 40, "--out", out)

    assert done.returncode == 0, done.stderr
    changed = read_lines(out / "flips.jsonl")
    assert len(changed) <= 4
    assert {item["reason"] for item in changed} <= {"published test set differs"}
