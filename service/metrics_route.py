"""The address that Prometheus scrapes. It needs the key, as all that tells of programs does."""

import asyncio

from fastapi import APIRouter
from fastapi.responses import Response

from service.evaluations import Evaluations
from service.metrics import CONTENT_TYPE, RequestMetrics, expose


def make_metrics_router(evaluations: Evaluations, requests: RequestMetrics) -> APIRouter:
    """`GET /metrics`, bound to one service."""
    router = APIRouter(include_in_schema=False)

    @router.get("/metrics")
    async def get_metrics() -> Response:
        counted, depth = await asyncio.gather(evaluations.statistics.read(), evaluations.depth())
        return Response(expose(counted, depth, requests), 200, media_type=CONTENT_TYPE)

    return router
