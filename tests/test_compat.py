"""Other services' wire formats through the whole service: real boxes, a real Redis, requests as clients send them.

`compat/*.json` hold exchanges written from the documented shapes. In an answer, `<number>`, `<text>` and `<any>` stand
for what differs from run to run, and `<contains>word` for a text with a word in it; everything else is exact, so a
field more or less is a failure.
"""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from service.compat import labels, performing
from service.compat.piston_versions import BadSelector, parse_version, satisfies
from service.settings import Settings
from tests.served_helper import Served

FOLDER = Path(__file__).parent / "compat"
EXCHANGES = [
    pytest.param(exchange, id=f"{path.stem}: {exchange['name']}")
    for path in sorted(FOLDER.glob("*.json"))
    for exchange in json.loads(path.read_text("utf-8"))["exchanges"]
]
PLACES = {
    "<number>": lambda found: isinstance(found, (int, float)) and not isinstance(found, bool),
    "<text>": lambda found: isinstance(found, str),
    "<any>": lambda found: True,
}
CONTAINS = "<contains>"


def differences(found: Any, expected: Any, place: str = "") -> list[str]:
    """Where an answer isn't what the exchange says."""
    if isinstance(expected, str) and expected in PLACES:
        return [] if PLACES[expected](found) else [f"{place}: {found!r} is no {expected}"]
    if isinstance(expected, str) and expected.startswith(CONTAINS):
        word = expected.removeprefix(CONTAINS)
        return [] if isinstance(found, str) and word in found else [f"{place}: no {word!r} in {found!r}"]
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        return [line for name in expected for line in differences(found[name], expected[name], f"{place}.{name}")]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for at, pair in enumerate(zip(found, expected, strict=True))
            for line in differences(*pair, f"{place}[{at}]")
        ]
    same = found == expected and type(found) is type(expected)
    return [] if same else [f"{place}: {found!r} instead of {expected!r}"]


@pytest.fixture(scope="module")
def served() -> Iterator[httpx.Client]:
    """A client of the whole service."""
    with (
        Served("--workers", "2", "--sandbox", "bubblewrap", MICROCODER_RESULT_CACHE_BYTES="0") as service,
        httpx.Client(base_url=service.ready(), timeout=60) as client,
    ):
        yield client


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_request_as_it_is_sent_is_answered_as_documented(served: httpx.Client, exchange: dict) -> None:
    content = json.dumps(exchange["body"]).encode() if "body" in exchange else None
    headers = {"Content-Type": "application/json"} | exchange.get("headers", {})

    answer = served.request(exchange["method"], exchange["path"], content=content, headers=headers)

    assert answer.status_code == exchange["status"], answer.text
    assert not differences(answer.json(), exchange["answer"]), answer.text


@pytest.mark.parametrize(("path", "read"), [
    ("/run_code", lambda answer: answer["run_result"]["stdout"]),
    ("/api/v2/execute", lambda answer: answer["run"]["stdout"]),
])  # fmt: skip
@pytest.mark.parametrize("size", [1_000_000, 10_000_000])
def test_large_outputs_come_back_whole(served: httpx.Client, path: str, read: Any, size: int) -> None:
    source = f"import sys; sys.stdout.write('x' * {size}); sys.stderr.write('y' * {size})"
    ours, piston = {"code": source}, {"language": "python", "version": "*", "files": [{"content": source}]}

    answer = served.post(path, json=ours if path == "/run_code" else piston).json()

    assert read(answer) == "x" * size


def test_an_endless_output_is_a_failure_whose_beginning_comes_back(served: httpx.Client) -> None:
    source = "while True: print('x' * 100_000)"

    ours = served.post("/run_code", json={"code": source, "run_timeout": 30}).json()
    job = {"language": "python", "version": "*", "files": [{"content": source}], "run_timeout": 30_000}
    piston = served.post("/api/v2/execute", json=job).json()["run"]

    assert (ours["status"], ours["run_result"]["status"], ours["run_result"]["return_code"]) == (
        "Failed",
        "Finished",
        153,
    )
    assert len(ours["run_result"]["stdout"]) == 1 << 20 and "bytes" in ours["message"]
    assert (piston["status"], piston["code"], piston["signal"]) == ("OL", None, "SIGKILL")
    assert piston["message"] == "stdout length exceeded"


def test_limits_above_the_services_are_cut_to_them(served: httpx.Client) -> None:
    answer = served.post("/run_code", json={"code": "print(1)", "run_timeout": 1e5, "memory_limit_MB": 1 << 30})

    assert answer.json()["run_result"]["stdout"] == "1\n"


def test_a_run_leaves_nothing_in_redis(served: httpx.Client) -> None:
    for _ in range(3):
        served.post("/run_code", json={"code": "print(1)"})

    health = served.get("/health").json()
    assert (health["queue"]["submissions"], health["cache"]["results"]) == (0, 0)


async def test_many_new_connections_at_once(served: httpx.Client) -> None:
    """verl opens one for each test."""
    request = {"code": "print(int(input()) + 1)", "language": "python"}

    async def post(number: int) -> str:
        async with httpx.AsyncClient(base_url=served.base_url, timeout=60) as client:
            answer = await client.post("/run_code", json={**request, "stdin": f"{number}\n"})
            return answer.json()["run_result"]["stdout"]

    found = await asyncio.gather(*(post(number) for number in range(128)))

    assert found == [f"{number + 1}\n" for number in range(128)]


# --- when it can't be done now ------------------------------------------------------------------------------------

RUN = ("/run_code", {"code": "print(1)", "compile_timeout": 0.01, "run_timeout": 0.01}, 504)
SUBMIT = (
    "/submit",
    {
        "dataset": "d",
        "id": 1,
        "completion": "print(1)",
        "config": {
            "language": "python",
            "run_timeout": 0.01,
            "provided_data": {"id": 1, "test": [{"input": {"stdin": ""}, "output": {"stdout": "1"}}]},
        },
    },
    504,
)
SLIME = ("/rewards/slime", {"response": "```\nprint(1)\n```", "label": [{"input": "", "output": "1"}]}, 503)
OPENRLHF = ("/rewards/openrlhf", {"query": ["```\nprint(1)\n```"], "labels": [[{"input": "", "output": "1"}]]}, 503)
ALL = pytest.mark.parametrize(("path", "body", "status"), [RUN, SUBMIT, SLIME, OPENRLHF])


@ALL
async def test_a_full_queue_is_said_in_the_status_that_the_client_repeats(
    connect: Any, settings: Settings, path: str, body: dict, status: int
) -> None:
    client = await connect(settings.model_copy(update={"queue_bound": 1, "max_submissions": 1}))
    program = {"program": {"source": "1"}, "suite": {"tests": [{"kind": "stdin", "input": ""}]}}
    assert (await client.post("/v1/evaluations", json={"submission": program})).status_code == 202

    answer = await client.post(path, json=body)

    assert answer.status_code == status and "wait" in answer.json()["detail"]
    assert int(answer.headers["retry-after"]) > 0


@ALL
async def test_what_no_worker_takes_in_time_is_given_up_and_said(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, body: dict, status: int
) -> None:
    monkeypatch.setattr("service.compat.remote_reward.PATIENCE", 0.2)
    for module in ("sandboxfusion", "sandboxfusion_datasets"):
        monkeypatch.setattr(f"service.compat.{module}.QUEUE_SECONDS", 0.2)

    answer = await client.post(path, json=body)

    assert answer.status_code == status and "more workers" in answer.json()["detail"]
    assert (await client.get("/health")).json()["queue"]["submissions"] == 0, "it doesn't wait any longer"


@ALL
async def test_without_redis_the_client_is_told_to_come_again(connect: Any, path: str, body: dict, status: int) -> None:
    client = await connect(Settings(redis_url="redis://127.0.0.1:1/0"))

    answer = await client.post(path, json=body)

    assert answer.status_code == status and "Redis" in answer.json()["detail"]


async def test_without_a_worker_piston_knows_no_version(client: httpx.AsyncClient) -> None:
    job = {"language": "python", "version": "*", "files": [{"content": "1"}]}

    assert (await client.get("/api/v2/runtimes")).json() == []
    answer = await client.post("/api/v2/execute", json=job)
    assert answer.status_code == 503 and "worker" in answer.json()["message"]


async def test_a_run_that_nobody_waits_for_is_cancelled(connect: Any, settings: Settings) -> None:
    client = await connect(settings)
    app = client._transport.app
    body = json.dumps({"code": "print(1)"}).encode()
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])
    sent = []

    async def receive() -> dict:
        await asyncio.sleep(0.2)
        return next(messages, {"type": "http.disconnect"})

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/run_code", "raw_path": b"/run_code", "query_string": b"",
        "headers": [(b"content-type", b"application/json")], "http_version": "1.1", "scheme": "http",
        "server": ("service.test", 80), "client": ("127.0.0.1", 1), "root_path": "",
    }  # fmt: skip
    start = time.monotonic()
    await app(scope, receive, send)

    assert time.monotonic() - start < 5
    assert sent[0]["status"] == 400  # nobody hears it
    assert (await client.get("/health")).json()["queue"]["submissions"] == 0


async def test_the_evaluators_own_failure_is_never_the_programs(client: httpx.AsyncClient, redis_url: str) -> None:
    """A worker that writes an internal error, as one does whose boxes are lost."""
    task = asyncio.create_task(client.post("/run_code", json={"code": "print(1)"}))
    short = {"verdict": "internal_error", "reward": None, "tests": [], "detail": "lost", "cached": False}
    with redis.Redis.from_url(redis_url) as store:
        while not (found := list(store.keys("microcoder:e:*:s"))):
            await asyncio.sleep(0.05)
        record = found[0].decode().removesuffix(":s")
        store.hset(f"{record}:r", "0", json.dumps(short))
        store.rpush(f"{record}:o", "0")
        store.hset(record, "state", "done")
        store.xadd("microcoder:events", {"id": record.rpartition(":")[2]})

    answer = await task

    assert answer.status_code == 504 and "learnt nothing" in answer.json()["detail"]


# --- keys ---------------------------------------------------------------------------------------------------------


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer key"}, 200),
        ({"X-API-Key": "key"}, 200),
        ({"Authorization": "key"}, 200),
        ({"Authorization": basic(":key")}, 200),
        ({"Authorization": basic("key:")}, 200),
        ({"Authorization": basic("anyone:key")}, 200),
        ({}, 401),
        ({"Authorization": "wrong"}, 401),
        ({"Authorization": basic("key:wrong")}, 401),
        ({"Authorization": "Basic ???"}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"\xff:key").decode()}, 401),
        ({"Authorization": "Digest key"}, 401),
    ],
)
async def test_a_key_is_taken_as_the_clients_can_send_it(
    connect: Any, settings: Settings, headers: dict, status: int
) -> None:
    client = await connect(settings.model_copy(update={"api_keys": ("key",)}))

    assert (await client.get("/list_datasets", headers=headers)).status_code == status
    assert (await client.get("/v1/ping")).status_code == 200


async def test_a_url_may_hold_the_key(connect: Any, settings: Settings) -> None:
    """verl's and OpenRLHF's settings know a URL and nothing else."""
    client = await connect(settings.model_copy(update={"api_keys": ("key",)}))

    assert (await client.get("http://:key@service.test/list_datasets")).status_code == 200


@pytest.mark.parametrize("path", ["/run_code", "/submit", "/get_prompts", "/rewards/slime", "/rewards/openrlhf"])
async def test_a_page_of_another_origin_cant_have_programs_run(client: httpx.AsyncClient, path: str) -> None:
    """It can send JSON only as text, unless it asks first."""
    answer = await client.post(path, content=b'{"code": "1"}', headers={"Content-Type": "text/plain"})

    assert answer.status_code == 415


# --- parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        ("*", True), ("", True), ("x", True), ("3", True), ("3.x", True), ("3.11", True), ("3.11.7", True),
        ("v3.11.7", True), ("=3.11.7", True), ("3.11.6", False), ("2", False), ("^3.10", True), ("^3.12", False),
        ("^2.7", False), ("^0.3", False), ("~3.11", True), ("~3.10", False), ("~3", True), (">=3.8 <4", True),
        (">=3.8 <3.11", False),
        (">3.11", False), (">3.10", True), ("<=3.11", True), ("<=3.10", False), ("<3.11.8", True),
        ("2.7 || 3.11", True), ("> 3.10.2", True),
    ],
)  # fmt: skip
def test_selectors_of_versions(selector: str, holds: bool) -> None:
    assert satisfies(parse_version("3.11.7"), selector) is holds


@pytest.mark.parametrize("selector", ["latest", "3.11 || python", "3..1", "-1"])
def test_what_is_no_selector(selector: str) -> None:
    with pytest.raises(BadSelector):
        satisfies((3, 11, 7), selector)


def test_a_caret_below_one_keeps_the_first_number_that_counts() -> None:
    assert satisfies((0, 3, 9), "^0.3.1") and not satisfies((0, 4, 0), "^0.3.1")


def test_compressed_tests_are_refused_before_they_are_unpacked() -> None:
    import zlib

    bomb = base64.b64encode(zlib.compress(b"0" * 1_000_000)).decode()
    for label in (bomb, {"private_test_cases": bomb}, [{"input": "1", "output": bomb}], json.dumps({"tests": bomb})):
        with pytest.raises(labels.BadLabel, match="compressed"):
            labels.read_label(label)


def test_a_label_nested_too_deeply_is_refused() -> None:
    with pytest.raises(labels.BadLabel):
        labels.read_label("[" * 100_000)


def test_the_patience_of_a_run_is_shorter_than_its_clients() -> None:
    """verl's client hangs up 10 seconds after the limits of compiling and running."""
    assert performing.QUEUE_SECONDS < 10
