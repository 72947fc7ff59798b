"""Runs suites' checkers, in a box that never runs programs, and turns what they answer into a Match.

A checker is compiled once and kept. It sees the input, the expected answer and the output; the program that made the
output is never in the same box. A checker that breaks proves nothing by itself: it may have a fault, or the program may
have printed what breaks it in order not to be judged. So a checker that broke is asked about the expected answer: if it
can judge that, the output is to blame, else the checker is. Where no answer is expected, the output is to blame: a
program that prints nothing would have a way out of every checker that reads a number.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from evaluator.checkers import main_file
from evaluator.errors import BoxLost, CheckerFailed
from evaluator.model import CheckerProgram, Convention, Limits, Match, Program, TestCase
from evaluator.sandbox.base import CRASHED, Artifact, Call, CompileFailure, Limit, Run
from evaluator.sandbox.pool import Pool
from evaluator.suspicions import Suspicion, SuspicionKind

KEPT = 16
"""Compiled checkers that are kept, the last used ones."""
COMPILE_LIMITS = Limits(cpu_seconds=60, wall_seconds=90, memory_bytes=1 << 30)
MAX_OUTPUT = 1 << 24
MAX_MESSAGE = 2_000
FEEDBACK = "feedback"
INPUT, OUTPUT, ANSWER = range(3)
ACCEPTS = {Convention.TESTLIB: 0, Convention.KATTIS: 42}
REJECTS = {Convention.TESTLIB: (1, 2, 4, 8), Convention.KATTIS: (43,)}
FAULTS = {Convention.TESTLIB: (3,), Convention.KATTIS: ()}
"""Answers by which a checker blames itself, or the expected answer."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a checker says of one output. `suspicion`: the output broke the checker, which judges others."""

    match: Match
    suspicion: Suspicion | None = None


class CheckerBox:
    """The checkers of one judge. Its box is made when the first suite wants one."""

    def __init__(self, pool: Pool) -> None:
        """Take boxes from a branch of `pool`, so that none of them ever ran a program."""
        self._pool = pool.branch()
        self._compiled: OrderedDict[CheckerProgram, Artifact] = OrderedDict()

    def check(
        self, checker: CheckerProgram, test: TestCase, output: bytes, progress: Callable[[], None] = lambda: None
    ) -> Ruling:
        """Ask the checker about one output.

        Args:
            progress: called after each step that may take its time.

        Raises:
            CheckerFailed: it gives no answer, whatever the output.
            SandboxError: there is no box, twice.
        """
        self._compile(checker)
        progress()
        run = self._run(checker, test, output)
        progress()
        ruling = _rule(checker, run)
        if ruling is not None:
            return Ruling(ruling)
        what = f"The checker {_describe_end(checker, run)}."
        if run.exit_code in FAULTS[checker.convention]:
            raise CheckerFailed(f"{what} {_message(run)}".strip())
        if test.expected is None:
            said = f"{what} No answer is expected by which the checker could be tried, so this output is to blame."
        else:
            known = test.expected.encode("utf-8", "surrogateescape")
            if known == output or _rule(checker, self._run(checker, test, known)) is None:
                raise CheckerFailed(f"{what} It can't judge the expected answer either. {_message(run)}".strip())
            said = f"{what} It can judge the expected answer, so this output is to blame."
        note = Suspicion(SuspicionKind.CHECKER_BROKEN, f"The output of the program broke the checker. {said}")
        return Ruling(_reject(said), note)

    def _run(self, checker: CheckerProgram, test: TestCase, output: bytes) -> Run:
        """One run, in a second box if the first is lost."""
        artifact = self._compile(checker)
        call = build_call(checker, test, output)
        limits = Limits(
            cpu_seconds=checker.cpu_seconds,
            wall_seconds=2 * checker.cpu_seconds + 10,
            memory_bytes=checker.memory_bytes,
            output_bytes=MAX_OUTPUT,
            processes=16,
        )
        for _ in range(2):
            box = self._pool.take()
            try:
                return box.run(artifact, call, limits)
            except BoxLost as error:
                lost = error
            finally:
                self._pool.give(box)
        raise CheckerFailed(f"The checker ended two boxes: {lost}")

    def _compile(self, checker: CheckerProgram) -> Artifact:
        if checker in self._compiled:
            self._compiled.move_to_end(checker)
            return self._compiled[checker]
        name = main_file(checker)
        files = dict(checker.files)
        source = files.pop(name)
        program = Program(source, language=checker.language, name=name, files=tuple(files.items()))
        box = self._pool.take()
        try:
            loaded = box.load(program, COMPILE_LIMITS)
        except BoxLost as error:
            raise CheckerFailed(f"The checker ended the box that compiled it: {error}") from error
        finally:
            self._pool.give(box)
        if isinstance(loaded, CompileFailure):
            raise CheckerFailed(f"The checker can't be compiled: {loaded.message[-MAX_MESSAGE:].strip()}")
        self._compiled[checker] = loaded
        if len(self._compiled) > KEPT:
            self._compiled.popitem(last=False)
        return loaded


def build_call(checker: CheckerProgram, test: TestCase, output: bytes) -> Call:
    """The arguments, files and standard input that the convention asks for."""
    given = test.input.encode("utf-8", "surrogateescape")
    answer = (test.expected or "").encode("utf-8", "surrogateescape")
    if checker.convention is Convention.KATTIS:
        arguments: tuple[str | int, ...] = (INPUT, 1, f"{FEEDBACK}/", *checker.flags)
        return Call(output, arguments=arguments, files=(given, answer), report=f"{FEEDBACK}/judgemessage.txt")
    return Call(b"", arguments=(INPUT, OUTPUT, ANSWER, *checker.flags), files=(given, output, answer))


def _rule(checker: CheckerProgram, run: Run) -> Match | None:
    """The checker's answer; None where it gave none."""
    if run.limit is not None or run.truncated:
        return None
    if run.exit_code == ACCEPTS[checker.convention]:
        return Match(matched=True, rung="checker")
    if run.exit_code in REJECTS[checker.convention]:
        return _reject(_message(run))
    return None


def _reject(said: str) -> Match:
    return Match(matched=False, position="checker", found=said or "It rejects this output.")


def _message(run: Run) -> str:
    """What the checker says to people, in one line: its judge's message, or else what it printed."""
    for text in (run.value, run.stderr, run.stdout):
        line = " ".join((text or b"")[-MAX_MESSAGE:].decode("utf-8", "replace").split())
        if line:
            return line
    return ""


def _describe_end(checker: CheckerProgram, run: Run) -> str:
    if run.limit is Limit.CPU:
        return f"used more than {checker.cpu_seconds:g} s of processor time"
    if run.limit is not None:
        return f"went over its limit ({run.limit})"
    if run.truncated:
        return "printed too much"
    if run.signal is not None:
        return f"was ended by signal {run.signal}"
    if run.exit_code == CRASHED and checker.language == "python":
        return "ended with an exception"
    return f"ended with exit status {run.exit_code}, which the convention '{checker.convention}' doesn't know"
