"""The record in a real Redis: claims, leases, attempts, turns. No worker runs here; the test is every worker."""

import time
from collections.abc import Iterator

import pytest
import redis

from evaluator.model import Judgement, Limits, Policy, Program, Submission, TestCase, TestKind, Verdict
from evaluator.suites import suite_id, write_suite
from service.claims import Claims, Hold
from service.encoding import dump_judgement, dump_submission, load_submission
from service.evaluations import Evaluations
from service.intake import InlineSuite, Intake
from service.records import Keys
from service.settings import Settings

DATA = write_suite([TestCase(TestKind.STDIN, "1\n", "1\n")])
SUITE = suite_id(DATA)
SHORT, TESTS = dump_judgement(Judgement(Verdict.ACCEPTED, 1.0))
OTHER, _ = dump_judgement(Judgement(Verdict.WRONG_ANSWER, 0.0))


def intake(count: int, digest: str = "d") -> Intake:
    submissions = [Submission(Program(f"print({number})"), SUITE) for number in range(count)]
    return Intake(submissions, {SUITE: InlineSuite(SUITE, DATA, 1)}, digest)


@pytest.fixture
def quick(settings: Settings) -> Settings:
    """Leases that end within the test."""
    return settings.model_copy(update={"lease_seconds": 0.2})


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


def turns(store: redis.Redis) -> int:
    return store.llen("rq:queue:microcoder")


def live(store: redis.Redis, claims: Claims, workers: int = 1) -> None:
    for number in range(workers):
        claims.heartbeat(f"w{number}", '{"runtime": null}', "", "")


def recover(store: redis.Redis, claims: Claims) -> list[str] | None:
    store.delete("microcoder:recovery")
    return claims.recover()


async def test_submissions_are_claimed_in_order_and_each_once(evaluations, claims) -> None:
    await evaluations.accept("e", intake(3))

    claimed = [claims.claim("e", f"owner-{number}") for number in range(4)]

    assert [claim and claim.index for claim in claimed] == [0, 1, 2, None]
    assert claimed[1].submission == intake(3).submissions[1]


async def test_the_first_result_stays_and_counts_once(evaluations, claims) -> None:
    await evaluations.accept("e", intake(2))
    claim = claims.claim("e", "a")

    assert claims.store(claim, SHORT, TESTS)
    assert not claims.store(claim, OTHER, TESTS)

    text, final = await evaluations.fetch("e", "summary")
    assert '"accepted"' in text and '"wrong_answer"' not in text
    assert '"done": 1' in text
    assert not final


async def test_what_a_dead_worker_held_is_judged_next_and_its_late_result_doesnt_count_twice(
    evaluations, claims, store
) -> None:
    await evaluations.accept("e", intake(2))
    lost = claims.claim("e", "dead")
    assert recover(store, claims) == []
    time.sleep(0.25)

    assert recover(store, claims) == ["e 0"]

    again = claims.claim("e", "alive")
    assert (again.index, again.attempt) == (0, 2)
    assert claims.renew(lost) is Hold.LOST
    assert claims.store(again, SHORT, TESTS)
    assert not claims.store(lost, OTHER, TESTS)


async def test_a_late_result_of_what_waits_again_is_taken_and_it_isnt_judged_again(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(1))
    late = claims.claim("e", "slow")
    time.sleep(0.25)
    recover(store, claims)

    assert claims.store(late, SHORT, TESTS)

    assert claims.claim("e", "next") is None
    assert (await evaluations.fetch("e", "failures"))[1]


async def test_a_lease_that_is_renewed_doesnt_end(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(1))
    claim = claims.claim("e", "a")
    for _ in range(4):
        time.sleep(0.1)
        assert claims.renew(claim) is Hold.KEPT

    assert recover(store, claims) == []


async def test_after_three_lost_workers_a_submission_is_an_internal_error_without_reward(
    evaluations, claims, store
) -> None:
    await evaluations.accept("e", intake(2))
    for number in range(3):
        assert claims.claim("e", f"dead-{number}").attempt == number + 1
        time.sleep(0.25)
        recover(store, claims)

    text, final = await evaluations.fetch("e", "failures")
    assert '"internal_error", "reward": null' in text
    assert '"worker_lost"' in text
    assert not final
    assert claims.claim("e", "alive").index == 1


async def test_what_is_given_back_waits_again_and_was_no_attempt(evaluations, claims) -> None:
    await evaluations.accept("e", intake(2))
    claims.give_back(claims.claim("e", "a"))
    assert claims.claim("e", "b").attempt == 1
    claims.give_back(claims.claim("e", "c"), tried=True)

    again = claims.claim("e", "d")
    assert (again.index, again.attempt) == (1, 2)


async def test_a_cancelled_evaluation_drops_what_waits_and_tells_who_judges(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(3))
    claim, other = claims.claim("e", "a"), claims.claim("e", "b")

    assert await evaluations.cancel("e")

    assert claims.renew(claim) is Hold.CANCELLED
    assert claims.claim("e", "c") is None
    assert claims.store(claim, SHORT, TESTS)
    claims.give_back(other)
    text, final = await evaluations.fetch("e", "summary")
    assert final
    assert '"done": 3' in text
    assert text.count('"cancelled"') == 3
    assert int(store.get("microcoder:unfinished")) == 0


async def test_a_done_evaluation_leaves_only_its_results_and_those_for_a_time(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(1))
    claims.store(claims.claim("e", "a"), SHORT, TESTS)

    keys = {key.decode(): store.ttl(key) for key in store.scan_iter("microcoder:e:*")}

    assert set(keys) == {"microcoder:e:e", "microcoder:e:e:r", "microcoder:e:e:f"}
    assert all(0 < ttl <= 3600 for ttl in keys.values())
    assert store.scard(f"microcoder:suite:{SUITE}:refs") == 0


async def test_there_are_as_many_turns_as_workers_but_not_more_than_submissions(evaluations, claims, store) -> None:
    live(store, claims, workers=3)

    await evaluations.accept("e2", intake(2))
    assert turns(store) == 2
    await evaluations.accept("e9", intake(9))
    assert turns(store) == 2 + 3


async def test_a_turn_that_ends_goes_to_the_tail_while_anything_waits(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(2))
    [turn] = [name.decode() for name in store.lrange("rq:queue:microcoder", 0, -1)]
    store.delete("rq:queue:microcoder")
    claims.claim("e", "a")

    claims.end_turn("e", turn)
    assert turns(store) == 1
    claims.claim("e", "b")
    claims.end_turn("e", store.lpop("rq:queue:microcoder").decode())
    assert turns(store) == 0


async def test_a_turn_that_was_lost_is_replaced(evaluations, claims, store, monkeypatch) -> None:
    monkeypatch.setattr("service.claims.STARTING", 0.1)
    live(store, claims)
    await evaluations.accept("e", intake(2))
    recover(store, claims)
    assert turns(store) == 1

    store.delete(*store.keys("rq:*"))
    recover(store, claims)
    assert turns(store) == 0, "it may be on its way to a worker"
    time.sleep(0.4)
    recover(store, claims)

    assert turns(store) == 1


async def test_the_turn_of_a_dead_worker_is_replaced_with_what_it_held(evaluations, claims, store) -> None:
    live(store, claims)
    await evaluations.accept("e", intake(1))
    turn = store.lpop("rq:queue:microcoder").decode()
    claims.claim("e", f"dead:{turn}:1")
    time.sleep(0.25)

    recover(store, claims)

    assert turns(store) == 1


async def test_a_turn_in_hand_or_in_the_queue_isnt_replaced(evaluations, claims, store, monkeypatch) -> None:
    monkeypatch.setattr("service.claims.STARTING", 0.1)
    await evaluations.accept("e", intake(2))
    for _ in range(3):
        time.sleep(0.2)
        recover(store, claims)
    assert turns(store) == 1

    turn = store.lpop("rq:queue:microcoder").decode()
    for _ in range(3):
        time.sleep(0.2)
        claims.heartbeat("w0", "{}", "e", turn)
        recover(store, claims)
    assert turns(store) == 0


async def test_new_workers_get_turns_of_what_waits_already(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(5))
    live(store, claims, workers=3)

    recover(store, claims)

    assert turns(store) == 3


async def test_only_one_worker_recovers_at_a_time(claims) -> None:
    assert claims.recover() == []
    assert claims.recover() is None


async def test_a_worker_that_falls_silent_isnt_counted(evaluations, claims, store) -> None:
    live(store, claims, workers=2)
    assert await evaluations.count_workers() == 2
    time.sleep(0.25)

    assert await evaluations.count_workers() == 0
    assert await evaluations.workers() == []


def test_a_submission_is_read_back_as_it_was_written() -> None:
    submission = Submission(
        Program("print('\u00e9\U0001f600')", entry_point="Solution.f"),
        SUITE,
        Limits(cpu_seconds=0.5, wall_seconds=3),
        Policy(order="any", yes_no=True),
        fail_fast=False,
    )

    assert load_submission(dump_submission(submission)) == submission
    assert load_submission(dump_submission(Submission(None, SUITE))).program is None


def test_keys_of_two_services_differ() -> None:
    assert Keys("a").evaluation("x", "r") != Keys("b").evaluation("x", "r")
