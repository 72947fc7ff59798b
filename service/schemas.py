"""The wire of `/v1`: what is sent, what comes back, and nothing that isn't written here.

Unknown fields, wrong types, NaN and infinity are errors that name their field. Nothing is converted on the quiet: `"6"`
isn't a number. What a submission leaves out is taken from the evaluation, whole (limits aren't merged field by field),
and else from the defaults of `evaluator/model.py`.

Lists end at their first item that can't be used: to say of a million what is wrong with each takes gigabytes.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from evaluator.model import MEBIBYTE, InPlace, Order, Prelude, Reason, RewardScheme, TestKind, TestOrder, Verdict
from evaluator.suspicions import SuspicionKind

SHA256 = r"^[0-9a-f]{64}$"
EVALUATION_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
EvaluationId = Annotated[str, StringConstraints(pattern=EVALUATION_ID)]
"""Letters, digits, `.`, `_` and `-`; at most 128."""
Detail = Literal["summary", "failures", "full"]
"""Which tests a judgement lists: none; the first 20 that failed, or whose output was asked for; all."""


def _exactly_one(one: str, other: str) -> dict[str, Any]:
    """JSON Schema's way to say what a validator below checks: one of two fields is given, and not both."""
    given, null = {"not": {"type": "null"}}, {"type": "null"}
    return {
        "oneOf": [
            {"required": [one], "properties": {one: given, other: null}},
            {"required": [other], "properties": {other: given, one: null}},
        ]
    }


class Wire(BaseModel):
    """Base of what is sent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ProgramIn(Wire):
    """A program's source text."""

    source: str = Field(min_length=1)
    language: Literal["python"] = "python"
    entry_point: str | None = Field(
        None, min_length=1, description="For functional tests: `function` or `Class.method`. A whole program without."
    )
    prelude: Prelude = Field(Prelude.AUTO, description="Names that the program finds without importing them.")


class TestIn(Wire):
    """One test case."""

    __test__ = False  # pytest would take the name for a test class

    kind: TestKind
    input: str = Field(description="Standard input; or one JSON value a line, an argument each; or test code.")
    expected: str | None = Field(None, description="Without it the output itself comes back, unjudged.")
    name: str | None = None


MAX_INLINE_TESTS = 100_000
"""A million would take a gigabyte before they could be counted. More, where a service allows it, are to be uploaded."""


class SuiteIn(Wire):
    """Test cases: by the SHA-256 of an uploaded suite, or here."""

    model_config = ConfigDict(json_schema_extra=_exactly_one("id", "tests"))

    id: str | None = Field(None, pattern=SHA256)
    tests: list[TestIn] | None = Field(None, min_length=1, max_length=MAX_INLINE_TESTS, fail_fast=True)
    checker: dict[str, Any] | None = Field(
        None,
        description="Decides whether an output is right, where several are: `{name}` of a built-in one, or a program: "
        "`{convention, language, files}`. See docs/checkers.md.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.id is None) == (self.tests is None):
            raise ValueError("give either the id of an uploaded suite, or its tests")
        if self.id is not None and self.checker is not None:
            raise ValueError("a checker belongs to the tests beside it; an uploaded suite has it in its first line")
        return self


class LimitsIn(Wire):
    """What one test may use."""

    cpu_seconds: float = Field(6.0, ge=0.01, le=3600)
    wall_seconds: float | None = Field(None, ge=0.01, le=4 * 3600, description="Default: 3 * cpu_seconds + 1.")
    memory_bytes: int = Field(1024 * MEBIBYTE, ge=16 * MEBIBYTE, le=1 << 40)
    output_bytes: int = Field(32 * MEBIBYTE, ge=1, le=1 << 30)
    processes: int = Field(64, ge=1, le=4096)


class PolicyIn(Wire):
    """How outputs are compared. The options belong to the profile `microcoder`; the other two take none."""

    profile: Literal["exact", "livecodebench", "microcoder"] = "microcoder"
    absolute_tolerance: float | None = Field(None, ge=0, le=1e300)
    relative_tolerance: float | None = Field(None, ge=0, le=1e300)
    ignore_case: bool = Field(False, description="Words that differ only in case are equal.")
    yes_no: bool = Field(False, description="`yes` and `no` in any case; other words keep theirs.")
    ignore_lines: bool = Field(False, description="Line ends are spaces.")
    order: Order = Field(Order.EXACT, description="Which order counts; repeats always do.")
    booleans_as_integers: bool = Field(False, description="In text, `True` is `1` and `False` is `0`.")
    exact_tokens: bool = Field(False, description="In text, a token equals the same characters only.")
    in_place: InPlace = Field(
        InPlace.AUTO, description="Whether an argument changed in place may be the answer of a function without any."
    )


class Rules(Wire):
    """What an evaluation may say once for all its submissions."""

    suite: SuiteIn | None = None
    limits: LimitsIn | None = None
    policy: PolicyIn | None = None
    fail_fast: bool | None = Field(None, description="Stop at the first failed test. Default: true.")
    reward: RewardScheme | None = Field(None, description="Default: all_or_nothing.")
    test_order: TestOrder | None = Field(
        None,
        description="`adaptive` tries first, where fail_fast is set, what has failed other programs. Default: suite.",
    )


class SubmissionIn(Rules):
    """A program, or a model's answer that holds one, to be judged against a suite."""

    model_config = ConfigDict(json_schema_extra=_exactly_one("program", "answer"))

    program: ProgramIn | None = None
    answer: str | None = Field(None, description="A model's whole answer: its last complete code block is judged.")
    whole_text_if_unfenced: bool = Field(False, description="An answer without any code block is itself the program.")
    entry_point: str | None = Field(None, min_length=1, description="Of the program in `answer`.")
    prelude: Prelude | None = Field(None, description="Of the program in `answer`.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.program is None) == (self.answer is None):
            raise ValueError("give either a program or an answer to take it from")
        if self.answer is None and (self.entry_point is not None or self.prelude is not None):
            raise ValueError("entry_point and prelude go inside `program`; beside it they belong to an answer")
        return self


EXAMPLE: dict[str, Any] = {
    "id": "step-17.problem-3",
    "suite": {"tests": [{"kind": "stdin", "input": "2 3\n", "expected": "5\n"}]},
    "limits": {"cpu_seconds": 2},
    "submissions": [
        {"program": {"source": "print(sum(map(int, input().split())))"}},
        {"answer": "I add them.\n```python\na, b = map(int, input().split())\nprint(a + b)\n```"},
    ],
}


class EvaluationIn(Rules):
    """One or many submissions, accepted or refused as a whole."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE], **_exactly_one("submission", "submissions")})

    id: EvaluationId | None = Field(
        None, description="Chosen by the client, so that it may post again after a broken connection: judged once."
    )
    submission: SubmissionIn | None = None
    submissions: list[SubmissionIn] | None = Field(None, min_length=1, fail_fast=True)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.submission is None) == (self.submissions is None):
            raise ValueError("give either `submissions`, a list, or a single `submission`")
        return self

    def all(self) -> list[tuple[str, SubmissionIn]]:
        """Each submission with the name of its field."""
        if self.submission is not None:
            return [("submission", self.submission)]
        return [(f"submissions[{number}]", item) for number, item in enumerate(self.submissions or ())]


class Answer(BaseModel):
    """Base of what comes back. Clients pass over fields that they don't know."""

    model_config = ConfigDict(extra="allow")


class MatchOut(Answer):
    """What comparison said."""

    matched: bool
    rung: str | None = Field(description="The rule that accepted.")
    position: str | None = Field(description="Where expected and found first differ.")
    expected: str | None
    found: str | None


class TestOut(Answer):
    """What one test gave."""

    __test__ = False

    index: int
    verdict: Verdict
    match: MatchOut | None
    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    exit_code: int | None
    signal: int | None
    output: str | None
    stderr: str | None
    detail: str | None


class RuntimeOut(Answer):
    """Where a judgement was made."""

    sandbox: str
    python: str
    numpy: str | None
    image: str | None


class SuspicionOut(Answer):
    """A known way to earn a reward without the answer, and where it was seen."""

    kind: SuspicionKind
    detail: str


class JudgementOut(Answer):
    """The outcome of one submission. `reward` null: leave the sample out, nothing was learnt about it."""

    verdict: Verdict
    reward: float | None
    tests: list[TestOut]
    first_failed: int | None
    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    detail: str | None
    reason: Reason | None
    suspicion: str | None = Field(description="All `suspicions` as one text.")
    suspicions: list[SuspicionOut] = Field(
        default_factory=list,
        description="Known ways to earn a reward without the answer that were seen. They change no verdict and no "
        "reward: see docs/reward_hacking.md.",
    )
    runtime: RuntimeOut | None
    cached: bool = Field(
        description="The same submission was judged before, where this one would have been; nothing was run again."
    )


class Counts(Answer):
    """How many submissions are where."""

    total: int
    done: int
    running: int
    pending: int


State = Literal["queued", "running", "done", "cancelled"]


class EvaluationOut(Answer):
    """An evaluation as it stands. `judgements` are in the order of the submissions, null where there is none yet."""

    id: str
    state: State = Field(description="`done` and `cancelled` are final.")
    counts: Counts
    judgements: list[JudgementOut | None]


class SuiteOut(Answer):
    """A stored suite."""

    id: str
    tests: int
    bytes: int


class WorkerOut(Answer):
    """A worker that is alive, and what its programs run in."""

    name: str
    host: str
    runtime: RuntimeOut


class RuntimesOut(Answer):
    """What programs run in, as the living workers tell it."""

    runtimes: list[RuntimeOut]
    workers: list[WorkerOut]


class QueueOut(Answer):
    """What waits."""

    evaluations: int
    submissions: int
    turns: int


class CacheOut(Answer):
    """The cache of results: what it holds, and how often it had the answer."""

    results: int
    bytes: int
    hits: int
    misses: int
    hit_rate: float | None


class HealthOut(Answer):
    """How the service is."""

    status: Literal["ok", "degraded", "down"]
    detail: str
    redis: Literal["up", "down"]
    workers: int
    queue: QueueOut | None
    cache: CacheOut | None


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str
    message: str


class ProblemOut(Answer):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


def field_name(location: tuple[Any, ...]) -> str:
    """`submissions[0].limits.cpu_seconds`, from pydantic's way of saying it."""
    name = ""
    for step in location:
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else str(step)
    return name
