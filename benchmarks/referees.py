"""Ways to judge labelled programs: here, or by a service. Both say the same of the same program."""

import threading
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import microcoder_client
from microcoder_client import KeyRefused, RequestRefused

from benchmarks.labelled import INVALID_REQUEST, Labelled, Problem
from evaluator.errors import InvalidSubmission
from evaluator.extraction import extract_code
from evaluator.judge import Judge
from evaluator.model import Judgement, Limits, Policy, Program, Submission, Suite, Verdict
from evaluator.sandbox.pool import Pool, open_pool
from evaluator.suites import read_suite, write_suite
from evaluator.suspicions import describe

REASON_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the evaluator said of one program."""

    id: str
    label: str
    verdict: str
    reason: str


class Referee(Protocol):
    """A way to judge the programs of a problem. Called from several threads."""

    def judge(self, problem: Problem) -> list[Outcome]:
        """An outcome for each program."""

    def close(self) -> None:
        """Give back what it holds."""


class BoxPools:
    """A pool of boxes for each thread that asks."""

    def __init__(self, sandbox: str) -> None:
        """Open the first pool, so that a machine without boxes is told of at once.

        Raises:
            SandboxUnavailable: the message says what to do.
        """
        self._sandbox = sandbox
        self._local = threading.local()
        self._pools: list[Pool] = []
        self._spare: list[Pool] = [self._open()]
        self.runtime = self._pools[0].runtime

    def mine(self) -> Pool:
        """The pool of the thread that asks."""
        if not hasattr(self._local, "pool"):
            try:
                self._local.pool = self._spare.pop()
            except IndexError:
                self._local.pool = self._open()
        pool: Pool = self._local.pool
        return pool

    def close(self) -> None:
        """Destroy all boxes."""
        for pool in self._pools:
            pool.close()

    def _open(self) -> Pool:
        pool = open_pool(self._sandbox)
        self._pools.append(pool)
        return pool


class LocalReferee:
    """Judges here; each thread that asks gets a judge and a pool of boxes of its own."""

    def __init__(self, sandbox: str) -> None:
        """Open the first pool.

        Raises:
            SandboxUnavailable: the message says what to do.
        """
        self.pools = BoxPools(sandbox)
        self._local = threading.local()

    def judge(self, problem: Problem) -> list[Outcome]:
        """An outcome for each program."""
        try:
            suite = read_suite(write_suite(problem.tests, problem.checker))
        except InvalidSubmission as error:
            return [Outcome(item.id, item.label, INVALID_REQUEST, str(error)) for item in problem.submissions]
        return [self._judge_one(problem, suite, item) for item in problem.submissions]

    def close(self) -> None:
        """Destroy all boxes."""
        self.pools.close()

    def _judge_one(self, problem: Problem, suite: Suite, item: Labelled) -> Outcome:
        source = extract_code(item.text) if item.is_answer else item.text
        program = None if source is None else Program(source, entry_point=problem.entry_point, prelude=problem.prelude)
        submission = Submission(program, suite.id, problem.limits, problem.policy)
        if not hasattr(self._local, "judge"):
            self._local.judge = Judge(self.pools.mine())
        try:
            judgement = self._local.judge.judge(submission, suite)
        except InvalidSubmission as error:
            return Outcome(item.id, item.label, INVALID_REQUEST, str(error))
        return Outcome(item.id, item.label, str(judgement.verdict), explain(judgement))


class RemoteReferee:
    """Lets a service judge: a problem is one evaluation."""

    def __init__(self, client: microcoder_client.Client) -> None:
        """Ask once how the service is.

        Raises:
            MicrocoderError: nothing answers there.
        """
        self._client = client
        self._client.health()

    def judge(self, problem: Problem) -> list[Outcome]:
        """An outcome for each program. What refuses one program refuses the evaluation: then each goes alone."""
        try:
            judgements = self._evaluate(problem, problem.submissions)
        except KeyRefused:
            raise
        except (RequestRefused, ValueError) as error:
            if len(problem.submissions) > 1:
                return [self.judge(replace(problem, submissions=(item,)))[0] for item in problem.submissions]
            return [Outcome(item.id, item.label, INVALID_REQUEST, str(error)) for item in problem.submissions]
        return [
            Outcome(item.id, item.label, judgement.verdict, explain(judgement))
            for item, judgement in zip(problem.submissions, judgements, strict=True)
        ]

    def _evaluate(self, problem: Problem, items: tuple[Labelled, ...]) -> list[microcoder_client.Judgement]:
        try:
            suite = microcoder_client.Suite(write_suite(problem.tests, problem.checker))
        except InvalidSubmission as error:
            raise ValueError(str(error)) from None
        submissions = [
            microcoder_client.Submission(
                answer=item.text if item.is_answer else None,
                source=None if item.is_answer else item.text,
                entry_point=problem.entry_point,
                prelude=str(problem.prelude),
            )
            for item in items
        ]
        return self._client.evaluate(
            submissions,
            suite=suite,
            limits=given(problem.limits, Limits()),
            policy=given(problem.policy, Policy()),
            detail="full",
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def given(rules: Limits | Policy, default: Limits | Policy) -> dict[str, Any]:
    """The fields that aren't the default's: what the service must be told."""
    usual = asdict(default)
    return {name: value for name, value in asdict(rules).items() if value != usual[name]}


def explain(judgement: Judgement | microcoder_client.Judgement) -> str:
    """One line on a judgement: what its first failed test says; or, where all passed, the rungs that accepted."""
    failed = next((test for test in judgement.tests if test.index == judgement.first_failed), None)
    said = [judgement.reason, judgement.detail, describe(judgement.suspicions)]
    if failed is not None:
        match = failed.match
        said.append(f"test {failed.index}")
        said.append(failed.detail)
        if match is not None and match.position is not None:
            said.append(f"{match.position}: expected {match.expected}, found {match.found}")
        if failed.stderr:
            said.append(failed.stderr.strip().splitlines()[-1])
    rungs = dict.fromkeys(test.match.rung for test in judgement.tests if test.match is not None and test.match.rung)
    if judgement.verdict == Verdict.ACCEPTED and rungs:
        said.append(f"accepted by {', '.join(rungs)}")
    words = list(dict.fromkeys(str(part) for part in said if part))
    text = "; ".join(word for word in words if not any(word in other for other in words if other != word))
    return " ".join(text.split())[:REASON_CHARACTERS]
