"""What fails around us: Redis full, paused, emptied or on a broken disk, clocks that jump, workers killed between two
steps. Nothing is lost, and no judgement is another program's.

The slow ones, with everything that takes root or a daemon of its own, are in `python -m benchmarks.faults`.
"""

import ast
import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import httpx
import pytest
import redis

from benchmarks.faults_worker import VARIABLE
from evaluator.judge import Judge
from evaluator.model import Judgement, Limits, Program, Submission, TestCase, TestKind, Verdict
from evaluator.sandbox.base import Call
from evaluator.sandbox.bubblewrap import BubblewrapBackend
from evaluator.sandbox.pool import open_pool
from evaluator.sandbox.starvation import COUNTS, Starvation, count_kills
from evaluator.suites import read_suite, suite_id, write_suite
from service.claims import Claim, Claims, Hold, Judged
from service.encoding import dump_judgement
from service.evaluations import Evaluations
from service.gate import LimitBody
from service.intake import InlineSuite, Intake
from service.outages import passes, remedy
from service.redis_server import PrivateRedis, find_server
from service.settings import Settings
from service.supervisor import _Api, listen, url_of
from tests.boxes_helper import NAMESPACE, find_processes
from tests.test_architecture import find_modules, parse
from tests.test_worker import RIGHT, SLOW, WRONG, asked, finish, running, until

DATA = write_suite([TestCase(TestKind.STDIN, "1\n", "1\n")])
SUITE = suite_id(DATA)
SHORT, TESTS = dump_judgement(Judgement(Verdict.ACCEPTED, 1.0))
HOUR = 3600


def intake(*sources: str) -> Intake:
    submissions = [Submission(Program(source), SUITE) for source in sources]
    return Intake.of(submissions, {SUITE: InlineSuite(SUITE, DATA, 1)})


def claim_one(claims: Claims, id: str, owner: str) -> Claim:
    [claim] = claims.claim(id, owner).claims
    return claim


@pytest.fixture
def quick(settings: Settings) -> Settings:
    """Leases that end within the test."""
    return settings.model_copy(update={"lease_seconds": 0.5})


@pytest.fixture
def store(redis_url: str) -> Iterator[redis.Redis]:
    """The Redis itself."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
async def evaluations(quick: Settings):
    """Evaluations as the API has them."""
    made = Evaluations(quick)
    async with made.opened():
        yield made


@pytest.fixture
def claims(quick: Settings, store: redis.Redis) -> Claims:
    """Claims as a worker has them."""
    return Claims(store, quick)


def beat(claims: Claims) -> None:
    claims.heartbeat("w", '{"runtime": null}', "", "")


def recover(store: redis.Redis, claims: Claims) -> list[str] | None:
    store.delete("microcoder:recovery")
    return claims.recover()


def shift(store: redis.Redis, key: str, seconds: float) -> None:
    """What a clock that has jumped makes of times that were written before."""
    for member, score in store.zrange(key, 0, -1, withscores=True):
        store.zadd(key, {member: score + seconds})


# Redis loses its data


async def test_a_judgement_from_before_isnt_taken_for_another_program_of_the_same_name(
    evaluations, claims, store
) -> None:
    await evaluations.accept("e", intake("print(1)"))
    late = claim_one(claims, "e", "w")
    store.flushall()
    await evaluations.accept("e", intake("print(2)"))

    assert claims.store([Judged(late, SHORT, TESTS)]) == [False]

    text, final = await evaluations.fetch("e", "summary")
    assert '"judgements": [null]' in text
    assert not final
    assert claims.store([Judged(claim_one(claims, "e", "v"), SHORT, TESTS)]) == [True]


# Redis is paused, or its clock jumps


async def test_when_redis_was_away_who_lives_keeps_what_it_has_and_who_doesnt_is_noticed_later(
    evaluations, claims, store
) -> None:
    beat(claims)
    await evaluations.accept("e", intake("print(1)", "print(2)"))
    alive, dead = claim_one(claims, "e", "alive"), claim_one(claims, "e", "dead")
    for key in ("microcoder:claims", "microcoder:workers"):
        shift(store, key, -HOUR)
    store.incrbyfloat("microcoder:pulse", -HOUR)

    assert recover(store, claims) == [], "nobody had a chance to say that it lives"
    beat(claims)
    assert recover(store, claims) == []
    assert claims.renew([alive]) == [Hold.KEPT]
    for _ in range(3):
        time.sleep(0.2)
        beat(claims)
        claims.renew([alive])

    assert recover(store, claims) == [f"e {dead.index}"]
    assert claims.renew([alive]) == [Hold.KEPT]


async def test_when_the_clock_of_redis_goes_back_a_dead_worker_is_noticed_all_the_same(
    evaluations, claims, store
) -> None:
    beat(claims)
    await evaluations.accept("e", intake("print(1)"))
    claim_one(claims, "e", "dead")
    for key in ("microcoder:claims", "microcoder:workers", "microcoder:e:e:t"):
        shift(store, key, HOUR)
    store.incrbyfloat("microcoder:pulse", HOUR)
    store.set("microcoder:recovery", 1, ex=HOUR)

    beat(claims)
    assert not store.exists("microcoder:recovery")
    for _ in range(3):
        time.sleep(0.2)
        beat(claims)

    assert recover(store, claims) == ["e 0"]


# Redis takes no writes


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "memory"),
        (
            redis.ResponseError(
                "Error running script (call to f_1): @user_script:5: -OOM command not allowed when used memory > 'maxm"
            ),
            "memory",
        ),
        (redis.ResponseError("MISCONF Errors writing to the AOF file: No space left on device"), "disk"),
        (redis.exceptions.ReadOnlyError("You can't write against a read only replica."), "replica"),
        (redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "answer"),
        (redis.ResponseError("BUSY Redis is busy running a script."), "answer"),
        (redis.TimeoutError("Timeout reading from socket"), "answer"),
        (redis.ConnectionError("No connection available."), "many requests"),
    ],
)
def test_what_passes_by_itself_is_told_from_a_fault_of_ours(error: redis.RedisError, word: str) -> None:
    assert passes(error)
    assert word in remedy(error)[0]
    assert not passes(redis.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"))


async def test_a_full_redis_costs_no_judgement(connect, start_worker) -> None:
    with PrivateRedis() as server, redis.Redis.from_url(server.url) as store:
        client = await connect(Settings(redis_url=server.url))
        worker = start_worker(redis_url=server.url)
        sources = [SLOW, WRONG] * 4
        await client.post("/v1/evaluations", json=asked(*sources, id="e"))
        await until(lambda: running(client, "e"))

        store.config_set("maxmemory", 1)
        refused = await client.post("/v1/evaluations", json=asked(RIGHT, id="f"))
        await asyncio.sleep(2.5)  # longer than a lease: nothing can be renewed meanwhile
        assert refused.status_code == 503
        assert "no memory left" in refused.json()["detail"]
        assert refused.headers["retry-after"]
        assert (await client.get("/v1/evaluations/e")).status_code == 200
        store.config_set("maxmemory", 0)

        shown = await finish(client, "e")
        assert [item["verdict"] for item in shown["judgements"]] == ["accepted", "wrong_answer"] * 4
        assert worker.process.poll() is None
        assert worker.said().count("event=judged") == 8, "each is judged once"


async def test_a_redis_whose_disk_is_gone_costs_no_judgement(connect, start_worker, tmp_path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    socket = tmp_path / "r.sock"
    options = ["--port", "0", "--unixsocket", str(socket), "--dir", str(folder), "--save", "1 1"]
    with subprocess.Popen([find_server(), *options], stdout=subprocess.DEVNULL) as server:
        try:
            url = f"unix://{socket}"
            await until(lambda: asyncio.to_thread(socket.exists), 10)
            client = await connect(Settings(redis_url=url))
            start_worker(redis_url=url)
            shutil.rmtree(folder)
            await client.post("/v1/evaluations", json=asked(*[SLOW] * 8, id="e"))

            async def refused() -> bool:
                answer = await client.post("/v1/evaluations", json=asked(RIGHT))
                assert answer.status_code in (200, 202, 503), answer.text
                return answer.status_code == 503 and "disk" in answer.json()["detail"]

            await until(refused, 20)
            with redis.Redis.from_url(url) as store:
                store.config_set("stop-writes-on-bgsave-error", "no")

            assert {item["verdict"] for item in (await finish(client, "e"))["judgements"]} == {"accepted"}
        finally:
            server.kill()


# Clients that don't hurry


def read_all(connection: socket.socket) -> bytes:
    """What comes until the other end hangs up."""
    connection.settimeout(20)
    data = b""
    while part := connection.recv(65536):
        data += part
    return data


def test_who_takes_for_ever_over_a_request_is_hung_up_on_and_others_arent(settings, monkeypatch) -> None:
    monkeypatch.setattr("service.punctual.HEAD_SECONDS", 1.0)
    monkeypatch.setattr("service.gate.BODY_SECONDS", 1.0)
    with listen("127.0.0.1", 0) as listener, _Api(settings, listener):
        address = listener.getsockname()
        slow = [socket.create_connection(address) for _ in range(3)]
        with ExitStack() as stack:
            silent, head, body = map(stack.enter_context, slow)
            quick = stack.enter_context(httpx.Client(base_url=url_of(listener)))
            head.send(b"GET /health HTTP/1.1\r\nX-A: ")
            body.send(b"POST /v1/evaluations HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
            began = time.monotonic()
            while time.monotonic() - began < 2:
                assert quick.get("/health").status_code == 200
                for connection in (head, body):
                    with suppress(OSError):
                        connection.send(b" ")
                time.sleep(0.2)

            assert read_all(silent) == b""
            assert read_all(head) == b""
            assert b"408" in read_all(body).partition(b"\r\n")[0]


def test_a_body_may_wait_for_its_turn_without_being_late() -> None:
    """Only what the client keeps us waiting counts: the pauses of the application are ours."""
    assert asyncio.run(receive_late()) == 200


async def receive_late() -> int:
    """Send a body at once to an application that reads it late."""

    async def app(scope, receive, send) -> None:
        await asyncio.sleep(0.3)
        message = await receive()
        assert message["body"] == b"{}"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    sent: list[dict] = []

    async def receive() -> dict:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: dict) -> None:
        sent.append(message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.gate.BODY_SECONDS", 0.1)
        scope = {"type": "http", "path": "/v1/evaluations", "headers": []}
        await LimitBody(app, settings=Settings(redis_url="unix:///none"))(scope, receive, send)
    return sent[0]["status"]


# Workers killed between two steps


STEPS = ("claimed", "before storing", "next turn noted, not queued")


async def test_a_worker_that_is_killed_between_two_steps_loses_nothing(connect, settings, start_worker) -> None:
    queues = [settings.model_copy(update={"queue": f"q{number}"}) for number in range(len(STEPS))]
    clients = [await connect(queue) for queue in queues]
    await asyncio.gather(*map(kill_at, STEPS, clients, queues))
    workers = [start_worker(queue=queue.queue) for queue in queues]

    for client, worker in zip(clients, workers, strict=True):
        shown = await finish(client, "e")
        assert [item["verdict"] for item in shown["judgements"]] == ["accepted", "wrong_answer"] * 3
        assert [item["reward"] for item in shown["judgements"]] == [1.0, 0.0] * 3
        assert worker.said().count("first=no") == 0
        assert (await client.get("/health")).json()["queue"]["submissions"] == 0


async def kill_at(step: str, client: httpx.AsyncClient, settings: Settings) -> None:
    """Let a worker begin, and be killed there."""
    environment = os.environ | {"MICROCODER_REDIS_URL": settings.redis, "MICROCODER_QUEUE": settings.queue}
    environment |= {"MICROCODER_LEASE_SECONDS": "2", "MICROCODER_TURN_SECONDS": "0.5", VARIABLE: f"{step}:1:KILL"}
    environment |= {"MICROCODER_SANDBOX": "bubblewrap"}
    await client.post("/v1/evaluations", json=asked(*[SLOW, WRONG] * 3, id="e"))
    with subprocess.Popen([sys.executable, "-m", "benchmarks.faults_worker"], env=environment) as worker:
        try:
            assert await asyncio.to_thread(worker.wait, 90) == -signal.SIGKILL
        finally:
            worker.kill()
    assert (await client.get("/v1/evaluations/e")).json()["counts"]["done"] < 6


# Boxes that stand still, and machines without memory


def test_time_in_which_the_whole_box_stood_still_isnt_the_programs() -> None:
    box = BubblewrapBackend().start()
    try:
        asks, sleeps = (box.load(Program(source)) for source in (NAMESPACE, "import time\n" + 15 * "time.sleep(0.1)\n"))
        namespace = int(box.run(asks, Call(b""), Limits()).stdout)

        def freeze() -> None:
            time.sleep(0.7)
            frozen = find_processes(namespace)
            for number, pause in ((signal.SIGSTOP, 4), (signal.SIGCONT, 0)):
                for pid in frozen:
                    os.kill(pid, number)
                time.sleep(pause)

        freezer = threading.Thread(target=freeze)
        freezer.start()
        run = box.run(sleeps, Call(b""), Limits(cpu_seconds=1, wall_seconds=3))
        freezer.join()
    finally:
        box.close()

    assert (run.limit, run.exit_code) == (None, 0)
    assert run.wall_seconds < 3


@pytest.mark.parametrize(
    ("counted", "verdict"),
    [
        ([7, 7], "runtime_error"),
        ([7, 8, 9], "internal_error"),
        ([7, 8, 8], "runtime_error"),  # another's end was counted: who kills itself is not excused by it
    ],
)
def test_who_is_killed_by_the_kernel_because_the_machine_is_full_isnt_to_blame(monkeypatch, counted, verdict) -> None:
    counts = iter(counted)
    monkeypatch.setattr("evaluator.sandbox.starvation.count_kills", lambda: next(counts))
    monkeypatch.setattr("evaluator.session.STARVATION", Starvation())
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    with closing(open_pool("bubblewrap", spare=False)) as pool:
        judgement = Judge(pool).judge(Submission(Program(source), SUITE), read_suite(DATA))

    assert judgement.verdict == verdict
    assert judgement.reward == (None if verdict == "internal_error" else 0.0)
    assert next(counts, None) is None


def test_the_kernels_count_of_such_ends_is_read() -> None:
    assert count_kills() >= 0
    assert "oom_kill " in COUNTS.read_text()


# Requests that are too large


async def test_a_request_of_very_many_tests_is_refused_before_they_are_looked_at(client) -> None:
    tests = ",".join(['{"kind":"stdin","input":""}'] * 150_000)
    body = f'{{"suite":{{"tests":[{tests}]}},"submissions":[{{"program":{{"source":"print(1)"}}}}]}}'

    answers = await asyncio.gather(*(client.post("/v1/evaluations", content=body) for _ in range(3)))

    for answer in answers:
        assert answer.status_code == 422
        assert "at most" in answer.json()["detail"]


# Clocks that are set

TELLS_THE_TIME = {
    "service.statistics", "service.suite_store",  # when something was last used or counted
    "evaluator.sandbox.leftovers", "evaluator.sandbox.confined",  # when a container or a folder was made
    "microcoder_client.retries",  # a date in `Retry-After`
}  # fmt: skip


def test_no_duration_depends_on_a_clock_that_can_be_set() -> None:
    found = {
        name
        for name in find_modules()
        for node in ast.walk(parse(name))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.time", "datetime.now", "datetime.utcnow")
    }

    assert {name for name in found if name.startswith(("service", "evaluator", "microcoder"))} <= TELLS_THE_TIME
