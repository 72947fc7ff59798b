"""What stands before the routes, and before any parsing: who may come in, and how much they may bring. Plain ASGI."""

import asyncio
import base64
import hmac
import time
from collections.abc import Collection, Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.problems import Problem
from service.settings import Settings

OPEN = frozenset({"/health", "/openapi.json", "/docs", "/v1/ping"})
"""Paths that need no key: how the service is, and how to speak to it."""
LENGTH_DIGITS = 20
"""Of a body's length. A longer number isn't even read, which takes its time, or fails."""


class RequireKey:
    """Asks for an API key, where there are any, as `Authorization: Bearer KEY` or `X-API-Key: KEY`.

    Clients that know nothing but a URL say `http://:KEY@host/…`, which they send as `Basic`; Piston's send the bare
    key.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[str], also_open: Collection[str] = ()) -> None:
        """Let those in who have one of `keys`, or ask for one of the paths `OPEN` and `also_open`."""
        self._open = OPEN.union(also_open)
        self._app = app
        self._keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http" and self._keys and scope["path"] not in self._open:
            headers = Headers(scope=scope)
            given = _read_key(headers)
            if not self._is_known(given.encode()):
                problem = Problem(
                    401,
                    "bad-key",
                    "This service asks for an API key: send it as `Authorization: Bearer KEY`.",
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await problem.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_known(self, given: bytes) -> bool:
        """Takes as long for a nearly right key as for a wrong one."""
        known = False
        for key in self._keys:
            known |= hmac.compare_digest(key, given)
        return known


def _read_key(headers: Headers) -> str:
    """The key, however it is given; empty where none is."""
    said = headers.get("authorization", "")
    scheme, _, token = said.partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(token, validate=True).decode().partition(":")
        except ValueError:
            return ""
        return password or user
    return headers.get("x-api-key", "" if token else said)


BODY_SECONDS, BODY_RATE = 30.0, 16 << 10
"""What a body may keep us waiting, and what more for its size: one second for so many bytes."""


class LimitBody:
    """Refuses a body that is too large: by what it says of its length, and else as soon as it has sent too much.

    And one that comes too slowly: a client that sends a byte a second would keep its place for ever.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        """Use the bounds of `settings`."""
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_suite = scope["path"].startswith("/v1/suites/")
        bound = self._settings.max_suite_bytes if is_suite else self._settings.max_body_bytes
        told = Headers(scope=scope).get("content-length", "")
        if told.isdecimal() and (len(told) > LENGTH_DIGITS or int(told) > bound):
            await too_large(bound).response()(scope, receive, send)
            return
        seen, waited, is_whole = 0, 0.0, False

        async def counting() -> Message:
            nonlocal seen, waited, is_whole
            if is_whole:  # what is awaited now is the client's going away
                return await receive()
            began = time.monotonic()
            try:
                async with asyncio.timeout(BODY_SECONDS + seen / BODY_RATE - waited):
                    message = await receive()
            except TimeoutError:
                raise too_slow(seen) from None
            waited += time.monotonic() - began
            seen += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if seen > bound:
                raise too_large(bound)
            return message

        await self._app(scope, counting, send)


def too_slow(seen: int) -> Problem:
    """408."""
    return Problem(
        408,
        "too-slow",
        f"After {BODY_SECONDS:g} seconds and more, {seen} bytes of the body have come: send it faster, or in parts.",
        headers={"Connection": "close"},
    )


def too_large(bound: int) -> Problem:
    """413."""
    return Problem(
        413,
        "too-large",
        f"The body may have {bound} bytes: send fewer submissions at a time, or upload the suite first "
        "(PUT /v1/suites/{sha256}) and name it by its id.",
        headers={"Connection": "close"},
    )
