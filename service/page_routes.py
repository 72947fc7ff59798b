"""The page at `/`: its files, which need no key, and what they ask for, which does. Not part of `/v1`; it may change.

The page is plain HTML, CSS and JavaScript beside this module, in `page/`. It loads nothing from elsewhere, and its
policy forbids it to.
"""

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

import evaluator
from service.api import SMALL_BODY, Id, accept, parse, read_json, unknown_evaluation
from service.evaluations import Evaluations, beside
from service.intake import Intake
from service.records import PACE_SECONDS
from service.settings import Settings
from service.statistics import labelled

FOLDER = Path(__file__).parent / "page"
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FILES = {f"/page/{path.name}": path for path in sorted(FOLDER.iterdir()) if path.suffix in KINDS}
OPEN_PATHS = frozenset({"/", *FILES})
"""What comes without a key: nothing in it is of this service's programs."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
First = Annotated[int, Query(ge=0)]


def make_page_router(settings: Settings, evaluations: Evaluations) -> APIRouter:
    """The page, bound to one service."""
    router = APIRouter(include_in_schema=False)
    _add_files(router, settings)
    _add_views(router, settings, evaluations)
    return router


def _add_files(router: APIRouter, settings: Settings) -> None:
    needed = "yes" if settings.api_keys else "no"
    text = (FOLDER / "index.html").read_text("utf-8").replace("{{key}}", needed)
    contents = {name: (path.read_bytes(), KINDS[path.suffix]) for name, path in FILES.items()}

    @router.get("/")
    async def get_page() -> Response:
        return Response(text, 200, HEADERS, "text/html")

    for name, (data, kind) in contents.items():
        router.add_api_route(name, _giver(data, kind), methods=["GET"])


def _giver(data: bytes, kind: str) -> Any:
    async def give() -> Response:
        return Response(data, 200, HEADERS, kind)

    return give


def _add_views(router: APIRouter, settings: Settings, evaluations: Evaluations) -> None:
    @router.get("/page/overview")
    async def get_overview() -> Response:
        statistics = evaluations.statistics
        depth, workers, counted, pace, latest = await asyncio.gather(
            evaluations.depth(),
            evaluations.workers(),
            statistics.read(),
            statistics.pace(),
            evaluations.exhibits.latest(),
        )
        return JSONResponse(
            {
                "version": evaluator.__version__,
                "waiting": depth.submissions,
                "in_hand": counted["claims"],
                "evaluations": depth.evaluations,
                "workers": workers,
                "cache": {"results": depth.cached_results, "hits": depth.hits, "misses": depth.misses},
                "verdicts": labelled(counted, "judgements"),
                "pace": {"seconds": PACE_SECONDS, "judged": pace},
                "latest": latest,
            }
        )

    @router.get("/page/evaluations/{id}")
    async def get_shown(id: Id, first: First = 0) -> Response:
        found = await evaluations.exhibits.evaluation(id, first)
        if found is None:
            raise unknown_evaluation(settings)
        return JSONResponse(found)

    @router.get("/page/evaluations/{id}/{index}")
    async def get_submission(id: Id, index: int, first: Annotated[int | None, Query(ge=0)] = None) -> Response:
        found = await evaluations.exhibits.submission(id, index, first) if index >= 0 else None
        if found is None:
            raise unknown_evaluation(settings)
        return JSONResponse(found)

    @router.post("/page/evaluations")
    async def try_program(request: Request) -> Response:
        """As `POST /v1/evaluations`, but whole outputs are kept, to be looked at. Answers at once, with the id."""
        body = await read_json(request)
        asked, intake = await beside(len(body) > SMALL_BODY, parse, body, settings)
        id = asked.id or uuid.uuid4().hex
        kept = [replace(submission, keep_outputs=True) for submission in intake.submissions.values()]
        await accept(evaluations, settings, id, Intake.of(kept, intake.suites))
        return JSONResponse({"id": id}, 202)
