"""The contract of a box: three verbs (load, run, reset), and the facts that they return.

A box holds no opinion. It runs a program on an input under limits and says what happened; `evaluator/judge.py` is the
only place that turns a Run into a Verdict. Every backend passes `tests/test_box_contract.py`.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from evaluator.model import Limits, Program, Runtime

CRASHED = 70
"""Exit status of a Python tool that an exception ended: 1 may be an answer of the tool's own."""


class Launcher(StrEnum):
    """How a program is started."""

    COMPILED = "compiled"
    """Fork the warm runner and execute the compiled program in the child: the fast way."""
    COMMAND = "command"
    """Fork and `execve` an interpreter on the source: the oracle of fidelity."""


class Limit(StrEnum):
    """Which limit ended a run."""

    CPU = "cpu"
    WALL = "wall"
    MEMORY = "memory"
    OUTPUT = "output"
    PROCESSES = "processes"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Call:
    """What to do with a loaded program on one input."""

    input: bytes
    function: str | None = None
    """None: run it as a script with `input` on stdin. Else the entry point to call with `input` as JSON lines."""
    test_code: bytes | None = None
    """Assertion tests: this code runs in a process of its own, and its calls reach the program in another."""
    arguments: tuple[str | int, ...] | None = None
    """Not None: run it as a tool with these arguments. A number stands for the path of that one of `files`."""
    files: tuple[bytes, ...] = ()
    """What a tool may read by its path."""
    report: str | None = None
    """A file that the tool may write beneath its working directory; its folder is there. It comes back as `value`."""
    is_execution: bool = False
    """Run the source as it is, for all that it writes: `files` holds one order, see `commands.spell_execution`."""


@dataclass(frozen=True, slots=True)
class Run:
    """Facts about one execution."""

    exit_code: int | None
    signal: int | None
    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    """Peak resident memory above the runner's own."""
    limit: Limit | None
    stdout: bytes
    stderr: bytes
    truncated: bool
    """The program wrote more than `output_bytes`."""
    value: bytes | None = None
    """Of a call: what it returned, encoded (`runner/values.py`); None: it didn't return. Of a tool: its report. Of an
    execution: what `commands.read_fetched` reads."""
    shared: bool = False
    """Made in a child that runs other tests of the program too. Only an acceptance counts then; memory is that of all
    tests so far."""
    failure: str | None = None
    """Assertion tests: None when the test code ran to its end, else `assertion` or `error`; `stderr` has the text. An
    execution's is `compile` where its source can't be compiled."""
    written: bool = False
    """Of a call: the program had itself written to the descriptor of its result. What it wrote is gone."""
    left_processes: bool = False
    """Processes that it had started lived on when it had ended by itself."""


class Artifact(Protocol):
    """A loaded program. It belongs to no single box, so that a test can be repeated in a fresh one."""

    harmless: bool
    """It leaves no trace in its process: its tests may run in one child."""
    heavy_imports: tuple[str, ...]
    """Modules it names whose import takes longer than most tests: see `Box.preload`."""

    def close(self) -> None:
        """Free what it holds."""


@dataclass(frozen=True, slots=True)
class CompileFailure:
    """The program can't be loaded: its own fault. `message` is the compiler's text."""

    message: str


class Series(Protocol):
    """Tests under way in one child."""

    def run_all(self, calls: Iterable[Call]) -> Generator[Run, None, None]:
        """As `Box.run_series`."""

    def close(self) -> None:
        """End it. Harmless when called twice."""


class Box(Protocol):
    """One locked room with a warm runner in it. Not for use by two threads at once.

    Every verb raises `BoxLost` when the box died or hung; such a box is only to be closed.
    """

    @property
    def runtime(self) -> Runtime:
        """What runs inside."""

    def preload(self, modules: Iterable[str]) -> None:
        """Import modules once, for all runs to come. Those that aren't there are left out."""

    def load(
        self, program: Program, limits: Limits, launcher: Launcher = Launcher.COMPILED
    ) -> Artifact | CompileFailure:
        """Compile `program`, inside the box."""

    def run(self, artifact: Artifact, call: Call, limits: Limits) -> Run:
        """Run once. The box is proven empty afterwards."""

    def run_all(
        self, artifact: Artifact, calls: Iterable[Call], limits: Limits, *, stop_on_failure: bool = False
    ) -> Iterator[Run]:
        """Run each call, in order; the next waits at the box while the last result is looked at.

        With `stop_on_failure` the box itself starts nothing after a run that failed (a limit, a signal, an exit status
        that isn't 0): the iterator ends there, and a loop doesn't cost its time limit twice.

        Closing the iterator early cancels what waits or runs; the box stays usable.
        """

    def run_series(self, artifact: Artifact, calls: Sequence[Call], limits: Limits) -> Generator[Run, None, None]:
        """Run calls in one child, one after another. Ends early, without a word, where one can't be run this way.

        To be closed as soon as a run isn't accepted: it is then to be repeated by `run`.
        """

    def open_series(
        self, program: Program, function: str | None, limits: Limits
    ) -> tuple[Artifact | CompileFailure, Series | None]:
        """`load`, and a series in the child that compiled, where the program leaves no trace.

        The box is the series' own until that is closed.
        """

    def reset(self) -> bool:
        """True: the box is as new and may serve another submission. False: destroy it."""

    def close(self) -> None:
        """Destroy the box and everything in it. Never raises."""


class Backend(Protocol):
    """A way to get boxes."""

    name: str
    uncovered: frozenset[str]
    """The probes (`probes.REMEDIES`) that its boxes need not pass: what this kind doesn't promise."""

    def start(self) -> Box:
        """A fresh box.

        Raises:
            SandboxUnavailable: this machine can't; the message says what to do.
        """
