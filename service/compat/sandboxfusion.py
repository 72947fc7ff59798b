"""SandboxFusion's routes: `/run_code` and `/v1/ping` here, those of data sets in `sandboxfusion_datasets.py`.

Refusals have FastAPI's shape, `{"detail": …}`, which its clients log. What can't be done now is 504, the only status
that verl's client repeats; `SandboxError` is never answered.
"""

from typing import Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.responses import JSONResponse, Response

from evaluator.executions import Execution
from evaluator.model import MEBIBYTE
from service.api import SMALL_BODY, json_body, read_json
from service.compat.answer_schemas import RunCodeOut, details
from service.compat.file_names import BadFiles, check_files, check_names, check_number, check_texts
from service.compat.performing import QUEUE_SECONDS, RETRY_AFTER, NotNow, Performer
from service.compat.sandboxfusion_wire import IGNORED_NAME, LANGUAGES, OURS, Document, RunCodeIn, write_run
from service.evaluations import beside
from service.settings import Settings

LARGE_ANSWER = 1 << 20
"""Characters of an answer whose text is made in a thread."""
M = TypeVar("M", bound=BaseModel)


class Refusal(Exception):
    """A request that can't be used: status and detail, in FastAPI's shape."""

    def __init__(self, status: int, detail: Any) -> None:
        """`detail`: a sentence, or a list of what is wrong with which field."""
        super().__init__(detail)
        self.status = status
        self.detail = detail

    def response(self) -> Response:
        """The answer to send."""
        headers = {"Retry-After": str(RETRY_AFTER)} if self.status == 504 else None
        return JSONResponse({"detail": self.detail}, self.status, headers)


def add_run_code(router: APIRouter, settings: Settings, performer: Performer) -> None:
    """The routes of the sandbox."""

    @router.post(
        "/run_code",
        summary="Run a program (SandboxFusion)",
        tags=["SandboxFusion"],
        response_model=RunCodeOut,
        responses=details(422, 504),
        openapi_extra={"requestBody": json_body("RunCodeIn")},
    )
    async def run_code(request: Request) -> Response:
        """`{"code", "language"?, "stdin"?, "run_timeout"?, "memory_limit_MB"?, "files"?, "fetch_files"?}`."""
        try:
            body = await read_json(request)
            asked, execution = await beside(len(body) > SMALL_BODY, _read, body, settings)
            memory = asked.memory_limit_MB * MEBIBYTE if asked.memory_limit_MB > 0 else None
            limits = performer.limits(asked.run_timeout, memory)
            patience = min(asked.compile_timeout, 60) + limits.wall + QUEUE_SECONDS
            ran = await performer.run(request, asked.code, execution, limits, patience)
            size = len(ran.stdout) + len(ran.stderr) + sum(len(data) for _, data in ran.files)
            answer = await beside(size > LARGE_ANSWER, lambda: to_json(write_run(ran)))
        except Refusal as refusal:
            return refusal.response()
        except NotNow as error:
            return Refusal(504, str(error)).response()
        return Response(answer, media_type="application/json")

    @router.get("/v1/ping", summary="Whether it is there", tags=["SandboxFusion"])
    @router.post("/v1/ping", summary="Whether it is there, as its clients ask", tags=["SandboxFusion"])
    async def ping() -> str:
        """Always `"pong"`; `/health` says more."""
        return "pong"


def _read(body: bytes, settings: Settings) -> tuple[RunCodeIn, Execution]:
    asked = read_body(RunCodeIn, body)
    check_language(asked.language, ("body", "language"))
    size = len(asked.code.encode())
    if size > settings.max_source_bytes:
        raise wrong_field(("body", "code"), f"It takes {size} bytes; at most {settings.max_source_bytes} may be.")
    files = tuple((name, text) for name, text in asked.files.items() if text is not None and IGNORED_NAME not in name)
    try:
        check_number(len(files))
        check_texts(files)
        check_files(files)
    except BadFiles as error:
        raise wrong_field(("body", "files"), str(error)) from None
    try:
        check_names(asked.fetch_files)
        check_number(len(asked.fetch_files))
    except BadFiles as error:
        raise wrong_field(("body", "fetch_files"), str(error)) from None
    return asked, Execution(asked.stdin or "", files=files, fetch=tuple(dict.fromkeys(asked.fetch_files)))


def read_body(model: type[M], body: bytes) -> M:
    """The body as a model.

    Raises:
        Refusal: 422, as FastAPI says it.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        listed: list[Document] = [
            {"type": item["type"], "loc": ["body", *item["loc"]], "msg": item["msg"]}
            for item in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise Refusal(422, listed) from None


def wrong_field(place: tuple[str, ...], sentence: str) -> Refusal:
    """422 about one field."""
    return Refusal(422, [{"type": "value_error", "loc": list(place), "msg": sentence}])


def check_language(language: str, place: tuple[str, ...]) -> None:
    """Refuse what can't be run here.

    Raises:
        Refusal: 422.
    """
    if language == OURS:
        return
    known = "a language of SandboxFusion that this service doesn't run" if language in LANGUAGES else "no language"
    raise wrong_field(place, f"{language[:40]!r} is {known}: this service runs {OURS!r} only.")
