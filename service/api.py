"""The routes of `/v1`: bind, convert, call, convert. What they promise is in `schemas.py`, errors in `problems.py`."""

import asyncio
import contextlib
import hashlib
import json
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any

import redis
from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import ValidationError

from evaluator.errors import InvalidSuite
from evaluator.suites import read_suite
from service.evaluations import Conflict, End, Evaluations, Event, QueueFull, UnknownSuites, beside
from service.intake import Intake, Refused, prepare
from service.problems import Problem, from_validation, invalid, unavailable
from service.schemas import (
    EVALUATION_ID,
    SHA256,
    Detail,
    EvaluationIn,
    EvaluationOut,
    HealthOut,
    RuntimesOut,
    SuiteOut,
)
from service.settings import Settings
from service.suite_store import SuiteStoreFull, pack

UPLOADS_AT_ONCE = 2
"""Suites that one process reads at a time: each is held in memory whole."""
RETRY_AFTER = 5
SMALL_BODY = 32 << 10
"""Bytes of a request that is read at once."""
LARGE_BODY, LARGE_AT_ONCE = 1 << 20, 2
"""Bytes from which a request may take thirty times its size to read, and how many such are read at a time."""

Wait = Annotated[
    float,
    Query(
        ge=0,
        allow_inf_nan=False,
        description="Seconds to wait for the end. Cut to what the service allows (60 by default); ask again then.",
    ),
]
Listed = Annotated[Detail, Query(description="Tests that are listed: none, those that failed (at most 20), or all.")]
Id = Annotated[str, Path(pattern=EVALUATION_ID, description="As the client chose it, or as the answer said it.")]
SuiteId = Annotated[str, Path(pattern=SHA256, description="SHA-256 of the suite's bytes, in lower-case hexadecimals.")]


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route's documentation says of these statuses: problem details."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
    words = {
        400: "The body isn't JSON.",
        401: "No key, or a wrong one.",
        404: "Unknown: the detail says what to do.",
        408: "The body came too slowly.",
        409: "The id belongs to an evaluation with another body.",
        413: "Too large.",
        415: "Not JSON.",
        422: "Fields that can't be used; `errors` names each.",
        429: "Too much waits already: come back after `Retry-After` seconds.",
        503: "Redis is away or full: come back after `Retry-After` seconds.",
    }
    return {status: {"description": words[status], "content": content} for status in statuses}


def make_router(settings: Settings, evaluations: Evaluations) -> APIRouter:
    """The routes, bound to one service."""
    router = APIRouter()
    _add_evaluations(router, settings, evaluations)
    _add_events(router, settings, evaluations)
    _add_suites(router, settings, evaluations)
    _add_state(router, evaluations)
    return router


def _add_evaluations(router: APIRouter, settings: Settings, evaluations: Evaluations) -> None:
    large = asyncio.Semaphore(LARGE_AT_ONCE)

    @router.post(
        "/v1/evaluations",
        summary="Evaluate one or many submissions",
        response_model=EvaluationOut,
        responses=refusals(400, 401, 404, 408, 409, 413, 415, 422, 429, 503)
        | {202: {"model": EvaluationOut, "description": "Accepted, not done yet: fetch `Location`."}},
        openapi_extra={"requestBody": json_body("EvaluationIn")},
    )
    async def post_evaluation(request: Request, wait: Wait = 0.0, detail: Listed = "failures") -> Response:
        """Accept an evaluation, whole or not at all. With `wait`, answer when it is done, if it is by then.

        The same `id` with the same body is the same evaluation, however often it is posted.
        """
        body = await read_json(request)
        async with large if len(body) > LARGE_BODY else contextlib.nullcontext():
            asked, intake = await beside(len(body) > SMALL_BODY, parse, body, settings)
        id = asked.id or uuid.uuid4().hex
        await accept(evaluations, settings, id, intake)
        return await _answer(evaluations, settings, id, wait, detail, 202)

    @router.get(
        "/v1/evaluations/{id}",
        summary="Fetch an evaluation",
        response_model=EvaluationOut,
        responses=refusals(401, 404, 422, 503),
    )
    async def get_evaluation(id: Id, wait: Wait = 0.0, detail: Listed = "failures") -> Response:
        """The evaluation as it stands, or as it stands after at most `wait` seconds."""
        return await _answer(evaluations, settings, id, wait, detail, 200)

    @router.delete(
        "/v1/evaluations/{id}",
        summary="Cancel an evaluation",
        response_model=EvaluationOut,
        responses=refusals(401, 404, 422, 503),
    )
    async def delete_evaluation(id: Id, detail: Listed = "failures") -> Response:
        """Drop what waits (its verdict is `cancelled`, its reward null) and stop what runs. What is judged stays."""
        if not await evaluations.cancel(id):
            raise unknown_evaluation(settings)
        return await _answer(evaluations, settings, id, 0, detail, 200)


def _add_events(router: APIRouter, settings: Settings, evaluations: Evaluations) -> None:
    @router.get(
        "/v1/evaluations/{id}/events",
        summary="Hear of each judgement as it is made",
        response_class=Response,
        responses=refusals(401, 404, 422, 503)
        | {200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": _EVENTS}}}},
    )
    async def get_events(
        id: Id, detail: Listed = "failures", last: Annotated[int, Header(alias="Last-Event-ID", ge=0)] = 0
    ) -> Response:
        """An event `judgement` for each submission in the order of their ends, then one `done`.

        Those already made come first. Who was cut off sends the last id it has seen as `Last-Event-ID` and goes on
        there, at any process of the service. While nothing happens, a comment comes every ten seconds.
        """
        if not await evaluations.watch(id):
            raise unknown_evaluation(settings)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_tell(evaluations, id, last, detail), 200, headers, "text/event-stream")


async def _tell(evaluations: Evaluations, id: str, after: int, detail: Detail) -> AsyncIterator[str]:
    """The events as text. When Redis goes away the stream ends before its time, and the client comes back."""
    with contextlib.suppress(redis.RedisError):
        async for event in evaluations.follow(id, after, detail):
            match event:
                case Event(number, index, judgement):
                    data = f'{{"index": {index}, "judgement": {judgement}}}'
                    yield f"id: {number}\nevent: judgement\ndata: {data}\n\n"
                case End(state, total):
                    data = json.dumps({"id": id, "state": state, "total": total})
                    yield f"event: done\ndata: {data}\n\n"
                case None:
                    yield ": nothing new\n\n"


def _add_suites(router: APIRouter, settings: Settings, evaluations: Evaluations) -> None:
    uploads = asyncio.Semaphore(UPLOADS_AT_ONCE)

    @router.put(
        "/v1/suites/{id}",
        summary="Upload a suite",
        response_model=SuiteOut,
        responses=refusals(401, 408, 413, 415, 422, 503) | {201: {"model": SuiteOut, "description": "Stored."}},
        openapi_extra={"requestBody": {"required": True, "content": {"application/jsonl": {"schema": _SUITE_BYTES}}}},
    )
    async def put_suite(request: Request, id: SuiteId) -> Response:
        """Store a suite: JSON Lines, a test a line, `{"kind", "input", "expected"?, "name"?}`."""
        async with uploads:
            data = await _receive(request, id)
            stored = await evaluations.suites.describe(id)
            if stored is not None:
                return _suite(id, stored.tests, stored.size, 200)
            tests, chunks = await asyncio.to_thread(_read_upload, data, settings)
            try:
                await evaluations.suites.put(id, len(data), tests, chunks)
            except SuiteStoreFull:
                raise _suites_full() from None
            return _suite(id, tests, len(data), 201)

    @router.get(
        "/v1/suites/{id}",
        summary="Fetch a suite",
        response_class=Response,
        responses=refusals(401, 404, 422, 503)
        | {200: {"description": "Its bytes.", "content": {"application/jsonl": {"schema": _SUITE_BYTES}}}},
    )
    async def get_suite(id: SuiteId) -> Response:
        """The suite's bytes as they were uploaded."""
        stored = await evaluations.suites.describe(id)
        if stored is None:
            raise _unknown_suites([id])
        headers = {"Content-Length": str(stored.size), "ETag": f'"{id}"'}
        return StreamingResponse(evaluations.suites.chunks(id), 200, headers, "application/jsonl")

    @router.head(
        "/v1/suites/{id}",
        summary="Ask whether a suite is stored",
        response_class=Response,
        responses=refusals(401, 404, 422, 503) | {200: {"description": "It is stored."}},
    )
    async def head_suite(id: SuiteId) -> Response:
        """200 where it is stored, 404 where it is to be uploaded."""
        if await evaluations.suites.describe(id) is None:
            raise _unknown_suites([id])
        return Response()


def _add_state(router: APIRouter, evaluations: Evaluations) -> None:
    @router.get(
        "/v1/runtimes",
        summary="What programs run in",
        response_model=RuntimesOut,
        responses=refusals(401, 503),
    )
    async def get_runtimes() -> Response:
        """Python, numpy, image and kind of box, as the living workers tell it."""
        workers = await evaluations.workers()
        runtimes: list[dict[str, Any]] = []
        for worker in workers:
            if worker["runtime"] not in runtimes:
                runtimes.append(worker["runtime"])
        return JSONResponse({"runtimes": runtimes, "workers": workers})

    @router.get("/health", summary="How the service is", response_model=HealthOut, responses=_HEALTH_DOWN)
    async def get_health() -> Response:
        """Needs no key. 503 when Redis is away; `degraded` when no worker is alive."""
        try:
            async with asyncio.timeout(2):
                depth = await evaluations.depth()
        except (redis.RedisError, TimeoutError):
            down = {"status": "down", "detail": "Redis doesn't answer: start it, or mend REDIS_URL.", "redis": "down"}
            nothing = {"workers": 0, "queue": None, "cache": None}
            return JSONResponse(down | nothing, 503, {"Retry-After": str(RETRY_AFTER)})
        detail = "All is well." if depth.workers else "No worker is alive: start one with `microcoder worker`."
        looked_up = depth.hits + depth.misses
        return JSONResponse(
            {
                "status": "ok" if depth.workers else "degraded",
                "detail": detail,
                "redis": "up",
                "workers": depth.workers,
                "queue": {
                    "evaluations": depth.evaluations,
                    "submissions": depth.submissions,
                    "turns": depth.turns,
                },
                "cache": {
                    "results": depth.cached_results,
                    "bytes": depth.cached_bytes,
                    "hits": depth.hits,
                    "misses": depth.misses,
                    "hit_rate": depth.hits / looked_up if looked_up else None,
                },
            }
        )


_HEALTH_DOWN: dict[int | str, dict[str, Any]] = {503: {"model": HealthOut, "description": "Redis is away."}}
_EVENTS = {
    "type": "object",
    "description": "Each event. `data` is JSON: of a judgement `{index, judgement}`, of the end `{id, state, total}`.",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "event": {"enum": ["judgement", "done"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
    "example": {"id": "1", "event": "judgement", "data": '{"index": 0, "judgement": {"verdict": "accepted"}}'},
}
_SUITE_BYTES = {"type": "string", "example": '{"kind": "stdin", "input": "2 3\\n", "expected": "5\\n"}\n'}


def json_body(name: str) -> dict[str, Any]:
    """A request body of this schema, for a route that reads its body itself."""
    schema = {"$ref": f"#/components/schemas/{name}"}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


async def read_json(request: Request) -> bytes:
    """The body of a request that says it is JSON, or says nothing. A page of another origin can't send one unasked.

    Raises:
        Problem: 415.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "not-json", f"The body is said to be {kind}: send Content-Type: application/json.")
    _refuse_encoding(request)
    return await request.body()


def _refuse_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise Problem(415, "encoded", f"The body is encoded ({encoding}): send it as it is.")


async def accept(evaluations: Evaluations, settings: Settings, id: str, intake: Intake) -> None:
    """Take an evaluation, or refuse it with a `Problem`."""
    try:
        await evaluations.accept(id, intake)
    except Conflict:
        detail = f"The id {id} belongs to an evaluation with another body: choose another id."
        raise Problem(409, "id-taken", detail) from None
    except UnknownSuites as error:
        raise _unknown_suites(error.ids) from None
    except QueueFull as error:
        raise _queue_full(error.unfinished, settings) from None
    except SuiteStoreFull:
        raise _suites_full() from None


async def _answer(
    evaluations: Evaluations, settings: Settings, id: str, wait: float, detail: Detail, pending_status: int
) -> Response:
    if wait > 0:
        await evaluations.wait(id, min(wait, settings.wait_maximum))
    found = await evaluations.fetch(id, detail)
    if found is None:
        raise unknown_evaluation(settings)
    text, final = found
    headers = {"Location": f"/v1/evaluations/{id}"}
    return Response(text, 200 if final else pending_status, headers, "application/json")


def parse(body: bytes, settings: Settings) -> tuple[EvaluationIn, Intake]:
    """What a body asks for, or a `Problem`."""
    try:
        asked = EvaluationIn.model_validate_json(body)
        return asked, prepare(asked, settings)
    except ValidationError as error:
        raise from_validation(error, body) from None
    except Refused as error:
        raise invalid(error.errors) from None


async def _receive(request: Request, id: str) -> bytes:
    _refuse_encoding(request)
    data, digest = bytearray(), hashlib.sha256()
    async for chunk in request.stream():
        data += chunk
        digest.update(chunk)
    if digest.hexdigest() != id:
        raise invalid([("id", f"The body's SHA-256 is {digest.hexdigest()}: name it so, or send the right bytes.")])
    return bytes(data)


def _read_upload(data: bytes, settings: Settings) -> tuple[int, list[bytes]]:
    try:
        tests = len(read_suite(data).tests)
    except InvalidSuite as error:
        raise invalid([("", str(error))]) from None
    if tests > settings.max_tests:
        raise invalid([("", f"There are {tests} tests; at most {settings.max_tests} may be.")])
    return tests, pack(data)


def _suite(id: str, tests: int, size: int, status: int) -> Response:
    return JSONResponse({"id": id, "tests": tests, "bytes": size}, status)


def unknown_evaluation(settings: Settings) -> Problem:
    """404."""
    kept = f"finished ones are kept for {settings.result_ttl_seconds} seconds"
    return Problem(404, "unknown-evaluation", f"There is no such evaluation ({kept}): post it again.")


def _unknown_suites(ids: list[str]) -> Problem:
    detail = f"{len(ids)} of the suites aren't stored: upload each with PUT /v1/suites/{{id}} and post this again."
    return Problem(404, "unknown-suite", detail, suites=ids)


def _queue_full(unfinished: int, settings: Settings) -> Problem:
    detail = (
        f"{unfinished} submissions wait, and the bound is {settings.queue_bound}: send this again after "
        f"{RETRY_AFTER} seconds, or start more workers."
    )
    return Problem(429, "queue-full", detail, headers={"Retry-After": str(RETRY_AFTER)})


def _suites_full() -> Problem:
    return unavailable("The store of suites is full of suites in use: send this again later.", 10)
