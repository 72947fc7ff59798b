"""The vocabulary: what is judged, under which rules, and what comes out.

Everything here is frozen and holds no behaviour beyond small derived facts, so that every layer can import it and it
imports none. Times are seconds, sizes are bytes, indexes count from 0.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from evaluator.errors import InvalidSubmission
from evaluator.executions import Execution
from evaluator.suspicions import Suspicion

MEBIBYTE = 1 << 20


class Verdict(StrEnum):
    """The outcome of a test or of a submission. A submission's is that of its first test that isn't accepted."""

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong_answer"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    NO_CODE = "no_code"
    """Nothing complete could be extracted from the model's answer: incomplete, which isn't incorrect."""
    SKIPPED = "skipped"
    """Not run, because an earlier test failed and `fail_fast` was set."""
    CANCELLED = "cancelled"
    INTERNAL_ERROR = "internal_error"
    """Our failure, never the program's: the reward is None, so that a trainer leaves the sample out."""


class Reason(StrEnum):
    """Why a verdict is `internal_error`."""

    BOX_LOST = "box_lost"
    WORKER_LOST = "worker_lost"
    CHECKER_FAILED = "checker_failed"


class TestKind(StrEnum):
    """How a test talks to the program."""

    __test__ = False  # pytest would take the name for a test class

    STDIN = "stdin"
    """`input` is standard input, `expected` is standard output."""
    FUNCTIONAL = "functional"
    """`input` is one JSON value a line, one line an argument; `expected` is the JSON text of the returned value."""
    ASSERTION = "assertion"
    """`input` is Python test code that uses the program's names; it passes when it runs to its end."""


class Prelude(StrEnum):
    """Names that a program finds without importing them, as contest sites and LiveCodeBench offer them."""

    AUTO = "auto"
    """`contest` for functional tests (LeetCode programs use `List` unimported), `none` otherwise."""
    NONE = "none"
    CONTEST = "contest"


@dataclass(frozen=True, slots=True)
class Program:
    """Source text in a language. `entry_point` is None for a whole program, else `function` or `Class.method`.

    `files` stand beside the source, as (relative name, text): modules to import, headers, more sources.
    """

    source: str
    language: str = "python"
    entry_point: str | None = None
    prelude: Prelude = Prelude.AUTO
    name: str = "program.py"
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TestCase:
    """One input and, optionally, what is expected for it. Without `expected` the output itself is the answer."""

    __test__ = False

    kind: TestKind
    input: str
    expected: str | None = None
    name: str | None = None


class Convention(StrEnum):
    """How a checker program is called, and how it answers: by its exit status."""

    TESTLIB = "testlib"
    """`checker input output answer`; 0 accepts; 1, 2, 4 and 8 reject (https://github.com/MikeMirzayanov/testlib)."""
    KATTIS = "kattis"
    """`checker input answer feedback_dir [flags] < output`; 42 accepts, 43 rejects
    (https://www.kattis.com/problem-package-format/spec/legacy.html#output-validators)."""


class CheckerName(StrEnum):
    """Checkers that need no program. Each reads both outputs as streams of tokens, except where it says otherwise."""

    TOKENS = "tokens"
    """The same tokens, character by character."""
    FLOAT_TOLERANCE = "float_tolerance"
    """The same tokens, numbers within a tolerance: absolute or relative, either suffices."""
    CASE_INSENSITIVE = "case_insensitive"
    """The same tokens in any case."""
    LINE_PERMUTATION = "line_permutation"
    """The same lines, or items of a list, in any order; repeats count."""
    ANY_ORDER = "any_order"
    """The same lines in any order, and in each line the same tokens in any order; repeats count."""


@dataclass(frozen=True, slots=True)
class CheckerProgram:
    """A program that decides whether an output is right, because several are. It belongs to a suite.

    `files` are (relative name, text). C++: every source file among them is compiled into one program.
    """

    files: tuple[tuple[str, str], ...]
    convention: Convention
    language: str = "python"
    """`python` or `cpp`."""
    main: str | None = None
    """Python: the file that is run, where there are several."""
    flags: tuple[str, ...] = ()
    """Arguments after the fixed ones."""
    cpu_seconds: float = 10.0
    memory_bytes: int = 1024 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class NamedChecker:
    """A built-in checker. The tolerances belong to `float_tolerance`."""

    name: CheckerName
    absolute_tolerance: float | None = None
    relative_tolerance: float | None = None


Checker = CheckerProgram | NamedChecker


@dataclass(frozen=True, slots=True)
class Suite:
    """Ordered test cases, and a checker where there is one: it decides then, whatever the policy.

    `id` is the SHA-256 of the suite's bytes as uploaded. Limits and policy aren't part of it.
    """

    id: str
    tests: tuple[TestCase, ...]
    checker: Checker | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one test may use. `wall_seconds` None means a generous multiple of the CPU limit (see `wall`)."""

    cpu_seconds: float = 6.0
    wall_seconds: float | None = None
    memory_bytes: int = 1024 * MEBIBYTE
    output_bytes: int = 32 * MEBIBYTE
    processes: int = 64

    def __post_init__(self) -> None:
        """Refuse what can't be enforced.

        Raises:
            InvalidSubmission: a limit is not a finite number in its range.
        """
        _check_range("limits.cpu_seconds", self.cpu_seconds, 0.01, 3600)
        if self.wall_seconds is not None:
            _check_range("limits.wall_seconds", self.wall_seconds, 0.01, 4 * 3600)
        _check_range("limits.memory_bytes", self.memory_bytes, 16 * MEBIBYTE, 1 << 40)
        _check_range("limits.output_bytes", self.output_bytes, 1, 1 << 30)
        _check_range("limits.processes", self.processes, 1, 4096)

    @property
    def wall(self) -> float:
        """Seconds on the wall: generous, because a busy machine must not fail a program. Time that the program spends
        waiting for a processor isn't counted (see `sandbox/runner/watch.py`)."""
        return self.wall_seconds if self.wall_seconds is not None else 3 * self.cpu_seconds + 1


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidSubmission(f"{name} must be a finite number, not {value!r}.")
    if not low <= value <= high:
        raise InvalidSubmission(f"{name} must be between {low:g} and {high:g}, not {value!r}.")


class Order(StrEnum):
    """Which order of an output counts. Repeats always count: two equal items are two items."""

    EXACT = "exact"
    LINES = "lines"
    """Lines of text, or items of the outermost list, in any order."""
    TOKENS = "tokens"
    """Tokens within each line, or items of each innermost list, in any order."""
    ANY = "any"
    """Both, and every list in between."""


class InPlace(StrEnum):
    """When the answer of a function that returned None is an argument, changed in place."""

    AUTO = "auto"
    """Where the function declares that it returns nothing, or declares nothing and returns no value on any path."""
    NEVER = "never"
    ALWAYS = "always"
    """Whatever the function declares."""


PROFILES = ("exact", "livecodebench", "microcoder")
_SWITCHES = ("ignore_case", "yes_no", "ignore_lines", "booleans_as_integers", "exact_tokens")


@dataclass(frozen=True, slots=True)
class Policy:
    """How outputs are compared. Travels with the submission, not with the suite. Rungs: `docs/comparison.md`.

    Every option below `profile` belongs to the profile `microcoder`; the other two profiles take none.
    """

    profile: str = "microcoder"
    """`exact`, `livecodebench` or `microcoder`."""
    absolute_tolerance: float | None = None
    """None: the profile's own, or 0 where `relative_tolerance` is given. A number given here or there replaces the
    profile's own tolerance, and also applies where the expected number is written as an integer."""
    relative_tolerance: float | None = None
    ignore_case: bool = False
    """Words that differ only in case are equal."""
    yes_no: bool = False
    """`yes`, `Yes` and `YES` are one word, and so are `no`, `No` and `NO`; other words keep their case."""
    ignore_lines: bool = False
    """The output is one stream of tokens: line ends are spaces."""
    order: Order = Order.EXACT
    booleans_as_integers: bool = False
    """In text, `True` is `1` and `False` is `0`, as they always are in the values that a function returns."""
    exact_tokens: bool = False
    """In text, a token equals the same characters only: `5.0` isn't `5`, `true` isn't `True`."""
    in_place: InPlace = InPlace.AUTO
    """Whether a list or a dictionary that was changed in place may be the answer (`docs/functional.md`). The other
    profiles look at the returned value alone."""

    def __post_init__(self) -> None:
        """Refuse what no comparison can follow.

        Raises:
            InvalidSubmission: an unknown word for a profile, an order or `in_place`, a tolerance out of range, or an
                option that the profile doesn't take.
        """
        if self.profile not in PROFILES:
            raise InvalidSubmission(f"policy.profile must be one of {', '.join(PROFILES)}, not {self.profile!r}.")
        for name in ("absolute_tolerance", "relative_tolerance"):
            if (value := getattr(self, name)) is not None:
                _check_range(f"policy.{name}", value, 0, 1e300)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise InvalidSubmission(f"policy.{name} must be true or false, not {getattr(self, name)!r}.")
        if self.exact_tokens and (self.booleans_as_integers or self.absolute_tolerance or self.relative_tolerance):
            raise InvalidSubmission(
                "policy.exact_tokens leaves no room for a tolerance or for booleans_as_integers; leave one out."
            )
        if self.order not in tuple(Order):
            raise InvalidSubmission(f"policy.order must be one of {', '.join(Order)}, not {self.order!r}.")
        object.__setattr__(self, "order", Order(self.order))
        if self.in_place not in tuple(InPlace):
            raise InvalidSubmission(f"policy.in_place must be one of {', '.join(InPlace)}, not {self.in_place!r}.")
        object.__setattr__(self, "in_place", InPlace(self.in_place))
        if self.profile != "microcoder" and (option := self._first_option()) is not None:
            raise InvalidSubmission(
                f"policy.{option} can't be combined with the profile {self.profile!r}; leave one out."
            )

    def _first_option(self) -> str | None:
        for name in ("absolute_tolerance", "relative_tolerance"):
            if getattr(self, name) is not None:
                return name
        for name in _SWITCHES:
            if getattr(self, name):
                return name
        if self.order is not Order.EXACT:
            return "order"
        return "in_place" if self.in_place is InPlace.ALWAYS else None


class RewardScheme(StrEnum):
    """How a judgement becomes a number."""

    ALL_OR_NOTHING = "all_or_nothing"
    FRACTION = "fraction"
    """Accepted tests over all tests of the suite."""


class TestOrder(StrEnum):
    """In which order a suite's tests are run. Results always have the suite's own numbers."""

    __test__ = False

    SUITE = "suite"
    ADAPTIVE = "adaptive"
    """Those first that other programs failed most. Only with `fail_fast`: which test failed first means less then."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A program against a suite, under limits and a policy. `program` None: the answer held no complete code.

    With `execution` nothing is judged: the program is run once, and there is no suite (`suite_id` is empty).
    """

    program: Program | None
    suite_id: str
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    fail_fast: bool = True
    reward: RewardScheme = RewardScheme.ALL_OR_NOTHING
    test_order: TestOrder = TestOrder.SUITE
    execution: Execution | None = None
    keep_outputs: bool = False
    """Let each test's result hold what the program printed, whatever was expected."""


@dataclass(frozen=True, slots=True)
class Match:
    """What comparison says. Accepted: `rung` names the rule that did. Rejected: where both first differ.

    Of a checker, `position` is `checker` and `found` what it said.
    """

    matched: bool
    rung: str | None = None
    position: str | None = None
    expected: str | None = None
    found: str | None = None

    @property
    def explanation(self) -> str:
        """One readable line."""
        if self.matched:
            return f"accepted by the rung '{self.rung}'"
        if self.expected is None:
            return f"{self.position}: {self.found}"
        return f"{self.position}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class TestResult:
    """What one test gave. `output` is there when the test had no expected output, or when it was asked for."""

    __test__ = False

    index: int
    verdict: Verdict
    match: Match | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    memory_bytes: int = 0
    exit_code: int | None = None
    signal: int | None = None
    output: str | None = None
    stderr: str | None = None
    detail: str | None = None
    """One sentence on a verdict that isn't `accepted`."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where a judgement was made: results hold for this Python, this numpy, this image, this kind of box."""

    sandbox: str
    python: str
    numpy: str | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of one submission. `reward` is None for `internal_error`, and where nothing was judged."""

    verdict: Verdict
    reward: float | None
    tests: tuple[TestResult, ...] = ()
    first_failed: int | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    memory_bytes: int = 0
    detail: str | None = None
    reason: Reason | None = None
    runtime: Runtime | None = None
    suspicions: tuple[Suspicion, ...] = ()
    """Known ways to earn a reward without the answer that were seen. They change nothing."""
