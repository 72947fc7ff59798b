"""Ways to have programs judged: in boxes here, or by a service. Called from several threads, a problem at a time."""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from microcoder_client import Client
from microcoder_client import Judgement as WireJudgement
from microcoder_client import Submission as WireSubmission
from microcoder_client import Suite as WireSuite
from microcoder_client import TestResult as WireResult

from curation.problem import Problem
from evaluator.crew import Crew
from evaluator.model import Policy, Program, Submission, Verdict
from evaluator.suites import write_suite

if TYPE_CHECKING:
    from evaluator.judge import Judge
    from evaluator.model import Judgement, TestResult
    from evaluator.sandbox.pool import Pool


@dataclass(frozen=True)
class Order:
    """A program of a problem that is to be run.

    `run` counts repetitions: the even ones may let tests share a process, the odd ones give each test its own, so that
    a program that keeps something from test to test shows it.
    """

    source: str
    run: int = 0
    fail_fast: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of an order. `tests` are verdicts, `outputs` digests where outputs were seen; times in seconds."""

    verdict: str
    tests: tuple[str, ...]
    outputs: tuple[str, ...] | None
    slowest: float
    memory_bytes: int
    detail: str = ""


@dataclass(frozen=True)
class Answer:
    """What a program answered to a test without an expected output; seconds. No output: it didn't end well."""

    verdict: str
    output: str | None
    cpu_seconds: float


class Judging(Protocol):
    """A way to judge."""

    most: int
    """Problems at a time."""

    def judge(self, problem: Problem, orders: Sequence[Order]) -> list[Outcome]:
        """An outcome for each order."""

    def collect(self, problem: Problem, orders: Sequence[Order]) -> list[tuple[Answer, ...]]:
        """For each order, the answers to all tests of a suite that expects nothing."""

    def stop(self) -> None:
        """Let calls return soon; what isn't judged by then is `cancelled`."""

    def close(self) -> None:
        """Give back what was taken."""


class LocalJudging:
    """Judges here: each thread takes a pair of judges with boxes of their own, opened as they are needed."""

    most = 1 << 10

    def __init__(self, sandbox: str, workers: int) -> None:
        """Open the first boxes.

        Raises:
            SandboxUnavailable: there can be no boxes here.
        """
        self._crew = Crew(sandbox, workers, _make_judges)

    def judge(self, problem: Problem, orders: Sequence[Order]) -> list[Outcome]:
        """One after the other."""
        return [_read_judgement(judgement) for judgement in self._judge_all(problem, orders)]

    def collect(self, problem: Problem, orders: Sequence[Order]) -> list[tuple[Answer, ...]]:
        """One after the other."""
        return [_read_answers(judgement.tests) for judgement in self._judge_all(problem, orders)]

    def stop(self) -> None:
        """The judges look between tests."""
        self._crew.stopped.set()

    def close(self) -> None:
        """Destroy the boxes in which nothing runs."""
        self._crew.close()

    def _judge_all(self, problem: Problem, orders: Sequence[Order]) -> "list[Judgement]":
        with self._crew.borrow() as judges:
            return [self._judge(judges[order.run % 2], problem, order) for order in orders]

    def _judge(self, judge: "Judge", problem: Problem, order: Order) -> "Judgement":
        submission = Submission(
            Program(order.source, entry_point=problem.entry_point),
            problem.suite.id,
            problem.limits(),
            Policy(**problem.policy),
            fail_fast=order.fail_fast,
            keep_outputs=True,
        )
        return judge.judge(submission, problem.suite, cancelled=self._crew.stopped.is_set)


def _make_judges(pool: "Pool") -> "tuple[Judge, Judge]":
    from evaluator.judge import Judge  # as late as the boxes

    return Judge(pool), Judge(pool, series=False)


def _read_judgement(judgement: "Judgement") -> Outcome:
    tests = judgement.tests
    outputs = tuple(hashlib.sha256((test.output or "").encode("utf-8", "surrogatepass")).hexdigest() for test in tests)
    slowest = max((test.cpu_seconds for test in tests), default=0.0)
    verdicts = tuple(str(test.verdict) for test in tests)
    return Outcome(
        str(judgement.verdict), verdicts, outputs, slowest, judgement.memory_bytes, (judgement.detail or "")[:500]
    )


def _read_answers(tests: "Sequence[TestResult | WireResult]") -> tuple[Answer, ...]:
    return tuple(
        Answer(str(test.verdict), test.output if test.verdict == Verdict.ACCEPTED else None, test.cpu_seconds)
        for test in tests
    )


class RemoteJudging:
    """Lets a service judge. It keeps outputs to itself, so repetitions are compared by their verdicts only."""

    most = 16

    def __init__(self, client: Client) -> None:
        """Use this client."""
        self._client = client
        self._stopped = threading.Event()

    def judge(self, problem: Problem, orders: Sequence[Order]) -> list[Outcome]:
        """All in one evaluation."""
        if self._stopped.is_set():
            return [Outcome(Verdict.CANCELLED, (), None, 0.0, 0) for _ in orders]
        return [
            Outcome(
                str(one.verdict),
                tuple(str(test.verdict) for test in one.tests),
                None,
                max((test.cpu_seconds for test in one.tests), default=0.0),
                one.memory_bytes,
                (one.detail or "")[:500],
            )
            for one in self._evaluate(problem, orders)
        ]

    def collect(self, problem: Problem, orders: Sequence[Order]) -> list[tuple[Answer, ...]]:
        """All in one evaluation: what nothing is expected of, a service gives back."""
        if self._stopped.is_set():
            return [() for _ in orders]
        return [_read_answers(one.tests) for one in self._evaluate(problem, orders)]

    def _evaluate(self, problem: Problem, orders: Sequence[Order]) -> Sequence[WireJudgement]:
        suite = WireSuite(write_suite(problem.suite.tests, problem.suite.checker))
        limits = problem.limits()
        rules: dict[str, Any] = {
            "limits": {"cpu_seconds": limits.cpu_seconds, "memory_bytes": limits.memory_bytes},
            "policy": dict(problem.policy),
        }
        submissions = [
            WireSubmission(
                # A service judges equal programs once: a repetition must differ, in a comment at the end.
                source=order.source + (f"\n# repetition {order.run}\n" if order.run else ""),
                entry_point=problem.entry_point,
                fail_fast=order.fail_fast,
                **rules,
            )
            for order in orders
        ]
        return self._client.evaluate(submissions, suite=suite, detail="full")

    def stop(self) -> None:
        """No further evaluation is begun."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
