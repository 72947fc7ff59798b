"""The agreement benchmark reads every labelled format, counts both kinds of error, and refuses what it can't read."""

import json
from collections import Counter
from pathlib import Path

import microcoder_client
import pytest

from benchmarks import agreement
from benchmarks.labelled import BadInput, find_files, foreign_format, read_problems
from benchmarks.referees import Outcome, RemoteReferee, explain
from evaluator.model import (
    CheckerName,
    CheckerProgram,
    Convention,
    Judgement,
    Limits,
    Match,
    NamedChecker,
    Order,
    Policy,
    Prelude,
    TestKind,
    TestResult,
    Verdict,
)
from evaluator.suites import write_suite

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the labelled data in ../shared/data")

TRIPLE = {
    "id": "set/1", "kind": "stdin", "fn_name": None, "fn_class": None, "checker": None, "time_limit_s": 2,
    "tests": [{"input": "1\n", "expected": "1\n"}],
    "submissions": [
        {"code": "print(input())", "label": "accepted"},
        {"code": "print(2)", "label": "wrong_answer"},
        {"code": "", "label": "wrong_answer"},
    ],
}  # fmt: skip
VALIDATOR = {"checker": "custom", "checker_files": {"v/check.py": "import sys\nsys.exit(42)\n"}, "checker_flags": "a b"}
JAVA = TRIPLE | VALIDATOR | {"checker_files": {"Check.java": ""}}
BUG = {
    "id": "B01", "kind": "entrypoint", "test_type": "functional", "fn_name": "f", "right_verdict": "accepted",
    "tests": [{"input": "1", "expected": "2"}], "code": "class Solution:\n    def f(self, n):\n        return n + 1\n",
}  # fmt: skip


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def read_one(tmp_path, record):
    [problem] = read_problems(write(tmp_path / "one.jsonl", record))
    return problem


class FakeReferee:
    """Says of each program what its text says, or else `wrong_answer`."""

    def judge(self, problem):
        said = {"print(input())": "accepted", "lost": "internal_error"}
        return [
            Outcome(item.id, item.label, said.get(item.text, "wrong_answer"), "because") for item in problem.submissions
        ]

    def close(self):
        pass


# Reading


def test_a_triple_is_read_with_its_limits_on_processor_and_wall(tmp_path):
    problem = read_one(tmp_path, TRIPLE)
    assert problem.limits == Limits(cpu_seconds=2.0, wall_seconds=8.0)
    assert problem.entry_point is None
    assert problem.prelude is Prelude.NONE
    assert [item.id for item in problem.submissions] == ["set/1#0", "set/1#1", "set/1#2"]
    assert [item.is_answer for item in problem.submissions] == [False, False, True]


@pytest.mark.parametrize(
    ("checker", "read"),
    [
        (None, NamedChecker(CheckerName.TOKENS)),
        ("token case-insensitive", NamedChecker(CheckerName.CASE_INSENSITIVE)),
        ("float-tol abs=1e-06 rel=1e-05", NamedChecker(CheckerName.FLOAT_TOLERANCE, 1e-6, 1e-5)),
        ("float-tol abs=1.001e-06", NamedChecker(CheckerName.FLOAT_TOLERANCE, 1.001e-6, None)),
    ],
)
def test_a_checkers_name_becomes_a_built_in_checker(tmp_path, checker, read):
    problem = read_one(tmp_path, TRIPLE | {"checker": checker})
    assert (problem.checker, problem.policy) == (read, Policy())


def test_a_validator_becomes_a_checker_program(tmp_path):
    checker = read_one(tmp_path, TRIPLE | VALIDATOR).checker
    files = (("check.py", "import sys\nsys.exit(42)\n"),)
    assert checker == CheckerProgram(files, Convention.KATTIS, "python", flags=("a", "b"))


def test_of_a_file_and_a_folder_the_folder_is_the_checker(tmp_path):
    files = {"check.cpp": "1", "validate/check.cc": "2", "validate/check.h": "3"}
    checker = read_one(tmp_path, TRIPLE | VALIDATOR | {"checker_files": files}).checker
    assert (checker.language, checker.files) == ("cpp", (("check.cc", "2"), ("check.h", "3")))


def test_a_checker_in_another_language_is_skipped_with_its_reason(tmp_path):
    assert "checker" in read_one(tmp_path, TRIPLE | VALIDATOR | {"checker_files": {"v/Check.java": ""}}).skip


def test_an_entry_point_and_a_prelude_are_read_from_a_functional_triple(tmp_path):
    record = TRIPLE | {"kind": "functional", "fn_name": "f", "fn_class": "Solution", "needs_lcb_prelude": True}
    problem = read_one(tmp_path, record)
    assert problem.entry_point == "Solution.f"
    assert problem.prelude is Prelude.CONTEST
    assert problem.checker is None


def test_an_assertion_test_expects_no_output(tmp_path):
    record = TRIPLE | {"kind": "assert", "tests": [{"input": "assert True", "expected": ""}]}
    problem = read_one(tmp_path, record)
    assert [(test.kind, test.expected) for test in problem.tests] == [(TestKind.ASSERTION, None)]


def test_a_bug_is_read_with_the_entry_point_that_its_code_has(tmp_path):
    assert read_one(tmp_path, BUG).entry_point == "Solution.f"
    assert read_one(tmp_path, BUG | {"code": "def f(n):\n    return n + 1\n"}).entry_point == "f"
    assert read_one(tmp_path, BUG | {"id": "B39"}).policy.order is Order.ANY
    assert read_one(tmp_path, BUG | {"id": "B58"}).limits.cpu_seconds == 0.5
    assert read_one(tmp_path, BUG | {"id": "B38"}).checker.convention is Convention.TESTLIB


def test_a_bug_of_extraction_is_a_whole_answer(tmp_path):
    [item] = read_one(tmp_path, BUG | {"kind": "code_extraction", "test_type": "stdin"}).submissions
    assert item.is_answer


def test_the_examples_are_read():
    problems = [problem for path in find_files([ROOT / "docs" / "examples"]) for problem in read_problems(path)]
    assert len(problems) >= 30
    for problem in problems:
        assert write_suite(problem.tests)


@needs_shared
@pytest.mark.shared
def test_all_shared_labelled_data_is_read():
    counts = Counter()
    for path in find_files([SHARED / "labelled", SHARED / "bugs.jsonl", SHARED / "livecodebench_divergences.jsonl"]):
        if foreign_format(path) is None:
            for problem in read_problems(path):
                counts[path.name] += len(problem.submissions)
                assert problem.skip is None
                assert not problem.tests or write_suite(problem.tests, problem.checker)
    assert counts["humaneval_assert.jsonl"] == 1278
    assert counts["kattis_icpc.jsonl"] == 415
    assert counts["lcb_model_generations.jsonl"] == 3502
    assert counts["bugs.jsonl"] == 74
    assert "disagreements.jsonl" not in counts


# Refusing


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (TRIPLE | {"checker": "astrology"}, "astrology"),
        (TRIPLE | {"kind": "telepathy"}, "telepathy"),
        (TRIPLE | {"time_limit_s": -1}, "cpu_seconds"),
        (TRIPLE | {"submissions": [{"code": "x", "label": "fine"}]}, "fine"),
        ({"id": "x", "submissions": []}, "kind"),
        ([1], "object"),
    ],
)
def test_a_bad_record_is_refused_with_its_file_and_line(tmp_path, record, says):
    path = write(tmp_path / "bad.jsonl", TRIPLE, record)
    with pytest.raises(BadInput, match=rf"bad.jsonl:2.*{says}"):
        list(read_problems(path))


@pytest.mark.parametrize("content", [b"not json\n", b"\xff\xfe\n", b""])
def test_what_is_no_labelled_file_ends_with_a_sentence(tmp_path, content, capsys):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    assert agreement.main([str(path)]) == 2
    assert "agreement: " in capsys.readouterr().err


def test_a_missing_path_and_a_missing_folder_for_the_figures_end_with_a_sentence(tmp_path, capsys):
    assert agreement.main([str(tmp_path / "nowhere")]) == 2
    assert "no such file" in capsys.readouterr().err
    path = write(tmp_path / "set.jsonl", TRIPLE)
    assert agreement.main([str(path), "--json", str(tmp_path / "no" / "out.json")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_two_files_of_one_name_are_refused(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "set.jsonl", TRIPLE)
    with pytest.raises(BadInput, match=r"set\.jsonl"):
        find_files([tmp_path / "a", tmp_path / "b"])


def test_programs_without_tests_are_no_labelled_format(tmp_path):
    path = write(tmp_path / "d.jsonl", {"problem_id": "x", "published": "rejected", "observed": "accepted", "code": ""})
    assert "nothing to judge" in foreign_format(path)


# Counting


def test_both_kinds_of_error_are_counted_and_listed(tmp_path):
    programs = [
        ("print(input())", "accepted"), ("print(input())", "wrong_answer"), ("x", "accepted"), ("x", "time_limit"),
        ("x", "wrong_answer"), ("lost", "wrong_answer"),
    ]  # fmt: skip
    submissions = [{"code": code, "label": label} for code, label in programs]
    path = write(tmp_path / "set.jsonl", TRIPLE | {"submissions": submissions}, JAVA)
    seen = []
    tally = agreement.measure(path, FakeReferee(), agreement.Plan(workers=2), seen.append)
    record = tally.record
    assert (record["programs"], record["agreement"]) == (6, 0.5)
    assert (record["false_rejects"], record["false_accepts"], record["internal_errors"]) == (1, 1, 1)
    assert record["same_verdict"] == pytest.approx(2 / 6)
    assert [item["id"] for item in record["disagreements"]] == ["set/1#1", "set/1#2", "set/1#5"]
    assert record["disagreements"][0] == {
        "id": "set/1#1", "label": "wrong_answer", "verdict": "accepted", "reason": "because",
    }  # fmt: skip
    assert list(record["skipped"].values()) == [3]
    assert sum(seen) == 9


def test_outcomes_come_in_order_and_no_more_is_read_than_is_judged(tmp_path):
    path = write(tmp_path / "set.jsonl", *(TRIPLE | {"id": f"set/{number}"} for number in range(100)))
    read = []

    def counted():
        for problem in read_problems(path):
            read.append(problem.id)
            yield problem

    outcomes = agreement.judge_in_order(counted(), FakeReferee(), 2)
    assert next(outcomes)[0].id == "set/0#0"
    assert len(read) == 2 * agreement.WINDOW
    assert [item[0].id for item in outcomes] == [f"set/{number}#0" for number in range(1, 100)]


def test_the_command_prints_the_figures_and_writes_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(agreement, "_referee", lambda options: FakeReferee())
    path = write(tmp_path / "set.jsonl", TRIPLE, BUG)
    out = tmp_path / "out.json"
    assert agreement.main([str(path), "--json", str(out), "--workers", "1"]) == 0
    document = json.loads(out.read_text())
    assert list(document) == ["files"]
    assert document["files"]["set.jsonl"]["programs"] == 4
    assert document["files"]["set.jsonl"]["agreement"] == 0.75
    shown = capsys.readouterr().out
    assert "75.00 %" in shown
    assert "B01" in shown


def test_only_the_first_problems_are_judged_when_asked(tmp_path):
    path = write(tmp_path / "set.jsonl", TRIPLE, TRIPLE, TRIPLE)
    assert agreement.measure(path, FakeReferee(), agreement.Plan(limit=2)).programs == 6


def test_a_plan_changes_policy_and_time(tmp_path):
    problem = read_one(tmp_path, TRIPLE)
    assert agreement.Plan().adjust(problem) == problem
    changed = agreement.Plan(own_policy=False, time_factor=3.0).adjust(problem)
    assert (changed.policy, changed.checker) == (Policy(), None)
    assert changed.limits == Limits(cpu_seconds=6.0, wall_seconds=24.0)


def test_a_reason_says_which_test_and_what_differed():
    failed = TestResult(1, Verdict.WRONG_ANSWER, Match(False, None, "token 2", "'5'", "'6'"), detail="wrong")
    judgement = Judgement(Verdict.WRONG_ANSWER, 0.0, (failed,), first_failed=1)
    assert explain(judgement) == "test 1; wrong; token 2: expected '5', found '6'"


# A service


class FakeClient:
    """A service that refuses every evaluation which holds the source `bad`, and else accepts all."""

    def __init__(self, refusal=microcoder_client.RequestRefused):
        self.refusal = refusal
        self.asked = []
        self.suites = []

    def health(self):
        return {"status": "ok"}

    def evaluate(self, submissions, **rules):
        self.suites.append(rules["suite"])
        self.asked.append((len(submissions), rules["limits"], rules["policy"]))
        if any(item.source == "bad" for item in submissions):
            raise self.refusal("bad is refused.", microcoder_client.Problem(422, "", "", ""))
        return [microcoder_client.Judgement("accepted", 1.0) for _ in submissions]


def test_what_a_service_refuses_is_told_from_what_it_judges(tmp_path):
    record = TRIPLE | {"submissions": [{"code": code, "label": "accepted"} for code in ("good", "bad", "fine")]}
    client = FakeClient()
    outcomes = RemoteReferee(client).judge(read_one(tmp_path, record))
    assert [outcome.verdict for outcome in outcomes] == ["accepted", "invalid_request", "accepted"]
    assert [size for size, _, _ in client.asked] == [3, 1, 1, 1]
    assert client.asked[0][1:] == (
        {"cpu_seconds": 2.0, "wall_seconds": 8.0},
        {},
    )
    assert client.suites[0].data.startswith(b'{"checker":{"name":"tokens"}}')


def test_a_refused_key_is_no_verdict(tmp_path):
    record = TRIPLE | {"submissions": [{"code": "bad", "label": "accepted"}]}
    with pytest.raises(microcoder_client.KeyRefused):
        RemoteReferee(FakeClient(microcoder_client.KeyRefused)).judge(read_one(tmp_path, record))


def test_the_reason_of_an_acceptance_is_the_rungs_that_accepted():
    rungs = ["exact", "tolerance", "exact"]
    tests = tuple(TestResult(index, Verdict.ACCEPTED, Match(True, rung)) for index, rung in enumerate(rungs))
    assert explain(Judgement(Verdict.ACCEPTED, 1.0, tests)) == "accepted by exact, tolerance"
