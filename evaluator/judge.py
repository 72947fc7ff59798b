"""Runs a suite; the only place that turns a Run into a Verdict.

Limits first, then the program's end, then comparison. Our own failure outranks everything else: a box that dies under
a test is replaced and the test repeated; when a second fresh box dies on the same test, and a program known to be
harmless passes in the same place, the program is to blame, so that killing the box is no way out of a bad verdict.
"""

import json
from collections.abc import Callable, Generator
from dataclasses import replace

from evaluator.comparison.ladder import compare, compare_value
from evaluator.errors import BoxLost, SandboxError
from evaluator.model import (
    Judgement,
    Limits,
    Match,
    Policy,
    Program,
    Reason,
    RewardScheme,
    Submission,
    Suite,
    TestCase,
    TestKind,
    TestResult,
    Verdict,
)
from evaluator.sandbox.base import Artifact, Box, Call, CompileFailure, Limit, Run
from evaluator.sandbox.pool import Pool
from evaluator.sandbox.runner.values import decode

CANARY = Program("print(int(input()) + 1)")
MAX_STDERR = 2_000
"""Bytes of the program's stderr that a result keeps: the end, where the error is."""
MAX_OUTPUT = 1 << 20
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


def nothing() -> None:
    """No one to tell."""


class Judge:
    """Judges submissions in boxes of one pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

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
        session = Session(self._pool, submission.program, submission.limits)
        try:
            failure = session.load()
            if failure is not None:
                return self._finish(submission, suite, [], Verdict.COMPILE_ERROR, failure.message)
            return self._run(session, submission, suite, cancelled, progress)
        except SandboxError as error:
            judgement = self._finish(submission, suite, [], Verdict.INTERNAL_ERROR, str(error))
            return replace(judgement, reason=Reason.BOX_LOST)
        finally:
            session.close()

    def _run(
        self,
        session: "Session",
        submission: Submission,
        suite: Suite,
        cancelled: Callable[[], bool],
        progress: Callable[[], None],
    ) -> Judgement:
        results: list[TestResult] = []
        calls = [build_call(test, session.program) for test in suite.tests]
        runs = session.run_all(calls, submission.fail_fast)
        stopped: Verdict | None = None
        try:
            for index, (test, run) in enumerate(zip(suite.tests, runs, strict=False)):
                results.append(judge_run(index, test, run, submission.limits, submission.policy))
                progress()
                if submission.fail_fast and results[-1].verdict is not Verdict.ACCEPTED:
                    break
                if cancelled():
                    stopped = Verdict.CANCELLED
                    break
        finally:
            runs.close()
        results += [TestResult(index, Verdict.SKIPPED) for index in range(len(results), len(suite.tests))]
        judgement = self._finish(submission, suite, results, stopped, None)
        return replace(judgement, suspicion=session.suspicion)

    def _finish(
        self,
        submission: Submission,
        suite: Suite,
        results: list[TestResult],
        verdict: Verdict | None,
        detail: str | None,
    ) -> Judgement:
        """One judgement out of its tests: the first that isn't accepted speaks for all."""
        first = next((result for result in results if result.verdict is not Verdict.ACCEPTED), None)
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


class Session:
    """One program in a box, and in another when the first is lost."""

    def __init__(self, pool: Pool, program: Program, limits: Limits) -> None:
        self._pool = pool
        self.program = program
        self._limits = limits
        self._box: Box | None = None
        self._artifact: Artifact | None = None
        self.suspicion: str | None = None

    def load(self) -> CompileFailure | None:
        """Compile. A box that dies of it is replaced once; a second that dies proves nothing against us if a canary
        lives."""
        for attempt in range(2):
            try:
                loaded = self._take().load(self.program, compile_limits(self._limits))
            except BoxLost:
                self._drop()
                if attempt == 1 and self._canary_lives():
                    self.suspicion = "Two fresh boxes ended while they compiled this program."
                    return CompileFailure("The program ends the compiler's box.")
                continue
            if isinstance(loaded, CompileFailure):
                return loaded
            self._artifact = loaded
            return None
        raise BoxLost("Two boxes were lost while the program was compiled, and so was a harmless one after them.")

    def run_all(self, calls: list[Call], stop_on_failure: bool) -> Generator[Run, None, None]:
        """The runs, in order. A lost box costs a repetition of the test that it was lost under."""
        index, losses = 0, 0
        while index < len(calls):
            assert self._artifact is not None
            rest = calls[index:] if losses == 0 else [calls[index]]
            runs = self._take().run_all(self._artifact, rest, self._limits, stop_on_failure=stop_on_failure)
            try:
                for run in runs:  # ends early after a failed run: who asks for more then accepted it nevertheless
                    index, losses = index + 1, 0
                    yield run
            except BoxLost as error:
                self._drop()
                losses += 1
                if losses < 2:
                    continue
                if not self._canary_lives():
                    raise BoxLost(
                        f"Two boxes were lost under test {index}, and a harmless program failed too."
                    ) from error
                self.suspicion = f"Test {index} ended two fresh boxes; a harmless program passed in the same place."
                yield blame(self._limits)
                index, losses = index + 1, 0
            finally:
                close = getattr(runs, "close", None)
                if close is not None:
                    close()

    def _canary_lives(self) -> bool:
        try:
            box = self._pool.take()
        except SandboxError:
            return False
        try:
            loaded = box.load(CANARY, compile_limits(self._limits))
            if isinstance(loaded, CompileFailure):
                return False
            try:
                return box.run(loaded, Call(b"41\n"), Limits()).stdout == b"42\n"
            finally:
                loaded.close()
        except BoxLost:
            return False
        finally:
            self._pool.give(box)

    def _take(self) -> Box:
        if self._box is None:
            self._box = self._pool.take()
        return self._box

    def _drop(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            box.close()

    def close(self) -> None:
        """Free the program and give the box back."""
        if self._artifact is not None:
            self._artifact.close()
        box, self._box = self._box, None
        if box is not None:
            self._pool.give(box)


def compile_limits(limits: Limits) -> Limits:
    """Compiling gets its own limits: a tight time limit is about the tests."""
    return Limits(cpu_seconds=10, memory_bytes=max(limits.memory_bytes, 512 << 20))


def blame(limits: Limits) -> Run:
    """The facts put down for a program that ended two boxes."""
    return Run(None, 9, 0.0, 0.0, 0, None, b"", b"The program ended its box twice.\n", False, failure="ended")


def build_call(test: TestCase, program: Program) -> Call:
    """What the box is told of a test: never its expected output."""
    data = test.input.encode("utf-8", "surrogateescape")
    if test.kind is TestKind.STDIN:
        return Call(data)
    if test.kind is TestKind.FUNCTIONAL:
        return Call(data, function=program.entry_point or "")
    return Call(b"", function=program.entry_point, test_code=data)


def judge_run(index: int, test: TestCase, run: Run, limits: Limits, policy: Policy) -> TestResult:
    """One test's verdict: limits, then the program's end, then comparison."""
    match: Match | None = None
    detail: str | None
    if run.limit is not None:
        verdict, detail = VERDICT_OF_LIMIT[run.limit], f"The program {TEXT_OF_LIMIT[run.limit].format(limits=limits)}."
    elif run.memory_bytes > limits.memory_bytes:
        verdict, detail = Verdict.MEMORY_LIMIT, f"The program {TEXT_OF_LIMIT[Limit.MEMORY].format(limits=limits)}."
    elif run.truncated:
        verdict, detail = Verdict.OUTPUT_LIMIT, f"The program {TEXT_OF_LIMIT[Limit.OUTPUT].format(limits=limits)}."
    else:
        verdict, match, detail = JUDGES[test.kind](test, run, policy)
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
        output=describe_output(test, run) if test.expected is None else None,
        stderr=stderr or None,
        detail=detail if detail is not None or match is None or match.matched else match.explanation,
    )


def describe_output(test: TestCase, run: Run) -> str | None:
    """What a test without an expected output answers: the value that was returned, or what was printed."""
    if test.kind is TestKind.FUNCTIONAL:
        if run.value is None:
            return None
        try:
            value = decode(run.value.partition(b"\n")[0])
            return json.dumps(value)[:MAX_OUTPUT]
        except ValueError:
            return None
        except TypeError:  # sets and the like have no JSON form
            return repr(value)[:MAX_OUTPUT]
    return run.stdout[:MAX_OUTPUT].decode("utf-8", "replace")


Outcome = tuple[Verdict, Match | None, str | None]


def judge_end(run: Run) -> Outcome | None:
    """A verdict for a program that didn't end well; None for one that did."""
    if run.exit_code == 0:
        return None
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


def judge_stdin(test: TestCase, run: Run, policy: Policy) -> Outcome:
    """Standard output against the expected text."""
    ended = judge_end(run)
    if ended is not None:
        return ended
    if test.expected is None:
        return Verdict.ACCEPTED, None, None
    match = compare(test.expected, run.stdout, policy)
    return (Verdict.ACCEPTED if match.matched else Verdict.WRONG_ANSWER), match, None


def judge_functional(test: TestCase, run: Run, policy: Policy) -> Outcome:
    """The returned value against the expected one. A call that didn't return is the program's failure."""
    if run.value is None:
        return judge_end(run) or (
            Verdict.RUNTIME_ERROR,
            None,
            "The program ended before its function had returned a value.",
        )
    if test.expected is None:
        return Verdict.ACCEPTED, None, None
    try:
        value = decode(run.value.partition(b"\n")[0])
    except ValueError:
        return Verdict.WRONG_ANSWER, None, "What the function returned can't be read as a value."
    match = compare_value(test.expected, value, policy)
    return (Verdict.ACCEPTED if match.matched else Verdict.WRONG_ANSWER), match, None


def judge_assertion(test: TestCase, run: Run, policy: Policy) -> Outcome:
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


JUDGES: dict[TestKind, Callable[[TestCase, Run, Policy], Outcome]] = {
    TestKind.STDIN: judge_stdin,
    TestKind.FUNCTIONAL: judge_functional,
    TestKind.ASSERTION: judge_assertion,
}
