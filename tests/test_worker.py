"""Real workers with real boxes over a real Redis: what they judge, and what becomes of it when they die."""

import asyncio
import os
import pickle
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx
import pytest
import redis
from rq import Callback, Queue
from rq.serializers import JSONSerializer, PickleSerializer

from evaluator.errors import SandboxUnavailable
from evaluator.model import Judgement, Limits, Program, Reason, Runtime, Submission, Verdict
from evaluator.suites import suite_id
from service.claims import Claim, Claims, Hold
from service.evaluations import Evaluations
from service.heart import HUNG, Heart
from service.intake import InlineSuite, Intake
from service.redis_server import PrivateRedis
from service.schemas import EvaluationOut, RuntimesOut
from service.settings import Settings
from service.suite_store import SuiteCache, SuiteLost
from service.worker import FAILED, TurnTaker, run

TESTS = [{"kind": "stdin", "input": f"{number}\n", "expected": f"{number + 1}\n"} for number in range(3)]
RIGHT = "print(int(input()) + 1)"
WRONG = "n = int(input())\nprint(n + (1 if n < 1 else 2))"
SLOW = f"import time\ntime.sleep(0.1)\n{RIGHT}"


def asked(*sources: str, **changes) -> dict:
    """Each its own, however many are alike: what is asked for twice is judged once."""
    programs = [{"program": {"source": f"{source}\n# {number}\n"}} for number, source in enumerate(sources)]
    return {"suite": {"tests": TESTS}, "submissions": programs, **changes}


async def until(happened: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not await happened():
        assert time.monotonic() < deadline, "it took too long"
        await asyncio.sleep(0.05)


async def finish(client: httpx.AsyncClient, id: str, **parameters) -> dict:
    """The evaluation when it is done."""
    for _ in range(20):
        answer = await client.get(f"/v1/evaluations/{id}", params={"wait": 10, **parameters})
        if answer.json()["state"] in ("done", "cancelled"):
            return answer.json()
    raise AssertionError(answer.text)


async def running(client: httpx.AsyncClient, id: str) -> bool:
    counts = (await client.get(f"/v1/evaluations/{id}", params={"detail": "summary"})).json()["counts"]
    return counts["running"] > 0 and counts["done"] > 0


async def logged(worker, count: int) -> bool:
    """Whether so many judgements stand in the log: they come there just after they are stored."""
    return worker.said().count("event=judged") >= count


async def test_programs_are_judged_and_waited_for(client, start_worker) -> None:
    worker = start_worker()
    body = asked(RIGHT, WRONG, "print(", reward="fraction")
    body["submissions"] += [{"answer": f"So:\n```python\n{RIGHT}\n```"}, {"answer": "```python\nprint(in"}]

    answer = await client.post("/v1/evaluations", params={"wait": 50}, json=body)

    assert answer.status_code == 200
    shown = EvaluationOut.model_validate_json(answer.text)
    assert shown.state == "done"
    assert [item.verdict for item in shown.judgements] == [
        "accepted",
        "wrong_answer",
        "compile_error",
        "accepted",
        "no_code",
    ]
    assert [item.reward for item in shown.judgements] == [1.0, pytest.approx(1 / 3), 0.0, 1.0, 0.0]
    wrong = shown.judgements[1]
    assert wrong.first_failed == 1
    assert [test.index for test in wrong.tests] == [1]
    assert wrong.runtime.sandbox == "bubblewrap"

    full = await client.get(f"/v1/evaluations/{shown.id}", params={"detail": "full"})
    tests = EvaluationOut.model_validate_json(full.text).judgements[1].tests
    assert [test.verdict for test in tests] == ["accepted", "wrong_answer", "skipped"]
    brief = await client.get(f"/v1/evaluations/{shown.id}", params={"detail": "summary"})
    assert [item["tests"] for item in brief.json()["judgements"]] == [[]] * 5

    runtimes = RuntimesOut.model_validate((await client.get("/v1/runtimes")).json())
    assert [runtime.sandbox for runtime in runtimes.runtimes] == ["bubblewrap"]
    health = (await client.get("/health")).json()
    assert (health["status"], health["workers"], health["queue"]["submissions"]) == ("ok", 1, 0)
    await until(lambda: logged(worker, 5))
    lines = [line for line in worker.said().splitlines() if "event=judged" in line]
    assert len(lines) == 5
    assert f"evaluation={shown.id} index=0 verdict=accepted rung=" in lines[0]
    assert "input()" not in worker.said()


async def test_equal_submissions_are_judged_once_and_each_gets_the_judgement(client, start_worker) -> None:
    worker = start_worker()
    body = asked(RIGHT, WRONG)
    right, wrong = body["submissions"]
    body["submissions"] = [right] * 40 + [wrong] + [right] * 23

    answer = await client.post("/v1/evaluations", params={"wait": 50, "detail": "full"}, json=body)

    shown = answer.json()
    assert shown["counts"] == {"total": 64, "done": 64, "running": 0, "pending": 0}
    assert [item["verdict"] for item in shown["judgements"]] == ["accepted"] * 40 + ["wrong_answer"] + ["accepted"] * 23
    assert all(len(item["tests"]) == 3 for item in shown["judgements"])
    await until(lambda: logged(worker, 2))
    assert worker.said().count("event=judged") == 2


async def test_what_was_judged_before_is_taken_from_the_cache_unless_it_may_differ(client, start_worker) -> None:
    worker = start_worker()
    slow = "while True: pass"
    body = asked(RIGHT, WRONG, "print(", "1 / 0", slow, limits={"cpu_seconds": 0.2})

    first = (await client.post("/v1/evaluations", params={"wait": 50}, json=body)).json()["judgements"]
    again = (await client.post("/v1/evaluations", params={"wait": 50}, json=body)).json()["judgements"]

    assert [item["cached"] for item in first] == [False] * 5
    assert [item["cached"] for item in again] == [True] * 4 + [False]
    assert [{**item, "cached": False} for item in again[:4]] == first[:4]
    assert again[4]["verdict"] == "time_limit"
    await until(lambda: logged(worker, 6))
    assert worker.said().count("event=judged") == 6
    health = (await client.get("/health")).json()
    assert (health["cache"]["hits"], health["cache"]["misses"], health["cache"]["results"]) == (4, 6, 4)
    assert health["cache"]["hit_rate"] == 0.4


async def test_the_cache_can_be_switched_off(client, start_worker) -> None:
    start_worker(result_cache_bytes=0)
    body = asked(RIGHT)

    for _ in range(2):
        answer = await client.post("/v1/evaluations", params={"wait": 50}, json=body)
        assert answer.json()["judgements"][0]["cached"] is False


async def test_short_submissions_dont_wait_for_a_long_one_that_was_claimed_with_them(client, start_worker) -> None:
    for _ in range(2):
        start_worker()
    endless = "n = int(input())\nwhile True: pass"
    sources = [RIGHT] * 40 + [endless] + [RIGHT] * 20
    await client.post("/v1/evaluations", json=asked(*sources, id="e", limits={"cpu_seconds": 4}))

    async def short_ones_are_done() -> bool:
        return (await client.get("/v1/evaluations/e", params={"detail": "summary"})).json()["counts"]["done"] == 60

    await until(short_ones_are_done, 40)
    counts = (await client.get("/v1/evaluations/e", params={"detail": "summary"})).json()["counts"]
    assert counts == {"total": 61, "done": 60, "running": 1, "pending": 0}
    assert (await finish(client, "e"))["judgements"][40]["verdict"] == "time_limit"


async def test_a_small_evaluation_doesnt_wait_for_a_large_one(client, start_worker) -> None:
    start_worker()
    await client.post("/v1/evaluations", json=asked(*[SLOW] * 500, id="large"))
    await until(lambda: running(client, "large"))

    began = time.monotonic()
    small = await client.post("/v1/evaluations", params={"wait": 50}, json=asked(RIGHT))

    assert small.json()["judgements"][0]["verdict"] == "accepted"
    assert time.monotonic() - began < 3
    await client.delete("/v1/evaluations/large")


async def test_a_small_evaluation_doesnt_wait_for_a_program_that_loops(client, start_worker) -> None:
    worker = start_worker()
    endless = "n = int(input())\nwhile True: pass"
    await client.post("/v1/evaluations", json=asked(*[endless] * 20, id="loops", limits={"cpu_seconds": 10}))

    async def loops() -> bool:
        return (await client.get("/v1/evaluations/loops")).json()["counts"]["running"] > 0

    await until(loops)
    await asyncio.sleep(1)

    small = await client.post("/v1/evaluations", params={"wait": 12}, json=asked(RIGHT, WRONG))

    assert [item and item["verdict"] for item in small.json()["judgements"]] == ["accepted", "wrong_answer"]
    assert (await client.get("/v1/evaluations/loops")).json()["counts"]["done"] == 0
    worker.process.terminate()
    assert await asyncio.to_thread(worker.process.wait, 90) == 0
    counts = (await client.get("/v1/evaluations/loops")).json()["counts"]
    assert (counts["running"], counts["done"] + counts["pending"]) == (0, 20)


async def test_when_a_worker_is_killed_all_comes_back_and_each_once(client, start_worker) -> None:
    workers = [start_worker(), start_worker()]
    sources = [SLOW if number % 2 else WRONG for number in range(24)]
    await client.post("/v1/evaluations", json=asked(*sources, id="e"))
    await until(lambda: running(client, "e"))

    os.kill(workers[0].process.pid, signal.SIGKILL)

    shown = await finish(client, "e")
    verdicts = [item["verdict"] for item in shown["judgements"]]
    assert verdicts == ["accepted" if number % 2 else "wrong_answer" for number in range(24)]
    assert shown["counts"] == {"total": 24, "done": 24, "running": 0, "pending": 0}
    assert (await client.get("/health")).json()["queue"]["submissions"] == 0


async def test_an_evaluation_that_is_posted_again_and_again_is_judged_once(client, start_worker) -> None:
    worker = start_worker()
    body = asked(*[RIGHT] * 10, id="e")

    answers = await asyncio.gather(*[client.post("/v1/evaluations", params={"wait": 50}, json=body) for _ in range(5)])
    again = await client.post("/v1/evaluations", params={"wait": 50}, json=body)

    assert {answer.text for answer in answers} == {again.text}
    await until(lambda: logged(worker, 10))
    assert worker.said().count("event=judged") == 10


async def test_what_runs_is_stopped_between_tests_when_it_is_cancelled(client, start_worker) -> None:
    start_worker()
    body = asked(RIGHT, *[SLOW] * 9, id="e", suite={"tests": [TESTS[0]] * 100})
    await client.post("/v1/evaluations", json=body)
    await until(lambda: running(client, "e"))

    assert (await client.delete("/v1/evaluations/e")).json()["state"] == "cancelled"

    async def is_over() -> bool:
        return (await client.get("/v1/evaluations/e")).json()["counts"]["done"] == 10

    await until(is_over, 20)
    judgements = (await client.get("/v1/evaluations/e")).json()["judgements"]
    assert [item["verdict"] for item in judgements] == ["accepted"] + ["cancelled"] * 9
    assert [item["reward"] for item in judgements] == [1.0] + [None] * 9


async def test_a_worker_that_shall_end_finishes_what_it_has_in_hand(client, start_worker) -> None:
    worker = start_worker()
    await client.post("/v1/evaluations", json=asked(*[SLOW] * 8, id="e"))
    await until(lambda: running(client, "e"))

    worker.process.terminate()

    assert await asyncio.to_thread(worker.process.wait, 20) == 0
    shown = (await client.get("/v1/evaluations/e")).json()
    assert 0 < shown["counts"]["done"] < 8
    assert shown["counts"]["running"] == 0
    assert (await client.get("/health")).json()["workers"] == 0
    start_worker()
    assert [item["verdict"] for item in (await finish(client, "e"))["judgements"]] == ["accepted"] * 8


async def test_a_worker_that_may_not_finish_gives_back_what_it_has_in_hand(client, start_worker) -> None:
    worker = start_worker(shutdown_grace_seconds=0)
    await client.post("/v1/evaluations", json=asked(RIGHT, SLOW, id="e", suite={"tests": [TESTS[0]] * 100}))
    await until(lambda: running(client, "e"))

    worker.process.terminate()

    assert await asyncio.to_thread(worker.process.wait, 20) == 0
    assert (await client.get("/v1/evaluations/e")).json()["counts"] == {
        "total": 2,
        "done": 1,
        "running": 0,
        "pending": 1,
    }


async def test_an_idle_worker_ends_at_once(client, start_worker) -> None:
    worker = start_worker()

    async def is_there() -> bool:
        return (await client.get("/health")).json()["workers"] == 1

    await until(is_there)
    worker.process.send_signal(signal.SIGINT)

    assert await asyncio.to_thread(worker.process.wait, 10) == 0


async def test_a_worker_without_a_sandbox_says_so_and_ends(start_worker) -> None:
    worker = start_worker(sandbox="nothing")

    assert await asyncio.to_thread(worker.process.wait, 20) == FAILED
    assert "event=no_sandbox" in worker.said()
    assert "Traceback" not in worker.said()


async def test_a_worker_lives_through_a_restart_of_redis(connect, start_worker) -> None:
    with PrivateRedis() as server:
        client = await connect(Settings(redis_url=server.url))
        worker = start_worker(redis_url=server.url)
        await client.post("/v1/evaluations", json=asked(*[SLOW] * 8, id="e"))
        await until(lambda: running(client, "e"))

        await asyncio.to_thread(server.restart)

        assert (await client.get("/v1/evaluations/e")).status_code == 404
        await client.post("/v1/evaluations", json=asked(*[RIGHT] * 3, id="e"))
        assert [item["verdict"] for item in (await finish(client, "e"))["judgements"]] == ["accepted"] * 3
        assert worker.process.poll() is None
        worker.process.terminate()
        assert await asyncio.to_thread(worker.process.wait, 20) == 0


class Malicious:
    """What a pickle does when it is read."""

    def __init__(self, command: str) -> None:
        """Run `command`."""
        self.command = command

    def __reduce__(self):
        """Run it."""
        return os.system, (self.command,)


async def test_who_can_write_to_redis_cant_run_code_in_a_worker(client, start_worker, redis_url, tmp_path) -> None:
    touched = tmp_path / "touched"
    command = f"touch {touched}"
    with redis.Redis.from_url(redis_url) as store:
        honest = Queue("microcoder", connection=store, serializer=JSONSerializer)
        honest.enqueue("os.system", command)
        honest.enqueue("service.worker.run", "e", on_success=Callback("os.system"), on_failure=Callback("os.system"))
        job = honest.enqueue("service.worker.run", 7, meta={})
        store.hset(job.key, "meta", pickle.dumps(Malicious(command)))
        Queue("microcoder", connection=store, serializer=PickleSerializer).enqueue("os.system", Malicious(command))
        job = honest.enqueue("service.worker.run", "e")
        store.hset(job.key, "data", pickle.dumps(Malicious(command)))
        worker = start_worker()

        answer = await client.post("/v1/evaluations", params={"wait": 50}, json=asked(RIGHT))

        assert answer.json()["judgements"][0]["verdict"] == "accepted"
        await until(lambda: asyncio.to_thread(lambda: honest.count == 0))
    assert worker.process.poll() is None
    assert "isn't a turn" in worker.said()
    assert not touched.exists()


def test_an_ordinary_worker_of_rq_is_told_that_it_is_the_wrong_one() -> None:
    with pytest.raises(RuntimeError, match="microcoder worker"):
        run("e")


# In this process, with a judge that says what it is told to say


@dataclass
class ScriptedJudge:
    """Gives these judgements, or raises these errors, and is its own pool of boxes."""

    answers: list[Judgement | Exception]
    asked: list[Submission] = field(default_factory=list)
    broken: bool = False

    def judge(self, submission, suite, *, cancelled, progress) -> Judgement:
        """The next answer."""
        self.asked.append(submission)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def take(self) -> None:
        """A box, or none."""
        if self.broken:
            raise SandboxUnavailable("The daemon is gone.")

    def give(self, box: object) -> None:
        """Take it back."""


SUITE_DATA = b'{"kind":"stdin","input":""}\n'
ACCEPTED = Judgement(Verdict.ACCEPTED, 1.0)
BOX_LOST = Judgement(Verdict.INTERNAL_ERROR, None, detail="Two boxes were lost.", reason=Reason.BOX_LOST)


async def take_turn(settings: Settings, judge: ScriptedJudge, count: int) -> tuple[TurnTaker, dict]:
    suite = InlineSuite(suite_id(SUITE_DATA), SUITE_DATA, 1)
    evaluations = Evaluations(settings)
    async with evaluations.opened():
        submissions = [Submission(Program(f"pass  # {number}"), suite.id) for number in range(count)]
        await evaluations.accept("e", Intake.of(submissions, {suite.id: suite}))
        with redis.Redis.from_url(settings.redis) as store:
            claims = Claims(store, settings)
            taker = TurnTaker(claims, Heart("w", claims, settings, Runtime("none", "3")), judge, judge, settings)
            await asyncio.to_thread(taker.take, "e", "turn")
        text, _ = await evaluations.fetch("e", "failures")
        return taker, EvaluationOut.model_validate_json(text).model_dump()


async def test_a_submission_whose_box_was_lost_is_tried_again(settings: Settings) -> None:
    _, shown = await take_turn(settings, ScriptedJudge([BOX_LOST, BOX_LOST, ACCEPTED, ACCEPTED]), 2)

    assert [item["verdict"] for item in shown["judgements"]] == ["accepted", "accepted"]


async def test_a_box_that_is_lost_each_time_is_an_internal_error_in_the_end(settings: Settings) -> None:
    _, shown = await take_turn(settings, ScriptedJudge([BOX_LOST] * 3 + [ACCEPTED]), 2)

    assert [item["verdict"] for item in shown["judgements"]] == ["internal_error", "accepted"]
    assert shown["judgements"][0]["reason"] == "box_lost"


async def test_a_worker_that_gets_no_boxes_any_more_fails_nobody_and_ends(settings: Settings) -> None:
    taker, shown = await take_turn(settings, ScriptedJudge([BOX_LOST], broken=True), 2)

    assert (taker.failed, taker.stopping) == (True, True)
    assert shown["counts"] == {"total": 2, "done": 0, "running": 0, "pending": 2}


async def test_a_fault_of_ours_harms_one_submission_and_is_logged_with_its_trace(settings: Settings, caplog) -> None:
    _, shown = await take_turn(settings, ScriptedJudge([ZeroDivisionError("no"), ACCEPTED]), 2)

    first, second = shown["judgements"]
    assert (first["verdict"], first["reward"], second["verdict"]) == ("internal_error", None, "accepted")
    assert "ZeroDivisionError" in first["detail"]
    assert any(record.exc_info for record in caplog.records)


@dataclass
class SilentClaims:
    """A Redis that hears nothing."""

    beats: int = 0

    def heartbeat(self, *anything: str) -> None:
        """Count."""
        self.beats += 1

    def renew(self, claims: list[Claim]) -> list[Hold]:
        """Always."""
        return [Hold.KEPT] * len(claims)

    def retire(self, worker: str) -> None:
        """Nothing."""


def test_a_worker_whose_judge_hangs_falls_silent_and_ends_itself(caplog) -> None:
    settings = Settings(redis_url="unix:///none", lease_seconds=0.5, stall_grace_seconds=0.1)
    claims, statuses = SilentClaims(), []
    heart = Heart("w", claims, settings, Runtime("none", "3"), statuses.append)
    heart.hand.take([Claim("e", 0, "w", Submission(Program(""), "s", Limits(wall_seconds=0.1)), 1)])
    heart.hand.begin()
    heart.start()
    heart.join(10)

    assert not heart.is_alive()
    assert statuses == [HUNG]
    assert claims.beats <= 3
    assert "event=worker_hangs" in caplog.text


def test_a_worker_whose_judge_gets_on_lives() -> None:
    settings = Settings(redis_url="unix:///none", lease_seconds=0.5, stall_grace_seconds=0.3)
    claims, statuses = SilentClaims(), []
    heart = Heart("w", claims, settings, Runtime("none", "3"), statuses.append)
    heart.hand.take([Claim("e", 0, "w", Submission(Program(""), "s", Limits(wall_seconds=1)), 1)])
    heart.hand.begin()
    heart.start()
    for _ in range(10):
        time.sleep(0.1)
        heart.hand.progress()
    heart.stop()

    assert statuses == []
    assert claims.beats > 3


def test_decoded_suites_are_kept_by_bytes_and_the_least_recently_used_goes_first() -> None:
    stored = {name: b'{"kind":"stdin","input":"' + name.encode() + b'"}\n' for name in "abc"}
    read: list[str] = []

    def get(name: str) -> bytes | None:
        read.append(name)
        return stored.get(name)

    cache = SuiteCache(get, 2 * len(stored["a"]))
    for name in "abacab":
        cache.get(name)

    assert read == ["a", "b", "c", "b"]
    with pytest.raises(SuiteLost):
        cache.get("d")
