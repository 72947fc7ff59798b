"""The thin client: against a scripted transport for what goes wrong, and against the real service for the rest."""

import asyncio
import contextlib
import hashlib
import inspect
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import microcoder_client
import pytest
import redis
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from microcoder_client import (
    AnswerNotUnderstood,
    AsyncClient,
    Backoff,
    Client,
    ConnectionFailed,
    DeadlineExceeded,
    EvaluationUnknown,
    KeyRefused,
    RequestRefused,
    ServiceOverloaded,
    Submission,
    Suite,
    assertion_test,
    functional_test,
    stdin_test,
)
from microcoder_client.judgements import VERDICTS, read_evaluation, read_judgement
from microcoder_client.retries import read_retry_after
from microcoder_client.server_events import EventReader, ServerEvent

from service.app import create_app
from service.redis_server import PrivateRedis
from service.settings import Settings

URL = "http://evaluator.test"
QUICK = Backoff(first=0.001, longest=0.002)
TESTS = [stdin_test("1\n", "2\n")]
SUITE = Suite.of(TESTS)
ACCEPTED = {"verdict": "accepted", "reward": 1.0, "tests": [{"index": 0, "verdict": "accepted"}]}

Answer = httpx.Response | Exception


class Script:
    """Answers each method from its own list, whose last answer repeats. Keeps what it was sent."""

    def __init__(self, **answers: Answer | list[Answer]) -> None:
        self.answers = {name: given if isinstance(given, list) else [given] for name, given in answers.items()}
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if request.method in self.answers:
            answers = self.answers[request.method]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, BaseException):
                raise answer
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        return httpx.Response(204)

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.seen]

    def bodies(self, method: str) -> list[dict]:
        return [json.loads(request.content) for request in self.seen if request.method == method]


def done(*judgements: dict) -> httpx.Response:
    return httpx.Response(200, json={"id": "e1", "state": "done", "judgements": list(judgements) or [ACCEPTED]})


def running(*judgements: dict | None) -> httpx.Response:
    return httpx.Response(202, json={"id": "e1", "state": "running", "judgements": list(judgements) or [None]})


def problem(status: int, detail: str = "Said why.", kind: str = "refused", **headers: str) -> httpx.Response:
    headers = {"content-type": "application/problem+json", **headers}
    document = {"type": f"urn:microcoder:problem:{kind}", "title": "No", "status": status, "detail": detail}
    return httpx.Response(status, headers=headers, content=json.dumps(document).encode())


class Awaited:
    """An `AsyncClient` with an event loop of its own, to be used like a `Client`."""

    def __init__(self, *arguments, **options) -> None:
        self.runner = asyncio.Runner()
        self.client = AsyncClient(*arguments, **options)

    def __getattr__(self, name: str) -> Callable:
        method = getattr(self.client, name)
        if inspect.isasyncgenfunction(method):
            return lambda *arguments, **options: self._iterate(method(*arguments, **options))
        return lambda *arguments, **options: self.runner.run(method(*arguments, **options))

    def _iterate(self, items) -> Iterator:
        async def following():
            return await anext(items)

        try:
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    yield self.runner.run(following())
        finally:
            self.runner.run(items.aclose())

    def __enter__(self) -> "Awaited":
        return self

    def __exit__(self, *exception: object) -> None:
        self.runner.run(self.client.close())
        self.runner.close()


@pytest.fixture(params=[Client, Awaited])
def kind(request) -> type:
    """Both clients, used alike."""
    return request.param


@pytest.fixture
def connect(kind) -> Iterator[Callable]:
    with contextlib.ExitStack() as clients:

        def connect(script: Script, **options):
            options.setdefault("backoff", QUICK)
            return clients.enter_context(kind(URL, transport=httpx.MockTransport(script), **options))

        yield connect


def test_everything_exported_is_listed_and_sorted() -> None:
    exported = {
        name
        for name, value in vars(microcoder_client).items()
        if not name.startswith("_") and not isinstance(value, type(json))
    }

    assert sorted(exported) == microcoder_client.__all__


def test_it_imports_nothing_of_ours_and_only_httpx_beyond_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import httpx; known = set(sys.modules); import microcoder_client\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - known}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'microcoder_client'}))"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"


# Suites and submissions


def test_a_suite_is_named_by_the_hash_of_its_json_lines() -> None:
    suite = Suite.of([stdin_test("1\n", "é"), functional_test([[1, 2], "a"], None), assertion_test("assert f() == 1")])

    lines = [json.loads(line) for line in suite.data.splitlines()]
    assert suite.id == hashlib.sha256(suite.data).hexdigest()
    assert lines == [
        {"kind": "stdin", "input": "1\n", "expected": "é"},
        {"kind": "functional", "input": '[1,2]\n"a"', "expected": "null"},
        {"kind": "assertion", "input": "assert f() == 1"},
    ]


def test_a_test_without_expected_output_has_no_expected_field() -> None:
    assert b"expected" not in Suite.of([stdin_test("1"), functional_test([1])]).data


def test_one_string_in_place_of_a_list_of_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match=r"write \['text'\]"):
        functional_test("abc", 1)


def test_a_submission_has_a_source_or_an_answer_and_not_both() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        Submission()
    with pytest.raises(ValueError, match="exactly one"):
        Submission(source="a", answer="b")


def test_a_submission_without_any_suite_is_refused_before_anything_is_sent(connect) -> None:
    script = Script()

    with pytest.raises(ValueError, match=r"submissions\[1\] has no suite"):
        connect(script).evaluate([Submission(source="a", suite=TESTS), "b"])

    assert script.seen == []


def test_what_isnt_given_isnt_sent(connect) -> None:
    script = Script(POST=done())

    connect(script).evaluate([Submission(answer="```python\n1\n```", limits={"cpu_seconds": 2})], suite=TESTS)

    [body] = script.bodies("POST")
    assert body.pop("id")
    assert body == {
        "suite": {"id": SUITE.id},
        "submissions": [{"answer": "```python\n1\n```", "limits": {"cpu_seconds": 2}}],
    }


def test_the_api_key_travels_as_a_bearer_token(connect) -> None:
    script = Script(GET=httpx.Response(200, json={"status": "ok"}))

    connect(script, api_key="k1").health()

    assert script.seen[0].headers["authorization"] == "Bearer k1"


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:port"])
def test_what_is_no_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ValueError, match=r"http://127\.0\.0\.1:8000"):
        Client(url)


def test_a_path_in_the_url_is_kept(kind) -> None:
    script = Script(GET=httpx.Response(200, json={}))
    with kind(URL + "/judge", transport=httpx.MockTransport(script)) as client:
        client.runtimes()

    assert script.seen[0].url.path == "/judge/v1/runtimes"


# The way of an evaluation


def test_a_suite_is_uploaded_when_the_service_lacks_it_and_then_never_again(connect) -> None:
    script = Script(HEAD=problem(404), PUT=httpx.Response(201), POST=done())
    client = connect(script)

    for _ in range(3):
        client.evaluate(["a"], suite=TESTS)

    assert script.methods == ["HEAD", "PUT", "POST", "POST", "POST"]
    assert script.seen[1].content == SUITE.data


def test_a_suite_that_the_service_has_isnt_uploaded(connect) -> None:
    script = Script(HEAD=httpx.Response(200), POST=done())

    connect(script).evaluate(["a"], suite=TESTS)

    assert script.methods == ["HEAD", "POST"]


def test_a_suite_that_was_evicted_is_uploaded_again(connect) -> None:
    script = Script(
        HEAD=[httpx.Response(200), problem(404)],
        PUT=httpx.Response(201),
        POST=[problem(404, "No such suite.", "unknown-suite"), done()],
    )

    connect(script).evaluate(["a"], suite=TESTS)

    assert script.methods == ["HEAD", "POST", "HEAD", "PUT", "POST"]


def test_a_suite_that_stays_unknown_is_reported_and_not_uploaded_for_ever(connect) -> None:
    script = Script(HEAD=problem(404), PUT=httpx.Response(201), POST=problem(404, "No such suite.", "unknown-suite"))

    with pytest.raises(RequestRefused, match="No such suite"):
        connect(script).evaluate(["a"], suite=TESTS)

    assert script.methods.count("POST") == 3


def test_it_asks_until_all_is_judged_and_tells_of_the_progress(connect) -> None:
    script = Script(POST=running(None, None), GET=[running(ACCEPTED, None), done(ACCEPTED, ACCEPTED)])
    heard: list[tuple[int, int]] = []

    judgements = connect(script).evaluate(["a", "b"], suite=TESTS, progress=lambda *counts: heard.append(counts))

    assert [judgement.verdict for judgement in judgements] == ["accepted", "accepted"]
    assert heard == [(0, 2), (1, 2), (2, 2)]


def test_submit_returns_at_once_and_fetch_shows_what_is_there(connect) -> None:
    script = Script(POST=running(), GET=running(ACCEPTED, None))
    client = connect(script)

    evaluation = client.fetch(client.submit(["a"], suite=TESTS, id="mine"))

    assert script.bodies("POST")[0]["id"] == "mine"
    assert not evaluation.finished
    assert [item and item.verdict for item in evaluation.judgements] == ["accepted", None]


def test_cancel_sends_a_delete(connect) -> None:
    script = Script()

    connect(script).cancel("e1")

    assert [(request.method, request.url.path) for request in script.seen] == [("DELETE", "/v1/evaluations/e1")]


# Events


def sent(*events: tuple[int, int, str] | str) -> httpx.Response:
    """A stream: (number, index, verdict) of a judgement, or raw text."""
    text = ""
    for event in events:
        if isinstance(event, str):
            text += event
        else:
            number, index, verdict = event
            data = json.dumps({"index": index, "judgement": {**ACCEPTED, "verdict": verdict}})
            text += f"id: {number}\nevent: judgement\ndata: {data}\n\n"
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=text.encode())


DONE = 'event: done\ndata: {"id": "e1", "state": "done", "total": 2}\n\n'


def test_judgements_come_as_they_are_made(connect) -> None:
    script = Script(POST=running(), GET=sent((1, 1, "accepted"), ": nothing new\n\n", (2, 0, "wrong_answer"), DONE))

    heard = [(index, item.verdict) for index, item in connect(script).stream(["a", "b"], suite=TESTS)]

    assert heard == [(1, "accepted"), (0, "wrong_answer")]
    assert script.methods == ["HEAD", "POST", "GET"]
    assert script.seen[-1].url.path.endswith(f"{script.bodies('POST')[0]['id']}/events")


def test_a_stream_that_breaks_is_resumed_after_the_last_event(connect) -> None:
    script = Script(
        GET=[
            sent((1, 1, "accepted"), "id: 2\nevent: judg"),
            httpx.ConnectError("no"),
            problem(503),
            sent((2, 0, "accepted"), DONE),
        ]
    )

    heard = [index for index, _ in connect(script).follow("e1", detail="full")]

    assert heard == [1, 0]
    assert [request.headers.get("last-event-id") for request in script.seen] == [None, "1", "1", "1"]
    assert script.seen[-1].url.params["detail"] == "full"


def test_a_stream_that_stays_broken_is_given_up_and_its_evaluation_cancelled(connect) -> None:
    script = Script(POST=running(), GET=httpx.ConnectError("refused"))

    with pytest.raises(ConnectionFailed, match="microcoder serve"):
        list(connect(script, patience=0.05).stream(["a"], suite=TESTS))

    assert script.methods[-1] == "DELETE"


def test_a_stream_that_says_nothing_isnt_opened_for_ever(connect) -> None:
    script = Script(GET=sent())

    with pytest.raises(ConnectionFailed):
        list(connect(script, patience=0.05).follow("e1"))

    assert "DELETE" not in script.methods


def test_whoever_leaves_a_stream_early_cancels_its_evaluation(connect) -> None:
    script = Script(POST=running(), GET=sent((1, 0, "accepted"), (2, 1, "accepted"), DONE))

    stream = connect(script).stream(["a", "b"], suite=TESTS)
    assert next(stream)[0] == 0
    stream.close()

    assert script.methods[-1] == "DELETE"


def test_a_stream_of_an_unknown_evaluation_is_refused(connect) -> None:
    with pytest.raises(EvaluationUnknown, match="No such evaluation"):
        list(connect(Script(GET=problem(404, "No such evaluation."))).follow("e9"))


@pytest.mark.parametrize("text", ["event: judgement\ndata: nonsense\n\n", 'event: judgement\ndata: {"index": 0}\n\n'])
def test_an_event_that_isnt_the_evaluators_is_said_to_be_so(connect, text: str) -> None:
    with pytest.raises(AnswerNotUnderstood):
        list(connect(Script(GET=sent(text))).follow("e1"))


@given(cuts=st.lists(st.integers(0, 60)))
def test_events_may_arrive_in_any_pieces(cuts: list[int]) -> None:
    stream = "id: 1\r\nevent: a\ndata: é\ndata:x\n\n: no\n\ndata: b\n\ncut".encode()
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader = EventReader()

    events = [event for start, end in pairwise(edges) for event in reader.feed(stream[start:end])]

    assert events == [ServerEvent("a", "é\nx", "1"), ServerEvent("message", "b")]


# What goes wrong


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_service_is_asked_again_with_the_same_id_and_body(connect, status: int) -> None:
    script = Script(POST=[problem(status), problem(status), done()])

    connect(script).evaluate(["a"], suite=TESTS)

    bodies = script.bodies("POST")
    assert len(bodies) == 3
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadTimeout, httpx.RemoteProtocolError])
def test_a_broken_connection_is_tried_again_with_the_same_id(connect, error) -> None:
    script = Script(POST=[error("broke"), done()])

    connect(script).evaluate(["a"], suite=TESTS)

    assert len({body["id"] for body in script.bodies("POST")}) == 1


def test_retry_after_is_waited_for(connect) -> None:
    script = Script(POST=[problem(429, **{"Retry-After": "1"}), done()])
    started = time.monotonic()

    connect(script).evaluate(["a"], suite=TESTS)

    assert time.monotonic() - started >= 1.0


def test_a_retry_after_beyond_the_deadline_is_reported_at_once(connect) -> None:
    script = Script(POST=problem(429, "The queue is full.", **{"Retry-After": "60"}))
    started = time.monotonic()

    with pytest.raises(ServiceOverloaded, match="The queue is full") as caught:
        connect(script, deadline=5).evaluate(["a"], suite=TESTS)

    assert caught.value.retry_after == 60
    assert time.monotonic() - started < 3


def test_a_service_that_never_answers_is_given_up_when_patience_ends(connect) -> None:
    script = Script(HEAD=httpx.ConnectError("refused"))

    with pytest.raises(ConnectionFailed, match="microcoder serve"):
        connect(script, patience=0.05).evaluate(["a"], suite=TESTS)

    assert len(script.seen) > 2


def test_patience_starts_anew_with_each_answer(connect) -> None:
    refused = httpx.ConnectError("refused")
    script = Script(POST=[refused, problem(503, **{"Retry-After": "0"}), refused, problem(503), refused, done()])

    connect(script, patience=1).evaluate(["a"], suite=TESTS)

    assert len(script.bodies("POST")) == 6


def test_at_the_deadline_the_evaluation_is_cancelled(connect) -> None:
    script = Script(POST=running(), GET=running())

    with pytest.raises(DeadlineExceeded, match="longer deadline"):
        connect(script).evaluate(["a"], suite=TESTS, deadline=0.2, wait=0.1)

    assert script.methods[-1] == "DELETE"


def test_ctrl_c_cancels_the_evaluation() -> None:
    script = Script(POST=running(), GET=KeyboardInterrupt())

    with Client(URL, transport=httpx.MockTransport(script)) as client, pytest.raises(KeyboardInterrupt):
        client.evaluate(["a"], suite=TESTS)

    assert script.methods[-1] == "DELETE"
    assert script.seen[-1].url.path.endswith(script.bodies("POST")[0]["id"])


async def test_a_task_that_is_cancelled_cancels_its_evaluation() -> None:
    script = Script(POST=running(), GET=running())

    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.001)  # a network takes its time, and lets other tasks go on
        return script(request)

    async with AsyncClient(URL, transport=httpx.MockTransport(answer)) as client:
        task = asyncio.create_task(client.evaluate(["a"], suite=TESTS))
        while "GET" not in script.methods:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert script.methods[-1] == "DELETE"
    assert script.seen[-1].url.path.endswith(script.bodies("POST")[0]["id"])


async def test_one_client_serves_many_tasks_at_once() -> None:
    script = Script(HEAD=httpx.Response(200), POST=done())

    async with AsyncClient(URL, transport=httpx.MockTransport(script)) as client:
        judged = await asyncio.gather(*[client.evaluate(["a"], suite=TESTS) for _ in range(50)])

    assert [judgement.verdict for [judgement] in judged] == ["accepted"] * 50
    assert len({body["id"] for body in script.bodies("POST")}) == 50


def test_an_id_that_is_anothers_isnt_cancelled(connect) -> None:
    script = Script(POST=problem(409, "The id is taken."))

    with pytest.raises(RequestRefused, match="The id is taken"):
        connect(script).evaluate(["a"], suite=TESTS, id="taken")

    assert "DELETE" not in script.methods


def test_a_refusal_isnt_repeated_and_carries_the_problem(connect) -> None:
    script = Script(POST=problem(422, "limits.cpu_seconds must be positive."))

    with pytest.raises(RequestRefused, match=r"limits\.cpu_seconds must be positive") as caught:
        connect(script).evaluate(["a"], suite=TESTS)

    assert caught.value.problem.status == 422
    assert script.methods.count("POST") == 1


def test_a_wrong_key_is_an_error_of_its_own(connect) -> None:
    with pytest.raises(KeyRefused):
        connect(Script(HEAD=problem(401))).evaluate(["a"], suite=TESTS)


def test_an_unknown_evaluation_is_an_error_of_its_own(connect) -> None:
    with pytest.raises(EvaluationUnknown, match="No such evaluation"):
        connect(Script(GET=problem(404, "No such evaluation."))).fetch("e9")


def test_an_evaluation_that_is_lost_while_its_post_waits_is_unknown_too(connect) -> None:
    lost = problem(404, "There is no such evaluation: post it again.", "unknown-evaluation")
    with pytest.raises(EvaluationUnknown, match="post it again"):
        connect(Script(HEAD=httpx.Response(200), POST=lost)).evaluate(["a"], suite=TESTS)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>a proxy's page</html>"),
        httpx.Response(200, json=["a list"]),
        httpx.Response(200, json={"no": "id"}),
        httpx.Response(500, text="boom"),
        httpx.Response(302, headers={"location": "http://elsewhere.test"}),
    ],
)
def test_an_answer_that_isnt_the_evaluators_is_said_to_be_so(connect, answer: httpx.Response) -> None:
    with pytest.raises(AnswerNotUnderstood, match="check the URL"):
        connect(Script(POST=answer)).evaluate(["a"], suite=TESTS)


def test_what_somebody_cancelled_has_the_verdict_cancelled_and_no_reward(connect) -> None:
    script = Script(POST=httpx.Response(200, json={"id": "e1", "state": "cancelled", "judgements": [ACCEPTED, None]}))

    judgements = connect(script).evaluate(["a", "b"], suite=TESTS)

    assert [(judgement.verdict, judgement.reward) for judgement in judgements] == [("accepted", 1), ("cancelled", None)]


def test_an_end_without_all_judgements_isnt_passed_off_as_one(connect) -> None:
    script = Script(POST=httpx.Response(200, json={"id": "e1", "state": "done", "judgements": [ACCEPTED, None]}))

    with pytest.raises(AnswerNotUnderstood, match="1 of 2"):
        connect(script).evaluate(["a", "b"], suite=TESTS)


def test_health_is_asked_once_without_retries(connect) -> None:
    script = Script(GET=httpx.ConnectError("refused"))

    with pytest.raises(ConnectionFailed):
        connect(script).health()

    assert len(script.seen) == 1


def test_a_service_that_is_down_says_so_itself(connect) -> None:
    script = Script(GET=httpx.Response(503, json={"status": "down", "detail": "Redis doesn't answer."}))

    assert connect(script).health()["detail"] == "Redis doesn't answer."


# Reading


def test_an_unknown_verdict_is_an_internal_error_without_reward() -> None:
    judgement = read_judgement({"verdict": "idleness_limit", "reward": 0.0, "tests": [{"verdict": "idleness_limit"}]})

    assert judgement.verdict == "internal_error"
    assert judgement.reward is None
    assert "idleness_limit" in judgement.detail
    assert judgement.tests[0].verdict == "internal_error"


def test_an_internal_error_never_carries_a_reward() -> None:
    assert read_judgement({"verdict": "internal_error", "reward": 0.0}).reward is None


def test_unknown_fields_are_passed_over() -> None:
    body = {"id": "e", "state": "done", "colour": "blue", "judgements": [{**ACCEPTED, "mood": "fine"}]}

    assert read_evaluation(body).judgements[0].accepted


def test_the_client_knows_every_verdict_of_the_service() -> None:
    from evaluator.model import Verdict

    assert {str(verdict) for verdict in Verdict} == VERDICTS


def test_a_retry_after_is_a_number_or_a_date() -> None:
    assert read_retry_after("7") == 7
    assert read_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", now=40) == 60
    assert read_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", now=400) == 0
    assert read_retry_after("soon") is None
    assert read_retry_after(None) is None


def test_pauses_grow_to_a_bound_and_never_undercut_retry_after() -> None:
    backoff = Backoff(first=1, factor=2, longest=10)

    assert [backoff.pause(n, jitter=1) for n in (1, 2, 3, 4, 5, 5000)] == [1, 2, 4, 8, 10, 10]
    assert backoff.pause(3, jitter=0) == 2
    assert backoff.pause(1, retry_after=30, jitter=0) == 30


# Against the real service


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The address of a Redis for the real service."""
    with PrivateRedis() as server:
        yield server.url


@pytest.fixture(scope="module")
def service(store) -> Iterator[str]:
    """The URL of the real application under uvicorn, with a real worker."""
    command = [sys.executable, "-m", "service.cli", "worker", "--sandbox", "bubblewrap", "--redis-url", store]
    settings = Settings(redis_url=store)
    with socket.create_server(("127.0.0.1", 0)) as listener, subprocess.Popen(command) as worker:
        server = uvicorn.Server(uvicorn.Config(create_app(settings), log_config=None, lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        worker.terminate()
        server.should_exit = True
        thread.join()


def until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait for it; a worker tells of itself with its first heartbeat."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_the_real_service_judges_each_kind_of_test(service, kind) -> None:
    doubles = Suite.of([stdin_test("4\n", "8\n"), stdin_test("10\n", "20\n")])
    adds = Submission("def add(a, b): return a + b", entry_point="add", suite=[functional_test([2, 3], 5)])
    asserts = Submission("def add(a, b): return a - b", suite=[assertion_test("assert add(2, 3) == 5")])
    cut = Submission(answer="```python\nprint(", suite=doubles)

    with kind(service) as client:
        judged = client.evaluate(
            ["print(int(input()) * 2)", "print(8)", adds, asserts, cut], suite=doubles, limits={"cpu_seconds": 2}
        )
        [full] = client.evaluate(["print(int(input()) * 2)"], suite=doubles, detail="full")
        until(lambda: client.runtimes()["runtimes"])
        [runtime] = client.runtimes()["runtimes"]

    assert [judgement.verdict for judgement in judged] == [
        "accepted",
        "wrong_answer",
        "accepted",
        judged[3].verdict,
        "no_code",
    ]
    assert judged[3].verdict in {"wrong_answer", "runtime_error"}
    assert [judgement.reward for judgement in judged] == [1, 0, 1, 0, 0]
    assert judged[1].first_failed == 1
    assert [test.verdict for test in full.tests] == ["accepted", "accepted"]
    assert full.tests[0].match.rung
    assert runtime["sandbox"] == judged[0].runtime.sandbox


def test_the_real_service_tells_of_each_judgement_when_it_is_made(service, kind) -> None:
    slow = (
        f"import time\ntime.sleep(1.5)\nprint(2)  # {kind.__name__}"  # or the second client would get it from the cache
    )
    quick = f"# {kind.__name__}\nprint(int(input()) + 1)"
    heard: list[tuple[int, str, float]] = []
    began = time.monotonic()
    with kind(service) as client:
        for index, judgement in client.stream([quick, slow, quick, f"{quick} + 1"], suite=TESTS):
            heard.append((index, judgement.verdict, time.monotonic() - began))

    assert sorted(index for index, _, _ in heard) == [0, 1, 2, 3]
    assert [verdict for _, verdict, _ in sorted(heard)] == ["accepted"] * 3 + ["runtime_error"]
    moments = {index: moment for index, _, moment in heard}
    assert moments[0] == min(moments.values())
    assert moments[1] - moments[0] > 0.5, "the quick ones were told of at once"


def test_a_stream_of_the_real_service_that_is_left_cancels_there(service, kind) -> None:
    sources, id = [f"import time\ntime.sleep(0.3)\nprint({number})" for number in range(20)], f"left-{kind.__name__}"
    with kind(service) as client:
        with contextlib.closing(client.stream(sources, suite=TESTS, id=id)) as stream:
            next(stream)
        evaluation = client.fetch(id)
        verdicts = [judgement.verdict for _, judgement in client.follow(id)]

    assert evaluation.state == "cancelled"
    assert len(verdicts) == 20
    assert "cancelled" in verdicts


def test_the_real_service_judges_a_repeated_post_once(service, kind) -> None:
    with kind(service) as client:
        id = f"twice-{kind.__name__}"
        for _ in range(2):
            client.submit(["print(1)"], suite=TESTS, id=id)
        evaluation = client.fetch(id, wait=30)

        with pytest.raises(RequestRefused, match="another body"):
            client.submit(["print(2)"], suite=TESTS, id=id)

    assert evaluation.state == "done"
    assert evaluation.judged == 1


def test_a_suite_that_the_real_service_lost_is_uploaded_again(service, store, kind) -> None:
    with kind(service) as client:
        client.evaluate(["print(2)"], suite=TESTS)
        with redis.Redis.from_url(store) as server:
            for key in [*server.scan_iter("*suite*"), *server.scan_iter("*:u")]:
                server.delete(key)

        [judgement] = client.evaluate(["print(2)"], suite=TESTS)

    assert judgement.accepted


def test_the_deadline_cancels_at_the_real_service(service, kind) -> None:
    with kind(service) as client:
        endless, id = ["while True: pass"] * 4, f"late-{kind.__name__}"

        with pytest.raises(DeadlineExceeded):
            client.evaluate(endless, suite=TESTS, limits={"cpu_seconds": 3}, id=id, deadline=1.5, wait=0.5)
        evaluation = client.fetch(id)

    assert evaluation.state == "cancelled"


def test_the_real_service_says_what_is_wrong_with_a_request(service, kind) -> None:
    with kind(service) as client, pytest.raises(RequestRefused, match=r"limits\.cpu_seconds") as caught:
        client.evaluate(["print(1)"], suite=TESTS, limits={"cpu_seconds": -1})

    assert caught.value.problem.body["errors"][0]["field"] == "limits.cpu_seconds"


def test_the_example_in_the_readme_runs_and_prints_what_it_says(service) -> None:
    text = Path(__file__, "../../client/README.md").resolve().read_text()
    code = text.split("```python\n")[1].split("```")[0].replace("http://127.0.0.1:8000", service)

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.splitlines() == ["accepted 1.0", "wrong_answer 0.0 1", "accepted"]
