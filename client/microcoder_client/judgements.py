"""What comes back: light copies of the service's vocabulary, and how they are read from JSON.

Unknown fields are passed over, so that a newer service can add some. An unknown *verdict* becomes `internal_error` with
no reward: a trainer then leaves the sample out, which is the only safe reading of a word that one doesn't know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INTERNAL_ERROR = "internal_error"

VERDICTS = frozenset(
    {
        "accepted",
        "wrong_answer",
        "time_limit",
        "memory_limit",
        "output_limit",
        "runtime_error",
        "compile_error",
        "no_code",
        "skipped",
        "cancelled",
        INTERNAL_ERROR,
    }
)
"""Every verdict that this version knows; the service documents each."""


@dataclass(frozen=True, slots=True)
class Match:
    """What comparison says. Accepted: `rung` names the rule that did. Rejected: where both first differ."""

    matched: bool
    rung: str | None = None
    position: str | None = None
    expected: str | None = None
    found: str | None = None


@dataclass(frozen=True, slots=True)
class TestResult:
    """What one test gave. Seconds and bytes; `output` is there when the test had no expected output."""

    __test__ = False  # pytest would take the name for a test class

    index: int
    verdict: str
    match: Match | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    memory_bytes: int = 0
    exit_code: int | None = None
    signal: int | None = None
    output: str | None = None
    stderr: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where the judgement was made."""

    sandbox: str
    python: str
    numpy: str | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A known way to earn a reward without the answer that was seen. It changes no verdict and no reward."""

    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of one submission. `reward` None: don't learn from it (our failure, or nothing was judged)."""

    verdict: str
    reward: float | None
    tests: tuple[TestResult, ...] = ()
    first_failed: int | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    memory_bytes: int = 0
    detail: str | None = None
    reason: str | None = None
    suspicion: str | None = None
    runtime: Runtime | None = None
    cached: bool = False
    """The service had judged the same submission before, and ran nothing again."""
    suspicions: tuple[Suspicion, ...] = ()
    """Log them, look at the programs; don't reward or punish by them."""

    @property
    def accepted(self) -> bool:
        """Whether every test was passed."""
        return self.verdict == "accepted"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The state of what was posted. `judgements` holds None where a submission isn't judged yet."""

    id: str
    state: str
    """`queued`, `running`, `done` or `cancelled`."""
    judgements: tuple[Judgement | None, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether nothing more will come."""
        return self.state in {"done", "cancelled"}

    @property
    def judged(self) -> int:
        """How many submissions have their judgement."""
        return sum(judgement is not None for judgement in self.judgements)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request was refused (RFC 9457 problem details)."""

    status: int
    title: str = ""
    detail: str = ""
    type: str = "about:blank"
    body: Mapping[str, Any] = field(default_factory=dict)
    """The whole document, extension members included."""


def read_evaluation(body: Mapping[str, Any]) -> Evaluation:
    """An evaluation out of the service's JSON. Raises KeyError, TypeError or ValueError on anything else."""
    raw = body.get("judgements") or ()
    return Evaluation(
        id=str(body["id"]),
        state=str(body["state"]),
        judgements=tuple(None if item is None else read_judgement(item) for item in raw),
    )


def read_judgement(body: Mapping[str, Any]) -> Judgement:
    """A judgement out of the service's JSON."""
    verdict, detail, reward = str(body["verdict"]), body.get("detail"), body.get("reward")
    if verdict not in VERDICTS:
        detail = f"This client doesn't know the verdict '{verdict}': update microcoder-client."
        verdict = INTERNAL_ERROR
    runtime = body.get("runtime")
    return Judgement(
        verdict=verdict,
        reward=None if verdict == INTERNAL_ERROR or reward is None else float(reward),
        tests=tuple(_read_test(index, test) for index, test in enumerate(body.get("tests") or ())),
        first_failed=body.get("first_failed"),
        cpu_seconds=float(body.get("cpu_seconds") or 0.0),
        wall_seconds=float(body.get("wall_seconds") or 0.0),
        memory_bytes=int(body.get("memory_bytes") or 0),
        detail=detail,
        reason=body.get("reason"),
        suspicion=body.get("suspicion"),
        runtime=None if runtime is None else _read_runtime(runtime),
        cached=body.get("cached") is True,
        suspicions=tuple(Suspicion(str(n["kind"]), str(n.get("detail", ""))) for n in body.get("suspicions") or ()),
    )


def _read_test(index: int, body: Mapping[str, Any]) -> TestResult:
    verdict, match = str(body["verdict"]), body.get("match")
    return TestResult(
        index=int(body.get("index", index)),
        verdict=verdict if verdict in VERDICTS else INTERNAL_ERROR,
        match=None if match is None else _read_match(match),
        cpu_seconds=float(body.get("cpu_seconds") or 0.0),
        wall_seconds=float(body.get("wall_seconds") or 0.0),
        memory_bytes=int(body.get("memory_bytes") or 0),
        exit_code=body.get("exit_code"),
        signal=body.get("signal"),
        output=body.get("output"),
        stderr=body.get("stderr"),
        detail=body.get("detail"),
    )


def _read_match(body: Mapping[str, Any]) -> Match:
    return Match(
        matched=bool(body["matched"]),
        rung=body.get("rung"),
        position=body.get("position"),
        expected=body.get("expected"),
        found=body.get("found"),
    )


def _read_runtime(body: Mapping[str, Any]) -> Runtime:
    return Runtime(
        sandbox=str(body["sandbox"]), python=str(body["python"]), numpy=body.get("numpy"), image=body.get("image")
    )
