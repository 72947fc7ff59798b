"""What stands before all else: each request is timed, counted and written into the access log. Plain ASGI.

A line: `event=request method=POST route=/v1/evaluations path=/v1/evaluations status=200 ms=12.3 bytes=612`. Neither
query, headers, bodies nor keys are in one.
"""

import logging
import time
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.metrics import ELSEWHERE, RequestMetrics

QUIET = frozenset({"/health", "/metrics", "/v1/ping", "/page/overview"})
"""Routes that machines ask every few seconds: on the level DEBUG."""
PATH_SHOWN = 200

logger = logging.getLogger("service.access")


class Observe:
    """Times and counts."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        """Count in `metrics`."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and look at the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, size = time.monotonic(), 500, 0

        async def looking(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, looking)
        finally:
            self._note(scope, status, size, time.monotonic() - began)

    def _note(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None)
        self._metrics.add(scope["method"], route, status, seconds)
        level = logging.DEBUG if route in QUIET and status < 400 else logging.INFO
        if logger.isEnabledFor(level):
            path = quote(scope["path"][:PATH_SHOWN], safe="/:@{}")  # a line break or a space in it would forge a line
            logger.log(
                level,
                "event=request method=%s route=%s path=%s status=%d ms=%.1f bytes=%d",
                quote(scope["method"]),
                route or ELSEWHERE,
                path,
                status,
                seconds * 1000,
                size,
            )
