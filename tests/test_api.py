"""The API over a real Redis, without any worker: what is taken, what is refused, and how it is said."""

import asyncio
import hashlib
import json
import subprocess
import sys
import time

import httpx
import pytest
import redis

from service.redis_server import PrivateRedis
from service.schemas import EXAMPLE
from service.settings import Settings

TESTS = [{"kind": "stdin", "input": "1\n", "expected": "2\n"}]
SUITE = b'{"kind": "stdin", "input": "1\\n", "expected": "2\\n"}\n'
SUITE_ID = hashlib.sha256(SUITE).hexdigest()
PROGRAM = {"program": {"source": "print(int(input()) + 1)"}}
OTHER = {"program": {"source": "print(1 + int(input()))"}}


def asked(**changes) -> dict:
    return {"suite": {"tests": TESTS}, "submissions": [PROGRAM], **changes}


def check_problem(answer: httpx.Response, status: int, *words: str) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:microcoder:problem:")
    assert problem["title"]
    for word in words:
        assert word in problem["detail"]
    return problem


async def test_an_evaluation_is_accepted_and_can_be_fetched(client) -> None:
    answer = await client.post("/v1/evaluations", json=asked(id="e1", submissions=[PROGRAM, PROGRAM]))

    assert answer.status_code == 202
    assert answer.headers["location"] == "/v1/evaluations/e1"
    fetched = await client.get(answer.headers["location"])
    assert fetched.status_code == 200
    assert fetched.json() == {
        "id": "e1",
        "state": "queued",
        "counts": {"total": 2, "done": 0, "running": 0, "pending": 2},
        "judgements": [None, None],
    }


async def test_without_an_id_each_post_is_an_evaluation_of_its_own(client) -> None:
    ids = {(await client.post("/v1/evaluations", json=asked())).json()["id"] for _ in range(2)}

    assert len(ids) == 2


async def test_the_documented_example_is_accepted(client) -> None:
    assert (await client.post("/v1/evaluations", json=EXAMPLE)).status_code == 202


async def test_a_single_submission_with_its_own_rules_is_accepted(client) -> None:
    body = {"submission": {**PROGRAM, "suite": {"tests": TESTS}, "limits": {"cpu_seconds": 1}, "reward": "fraction"}}

    assert (await client.post("/v1/evaluations", json=body)).json()["counts"]["total"] == 1


async def test_the_same_id_and_body_is_the_same_evaluation(client) -> None:
    for _ in range(3):
        answer = await client.post("/v1/evaluations", json=asked(id="e1"))
        assert answer.status_code == 202

    assert (await client.get("/health")).json()["queue"]["submissions"] == 1


async def test_a_body_that_says_the_defaults_is_the_same_body(client) -> None:
    await client.post("/v1/evaluations", json=asked(id="e1"))

    answer = await client.post("/v1/evaluations", json=asked(id="e1", fail_fast=True, limits={"cpu_seconds": 6}))

    assert answer.status_code == 202


async def test_the_same_id_with_another_body_is_refused(client) -> None:
    await client.post("/v1/evaluations", json=asked(id="e1"))

    answer = await client.post("/v1/evaluations", json=asked(id="e1", fail_fast=False))

    check_problem(answer, 409, "choose another id")


async def test_when_much_waits_an_evaluation_is_refused_whole(connect, settings: Settings) -> None:
    client = await connect(settings.model_copy(update={"queue_bound": 3}))
    await client.post("/v1/evaluations", json=asked(id="e1", submissions=[PROGRAM, OTHER]))

    answer = await client.post("/v1/evaluations", json=asked(id="e2", submissions=[PROGRAM, OTHER]))

    check_problem(answer, 429, "2 submissions wait")
    assert int(answer.headers["retry-after"]) > 0
    assert (await client.get("/v1/evaluations/e2")).status_code == 404
    assert (await client.post("/v1/evaluations", json=asked(id="e2"))).status_code == 202


async def test_an_unknown_suite_is_named_and_asked_for(client) -> None:
    answer = await client.post("/v1/evaluations", json=asked(suite={"id": SUITE_ID}))

    assert check_problem(answer, 404, "upload")["suites"] == [SUITE_ID]


async def test_an_uploaded_suite_can_be_named(client) -> None:
    path = f"/v1/suites/{SUITE_ID}"
    assert (await client.head(path)).status_code == 404
    created = await client.put(path, content=SUITE)
    again = await client.put(path, content=SUITE)

    assert (created.status_code, again.status_code) == (201, 200)
    assert created.json() == again.json() == {"id": SUITE_ID, "tests": 1, "bytes": len(SUITE)}
    assert (await client.head(path)).status_code == 200
    assert (await client.post("/v1/evaluations", json=asked(suite={"id": SUITE_ID}))).status_code == 202


async def test_a_stored_suite_can_be_fetched(client, monkeypatch) -> None:
    monkeypatch.setattr("service.suite_store.CHUNK", 1000)
    data = SUITE * 500
    path = f"/v1/suites/{hashlib.sha256(data).hexdigest()}"
    assert check_problem(await client.get(path), 404)["suites"] == [path.rpartition("/")[2]]
    await client.put(path, content=data)

    answer = await client.get(path)

    assert (answer.status_code, answer.content) == (200, data)
    assert answer.headers["content-type"] == "application/jsonl"
    assert int(answer.headers["content-length"]) == len(data)


async def test_a_suite_under_a_wrong_hash_is_refused(client) -> None:
    answer = await client.put(f"/v1/suites/{'0' * 64}", content=SUITE)

    check_problem(answer, 422, SUITE_ID)


@pytest.mark.parametrize("data", [b"", b"nonsense\n", SUITE + b'{"kind": "stdin"}\n'])
async def test_bytes_that_are_no_suite_are_refused(client, data: bytes) -> None:
    answer = await client.put(f"/v1/suites/{hashlib.sha256(data).hexdigest()}", content=data)

    check_problem(answer, 422)


async def test_suites_that_nobody_needs_make_room(connect, settings: Settings) -> None:
    client = await connect(settings.model_copy(update={"suite_budget_bytes": 400}))

    def suite(number: int) -> bytes:
        noise = hashlib.sha256(str(number).encode()).hexdigest()
        return json.dumps({"kind": "stdin", "input": noise}).encode() + b"\n"

    ids = [hashlib.sha256(suite(number)).hexdigest() for number in range(20)]
    for number, id in enumerate(ids):
        assert (await client.put(f"/v1/suites/{id}", content=suite(number))).status_code == 201
        if number == 0:
            await client.post("/v1/evaluations", json=asked(suite={"id": id}))

    stored = [(await client.head(f"/v1/suites/{id}")).status_code == 200 for id in ids]
    assert stored[0], "an unfinished evaluation needs it"
    assert stored[-1]
    assert not all(stored)


async def test_a_suite_that_fits_nowhere_is_a_reason_to_come_back(connect, settings: Settings) -> None:
    client = await connect(settings.model_copy(update={"suite_budget_bytes": 10}))

    answer = await client.post("/v1/evaluations", json=asked())

    check_problem(answer, 503, "full")
    assert answer.headers["retry-after"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (asked(limits={"cpu_seconds": -1}), "limits.cpu_seconds"),
        (asked(limits={"cpu_seconds": float("nan")}), "limits.cpu_seconds"),
        (asked(limits={"wall_seconds": float("inf")}), "limits.wall_seconds"),
        (asked(limits={"memory_bytes": float("nan")}), "limits.memory_bytes"),
        (asked(limits={"memory_bytes": 0}), "limits.memory_bytes"),
        (asked(limits={"memory_bytes": True}), "limits.memory_bytes"),
        (asked(limits={"cpu_seconds": "2"}), "limits.cpu_seconds"),
        (asked(limits={"cpu_seconds": 1e6}), "limits.cpu_seconds"),
        (asked(limits={"cpu_seconds": 3000}), "limits.cpu_seconds"),
        (asked(limits={"cpus": 2}), "limits.cpus"),
        (asked(policy={"absolute_tolerance": float("nan")}), "policy.absolute_tolerance"),
        (asked(policy={"profile": "lenient"}), "policy.profile"),
        (asked(priority=1), "priority"),
        (asked(id="a b"), "id"),
        (asked(id=7), "id"),
        (asked(fail_fast="yes"), "fail_fast"),
        (asked(reward="none"), "reward"),
        (asked(suite={"tests": []}), "suite.tests"),
        (asked(suite={"id": "abc"}), "suite.id"),
        (asked(suite={}), "suite"),
        (asked(suite={"tests": [{"kind": "file", "input": ""}]}), "suite.tests[0].kind"),
        (asked(suite={"tests": [{"kind": "stdin"}]}), "suite.tests[0].input"),
        (asked(suite=None), "submissions[0].suite"),
        (asked(submissions=[]), "submissions"),
        (asked(submissions=[{}]), "submissions[0]"),
        (asked(submissions=[{**PROGRAM, "answer": "x"}]), "submissions[0]"),
        (asked(submissions=[PROGRAM, {"program": {"source": ""}}]), "submissions[1].program.source"),
        (asked(submissions=[{"program": {"source": "x", "language": "cobol"}}]), "submissions[0].program.language"),
        (asked(submissions=[{**PROGRAM, "limits": {"processes": 0}}]), "submissions[0].limits.processes"),
        ({"suite": {"tests": TESTS}}, ""),
        ([], ""),
    ],
)
async def test_a_field_that_cant_be_used_is_named(client, body, field: str) -> None:
    answer = await client.post(
        "/v1/evaluations", content=json.dumps(body), headers={"content-type": "application/json"}
    )

    problem = check_problem(answer, 422)
    assert problem["errors"][0]["field"] == field
    assert problem["errors"][0]["message"].endswith(".")


async def test_a_refused_language_is_told_which_there_are(client) -> None:
    body = asked(submissions=[{"program": {"source": "x", "language": "cobol"}}])

    check_problem(await client.post("/v1/evaluations", json=body), 422, "python")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"id": "e1",\n "suite": }', "line 2, column 11"),
        (b"", "line 1, column 1"),
        (b'{"id": "\xff"}', "UTF-8"),
        (b'{"id": "\\ud800"}', "surrogate"),
        (b"[" * 100_000, "JSON"),
    ],
)
async def test_what_isnt_json_is_told_where(client, body: bytes, words: str) -> None:
    answer = await client.post("/v1/evaluations", content=body, headers={"content-type": "application/json"})

    check_problem(answer, 400, words)


async def test_another_content_type_is_refused(client) -> None:
    check_problem(await client.post("/v1/evaluations", data={"a": "b"}), 415, "application/json")
    encoded = {"content-type": "application/json", "content-encoding": "gzip"}
    check_problem(await client.post("/v1/evaluations", content=b"{}", headers=encoded), 415, "gzip")


async def test_odd_text_is_taken_as_it_is(client) -> None:
    source = "print('\x00\u2028\U0001f600\u202e\ufffe')"

    answer = await client.post("/v1/evaluations", json=asked(submissions=[{"program": {"source": source}}]))

    assert answer.status_code == 202


async def test_a_large_body_is_refused_before_it_is_read(connect, settings: Settings) -> None:
    client = await connect(settings.model_copy(update={"max_body_bytes": 2048}))
    pieces = 0

    async def endless():
        nonlocal pieces
        while True:
            pieces += 1
            yield b" " * 1024

    headers = {"content-type": "application/json"}
    told = await client.post("/v1/evaluations", content=endless(), headers={**headers, "content-length": "4096"})
    assert pieces == 0
    untold = await client.post("/v1/evaluations", content=endless(), headers=headers)
    assert pieces == 3

    check_problem(told, 413, "2048")
    check_problem(untold, 413, "2048")


async def test_too_many_submissions_or_tests_are_refused(connect, settings: Settings) -> None:
    client = await connect(settings.model_copy(update={"max_submissions": 2, "max_tests": 2, "max_source_bytes": 50}))

    many = await client.post("/v1/evaluations", json=asked(submissions=[PROGRAM] * 3))
    long = await client.post("/v1/evaluations", json=asked(suite={"tests": TESTS * 3}))
    big = await client.post("/v1/evaluations", json=asked(submissions=[{"answer": "x" * 51}]))

    check_problem(many, 422, "send several")
    check_problem(long, 422, "at most 2")
    check_problem(big, 422, "at most 50")


async def test_routes_and_methods_that_arent_there_are_problems_too(client) -> None:
    check_problem(await client.get("/v2/nothing"), 404, "/openapi.json")
    check_problem(await client.put("/v1/evaluations"), 405, "POST")
    check_problem(await client.get("/v1/evaluations/unknown"), 404, "post it again")
    check_problem(await client.delete("/v1/evaluations/unknown"), 404)
    check_problem(await client.put("/v1/suites/xyz", content=b""), 422)
    check_problem(await client.get("/v1/evaluations/e", params={"wait": "nan"}), 422, "wait")
    check_problem(await client.get("/v1/evaluations/e", params={"detail": "all"}), 422, "detail")


async def test_a_key_is_asked_for(connect, settings: Settings) -> None:
    client = await connect(settings.model_copy(update={"api_keys": ("k1", "k2")}))

    for headers in ({}, {"authorization": "Bearer k3"}, {"authorization": "Basic k1"}, {"x-api-key": "k\u00fc"}):
        encoded = {name: value.encode() for name, value in headers.items()}
        check_problem(await client.get("/v1/runtimes", headers=encoded), 401, "Authorization")
    for headers in ({"authorization": "Bearer k1"}, {"authorization": "bearer k2"}, {"x-api-key": "k1"}):
        assert (await client.get("/v1/runtimes", headers=headers)).status_code == 200
    assert (await client.get("/health")).status_code == 200


async def test_without_a_key_a_large_body_isnt_even_measured(connect, settings: Settings) -> None:
    client = await connect(settings.model_copy(update={"api_keys": ("k1",), "max_body_bytes": 1024}))

    check_problem(await client.post("/v1/evaluations", content=b" " * 2048), 401)


async def test_waiting_ends_after_the_time_that_was_asked_for(client) -> None:
    started = time.monotonic()

    answer = await client.post("/v1/evaluations", params={"wait": 0.3}, json=asked())

    assert answer.status_code == 202
    assert time.monotonic() - started >= 0.3


async def test_what_is_cancelled_before_it_runs_is_dropped(client) -> None:
    await client.post("/v1/evaluations", json=asked(id="e1", submissions=[PROGRAM, OTHER]))

    answer = await client.delete("/v1/evaluations/e1")

    assert answer.json()["state"] == "cancelled"
    for judgement in answer.json()["judgements"]:
        assert (judgement["verdict"], judgement["reward"]) == ("cancelled", None)
    assert (await client.delete("/v1/evaluations/e1")).json() == answer.json()
    assert (await client.get("/health")).json()["queue"] == {"evaluations": 0, "submissions": 0, "turns": 1}


async def test_events_are_told_as_server_sent_events_from_the_one_that_is_named(client) -> None:
    await client.post("/v1/evaluations", json=asked(id="e1", submissions=[PROGRAM, OTHER, PROGRAM]))
    await client.delete("/v1/evaluations/e1")

    answer = await client.get("/v1/evaluations/e1/events", params={"detail": "summary"})
    rest = await client.get("/v1/evaluations/e1/events", headers={"last-event-id": "2"})

    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [dict(line.split(": ", 1) for line in event.split("\n")) for event in answer.text.strip().split("\n\n")]
    assert [event.get("id") for event in events] == ["1", "2", "3", None]
    assert [event["event"] for event in events] == ["judgement"] * 3 + ["done"]
    told = [json.loads(event["data"]) for event in events]
    assert [item["index"] for item in told[:3]] == [0, 2, 1]
    assert {item["judgement"]["verdict"] for item in told[:3]} == {"cancelled"}
    assert told[3] == {"id": "e1", "state": "cancelled", "total": 3}
    assert rest.text.startswith("id: 3\n")


async def test_events_of_what_isnt_there_or_from_what_is_no_number_are_refused(client) -> None:
    await client.post("/v1/evaluations", json=asked(id="e1"))

    check_problem(await client.get("/v1/evaluations/e2/events"), 404, "post it again")
    for last in ("x", "-1"):
        answer = await client.get("/v1/evaluations/e1/events", headers={"last-event-id": last})
        assert check_problem(answer, 422)["errors"][0]["field"] == "Last-Event-ID"
    check_problem(await client.get("/v1/evaluations/e1/events", params={"detail": "all"}), 422, "detail")


async def test_five_hundred_waiters_are_woken_by_the_end(client) -> None:
    await client.post("/v1/evaluations", json=asked(id="e1"))
    waiting = [asyncio.create_task(client.get("/v1/evaluations/e1", params={"wait": 50})) for _ in range(500)]
    await asyncio.sleep(0.5)

    began = time.monotonic()
    assert (await client.get("/health")).status_code == 200
    await client.delete("/v1/evaluations/e1")
    answers = await asyncio.gather(*waiting)

    assert {answer.json()["state"] for answer in answers} == {"cancelled"}
    assert time.monotonic() - began < 30


async def test_health_says_what_is_missing(client) -> None:
    health = (await client.get("/health")).json()

    assert (health["status"], health["workers"]) == ("degraded", 0)
    assert "microcoder worker" in health["detail"]


async def test_while_redis_is_away_the_service_says_so_and_finds_it_again(connect) -> None:
    with PrivateRedis() as server:
        client = await connect(Settings(redis_url=server.url))
        await client.post("/v1/evaluations", json=asked(id="e1"))
        waiting = asyncio.create_task(client.get("/v1/evaluations/e1", params={"wait": 50}))
        await asyncio.sleep(0.2)
        server.restart()

        lost = await waiting
        check_problem(lost, 404, "post it again")
        assert (await client.post("/v1/evaluations", json=asked(id="e1"))).status_code == 202
        server.stop()

        refused = await client.post("/v1/evaluations", json=asked())
        check_problem(refused, 503, "Redis")
        assert refused.headers["retry-after"]
        down = await client.get("/health")
        assert (down.status_code, down.json()["redis"]) == (503, "down")


async def test_when_redis_has_no_memory_left_nothing_is_taken_and_it_is_said(connect) -> None:
    with PrivateRedis() as server, redis.Redis.from_url(server.url) as store:
        client = await connect(Settings(redis_url=server.url))
        store.config_set("maxmemory", "1mb")

        answer = await client.post("/v1/evaluations", json=asked(id="e1"))

        check_problem(answer, 503, "memory")
        store.config_set("maxmemory", "0")
        assert (await client.get("/v1/evaluations/e1")).status_code == 404
        assert (await client.post("/v1/evaluations", json=asked(id="e1"))).status_code == 202


async def test_an_application_can_be_made_while_redis_is_away(connect, tmp_path) -> None:
    client = await connect(Settings(redis_url=f"unix://{tmp_path}/none.sock"))

    assert (await client.get("/health")).status_code == 503
    check_problem(await client.post("/v1/evaluations", json=asked()), 503)


async def test_a_failure_of_ours_isnt_shown_to_the_client(client, monkeypatch, redis_url) -> None:
    with redis.Redis.from_url(redis_url) as server:
        server.hset("microcoder:e:broken", mapping={"total": "x", "done": 0, "state": "queued"})

    answer = await client.get("/v1/evaluations/broken")

    check_problem(answer, 500, "log")
    assert "invalid literal" not in answer.text


async def test_the_openapi_document_is_whole(client) -> None:
    document = (await client.get("/openapi.json")).json()

    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(document["components"]["schemas"])
    body = document["paths"]["/v1/evaluations"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/EvaluationIn"}
    assert document["components"]["schemas"]["EvaluationIn"]["examples"] == [EXAMPLE]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (path, method)


def test_the_api_loads_neither_sandbox_nor_judge_nor_docker() -> None:
    code = (
        "import sys, service.app\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'docker'"
        " or name.startswith(('evaluator.sandbox', 'evaluator.judge', 'service.worker'))])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"
