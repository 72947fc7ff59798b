"""One run of a program, seen by many comparisons: what `accuracy` measures other graders by.

A program runs in our box, once, and each grader compares what it gave with what was expected. So what is told apart is
how they compare, and not how each of them runs programs. The run ends when it ended badly (then all reject), or when no
grader is left that would still accept.
"""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.graders import Grader
from benchmarks.labelled import INVALID_REQUEST, Labelled, Problem
from benchmarks.referees import BoxPools, Outcome
from evaluator.errors import InvalidSubmission, SandboxError
from evaluator.extraction import extract_code
from evaluator.judge import Rules, build_call, judge_run
from evaluator.model import Limits, Policy, Program, TestCase, TestKind, Verdict
from evaluator.sandbox.base import Call, Run
from evaluator.sandbox.pool import Pool
from evaluator.sandbox.runner.values import decode_result
from evaluator.session import Session
from evaluator.suites import read_suite, write_suite

Verdicts = dict[str, tuple[str, str]]
"""By grader: the verdict and one line on it."""


class Comparisons:
    """Judges by several comparisons at once. Called from several threads."""

    def __init__(self, graders: tuple[Grader, ...], pools: BoxPools) -> None:
        self.names = tuple(grader.name for grader in graders)
        self._graders = graders
        self._pools = pools

    def judge(self, problem: Problem) -> dict[str, list[Outcome] | str]:
        """For each grader its outcomes, one a program, or the reason why it is left out."""
        kind = problem.tests[0].kind if problem.tests else TestKind.STDIN
        judged: dict[str, list[Outcome] | str] = {}
        fitting = []
        for grader in self._graders:
            if kind in grader.lacks:
                judged[grader.name] = grader.lacks[kind]
            else:
                judged[grader.name] = []
                fitting.append(grader)
        if not fitting:
            return judged
        try:
            read_suite(write_suite(problem.tests))
            refusal = None
        except InvalidSubmission as error:
            refusal = (INVALID_REQUEST, str(error))
        for item in problem.submissions:
            verdicts = self._judge_one(problem, item, fitting) if refusal is None else _all(fitting, *refusal)
            for name, (verdict, reason) in verdicts.items():
                outcomes = judged[name]
                assert isinstance(outcomes, list)
                outcomes.append(Outcome(item.id, item.label, verdict, reason))
        return judged

    def close(self) -> None:
        """The pools belong to somebody else."""

    def _judge_one(self, problem: Problem, item: Labelled, graders: list[Grader]) -> Verdicts:
        source = extract_code(item.text) if item.is_answer else item.text
        if source is None:
            return _all(graders, Verdict.NO_CODE, "the answer holds no complete program")
        program = Program(source, entry_point=problem.entry_point, prelude=problem.prelude)
        return judge_program(self._pools.mine(), program, problem, graders)


def judge_program(pool: Pool, program: Program, problem: Problem, graders: list[Grader]) -> Verdicts:
    """Run a program on the tests until the last grader has rejected it."""
    verdicts: Verdicts = {}
    rules = Rules(problem.limits, Policy())
    calls = [build_call(test, program) for test in problem.tests]
    session = Session(pool, program, problem.limits, series=False)
    try:
        failure = session.load(calls)
        if failure is not None:
            return _all(graders, Verdict.COMPILE_ERROR, failure.message)
        left = list(graders)
        for index, test, run in record(session, problem, calls):
            ended = judge_run(index, replace(test, expected=None), run, rules)
            if ended.verdict is not Verdict.ACCEPTED:
                return verdicts | _all(left, ended.verdict, f"test {index}: {ended.detail}")
            for grader in tuple(left):
                if (why := refuse(grader, test, run, problem.limits)) is not None:
                    verdicts[grader.name] = Verdict.WRONG_ANSWER, f"test {index}: {why}"
                    left.remove(grader)
            if not left:
                break
        return verdicts | _all(left, Verdict.ACCEPTED, "every test passed")
    except InvalidSubmission as error:
        return _all(graders, INVALID_REQUEST, str(error))
    except SandboxError as error:
        return verdicts | _all([grader for grader in graders if grader.name not in verdicts],
                               Verdict.INTERNAL_ERROR, str(error))  # fmt: skip
    finally:
        session.close()


def record(session: Session, problem: Problem, calls: list[Call]) -> Iterator[tuple[int, TestCase, Run]]:
    """The tests and what the program did on each, until a run ended badly."""
    runs = session.run_all(calls, True)
    try:
        for index, (test, run) in enumerate(zip(problem.tests, runs, strict=False)):
            yield index, test, run
    finally:
        runs.close()


def refuse(grader: Grader, test: TestCase, run: Run, limits: Limits) -> str | None:
    """Why a grader refuses what a program gave, or None where it accepts."""
    if grader.policy is not None:
        result = judge_run(0, test, run, Rules(limits, grader.policy))
        return None if result.verdict is Verdict.ACCEPTED else str(result.detail)
    if test.kind is TestKind.STDIN:
        assert grader.text is not None and test.expected is not None
        return grader.text(test.expected, run.stdout)
    assert grader.value is not None and test.expected is not None and run.value is not None
    try:
        value = decode_result(run.value).value
    except ValueError:
        return "what the function returned can't be read as a value"
    return grader.value(test.expected, value)


def _all(graders: list[Grader], verdict: str, reason: str) -> Verdicts:
    return {grader.name: (str(verdict), " ".join(reason.split())[:400]) for grader in graders}
