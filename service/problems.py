"""Everything that a client is refused with: problem details (RFC 9457), each a sentence that says what to do.

The `type` is a name to program against, the `title` and `detail` are for people. Nothing of ours (traces, paths, the
program's text) is ever in one.
"""

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from service.schemas import field_name

MEDIA_TYPE = "application/problem+json"
ERRORS_LISTED = 20


class Problem(Exception):
    """A refusal on its way to the client."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        errors: Iterable[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        """`kind` is the last word of the `type`; `members` are added to the document."""
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})
        self.document: dict[str, Any] = {
            "type": f"urn:microcoder:problem:{kind}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            **members,
        }
        if listed := [{"field": field, "message": message} for field, message in errors]:
            self.document["errors"] = listed[:ERRORS_LISTED]

    def response(self) -> Response:
        """The answer to send."""
        return JSONResponse(self.document, self.status, self.headers, MEDIA_TYPE)


def invalid(errors: Iterable[tuple[str, str]]) -> Problem:
    """422: fields that can't be used."""
    listed = list(errors)
    field, message = listed[0]
    more = f" ({len(listed) - 1} more)" if len(listed) > 1 else ""
    place = f"{field}: " if field else ""
    return Problem(422, "invalid-request", f"{place}{message}{more} Mend this and send it again.", errors=listed)


def from_validation(error: ValidationError, body: bytes | None = None) -> Problem:
    """400 for what is no JSON, 422 for what is JSON and can't be used."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    if body is not None and found[0]["type"] == "json_invalid":
        return malformed(body, found[0]["msg"])
    return invalid((field_name(item["loc"]), sentence(item["msg"])) for item in found)


def malformed(body: bytes, fallback: str) -> Problem:
    """400, with line and column."""
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
    except UnicodeDecodeError as error:
        where = f"byte {error.start} isn't UTF-8"
    except RecursionError:
        where = "it is nested too deeply"
    except ValueError:
        where = "it holds a number of more digits than can be read"
    else:
        where = fallback.removeprefix("Invalid JSON: ")
        if "surrogate" in where or "hex escape" in where:
            where += ": half a surrogate pair isn't text, replace it"
    return Problem(400, "malformed-json", f"The body isn't JSON: {where}. Mend it and send it again.")


def sentence(message: str) -> str:
    """Pydantic's words as a sentence."""
    text = message.removeprefix("Value error, ").rstrip(".")
    return text[:1].upper() + text[1:] + "."


def unavailable(detail: str, retry_after: int = 5) -> Problem:
    """503: not now."""
    return Problem(503, "unavailable", detail, headers={"Retry-After": str(retry_after)})


def plain(status: int, request: Request, headers: Mapping[str, str] | None = None) -> Problem:
    """What the framework itself refuses: no such route, no such method."""
    path = request.url.path
    if status == 404:
        return Problem(404, "no-such-route", f"There is nothing at {path}: see /openapi.json for what there is.")
    if status == 405:
        allowed = (headers or {}).get("Allow", "another method")
        detail = f"{request.method} isn't possible on {path}: use {allowed}."
        return Problem(405, "method-not-allowed", detail, headers=headers)
    return Problem(status, "refused", f"{HTTPStatus(status).phrase}.", headers=headers)
