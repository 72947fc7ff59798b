"""Each public bug report about code graders that we have a reproduction of gets its right verdict, by the service.

The reproductions are in the project's data folder (`bugs.jsonl`), each with the link to its report. What is policy is
said by `benchmarks/labelled.py`, where they are read; the environment that a few of them ask for is made here.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import microcoder_client
import pytest
from microcoder_client import Client, stdin_test

from benchmarks.labelled import INVALID_REQUEST, Problem, read_problems
from benchmarks.referees import RemoteReferee
from evaluator.model import Verdict
from tests.requirements_helper import require
from tests.served_helper import Served

BUGS = Path(__file__).parents[2] / "shared" / "data" / "bugs.jsonl"
MANY_PROCESSES = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        time.sleep(60)
print("all")
"""
ALSO_RIGHT = {
    "B68": {"runtime_error"},  # where programs may not fork
    "B69": {"time_limit"},
    "B77": {"wrong_answer"},
    "B108": {"runtime_error"},
    "B111": {"runtime_error"},
}
"""The other verdicts that a report's own text allows."""


def find_problems() -> dict[str, Problem]:
    """By the report's number. Empty where the data isn't there."""
    return {problem.id: problem for problem in read_problems(BUGS)} if BUGS.exists() else {}


PROBLEMS = find_problems()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service with two workers."""
    require("data", None if PROBLEMS else f"{BUGS} isn't there")
    with Served("--workers", "2", "--sandbox", "bubblewrap") as served:
        yield served.ready()


@pytest.fixture(scope="module")
def referee(url: str) -> Iterator[RemoteReferee]:
    """Asks that service."""
    referee = RemoteReferee(Client(url))
    yield referee
    referee.close()


def ask(url: str, problem: Problem, times: int = 1, **options: Any) -> list[microcoder_client.Judgement]:
    """The judgements of a program that was sent `times` times: a comment makes each another, or it is judged once."""
    tests = [stdin_test(test.input, test.expected) for test in problem.tests]
    text = problem.submissions[0].text
    with Client(url) as client:
        sources = [text, *(f"{text}\n# {number}\n" for number in range(1, times))]
        return client.evaluate(sources, suite=tests, **options)


@pytest.mark.parametrize("name", PROBLEMS or ["no-data"])
def test_a_reported_program_gets_its_right_verdict(name: str, referee: RemoteReferee) -> None:
    """The program of the report, on the tests of the report."""
    problem = PROBLEMS[name]
    assert problem.skip is None
    if problem.submissions[0].label == Verdict.TIME_LIMIT:  # no need to wait long for what never ends
        problem = replace(problem, limits=replace(problem.limits, cpu_seconds=min(1.0, problem.limits.cpu_seconds)))
    [outcome] = referee.judge(problem)
    assert outcome.verdict in {outcome.label} | ALSO_RIGHT.get(name, set()), outcome.reason


def test_all_reports_are_read() -> None:
    """None is left out on the quiet."""
    require("data", None if PROBLEMS else f"{BUGS} isn't there")
    records = [json.loads(line) for line in BUGS.read_text("utf-8").splitlines()]
    assert [record["id"] for record in records] == list(PROBLEMS)
    assert ALSO_RIGHT.keys() <= PROBLEMS.keys()


@pytest.mark.parametrize(
    "name", [name for name, problem in PROBLEMS.items() if problem.submissions[0].label == INVALID_REQUEST]
)
def test_what_cant_be_judged_is_refused_by_the_service_itself(name: str, url: str) -> None:
    """Not only by the client, which looks before it sends."""
    problem = PROBLEMS[name]
    tests = [{"kind": test.kind, "input": test.input, "expected": test.expected} for test in problem.tests]
    program = {"source": problem.submissions[0].text, "entry_point": problem.entry_point}
    body = {"submission": {"program": program, "suite": {"tests": tests}}}
    answer = httpx.post(f"{url}/v1/evaluations", json=body)
    assert answer.status_code == 422
    assert "suite" in answer.json()["errors"][0]["field"]


def test_a_busy_machine_changes_no_verdict(url: str) -> None:
    """B89: a second of work, with twice as many busy processes as there are processors."""
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        [judgement] = ask(url, PROBLEMS["B89"], limits={"cpu_seconds": 4.0})
    finally:
        for load in loads:
            load.kill()
            load.wait()
    assert judgement.verdict == "accepted"


def test_two_hundred_repetitions_give_one_verdict(url: str) -> None:
    """B91: what flickers isn't the program."""
    judgements = ask(url, PROBLEMS["B91"], times=200)
    assert {judgement.verdict for judgement in judgements} == {"accepted"}


def test_siblings_dont_mix(url: str) -> None:
    """B92: thirty-two programs at once, each with a word of its own."""
    [problem] = [PROBLEMS["B92"]]
    word = problem.tests[0].expected or ""
    sources = [problem.submissions[0].text, *(f"print('sibling {number}')" for number in range(31))]
    expected = [word, *(f"sibling {number}\n" for number in range(31))]

    def judge(number: int) -> list[str]:
        with Client(url) as client:
            suites = [expected[number], expected[(number + 1) % 32]]
            return [client.evaluate([sources[number]], suite=[stdin_test("", text)])[0].verdict for text in suites]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(judge, range(32))) == [["accepted", "wrong_answer"]] * 32


def test_a_fraction_counts_every_test(url: str) -> None:
    """B94: eleven of twelve."""
    [judgement] = ask(url, PROBLEMS["B94"], reward="fraction", fail_fast=False, detail="full")
    assert judgement.reward == pytest.approx(11 / 12)
    assert len(judgement.tests) == 12


@pytest.mark.parametrize("name", ["B60", "B67", "B68", "B69"])
def test_programs_that_fork_harm_nobody_after_them(name: str, url: str) -> None:
    """No process is left: the kernel lets the next program, in the same box, have as many as ever."""
    problem = PROBLEMS[name]
    with Client(url) as client:
        for number in range(2):
            forking = [f"{problem.submissions[0].text}\n# {number}.{each}\n" for each in range(2)]
            client.evaluate(forking, suite=[stdin_test("", "")], limits={"cpu_seconds": 1.0})
            many = [f"{MANY_PROCESSES}\n# {number}.{each}\n" for each in range(2)]
            verdicts = client.evaluate(many, suite=[stdin_test("", "all")])
            assert [judgement.verdict for judgement in verdicts] == ["accepted"] * 2


def test_b38_by_a_policy_would_be_wrong(referee: RemoteReferee) -> None:
    """Any index of a maximum: without the checker, one right answer of two is rejected."""
    problem = replace(PROBLEMS["B38"], checker=None, skip=None)
    assert referee.judge(problem)[0].verdict == "wrong_answer"
