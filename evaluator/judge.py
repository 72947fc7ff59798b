"""Runs a suite; the only place that turns a Run into a Verdict.

Limits first, then the program's end, then comparison, or the suite's checker. Our own failure outranks everything else.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from evaluator.checker_box import CheckerBox
from evaluator.checkers import policy_of
from evaluator.comparison import answers
from evaluator.errors import CheckerFailed, SandboxError
from evaluator.executions import Outputs
from evaluator.model import (
    Judgement,
    Match,
    NamedChecker,
    Policy,
    Program,
    Reason,
    RewardScheme,
    Submission,
    Suite,
    TestCase,
    TestKind,
    TestOrder,
    TestResult,
    Verdict,
)
from evaluator.rules import Allowance, Rules, nothing
from evaluator.run_signs import look_at_run
from evaluator.sandbox.base import Call, Limit, Run
from evaluator.sandbox.commands import read_fetched
from evaluator.sandbox.pool import Pool
from evaluator.sandbox.runner.values import decode_result
from evaluator.session import Session
from evaluator.source_signs import look_at_source
from evaluator.suspicions import Suspicion

MAX_STDERR = 2_000
"""Bytes of the program's stderr that a result keeps: the end, where the error is."""
MAX_OUTPUT = 1 << 20
UNREADABLE = "What the function returned can't be read as a value."
KEPT_SUITES = 4096
"""Suites whose failures are remembered, the last failed ones."""
VERDICT_OF_LIMIT = {
    Limit.CPU: Verdict.TIME_LIMIT,
    Limit.WALL: Verdict.TIME_LIMIT,
    Limit.MEMORY: Verdict.MEMORY_LIMIT,
    Limit.OUTPUT: Verdict.OUTPUT_LIMIT,
    Limit.PROCESSES: Verdict.RUNTIME_ERROR,
    Limit.DISK: Verdict.RUNTIME_ERROR,
}
TEXT_OF_LIMIT = {
    Limit.CPU: "used more than {limits.cpu_seconds:g} s of processor time",
    Limit.WALL: "was not done after {limits.wall:g} s on the wall",
    Limit.MEMORY: "used more than {limits.memory_bytes} bytes of memory",
    Limit.OUTPUT: "wrote more than {limits.output_bytes} bytes",
    Limit.PROCESSES: "had more than {limits.processes} processes",
    Limit.DISK: "made too many files",
}


def never() -> bool:
    """Not cancelled."""
    return False


def first_of_each_kind(notes: Iterable[Suspicion]) -> tuple[Suspicion, ...]:
    """One note a kind, in order."""
    first: dict[str, Suspicion] = {}
    for note in notes:
        first.setdefault(note.kind, note)
    return tuple(first.values())


class Judge:
    """Judges submissions in boxes of one pool."""

    def __init__(self, pool: Pool, *, series: bool = True) -> None:
        """Judge in boxes of `pool`. Without `series` every test gets a child of its own."""
        self._pool = pool
        self._series = series
        self._checkers = CheckerBox(pool)
        self._failures: OrderedDict[str, Counter[int]] = OrderedDict()

    def judge(
        self,
        submission: Submission,
        suite: Suite,
        *,
        cancelled: Callable[[], bool] = never,
        progress: Callable[[], None] = nothing,
    ) -> Judgement:
        """Run the suite and say what came of it. Never raises for what the program does.

        Args:
            cancelled: asked between tests; True ends the work with the verdict `cancelled`.
            progress: called after each test.
        """
        if submission.program is None:
            return self._finish(submission, suite, [], Verdict.NO_CODE, "The answer holds no complete program.")
        session = Session(self._pool, submission.program, submission.limits, series=self._series)
        try:
            order = self._order(submission, suite)
            calls = [build_call(suite.tests[index], submission.program) for index in order]
            failure = session.load(calls)
            if failure is not None:
                judgement = self._finish(submission, suite, [], Verdict.COMPILE_ERROR, failure.message)
                return replace(judgement, suspicions=tuple(session.suspicions))
            return self._run(session, submission, suite, order, calls, cancelled, progress)
        except SandboxError as error:
            judgement = self._finish(submission, suite, [], Verdict.INTERNAL_ERROR, str(error))
            return replace(judgement, reason=Reason.BOX_LOST)
        finally:
            session.close()

    def execute(self, submission: Submission) -> tuple[Judgement, Outputs | None]:
        """Run a program for all that it writes; the verdict says how it ended. No outputs: the failure is ours."""
        assert submission.program is not None and submission.execution is not None
        session = Session(self._pool, submission.program, submission.limits)
        nothing_expected = Suite("", (TestCase(TestKind.STDIN, ""),))
        try:
            run = session.execute(submission.execution)
        except SandboxError as error:
            judgement = self._finish(submission, nothing_expected, [], Verdict.INTERNAL_ERROR, str(error))
            return replace(judgement, reason=Reason.BOX_LOST), None
        finally:
            session.close()
        result = judge_run(0, nothing_expected.tests[0], run, Rules(submission.limits, submission.policy))
        judgement = self._finish(submission, nothing_expected, [replace(result, output=None)], None, None)
        size = MAX_OUTPUT if judgement.verdict is Verdict.OUTPUT_LIMIT else None
        fetched = read_fetched(submission.execution.fetch, run.value or b"")
        return replace(judgement, suspicions=tuple(session.suspicions)), Outputs(
            run.stdout[:size], run.stderr[:size], fetched
        )

    def _run(
        self,
        session: Session,
        submission: Submission,
        suite: Suite,
        order: Sequence[int],
        calls: list[Call],
        cancelled: Callable[[], bool],
        progress: Callable[[], None],
    ) -> Judgement:
        results = [TestResult(index, Verdict.SKIPPED) for index in range(len(suite.tests))]
        rules, allowance = self._rules(submission, suite, progress), Allowance()
        runs = session.run_all(calls, submission.fail_fast)
        stopped: Verdict | None = None
        try:
            for index, call, run in zip(order, calls, runs, strict=False):
                test = suite.tests[index]
                result = judge_run(index, test, run, rules)
                if run.shared and result.verdict is not Verdict.ACCEPTED:
                    result = judge_run(index, test, session.repeat(call), rules)
                    if result.verdict is Verdict.ACCEPTED:  # it does otherwise in a series: that proves nothing of it
                        runs.close()
                        session.leave_series()
                        return self._run(session, submission, suite, order, calls, cancelled, progress)
                results[index] = allowance.keep(result)
                progress()
                if result.verdict is not Verdict.ACCEPTED:
                    self._remember_failure(suite, index)
                    if submission.fail_fast:
                        break
                if cancelled():
                    stopped = Verdict.CANCELLED
                    break
        finally:
            runs.close()
        judgement = self._finish(submission, suite, results, stopped, None)
        reason = Reason.CHECKER_FAILED if judgement.verdict is Verdict.INTERNAL_ERROR else None
        assert submission.program is not None
        notes = [*session.suspicions, *rules.suspicions, *look_at_source(submission.program, suite.tests)]
        return replace(judgement, suspicions=first_of_each_kind(notes), reason=reason)

    def _order(self, submission: Submission, suite: Suite) -> Sequence[int]:
        """The tests' numbers, in the order in which they are to be run."""
        numbers = range(len(suite.tests))
        if submission.test_order is not TestOrder.ADAPTIVE or not submission.fail_fast:
            return numbers
        failures = self._failures.get(suite.id, Counter())
        return sorted(numbers, key=lambda index: -failures[index])

    def _remember_failure(self, suite: Suite, index: int) -> None:
        self._failures.setdefault(suite.id, Counter())[index] += 1
        self._failures.move_to_end(suite.id)
        if len(self._failures) > KEPT_SUITES:
            self._failures.popitem(last=False)

    def _rules(self, submission: Submission, suite: Suite, progress: Callable[[], None]) -> "Rules":
        """The suite's checker decides, where it has one, whatever the policy."""
        checker, keep = suite.checker, submission.keep_outputs
        if isinstance(checker, NamedChecker):
            policy = replace(policy_of(checker), in_place=submission.policy.in_place)
            return Rules(submission.limits, policy, keep_outputs=keep)
        return Rules(submission.limits, submission.policy, self._checkers, checker, progress, keep_outputs=keep)

    def _finish(
        self,
        submission: Submission,
        suite: Suite,
        results: list[TestResult],
        verdict: Verdict | None,
        detail: str | None,
    ) -> Judgement:
        """One judgement out of its tests: the first that isn't accepted speaks for all, but for our own failure."""
        skipped = [result for result in results if result.verdict is Verdict.SKIPPED]
        failed = [result for result in results if result.verdict not in (Verdict.ACCEPTED, Verdict.SKIPPED)]
        ours = [result for result in failed if result.verdict is Verdict.INTERNAL_ERROR]
        first = next(iter(ours or failed or skipped), None)
        if verdict is None:
            verdict = first.verdict if first is not None else Verdict.ACCEPTED
            detail = first.detail if first is not None else None
        return Judgement(
            verdict=verdict,
            reward=compute_reward(verdict, results, len(suite.tests), submission.reward),
            tests=tuple(results),
            first_failed=first.index if first is not None and first.verdict is not Verdict.SKIPPED else None,
            cpu_seconds=sum(result.cpu_seconds for result in results),
            wall_seconds=sum(result.wall_seconds for result in results),
            memory_bytes=max((result.memory_bytes for result in results), default=0),
            detail=detail,
            runtime=self._pool.runtime,
        )


def compute_reward(verdict: Verdict, results: list[TestResult], tests: int, scheme: RewardScheme) -> float | None:
    """The number for a trainer: None where nothing was learnt about the program."""
    if verdict in (Verdict.INTERNAL_ERROR, Verdict.CANCELLED):
        return None
    if scheme is RewardScheme.FRACTION:
        return sum(result.verdict is Verdict.ACCEPTED for result in results) / max(1, tests)
    return 1.0 if verdict is Verdict.ACCEPTED else 0.0


def build_call(test: TestCase, program: Program) -> Call:
    """What the box is told of a test: never its expected output."""
    data = test.input.encode("utf-8", "surrogateescape")
    if test.kind is TestKind.STDIN:
        return Call(data)
    if test.kind is TestKind.FUNCTIONAL:
        return Call(data, function=program.entry_point or "")
    return Call(b"", function=program.entry_point, test_code=data)


def judge_run(index: int, test: TestCase, run: Run, rules: Rules) -> TestResult:
    """One test's verdict: limits, then the program's end, then comparison."""
    limits = rules.limits
    match: Match | None = None
    detail: str | None
    if run.limit is not None:
        verdict, detail = VERDICT_OF_LIMIT[run.limit], f"The program {TEXT_OF_LIMIT[run.limit].format(limits=limits)}."
    elif run.memory_bytes > limits.memory_bytes:
        verdict, detail = Verdict.MEMORY_LIMIT, f"The program {TEXT_OF_LIMIT[Limit.MEMORY].format(limits=limits)}."
    elif run.truncated:
        verdict, detail = Verdict.OUTPUT_LIMIT, f"The program {TEXT_OF_LIMIT[Limit.OUTPUT].format(limits=limits)}."
    else:
        try:
            verdict, match, detail = JUDGES[test.kind](test, run, rules)
        except CheckerFailed as error:
            verdict, detail = Verdict.INTERNAL_ERROR, str(error)
    if not run.shared and (sign := look_at_run(index, test, run, readable=detail != UNREADABLE)) is not None:
        rules.suspicions.append(sign)
    stderr = run.stderr[-MAX_STDERR:].decode("utf-8", "replace")
    return TestResult(
        index=index,
        verdict=verdict,
        match=match,
        cpu_seconds=run.cpu_seconds,
        wall_seconds=run.wall_seconds,
        memory_bytes=run.memory_bytes,
        exit_code=run.exit_code,
        signal=run.signal,
        output=describe_output(test, run, rules.policy) if test.expected is None or rules.keep_outputs else None,
        stderr=stderr or None,
        detail=detail if detail is not None or match is None or match.matched else match.explanation,
    )


def describe_output(test: TestCase, run: Run, policy: Policy) -> str | None:
    """What a test without an expected output answers: the value that was returned, or what was printed."""
    if test.kind is TestKind.FUNCTIONAL:
        if run.value is None:
            return None
        try:
            return answers.spell(choose_answer(test, run.value, policy).value)[:MAX_OUTPUT]
        except ValueError:
            return None
    return run.stdout[:MAX_OUTPUT].decode("utf-8", "replace")


def choose_answer(test: TestCase, value: bytes, policy: Policy) -> answers.Answer:
    """What a call answers: the value that its function returned, or an argument that it changed in place.

    Raises:
        ValueError: the runner didn't write this.
    """
    result = decode_result(value)
    return answers.choose_answer(test.expected, result.value, result.arguments, result.objection, policy)


Outcome = tuple[Verdict, Match | None, str | None]


def judge_end(run: Run) -> Outcome | None:
    """A verdict for a program that didn't end well; None for one that did."""
    if run.exit_code == 0:
        return None
    if run.failure == "compile":  # in an execution, whose source nobody has compiled before
        return Verdict.COMPILE_ERROR, None, run.stderr.decode("utf-8", "replace")
    last = run.stderr.rstrip().rpartition(b"\n")[2]
    if run.exit_code == 1 and last.startswith((b"MemoryError", b"numpy._core._exceptions._ArrayMemoryError")):
        return Verdict.MEMORY_LIMIT, None, "The program asked for more memory than it may have (MemoryError)."
    if run.signal is not None:
        return Verdict.RUNTIME_ERROR, None, f"The program was ended by signal {run.signal}."
    reason = last[:300].decode("utf-8", "replace")
    return (
        Verdict.RUNTIME_ERROR,
        None,
        f"The program ended with exit status {run.exit_code}{': ' if reason else '.'}{reason}",
    )


def judge_stdin(test: TestCase, run: Run, rules: Rules) -> Outcome:
    """Standard output against the expected text."""
    ended = judge_end(run)
    if ended is not None:
        return ended
    return conclude(rules.compare(test, run.stdout))


def conclude(match: Match | None) -> Outcome:
    """What comparison means for a test. None: there was nothing to compare with, and the output is the answer."""
    accepted = match is None or match.matched
    return (Verdict.ACCEPTED if accepted else Verdict.WRONG_ANSWER), match, None


def judge_functional(test: TestCase, run: Run, rules: Rules) -> Outcome:
    """The answer of a call against the expected one. A call that didn't return is the program's failure."""
    if run.value is None:
        return judge_end(run) or (
            Verdict.RUNTIME_ERROR,
            None,
            "The program ended before its function had returned a value.",
        )
    try:
        answer = choose_answer(test, run.value, rules.policy)
    except ValueError:
        return Verdict.WRONG_ANSWER, None, UNREADABLE
    verdict, match, _ = conclude(rules.compare_value(test, answer.value))
    if match is None or match.matched or answer.remark is None:
        return verdict, match, None
    return verdict, match, f"{match.explanation}; {answer.remark}"


def judge_assertion(test: TestCase, run: Run, rules: Rules) -> Outcome:
    """Whether the test code ran to its end, as its own process reports."""
    if run.failure is None:
        return Verdict.ACCEPTED, None, None
    last = run.stderr.rstrip()[-600:].decode("utf-8", "replace")
    if run.failure == "assertion":
        return Verdict.WRONG_ANSWER, None, f"An assertion failed: {last}"
    if run.failure == "ended":
        return judge_end(run) or (Verdict.RUNTIME_ERROR, None, "The program ended before the test code had.")
    if last.rpartition("\n")[2].startswith("MemoryError"):
        return Verdict.MEMORY_LIMIT, None, "The program asked for more memory than it may have (MemoryError)."
    return Verdict.RUNTIME_ERROR, None, last


JUDGES: dict[TestKind, Callable[[TestCase, Run, Rules], Outcome]] = {
    TestKind.STDIN: judge_stdin,
    TestKind.FUNCTIONAL: judge_functional,
    TestKind.ASSERTION: judge_assertion,
}
