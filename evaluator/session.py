"""One program in a box, and in another when the first is lost.

Where the program leaves no trace, its tests run in one child as long as all are accepted: a series. What isn't accepted
there proves nothing; who asks for it to be repeated gets it, and all after it, from a child of its own.

A box that dies under a test is replaced and the test repeated; when a second fresh box dies on the same test, and a
program known to be harmless passes in the same place, the program is to blame, so that killing the box is no way out of
a bad verdict.
"""

import contextlib
import re
import signal
from collections.abc import Generator

from evaluator.errors import BoxLost, MachineFull, SandboxError
from evaluator.executions import Execution
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Artifact, Box, Call, CompileFailure, Launcher, Run, Series
from evaluator.sandbox.commands import spell_execution
from evaluator.sandbox.pool import Pool
from evaluator.sandbox.starvation import Starvation
from evaluator.suspicions import Suspicion, SuspicionKind

STARVATION = Starvation()
FULL = "The kernel ended the program for want of memory, though it was within its limit: give the machine more of it."
CANARY = Program("print(int(input()) + 1)")
IMPORTS_NUMPY = re.compile(r"^[ \t\f]*+(?:import|from)[ \t\f]++numpy\b", re.MULTILINE)  # linear: it is hostile text


class Session:
    """One program in a box, and in another when the first is lost."""

    def __init__(self, pool: Pool, program: Program, limits: Limits, *, series: bool = True) -> None:
        self._pool = pool
        self._series = series
        self._opened: Series | None = None
        self._running: Generator[Run, None, None] | None = None
        self.program = program
        self._limits = limits
        self._box: Box | None = None
        self._artifact: Artifact | None = None
        self.suspicions: list[Suspicion] = []

    def load(self, calls: list[Call]) -> CompileFailure | None:
        """Compile, for these calls. A box that dies of it is replaced once; a second that dies proves nothing against
        us if a canary lives."""
        for attempt in range(2):
            try:
                loaded = self._load(calls)
            except BoxLost:
                self._drop()
                if attempt == 1 and self._canary_lives():
                    self._suspect("Two fresh boxes ended while they compiled this program.")
                    return CompileFailure("The program ends the compiler's box.")
                continue
            if isinstance(loaded, CompileFailure):
                if not STARVATION.was_there():
                    return loaded
                if attempt == 1:
                    raise MachineFull(FULL)
                continue  # as in `_run_apart`
            self._artifact = loaded
            self._move(self._pool.warm(loaded.heavy_imports))
            return None
        raise BoxLost("Two boxes were lost while the program was compiled, and so was a harmless one after them.")

    def _load(self, calls: list[Call]) -> Artifact | CompileFailure:
        if not (self._series and is_series(calls)) or self.program.files or self.program.language != "python":
            return self._take().load(self.program, compile_limits(self._limits))
        loaded, self._opened = self._take().open_series(self.program, calls[0].function, self._limits)
        return loaded

    def run_all(self, calls: list[Call], stop_on_failure: bool) -> Generator[Run, None, None]:
        """The runs, in order. A lost box costs a repetition of the test that it was lost under."""
        index = 0
        assert self._artifact is not None
        if self._series and self._artifact.harmless and is_series(calls):
            self._running = self._run_series(calls)
            with contextlib.closing(self._running):
                for run in self._running:
                    index += 1
                    yield run
        yield from self._run_apart(calls[index:], stop_on_failure, index)

    def execute(self, execution: Execution) -> Run:
        """Run the source once, as it is: compiling it is a part of the run, and costs no child of its own."""
        self._move(self._pool.warm(("numpy",) if IMPORTS_NUMPY.search(self.program.source) else ()))
        loaded = self._take().load(self.program, self._limits, Launcher.COMMAND)
        assert not isinstance(loaded, CompileFailure)  # nothing has looked at it yet
        self._artifact = loaded
        data = execution.input.encode("utf-8", "surrogateescape")
        return next(self._run_apart([Call(data, files=(spell_execution(execution),), is_execution=True)], False))

    def _run_apart(self, calls: list[Call], stop_on_failure: bool, first: int = 0) -> Generator[Run, None, None]:
        """A child for each run. `first` is the number of the first call, for people."""
        index, losses, starved = 0, 0, False
        while index < len(calls):
            assert self._artifact is not None
            rest = calls[index:] if losses == 0 else [calls[index]]
            runs = self._take().run_all(self._artifact, rest, self._limits, stop_on_failure=stop_on_failure)
            try:
                for run in runs:  # ends early after a failed run: who asks for more then accepted it nevertheless
                    if run.signal == signal.SIGKILL and run.limit is None and STARVATION.was_there():
                        if starved:
                            raise MachineFull(FULL)
                        starved = True  # or what was counted was another's, and this program killed itself
                        break
                    index, losses, starved = index + 1, 0, False
                    yield run
            except BoxLost as error:
                self._drop()
                losses += 1
                if losses < 2:
                    continue
                if not self._canary_lives():
                    raise BoxLost(
                        f"Two boxes were lost under test {first + index}, and a harmless program failed too."
                    ) from error
                self._suspect(f"Test {first + index} ended two fresh boxes; a harmless program passed there.")
                yield blame(self._limits)
                index, losses = index + 1, 0
            finally:
                close = getattr(runs, "close", None)
                if close is not None:
                    close()

    def _run_series(self, calls: list[Call]) -> Generator[Run, None, None]:
        assert self._artifact is not None
        try:
            if self._opened is not None:
                yield from self._opened.run_all(calls)
            else:
                yield from self._take().run_series(self._artifact, calls, self._limits)
        except BoxLost:
            self._drop()  # what is left to do needs a fresh box, and there it is told whose fault it is

    def repeat(self, call: Call) -> Run:
        """Run once more what a series ran, in a child of its own, where the rest will have theirs too."""
        if self._running is not None:
            self._running.close()
        return next(self._run_apart([call], False))

    def leave_series(self) -> None:
        """From now on a child for each test. A program can tell where it runs: with one answer for a series and another
        for a child of its own it would have two guesses at every suite, the second where the first ends."""
        self._series = False

    def _suspect(self, detail: str) -> None:
        self.suspicions.append(Suspicion(SuspicionKind.BOX_ENDED, detail))

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

    def _move(self, pool: Pool) -> None:
        """Take boxes from another pool from now on."""
        if pool is not self._pool:
            box, self._box = self._box, None
            if box is not None:
                self._pool.give(box)
            self._pool = pool

    def _take(self) -> Box:
        if self._box is None:
            self._box = self._pool.take()
        return self._box

    def _drop(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            self._pool.drop(box)

    def close(self) -> None:
        """Free the program and give the box back."""
        if self._opened is not None:
            with contextlib.suppress(BoxLost):
                self._opened.close()
        if self._artifact is not None:
            self._artifact.close()
        box, self._box = self._box, None
        if box is not None:
            self._pool.give(box)


def is_series(calls: list[Call]) -> bool:
    """Whether there are several, all of one kind that can be run in one child."""
    kinds = {(call.function, call.test_code) for call in calls}
    return len(calls) > 1 and len(kinds) == 1 and calls[0].test_code is None


def compile_limits(limits: Limits) -> Limits:
    """Compiling gets its own limits: a tight time limit is about the tests."""
    return Limits(cpu_seconds=10, memory_bytes=max(limits.memory_bytes, 512 << 20))


def blame(limits: Limits) -> Run:
    """The facts put down for a program that ended two boxes."""
    return Run(None, 9, 0.0, 0.0, 0, None, b"", b"The program ended its box twice.\n", False, failure="ended")
