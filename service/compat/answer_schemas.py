"""What the foreign routes answer, for the OpenAPI document: each writes its answers as its clients read them."""

from typing import Any, Literal

from pydantic import BaseModel

from service.api import refusals

Responses = dict[int | str, dict[str, Any]]


class RunResultOut(BaseModel):
    """How a run ended, and what it wrote."""

    status: Literal["Finished", "TimeLimitExceeded"]
    execution_time: float
    return_code: int | None
    stdout: str
    stderr: str


class RunCodeOut(BaseModel):
    """Of `/run_code`, and of each test of `/submit`."""

    status: Literal["Success", "Failed"]
    message: str
    compile_result: None
    run_result: RunResultOut
    executor_pod_name: None
    files: dict[str, str]


class SubmittedTestOut(BaseModel):
    """One test of `/submit`. `test_info`: the test as it came, where `extra.return_full_case` asks for it."""

    passed: bool
    exec_info: RunCodeOut
    test_info: Any


class SubmitOut(BaseModel):
    """Of `/submit`."""

    id: int | str
    accepted: bool
    extracted_code: str
    full_code: None
    test_code: None
    tests: list[SubmittedTestOut]
    extracted_type: Literal["empty", "fenced", "heuristic"]
    extra: dict[str, Any]


class PromptOut(BaseModel):
    """A problem's prompt."""

    id: int | str
    prompt: str
    labels: dict[str, Any]


class WrongFieldOut(BaseModel):
    """What is wrong with one field, as FastAPI says it."""

    type: str
    loc: list[int | str]
    msg: str


class DetailOut(BaseModel):
    """A refusal in FastAPI's shape."""

    detail: str | list[WrongFieldOut]


class PistonRunOut(BaseModel):
    """How a run ended, and what it wrote, in Piston's words and units."""

    signal: str | None
    stdout: str
    stderr: str
    code: int | None
    output: str
    memory: int
    message: str | None
    status: Literal["TO", "OL", "EL", "RE"] | None
    cpu_time: int
    wall_time: int


class ExecuteOut(BaseModel):
    """Of `/api/v2/execute`."""

    run: PistonRunOut
    language: str
    version: str


class PistonRuntimeOut(BaseModel):
    """Of `/api/v2/runtimes`."""

    language: str
    version: str
    aliases: list[str]


class MessageOut(BaseModel):
    """A refusal in Piston's shape."""

    message: str


class RewardsOut(BaseModel):
    """Of `/rewards/openrlhf`."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]]


_WORDS = {
    400: "It can't be used.",
    415: "Not JSON.",
    422: "Fields that can't be used.",
    503: "Not now: send it again after `Retry-After` seconds.",
    504: "Not now: send it again after `Retry-After` seconds.",
}


def details(*statuses: int) -> Responses:
    """Refusals in FastAPI's shape. A missing key, a body that is too large or isn't JSON are told as in `/v1`."""
    own: Responses = {status: {"model": DetailOut, "description": _WORDS[status]} for status in statuses}
    return own | refusals(401, 413, 415)


def messages(*statuses: int) -> Responses:
    """Refusals in Piston's shape. A missing key, a body that is too large and a missing Redis are told as in `/v1`."""
    own: Responses = {status: {"model": MessageOut, "description": _WORDS[status]} for status in statuses}
    problems = refusals(401, 413, 503)
    both = {503: {**own[503], "content": problems[503]["content"]}} if 503 in own else {}
    return problems | own | both
