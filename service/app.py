"""Assembly: settings in, an ASGI application out. There is no global application.

`uvicorn service.app:create_app --factory` reads the environment; everything else calls `create_app(settings)`. The
application starts without Redis and finds it when it comes; until then it answers 503.
"""

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, Literal

import redis
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

import evaluator
from service.api import make_router
from service.compat.routes import BODIES, make_compat_router
from service.evaluations import Evaluations
from service.gate import OPEN, LimitBody, RequireKey
from service.metrics import RequestMetrics
from service.metrics_route import make_metrics_router
from service.observing import Observe
from service.outages import passes, remedy
from service.page_routes import OPEN_PATHS, make_page_router
from service.problems import Problem, invalid, plain, sentence, unavailable
from service.schemas import EvaluationIn, ProblemOut, field_name
from service.settings import Settings, load_settings

logger = logging.getLogger(__name__)

KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "basic": {"type": "http", "scheme": "basic", "description": "The key as password, for clients that know a URL."},
}
"""How a client may present its key, in the words of OpenAPI."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service's API.

    Raises:
        InvalidSettings: no settings were given, and the environment's can't be used.
    """
    settings = settings or load_settings()
    evaluations = Evaluations(settings)
    requests = RequestMetrics()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with evaluations.opened():
            yield

    app = FastAPI(
        title="MicroCoder",
        summary="Judges programs that language models wrote.",
        version=evaluator.__version__,
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
    )
    app.state.routers = [
        make_router(settings, evaluations),
        make_compat_router(settings, evaluations),
        make_page_router(settings, evaluations),
        make_metrics_router(evaluations, requests),
    ]
    for router in app.state.routers:
        app.include_router(router)
    app.add_middleware(LimitBody, settings=settings)
    app.add_middleware(RequireKey, keys=settings.api_keys, also_open=OPEN_PATHS)
    app.add_middleware(Observe, metrics=requests)
    app.add_exception_handler(Problem, _say_problem)
    app.add_exception_handler(HTTPException, _say_refusal)
    app.add_exception_handler(RequestValidationError, _say_invalid)
    app.add_exception_handler(redis.RedisError, _say_away)
    app.add_exception_handler(ClientDisconnect, _say_nothing)
    app.add_exception_handler(Exception, _say_failure)
    _document(app, settings)
    return app


async def _say_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _say_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = {"Allow": _methods(request)} if error.status_code == 405 else error.headers
    return plain(error.status_code, request, headers).response()


def _methods(request: Request) -> str:
    """Every method of a path: the framework tells those of one route."""
    found: set[str] = set()
    for router in request.app.state.routers:
        for route in router.routes:
            if route.matches(request.scope)[0] is not Match.NONE:
                found |= route.methods
    return ", ".join(sorted(found))


async def _say_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return invalid((field_name(tuple(item["loc"][1:])), sentence(item["msg"])) for item in error.errors()).response()


async def _say_away(request: Request, error: Exception) -> Response:
    assert isinstance(error, redis.RedisError)
    logger.error("event=redis_failed method=%s path=%s error=%s", request.method, request.url.path, error)
    if not passes(error):
        return await _say_failure(request, error)
    return unavailable(*remedy(error)).response()


async def _say_nothing(request: Request, error: Exception) -> Response:
    """The client has gone: nobody hears this."""
    return Response(status_code=400)


async def _say_failure(request: Request, error: Exception) -> Response:
    """The server logs the trace; the client hears that it isn't to blame."""
    logger.error("event=failed method=%s path=%s error=%s", request.method, request.url.path, type(error).__name__)
    return Problem(500, "failed", "The service failed; its log says why. Try again, and report it.").response()


def _document(app: FastAPI, settings: Settings) -> None:
    """Add to the OpenAPI document the schemas that routes name by hand, and the key, where one is asked for."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            models: list[tuple[type[BaseModel], Literal["validation", "serialization"]]]
            models = [(ProblemOut, "serialization"), *((model, "validation") for model in (EvaluationIn, *BODIES))]
            _, found = models_json_schema(models, ref_template="#/components/schemas/{model}")
            components = document.setdefault("components", {})
            for name, schema in found["$defs"].items():
                components.setdefault("schemas", {}).setdefault(name, schema)
            if settings.api_keys:
                components["securitySchemes"] = KEYS
                document["security"] = [{name: []} for name in KEYS]
                for path in OPEN.intersection(document["paths"]):
                    for operation in document["paths"][path].values():
                        operation["security"] = []
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
