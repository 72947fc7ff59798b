"""Verification in real boxes: right, wrong, flaky and slow references, known-wrong programs, the journal."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from microcoder_client import Client

from curation.fan import Interrupted
from curation.journal import Journal
from curation.judging import Judging, LocalJudging, Order, Outcome, RemoteJudging
from curation.problem import Problem, make_suite
from curation.verification import Verify, VerifyParams, judge_runs
from evaluator.model import Verdict
from tests.curation_helper import call, ids, make_problem, open_boxes, run, stdin
from tests.served_helper import Served

FLAKY = "import os\nprint(2 * int(input()) if os.urandom(1)[0] < 128 else 0)"
UNSTABLE_OUTPUT = "import os\nprint(2 * int(input()))\nprint(' ' * (os.urandom(2)[0] + 1))"
SLOW = "import time\nwhile time.process_time() < 0.8: pass\nprint(2 * int(input()))"


@pytest.fixture(scope="module")
def boxes() -> Iterator[LocalJudging]:
    """Boxes for all tests here."""
    with open_boxes() as judging:
        yield judging


@pytest.fixture
def verify(boxes: LocalJudging, tmp_path: Path) -> Callable[..., Verify]:
    """A function that makes a stage, on the test's own journal."""

    def make(judging: Judging = boxes, interrupt: threading.Event | None = None, **params) -> Verify:
        journal = tmp_path / "verification.jsonl"
        return Verify(VerifyParams(**params), lambda: judging, 2, journal, interrupt or threading.Event())

    return make


class Counting:
    """Boxes that count the problems they are given, and can call for an interruption."""

    most = 2

    def __init__(self, boxes: LocalJudging, interrupt: threading.Event | None = None, after: int = 10**9) -> None:
        self.boxes, self.interrupt, self.after = boxes, interrupt, after
        self.problems: list[str] = []
        self.orders: list[Order] = []
        self.lock = threading.Lock()

    def judge(self, problem: Problem, orders: Sequence[Order]) -> list[Outcome]:
        with self.lock:
            if problem.id not in self.problems:
                self.problems.append(problem.id)
            number = 1 + self.problems.index(problem.id)
            self.orders.extend(orders)
        if number > self.after:
            self.interrupt.set()
            return [Outcome(Verdict.CANCELLED, (), None, 0.0, 0) for _ in orders]
        return self.boxes.judge(problem, orders)

    def stop(self) -> None:
        """Nothing that runs is stopped: the boxes are the other tests' too."""

    def close(self) -> None:
        """Nothing to give back."""


def test_a_right_reference_is_kept_with_its_margins(verify):
    problem = make_problem(
        references=("print(2 * int(input()))", "n = int(input())\nprint(n + n)"), wrong=("print(2)",)
    )
    [kept] = run(verify(), problem)
    assert kept.notes["verified"] == {"references": 2, "runs": 2, "wrong": 1, "wrong_passing": 0}
    margins = kept.notes["margins"]
    assert 0 < margins["cpu_seconds"] < margins["cpu_limit"] == 6.0
    assert 0 < margins["memory_bytes"] < margins["memory_limit"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"references": ()}, "no reference program"),
        ({"references": ("print(2 * int(input()) + 1)",)}, "no reference passes"),
        ({"references": ("print(2 * int(input()))", "print(4)")}, "references disagree"),
        ({"references": ("print(2 * int(input()))", "1 / 0")}, "a reference fails"),
        ({"wrong": ("n = int(input())\nprint(n + n)",)}, "a program known to be wrong passes"),
        ({"suite": make_suite([stdin(f"{n}\n", f"{2 * n}\n") for n in range(40)]), "references": (FLAKY,)}, "determin"),
        ({"references": (UNSTABLE_OUTPUT,)}, "a reference isn't deterministic"),
        ({"cpu_seconds": 1.0, "references": (SLOW,), "suite": make_suite([stdin("1\n", "2\n")])}, "too near"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_problem_is_said(verify, fields: dict, reason: str):
    stage = verify()
    assert run(stage, make_problem(**fields)) == []
    [said] = stage.ledger.reasons()
    assert reason in said


def test_weak_tests_can_be_marked_instead(verify):
    stage = verify(wrong="mark")
    [kept] = run(stage, make_problem(wrong=("n = int(input())\nprint(n + n)",)))
    assert kept.notes["verified"]["wrong_passing"] == 1
    assert stage.ledger.marked["a program known to be wrong passes"] == 1


def test_functions_are_called_and_compared_as_the_problem_says(verify):
    suite = make_suite([call("[3, 1, 2]", expected="[1, 2, 3]")])
    fields = {"suite": suite, "entry_point": "f", "references": ("def f(a): return a",)}
    assert len(run(verify(), make_problem(policy={"order": "lines"}, **fields))) == 1
    assert run(verify(), make_problem(**fields)) == []


def test_problems_come_out_in_their_order(verify):
    slow = SLOW.replace("0.8", "0.1")
    problems = [
        make_problem(f"{n}", references=(slow if n == 0 else f"print(2 * int(input()))  # {n}",)) for n in range(12)
    ]
    assert ids(run(verify(), *problems)) == [f"{n}" for n in range(12)]


def test_a_reference_that_takes_too_long_is_stopped_at_once(verify, boxes):
    suite = make_suite([stdin(f"{n}\n", f"{2 * n}\n") for n in range(5)])
    endless = "while True: pass"
    problem = make_problem(suite=suite, cpu_seconds=0.2, references=("print(2 * int(input()))", endless))
    counting = Counting(boxes)
    stage = verify(counting)
    assert run(stage, problem) == []
    assert stage.ledger.reasons() == {"a reference fails": 1}
    assert [(order.source == endless, order.run) for order in counting.orders] == [
        (False, 0), (True, 0), (False, 1),
    ]  # fmt: skip
    assert counting.orders[1].fail_fast


ACCEPTED, WRONG, SKIPPED = Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.SKIPPED


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ([(ACCEPTED, ACCEPTED), (ACCEPTED, ACCEPTED)], ACCEPTED),
        ([(WRONG, SKIPPED), (WRONG, ACCEPTED), (WRONG, ACCEPTED)], WRONG),
        ([(SKIPPED, WRONG), (WRONG, WRONG), (WRONG, WRONG)], WRONG),
        ([(WRONG, SKIPPED), (ACCEPTED, ACCEPTED), (ACCEPTED, ACCEPTED)], "flaky"),
        ([(WRONG, SKIPPED), (WRONG, ACCEPTED), (WRONG, WRONG)], "flaky"),
        ([(ACCEPTED, ACCEPTED), (ACCEPTED, WRONG)], "flaky"),
    ],
)
def test_runs_that_end_at_their_first_failure_are_compared_where_they_went(runs: list, verdict: str):
    verdicts = [WRONG if WRONG in run else ACCEPTED for run in runs]
    outcomes = [Outcome(of, run, None, 0.1, 1) for of, run in zip(verdicts, runs, strict=True)]
    assert judge_runs(outcomes) == verdict


def test_what_is_judged_is_not_judged_again(verify, boxes):
    problems = [make_problem(f"{n}", references=(f"print(2 * int(input()))  # {n}",)) for n in range(3)]
    first, second = Counting(boxes), Counting(boxes)
    before = run(verify(first), *problems)
    changed = replace(problems[1], cpu_seconds=3.0)
    again = run(verify(second), problems[0], changed, problems[2])
    assert len(first.problems) == 3 and second.problems == [changed.id]
    assert again[0] == before[0]  # margins too: they are as they were measured


def test_an_interrupted_verification_goes_on_where_it_was(verify, boxes):
    problems = [make_problem(f"{n}", references=(f"print(2 * int(input()))  # {n}",)) for n in range(30)]
    interrupt = threading.Event()
    stopped = Counting(boxes, interrupt, after=5)
    with pytest.raises(Interrupted):
        list(verify(stopped, interrupt).run(problems))
    rest = Counting(boxes)
    assert len(run(verify(rest), *problems)) == 30
    assert len(rest.problems) == 25


def test_what_we_failed_to_judge_is_not_remembered(verify, boxes):
    ours = Counting(boxes, threading.Event(), after=0)
    stage = verify(ours)
    assert run(stage, make_problem()) == []
    assert stage.ledger.reasons() == {"couldn't be judged": 1}
    assert len(run(verify(), make_problem())) == 1


def test_a_service_verifies_alike(verify):
    problems = [
        make_problem("right", wrong=("print(2)",)),
        make_problem("wrong", references=("print(3)",)),
        make_problem(
            "flaky", suite=make_suite([stdin(f"{n}\n", f"{2 * n}\n") for n in range(40)]), references=(FLAKY,)
        ),
    ]
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served, Client(served.ready()) as client:
        stage = verify(RemoteJudging(client))
        [kept] = run(stage, *problems)
    assert kept.notes["verified"] == {"references": 1, "runs": 2, "wrong": 1, "wrong_passing": 0}
    assert kept.notes["margins"]["memory_bytes"] > 0
    assert stage.ledger.reasons() == {"a reference isn't deterministic": 1, "no reference passes": 1}


def test_a_line_that_was_cut_off_is_passed_over(verify, boxes, tmp_path: Path):
    run(verify(), make_problem("a"))
    journal = tmp_path / "verification.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[:100])
    again = Counting(boxes)
    assert len(run(verify(again), make_problem("a"), make_problem("b", references=("print(int(input()) * 2)",)))) == 2
    assert again.problems == ["set/b"]
    assert len(Journal(journal)) == 2
