"""The record in a real Redis: claims, leases, attempts, turns. No worker runs here; the test is every worker."""

import asyncio
import json
import time
from collections.abc import Iterator

import pytest
import redis

from evaluator.model import Judgement, Limits, Policy, Program, Submission, TestCase, TestKind, TestOrder, Verdict
from evaluator.suites import suite_id, write_suite
from service.claims import Claim, Claims, Hold, Judged, Overtaking
from service.encoding import dump_judgement, dump_submission, load_submission
from service.evaluations import Evaluations
from service.intake import InlineSuite, Intake
from service.records import Keys
from service.settings import Settings

DATA = write_suite([TestCase(TestKind.STDIN, "1\n", "1\n")])
SUITE = suite_id(DATA)
SHORT, TESTS = dump_judgement(Judgement(Verdict.ACCEPTED, 1.0))
OTHER, _ = dump_judgement(Judgement(Verdict.WRONG_ANSWER, 0.0))


def submission(number: int) -> Submission:
    return Submission(Program(f"print({number})"), SUITE)


def intake(count: int) -> Intake:
    return Intake.of([submission(number) for number in range(count)], {SUITE: InlineSuite(SUITE, DATA, 1)})


def claim_one(claims: Claims, id: str, owner: str) -> Claim | None:
    found = claims.claim(id, owner).claims
    return found[0] if found else None


def store_one(claims: Claims, claim: Claim, short: str = SHORT) -> bool:
    [first] = claims.store([Judged(claim, short, TESTS)])
    return first


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

    claimed = [claim_one(claims, "e", f"owner-{number}") for number in range(4)]

    assert [claim and claim.index for claim in claimed] == [0, 1, 2, None]
    assert claimed[1].submission == submission(1)


async def test_several_are_claimed_at_once_but_not_more_than_their_share(evaluations, claims, store) -> None:
    live(store, claims, workers=2)
    await evaluations.accept("e", intake(12))

    first = claims.claim("e", "a", 16)
    second = claims.claim("e", "b", 2)

    assert [claim.index for claim in first.claims] == [0, 1, 2], "a half of what two workers' shares are"
    assert [claim.index for claim in second.claims] == [3, 4]
    assert claims.renew(first.claims) == [Hold.KEPT] * 3
    assert claims.store([Judged(claim, SHORT, TESTS) for claim in first.claims]) == [True] * 3
    assert claims.renew([*second.claims, first.claims[0]]) == [Hold.KEPT, Hold.KEPT, Hold.LOST]


async def test_what_is_given_back_unbegun_keeps_its_place(evaluations, claims) -> None:
    await evaluations.accept("e", intake(8))
    found = claims.claim("e", "a", 16).claims
    claims.give_back(found[1:])

    again = [claim_one(claims, "e", "b"), claim_one(claims, "e", "c")]

    assert [claim.index for claim in found] == [0, 1, 2, 3]
    assert [(claim.index, claim.attempt) for claim in again] == [(1, 1), (2, 1)]


async def test_what_was_with_a_dead_worker_is_claimed_alone(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(12))
    claims.claim("e", "dead", 3)
    time.sleep(0.25)
    assert len(recover(store, claims)) == 3

    claimed = [claims.claim("e", f"alive-{number}", 16).claims for number in range(4)]

    assert [[claim.index for claim in found] for found in claimed[:3]] == [[2], [1], [0]]
    assert len(claimed[3]) > 1


async def test_what_is_asked_for_twice_waits_once_and_is_shown_twice(evaluations, claims, store) -> None:
    first, second = submission(1), submission(2)
    given = [first, second, first, first, second]
    await evaluations.accept("e", Intake.of(given, {SUITE: InlineSuite(SUITE, DATA, 1)}))
    assert int(store.get("microcoder:unfinished")) == 2

    claim = claim_one(claims, "e", "a")
    shown = json.loads((await evaluations.fetch("e", "failures"))[0])
    assert shown["counts"] == {"total": 5, "done": 0, "running": 3, "pending": 2}
    store_one(claims, claim)
    shown = json.loads((await evaluations.fetch("e", "failures"))[0])
    assert shown["counts"] == {"total": 5, "done": 3, "running": 0, "pending": 2}
    assert [item and item["verdict"] for item in shown["judgements"]] == [
        "accepted",
        None,
        "accepted",
        "accepted",
        None,
    ]

    await evaluations.cancel("e")
    shown = json.loads((await evaluations.fetch("e", "failures"))[0])
    assert shown["counts"]["done"] == 5
    assert int(store.get("microcoder:unfinished")) == 0


async def test_the_first_result_stays_and_counts_once(evaluations, claims) -> None:
    await evaluations.accept("e", intake(2))
    claim = claim_one(claims, "e", "a")

    assert store_one(claims, claim)
    assert not store_one(claims, claim, OTHER)

    text, final = await evaluations.fetch("e", "summary")
    assert '"accepted"' in text and '"wrong_answer"' not in text
    assert '"done": 1' in text
    assert not final


async def test_what_a_dead_worker_held_is_judged_next_and_its_late_result_doesnt_count_twice(
    evaluations, claims, store
) -> None:
    await evaluations.accept("e", intake(2))
    lost = claim_one(claims, "e", "dead")
    assert recover(store, claims) == []
    time.sleep(0.25)

    assert recover(store, claims) == ["e 0"]

    again = claim_one(claims, "e", "alive")
    assert (again.index, again.attempt) == (0, 2)
    assert claims.renew([lost]) == [Hold.LOST]
    assert store_one(claims, again)
    assert not store_one(claims, lost, OTHER)


async def test_a_late_result_of_what_waits_again_is_taken_and_it_isnt_judged_again(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(1))
    late = claim_one(claims, "e", "slow")
    time.sleep(0.25)
    recover(store, claims)

    assert store_one(claims, late)

    assert claim_one(claims, "e", "next") is None
    assert (await evaluations.fetch("e", "failures"))[1]


async def test_a_lease_that_is_renewed_doesnt_end(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(1))
    claim = claim_one(claims, "e", "a")
    for _ in range(4):
        time.sleep(0.1)
        assert claims.renew([claim]) == [Hold.KEPT]

    assert recover(store, claims) == []


async def test_after_three_lost_workers_a_submission_is_an_internal_error_without_reward(
    evaluations, claims, store
) -> None:
    await evaluations.accept("e", intake(2))
    for number in range(3):
        assert claim_one(claims, "e", f"dead-{number}").attempt == number + 1
        time.sleep(0.25)
        recover(store, claims)

    text, final = await evaluations.fetch("e", "failures")
    assert '"internal_error", "reward": null' in text
    assert '"worker_lost"' in text
    assert not final
    assert claim_one(claims, "e", "alive").index == 1


async def test_what_is_given_back_waits_again_and_was_no_attempt(evaluations, claims) -> None:
    await evaluations.accept("e", intake(2))
    claims.give_back([claim_one(claims, "e", "a")])
    assert claim_one(claims, "e", "b").attempt == 1
    claims.give_back([claim_one(claims, "e", "c")], tried=True)

    again = claim_one(claims, "e", "d")
    assert (again.index, again.attempt) == (1, 2)


async def test_a_cancelled_evaluation_drops_what_waits_and_tells_who_judges(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(3))
    claim, other = claim_one(claims, "e", "a"), claim_one(claims, "e", "b")

    assert await evaluations.cancel("e")

    assert claims.renew([claim]) == [Hold.CANCELLED]
    assert claim_one(claims, "e", "c") is None
    assert store_one(claims, claim)
    claims.give_back([other])
    text, final = await evaluations.fetch("e", "summary")
    assert final
    assert '"done": 3' in text
    assert text.count('"cancelled"') == 3
    assert int(store.get("microcoder:unfinished")) == 0


async def test_a_done_evaluation_leaves_only_its_results_and_those_for_a_time(evaluations, claims, store) -> None:
    await evaluations.accept("e", intake(1))
    store_one(claims, claim_one(claims, "e", "a"))

    keys = {key.decode(): store.ttl(key) for key in store.scan_iter("microcoder:e:*")}

    assert set(keys) == {f"microcoder:e:e{part}" for part in ("", ":r", ":f", ":o")}
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
    claim_one(claims, "e", "a")

    claims.end_turn("e", turn)
    assert turns(store) == 1
    claim_one(claims, "e", "b")
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
    claim_one(claims, "e", f"dead:{turn}:1")
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


async def test_a_fresh_evaluation_goes_before_one_that_has_begun_but_not_before_each_round(evaluations, claims) -> None:
    await evaluations.accept("large", intake(500))
    for number in range(20):
        claims.claim("large", f"a{number}")
    await evaluations.accept("first", intake(1))
    await evaluations.accept("second", intake(2))

    found = [claims.claim("large", f"b{number}", overtake=Overtaking.FRESH) for number in range(4)]
    without = claims.claim("large", "c")

    assert [item.evaluation for item in found] == ["second", "second", "first", "large"]
    assert all(len(item.claims) == 1 for item in found)
    assert without.evaluation == "large"


async def test_an_evaluation_is_fresh_only_for_its_first_submissions(evaluations, claims) -> None:
    await evaluations.accept("large", intake(500))

    found = [claims.claim("", f"a{number}", overtake=Overtaking.FRESH).evaluation for number in range(12)]

    assert found == ["large"] * 8 + [""] * 4


async def test_who_looks_for_what_has_just_arrived_leaves_the_rest(evaluations, claims, store) -> None:
    await evaluations.accept("old", intake(1))
    await evaluations.accept("new", intake(1))
    store.zincrby("microcoder:fresh", -3, "old")

    found = [claims.claim("", f"a{number}", overtake=Overtaking.RECENT) for number in range(2)]

    assert [(item.evaluation, len(item.claims)) for item in found] == [("new", 1), ("", 0)]


async def test_what_somebody_is_busy_with_may_be_long_and_isnt_taken_up_beside_it(evaluations, claims) -> None:
    await evaluations.accept("e", intake(3))
    held = claim_one(claims, "e", "a")
    assert claims.claim("", "b", overtake=Overtaking.RECENT).claims == ()

    store_one(claims, held)

    assert len(claims.claim("", "c", overtake=Overtaking.RECENT).claims) == 1


# The cache of results


def lasting(claim: Claim, short: str = SHORT) -> Judged:
    return Judged(claim, short, TESTS, lasting=True)


def cached(quick: Settings, store: redis.Redis, place: bytes = b"here", **changes) -> Claims:
    return Claims(store, quick.model_copy(update=changes), place.ljust(32))


async def test_a_result_is_given_to_the_same_submission_at_the_same_place_and_says_so(
    evaluations, quick, store
) -> None:
    here, there = cached(quick, store), cached(quick, store, b"there")
    await evaluations.accept("e1", intake(1))
    here.store([lasting(claim_one(here, "e1", "a"))])

    for id in ("e2", "e3"):
        await evaluations.accept(id, intake(2))
    elsewhere = claim_one(there, "e2", "b")
    found = here.claim("e3", "c", 16)

    assert elsewhere.index == 0, "another Python may judge otherwise"
    assert (found.hits, [claim.index for claim in found.claims]) == (1, [1])
    shown = json.loads((await evaluations.fetch("e3", "full"))[0])
    assert shown["judgements"][0] == {**json.loads(SHORT), "cached": True}
    assert json.loads((await evaluations.fetch("e1", "failures"))[0])["judgements"][0]["cached"] is False
    depth = await evaluations.depth()
    assert (depth.hits, depth.misses, depth.cached_results) == (1, 1, 1)


async def test_an_evaluation_that_the_cache_answers_whole_is_done_and_wakes_its_waiters(
    evaluations, quick, store
) -> None:
    here = cached(quick, store)
    await evaluations.accept("e1", intake(20))
    for number in range(20):
        here.store([lasting(claim_one(here, "e1", f"a{number}"))])
    await evaluations.accept("e2", intake(20))
    waiting = asyncio.create_task(evaluations.wait("e2", 30))
    await asyncio.sleep(0.1)

    found = here.claim("e2", "b", 16)
    await asyncio.wait_for(waiting, 5)

    assert (found.hits, found.claims) == (20, ())
    assert (await evaluations.fetch("e2", "summary"))[1]
    assert int(store.get("microcoder:unfinished")) == 0


async def test_what_may_turn_out_otherwise_isnt_kept(evaluations, quick, store) -> None:
    here = cached(quick, store)
    await evaluations.accept("e1", intake(1))
    store_one(here, claim_one(here, "e1", "a"))
    await evaluations.accept("e2", intake(1))

    assert here.claim("e2", "b").hits == 0


async def test_without_a_budget_nothing_is_kept_or_looked_up(evaluations, quick, store) -> None:
    off = cached(quick, store, result_cache_bytes=0)
    await evaluations.accept("e1", intake(1))
    off.store([lasting(claim_one(off, "e1", "a"))])
    await evaluations.accept("e2", intake(1))

    assert off.claim("e2", "b").hits == 0
    assert store.keys("microcoder:k*") == []


async def test_the_cache_keeps_to_its_bytes_and_forgets_what_was_used_longest_ago(evaluations, quick, store) -> None:
    size = len(SHORT) + len(TESTS) + 400
    here = cached(quick, store, result_cache_bytes=3 * size)
    await evaluations.accept("e1", intake(4))
    for number in range(3):
        here.store([lasting(claim_one(here, "e1", f"a{number}"))])
    await evaluations.accept("e2", intake(1))
    assert here.claim("e2", "b").hits == 1, "so 0 was used last"
    here.store([lasting(claim_one(here, "e1", "a3"))])

    await evaluations.accept("e3", intake(4))
    found = here.claim("e3", "c", 16)

    assert (found.hits, [claim.index for claim in found.claims]) == (3, [1])
    assert int(store.get("microcoder:kept:bytes")) == 3 * size == sum(map(int, store.hvals("microcoder:kept:sizes")))
    assert store.zcard("microcoder:kept") == len(store.keys("microcoder:k:*")) == 3


async def test_the_cache_forgets_in_time_and_its_books_with_it(evaluations, quick, store) -> None:
    here = cached(quick, store, result_cache_ttl_seconds=1)
    await evaluations.accept("e1", intake(2))
    here.store([lasting(claim_one(here, "e1", "a"))])
    time.sleep(1.2)
    await evaluations.accept("e2", intake(1))
    assert here.claim("e2", "b").hits == 0

    here.store([lasting(claim_one(here, "e1", "c"))])

    assert store.zcard("microcoder:kept") == store.hlen("microcoder:kept:sizes") == 1
    assert int(store.get("microcoder:kept:bytes")) == len(SHORT) + len(TESTS) + 400


# Events


async def heard(evaluations: Evaluations, id: str, after: int = 0, detail: str = "summary") -> list:
    return [event async for event in evaluations.follow(id, after, detail)]


async def test_events_come_in_the_order_of_the_ends_and_again_from_any_number(evaluations, claims) -> None:
    await evaluations.accept("e", Intake.of([submission(n) for n in (0, 1, 0)], {SUITE: InlineSuite(SUITE, DATA, 1)}))
    first, second = claim_one(claims, "e", "a"), claim_one(claims, "e", "b")
    listening = asyncio.create_task(heard(evaluations, "e"))
    store_one(claims, second, OTHER)
    await asyncio.sleep(0.2)
    store_one(claims, first)

    events = await asyncio.wait_for(listening, 5)

    assert [(event.number, event.index) for event in events[:-1]] == [(1, 1), (2, 0), (3, 2)]
    assert [json.loads(event.judgement)["verdict"] for event in events[:-1]] == ["wrong_answer", "accepted", "accepted"]
    assert (events[-1].state, events[-1].total) == ("done", 3)
    assert await heard(evaluations, "e", after=2) == events[2:]
    assert await heard(evaluations, "unknown") == []


async def test_a_listener_is_woken_by_each_judgement_and_others_cost_nothing(evaluations, claims, store) -> None:
    await evaluations.accept("quiet", intake(3))
    await evaluations.accept("e", intake(3))
    events = evaluations.follow("e", 0, "summary")
    following = asyncio.create_task(anext(events))
    await asyncio.sleep(0.2)

    for id in ("quiet", "e"):
        store_one(claims, claim_one(claims, id, f"a-{id}"))
    event = await asyncio.wait_for(following, 2)

    assert event.index == 0
    assert store.xlen("microcoder:events") == 1
    await events.aclose()


async def test_a_cancelled_evaluation_is_told_to_its_end(evaluations, claims) -> None:
    await evaluations.accept("e", intake(250))
    claim = claim_one(claims, "e", "a")
    await evaluations.cancel("e")
    listening = asyncio.create_task(heard(evaluations, "e"))
    await asyncio.sleep(0.2)
    assert not listening.done(), "one is still being judged"
    claims.give_back([claim])

    events = await asyncio.wait_for(listening, 5)

    assert [event.index for event in events[:-1]] == [*range(1, 250), 0]
    assert events[-1].state == "cancelled"


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
        test_order=TestOrder.ADAPTIVE,
    )

    assert load_submission(dump_submission(submission)) == submission
    assert load_submission(dump_submission(Submission(None, SUITE))).program is None


def test_keys_of_two_services_differ() -> None:
    assert Keys("a").evaluation("x", "r") != Keys("b").evaluation("x", "r")
