"""The conversation with the service, without any I/O: `BaseClient` builds requests, reads answers, decides on retries.

A conversation is a generator. It yields what it wants done, an `httpx.Request` to send or a `Pause` to sleep, and is
given back the response, or the `httpx.TransportError` that came instead. `Client` drives one with blocking calls,
`AsyncClient` drives the same with `await`, and neither adds anything else. A conversation that listens to events also
yields `Listen` and `Hear`, and `Heard` for each judgement that it passes on.

Every request may be repeated: the client chooses the evaluation's id, and a suite is named by its content.
"""

import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import httpx

from .cases import Submission, Suite, SuiteLike, given, suite_of
from .exceptions import (
    AnswerNotUnderstood,
    ConnectionFailed,
    DeadlineExceeded,
    EvaluationUnknown,
    KeyRefused,
    RequestRefused,
    ServiceOverloaded,
)
from .judgements import Evaluation, Judgement, Problem, read_evaluation, read_judgement
from .retries import RETRIED_STATUSES, Backoff, read_retry_after
from .server_events import EventReader
from .steps import Flow, Hear, Heard, Listen, Pause, Posting, Progress, Stream

LONGEST_WAIT = 30.0
"""Seconds that one request asks the service to hold it: below what proxies bear."""

LONGEST_SILENCE = 45.0
"""Seconds without a word after which a stream of events is taken for broken; the service says something every 10."""

UNKNOWN_EVALUATION = ":unknown-evaluation"
"""How the `type` ends when the service knows no such evaluation, or has lost it while a request waited for it."""
UNKNOWN_SUITE = ":unknown-suite"
"""How the `type` of the problem ends when a suite is to be uploaded."""

CANCELLED = Judgement("cancelled", None, detail="The evaluation was cancelled before this submission was judged.")

_logger = logging.getLogger("microcoder_client")


class BaseClient:
    """Everything but the sending. Not to be used by itself."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        deadline: float = 3600.0,
        patience: float = 120.0,
        timeout: float = 30.0,
        backoff: Backoff | None = None,
    ) -> None:
        """Speak to the service at `url`.

        Args:
            url: where the service listens, such as `http://127.0.0.1:8000`.
            api_key: sent as a bearer token.
            deadline: seconds that one `evaluate` may take in all, retries included. Longer than the service's own.
            patience: seconds without any answer at all after which `ConnectionFailed` is raised.
            timeout: seconds for one request to connect and be answered; what it asks the service to wait comes on top.
            backoff: pauses between retries.
        """
        try:
            self._url = httpx.URL(url.rstrip("/") + "/")
        except httpx.InvalidURL as error:
            raise ValueError(f"{url!r} is no URL ({error}): write it like http://127.0.0.1:8000.") from None
        if self._url.scheme not in {"http", "https"} or not self._url.host:
            raise ValueError(f"{url!r} is no URL of a service: write it like http://127.0.0.1:8000.")
        self._address = str(self._url).rstrip("/")
        self._deadline, self._patience, self._timeout = deadline, patience, timeout
        self._backoff = backoff or Backoff()
        self._headers = {"Accept": "application/json", "User-Agent": "microcoder-client"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._stored: set[str] = set()

    def _until(self, deadline: float | None) -> float:
        return time.monotonic() + (self._deadline if deadline is None else deadline)

    # Requests

    def _request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        kind: str = "application/json",
        wait: float = 0.0,
        detail: str | None = None,
        silence: float | None = None,
        extra: Mapping[str, str] = MappingProxyType({}),
    ) -> httpx.Request:
        headers = {**self._headers, **extra}
        if content is not None:
            headers["Content-Type"] = kind
        timeout = httpx.Timeout(silence or self._timeout + wait, connect=min(10.0, self._timeout))
        return httpx.Request(
            method,
            self._url.join(path),
            params=given({"wait": f"{wait:g}" if wait else None, "detail": detail}),
            headers=headers,
            content=content,
            extensions={"timeout": timeout.as_dict()},
        )

    def _posting(
        self,
        submissions: Sequence[Submission | str],
        *,
        suite: SuiteLike | None = None,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        fail_fast: bool | None = None,
        reward: str | None = None,
        test_order: str | None = None,
        id: str | None = None,
    ) -> Posting:
        shared = None if suite is None else suite_of(suite)
        suites = {} if shared is None else {shared.id: shared}
        items = []
        for number, program in enumerate(submissions):
            item = Submission(source=program) if isinstance(program, str) else program
            own = None if item.suite is None else suite_of(item.suite)
            if own is not None:
                suites[own.id] = own
            elif shared is None:
                raise ValueError(f"submissions[{number}] has no suite: give it one, or give `suite` for all of them.")
            items.append(given({**item.wire, "suite": None if own is None else {"id": own.id}}))
        if not items:
            raise ValueError("There is nothing to evaluate: the list of submissions is empty.")
        identity = id or uuid.uuid4().hex
        body = {
            "id": identity,
            "suite": None if shared is None else {"id": shared.id},
            "limits": limits,
            "policy": policy,
            "fail_fast": fail_fast,
            "reward": reward,
            "test_order": test_order,
            "submissions": items,
        }
        return Posting(identity, json.dumps(given(body), allow_nan=False).encode(), suites, len(items))

    # Conversations

    def _exchange(self, request: httpx.Request, until: float, *, listen: bool = False) -> Flow[httpx.Response]:
        """Send until there is an answer that isn't "come back later"; give up at `until` or when patience ends."""
        failures, silent_since = 0, time.monotonic()
        while True:
            answer = yield Listen(request) if listen else request
            failures += 1
            now = time.monotonic()
            retry_after = None
            if isinstance(answer, httpx.Response):
                if answer.status_code not in RETRIED_STATUSES:
                    return answer
                silent_since = now
                retry_after = read_retry_after(answer.headers.get("Retry-After"))
            elif not _is_worth_retrying(answer):
                raise ConnectionFailed(f"Can't send to {self._address}: {answer}. Check the URL.") from answer
            pause = self._backoff.pause(failures, retry_after)
            end = until if isinstance(answer, httpx.Response) else min(until, silent_since + self._patience)
            if now + pause > end:
                raise self._gave_up(answer, retry_after)
            _logger.info("%s %s failed (%s), trying again in %.2f s", request.method, request.url.path, answer, pause)
            yield Pause(pause)

    def _gave_up(self, answer: httpx.Response | httpx.TransportError | None, retry_after: float | None) -> Exception:
        if isinstance(answer, httpx.Response):
            said = _read_problem(answer)
            return ServiceOverloaded(
                f"The service at {self._address} stayed too busy until the deadline ({said.detail or said.title}). "
                "Send less at a time, start more workers, or give a longer deadline.",
                retry_after,
            )
        error = ConnectionFailed(
            f"Nothing answers at {self._address} ({_describe(answer)}). Start the service with `microcoder serve`, or "
            "check the URL."
        )
        error.__cause__ = answer
        return error

    def _stores_suites(self, suites: Mapping[str, Suite], until: float) -> Flow[None]:
        """Upload what this process hasn't uploaded yet and the service doesn't have."""
        for suite in suites.values():
            if suite.id in self._stored:
                continue
            path = f"v1/suites/{suite.id}"
            answer = yield from self._exchange(self._request("HEAD", path), until)
            if answer.status_code == 404:
                upload = self._request("PUT", path, content=suite.data, kind="application/jsonl")
                answer = yield from self._exchange(upload, until)
            self._check(answer)
            self._stored.add(suite.id)

    def _posts(self, posting: Posting, wait: float, detail: str | None, until: float) -> Flow[Evaluation]:
        """Post. A suite that the service has dropped since is uploaded again, twice at most."""
        request = self._request("POST", "v1/evaluations", content=posting.body, wait=wait, detail=detail)
        for attempt in range(3):
            yield from self._stores_suites(posting.suites, until)
            answer = yield from self._exchange(request, until)
            if attempt == 2 or answer.status_code != 404 or not _read_problem(answer).type.endswith(UNKNOWN_SUITE):
                break
            self._stored.difference_update(posting.suites)
        return self._read_evaluation(answer)

    def _fetches(self, id: str, wait: float, detail: str | None, until: float) -> Flow[Evaluation]:
        request = self._request("GET", f"v1/evaluations/{id}", wait=wait, detail=detail)
        answer = yield from self._exchange(request, until)
        return self._read_evaluation(answer)

    def _cancels(self, id: str, until: float) -> Flow[None]:
        answer = yield from self._exchange(self._request("DELETE", f"v1/evaluations/{id}"), until)
        self._check(answer)

    def _asks_health(self) -> Flow[dict[str, Any]]:
        """Once: a service that is down says so with a 503 that is an answer, not a reason to come back later."""
        answer = yield self._request("GET", "health")
        if not isinstance(answer, httpx.Response):
            raise self._gave_up(answer, None)
        body = self._json(answer)
        if answer.status_code not in {200, 503} or not isinstance(body, dict) or "status" not in body:
            raise self._not_understood(answer)
        return body

    def _asks(self, path: str, until: float) -> Flow[dict[str, Any]]:
        answer = yield from self._exchange(self._request("GET", path), until)
        self._check(answer)
        body = self._json(answer)
        if not isinstance(body, dict):
            raise self._not_understood(answer)
        return body

    def _evaluates(
        self, posting: Posting, wait: float, detail: str | None, until: float, progress: Progress | None
    ) -> Flow[list[Judgement]]:
        """Post, then ask until all is judged."""

        def patient() -> float:
            return max(0.1, min(wait, until - time.monotonic()))

        evaluation = yield from self._posts(posting, patient(), detail, until)
        while not evaluation.finished:
            if progress is not None:
                progress(evaluation.judged, posting.size)
            self._check_time(posting.id, until)
            evaluation = yield from self._fetches(posting.id, patient(), detail, until)
        if progress is not None:
            progress(evaluation.judged, posting.size)
        return _complete(evaluation, posting.size)

    def _streams(self, posting: Posting, detail: str | None, until: float) -> Stream:
        """Post, then pass on each judgement as it is made."""
        yield from self._posts(posting, 0.0, "summary", until)
        yield from self._listens(posting.id, detail, until)

    def _listens(self, id: str, detail: str | None, until: float) -> Stream:
        """Pass on each judgement. A connection that breaks is opened again, after the last event that was heard."""
        last: str | None = None
        silent_since, failures = time.monotonic(), 0
        while True:
            extra = given({"Accept": "text/event-stream", "Last-Event-ID": last})
            silence = min(LONGEST_SILENCE, max(0.1, until - time.monotonic()))
            path = f"v1/evaluations/{id}/events"
            request = self._request("GET", path, detail=detail, silence=silence, extra=extra)
            answer = yield from self._exchange(request, until, listen=True)
            self._check(answer)
            reader = EventReader()
            while isinstance(data := (yield Hear()), bytes) and data:
                silent_since, failures = time.monotonic(), 0
                for event in reader.feed(data):
                    last = event.id or last
                    if event.name == "done":
                        return
                    yield self._read_event(event.data, answer)
                self._check_time(id, until)
            self._check_time(id, until)
            if time.monotonic() - silent_since > self._patience:
                raise self._gave_up(data if isinstance(data, httpx.TransportError) else None, None)
            failures += 1
            yield Pause(self._backoff.pause(failures))

    def _read_event(self, data: str, answer: httpx.Response) -> Heard:
        try:
            body = json.loads(data)
            return Heard(int(body["index"]), read_judgement(body["judgement"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._not_understood(answer) from error

    def _check_time(self, id: str, until: float) -> None:
        if time.monotonic() >= until:
            raise DeadlineExceeded(
                f"Evaluation {id} wasn't done in time. Give a longer deadline, or start more workers."
            )

    # Answers

    def _check(self, answer: httpx.Response) -> None:
        """Raise what an answer that isn't a success stands for."""
        if answer.is_success:
            return
        if not 400 <= answer.status_code < 500:
            raise self._not_understood(answer)
        problem = _read_problem(answer)
        if problem.status in {401, 403}:
            raise KeyRefused(f"The service refuses the API key: {problem.detail or 'give the right api_key.'}", problem)
        sentence = problem.detail or problem.title or f"status {problem.status}"
        of_evaluation = "/evaluations/" in answer.request.url.path or problem.type.endswith(UNKNOWN_EVALUATION)
        if problem.status == 404 and of_evaluation:
            raise EvaluationUnknown(sentence, problem)
        raise RequestRefused(f"The service refuses the request ({problem.status}): {sentence}", problem)

    def _read_evaluation(self, answer: httpx.Response) -> Evaluation:
        self._check(answer)
        try:
            return read_evaluation(self._json(answer))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._not_understood(answer) from error

    def _json(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError as error:
            raise self._not_understood(answer) from error

    def _not_understood(self, answer: httpx.Response) -> AnswerNotUnderstood:
        return AnswerNotUnderstood(
            f"{answer.request.method} {answer.request.url} gave status {answer.status_code} and a body that isn't the "
            "evaluator's: check the URL and what stands between, and that client and service are of one version."
        )


def _complete(evaluation: Evaluation, size: int) -> list[Judgement]:
    """A judgement for every submission. What somebody cancelled while it was judged has none at the service."""
    if len(evaluation.judgements) == size and (evaluation.judged == size or evaluation.state == "cancelled"):
        return [item or CANCELLED for item in evaluation.judgements]
    raise AnswerNotUnderstood(
        f"Evaluation {evaluation.id} is {evaluation.state} with {evaluation.judged} of {size} judgements: fetch it "
        "again, or report this as a fault of the service."
    )


def _is_worth_retrying(error: httpx.TransportError | None) -> bool:
    return not isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError))


def _describe(error: httpx.TransportError | None) -> str:
    return str(error) or type(error).__name__


def _read_problem(answer: httpx.Response) -> Problem:
    try:
        body = answer.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    return Problem(
        status=answer.status_code,
        title=str(body.get("title", "")),
        detail=str(body.get("detail", "")),
        type=str(body.get("type", "about:blank")),
        body=body,
    )
