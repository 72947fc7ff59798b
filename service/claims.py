"""The record of an evaluation as a worker sees it: claim submissions, keep them, store judgements, give back.

A claim is a lease. Several are made at once where they are short, so that a round trip to Redis is paid once for all. A
worker that dies stops renewing them, and `recover`, which every worker calls now and then, puts the submissions back at
the front of their evaluation. Turns that got lost (their worker died with them in hand, or RQ forgot
them) are noticed in the same way and replaced. Nothing here depends on RQ's own records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from evaluator.model import Reason, Submission, Verdict
from service.encoding import CANCELLED, load_submission, unjudged
from service.fingerprints import FINGERPRINT_BYTES
from service.living import HEARTBEAT, NEXT_TURN, RECOVER, TOP_UP
from service.records import CLAIM, GIVE_BACK, RENEW, STORE, Keys
from service.settings import Settings
from service.suite_store import read_stored
from service.turns import TurnQueue, new_turns, turn_after

STARTING = 5.0
"""Seconds that a turn may be in nobody's sight, on its way from the queue to a worker, beyond a lease."""
EXECUTION_TTL = 60
"""Seconds that an execution's outputs are kept: who asked is there and takes them, or has gone away."""


class Hold(IntEnum):
    """What has become of a claim."""

    KEPT = 0
    CANCELLED = 1
    """Nobody wants the judgement any more."""
    LOST = 2
    """It ran out and is another's now, or somebody has judged it already."""


class Overtaking(IntEnum):
    """Which evaluations that are hardly begun go before the one that has its turn."""

    NONE = 0
    FRESH = 1
    """The newest of them."""
    RECENT = 2
    """The newest of them, if it arrived within a second, with few others, and nobody has anything of it in hand: what
    somebody is busy with may be long."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A submission in hand."""

    evaluation: str
    index: int
    owner: str
    submission: Submission
    attempt: int
    mark: bytes = b""
    """The submission's fingerprint."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim and its judgement, ready to be stored."""

    claim: Claim
    short: str
    tests: bytes
    lasting: bool = False
    """Whether the same submission would be judged alike again: it goes into the cache."""
    note: str = ""
    """What the log says of it."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What came of one look for work: all of one evaluation."""

    evaluation: str
    claims: tuple[Claim, ...] = ()
    hits: int = 0
    """Submissions that the cache of results has answered on the way."""
    waiting: int = 0
    """Submissions of the evaluation that still wait."""


class Claims:
    """What a worker asks of Redis. `redis` is a blocking client; threads may share it."""

    def __init__(self, redis: Any, settings: Settings, place: bytes = b"") -> None:
        """Use `redis`. `place` is the fingerprint of where this worker judges; without it no result is cached."""
        self._place = place if settings.result_cache_bytes else b""
        self._redis = redis
        self._settings = settings
        self._keys = Keys(settings.queue)
        self._turns = TurnQueue(redis, settings.queue, settings.failure_ttl_seconds)
        self._claim = redis.register_script(CLAIM)
        self._renew = redis.register_script(RENEW)
        self._store = redis.register_script(STORE)
        self._give_back = redis.register_script(GIVE_BACK)
        self._recover = redis.register_script(RECOVER)
        self._next_turn = redis.register_script(NEXT_TURN)
        self._top_up = redis.register_script(TOP_UP)
        self._heartbeat = redis.register_script(HEARTBEAT)

    def claim(self, evaluation: str, owner: str, most: int = 1, *, overtake: Overtaking = Overtaking.NONE) -> Claimed:
        """Submissions that wait, at most so many. `owner`, `worker:turn:number`, is used once.

        Args:
            evaluation: whose; empty for none in particular.
            overtake: which evaluation goes before, if there is such a one.
        """
        settings = self._settings
        times = (settings.result_ttl_seconds, settings.result_cache_ttl_seconds)
        chosen, hits, waiting, *found = self._run(
            self._claim, evaluation, owner, settings.lease_seconds, most, int(overtake), self._place, *times
        )
        id = chosen.decode()
        claims = [
            Claim(
                id,
                int(index),
                owner,
                load_submission(blob[FINGERPRINT_BYTES:]),
                int(attempt),
                blob[:FINGERPRINT_BYTES],
            )
            for index, blob, attempt in zip(found[::3], found[1::3], found[2::3], strict=True)
        ]
        return Claimed(id, tuple(claims), int(hits), int(waiting))

    def renew(self, claims: Sequence[Claim]) -> list[Hold]:
        """Keep claims that were made at once."""
        first = claims[0]
        indexes = [claim.index for claim in claims]
        holds = self._run(self._renew, first.evaluation, first.owner, self._settings.lease_seconds, *indexes)
        return [Hold(int(hold)) for hold in holds]

    def store(self, judged: Sequence[Judged]) -> list[bool]:
        """Write judgements of claims that were made at once.

        False: another was first, and stays; or the evaluation of this name asks for something else (Redis has lost
        its data meanwhile, and the name was used again).
        """
        settings = self._settings
        arguments: list[Any] = []
        for item in judged:
            name = self._place + item.claim.mark if item.lasting and self._place else b""
            arguments += [item.claim.index, item.short, item.tests, name, item.claim.mark]
        ttl = EXECUTION_TTL if judged[0].claim.submission.execution is not None else settings.result_ttl_seconds
        bounds = (ttl, settings.result_cache_bytes, settings.result_cache_ttl_seconds)
        written = self._run(self._store, judged[0].claim.evaluation, *bounds, *arguments)
        return [bool(first) for first in written] or [False] * len(judged)

    def give_back(self, claims: Sequence[Claim], *, tried: bool = False) -> None:
        """Let another judge what was claimed at once. `tried` counts this as one of the attempts that each has."""
        forgiven, ttl = 0 if tried else 1, self._settings.result_ttl_seconds
        first, indexes = claims[0], [claim.index for claim in claims]
        self._run(self._give_back, first.evaluation, first.owner, forgiven, CANCELLED, ttl, *indexes)

    def end_turn(self, evaluation: str, turn: str) -> None:
        """Put the evaluation back at the queue's tail while anything of it waits. May be repeated."""
        fresh = turn_after(turn)
        if self._run(self._next_turn, evaluation, turn, fresh):
            self._turns.enqueue([(evaluation, fresh)])

    def heartbeat(self, worker: str, told: str, evaluation: str, turn: str) -> None:
        """Say that this worker lives, and what it has in hand (or nothing)."""
        self._run(self._heartbeat, worker, told, self._settings.lease_seconds, evaluation, turn)

    def count(self, counted: Mapping[str, float]) -> None:
        """Add to what the service has counted."""
        with self._redis.pipeline(transaction=True) as pipeline:
            for name, count in counted.items():
                pipeline.hincrbyfloat(self._keys.of("stats"), name, count)
            pipeline.execute()

    def retire(self, worker: str) -> None:
        """Say that this worker is gone."""
        self._redis.zrem(self._keys.of("workers"), worker)

    def read_suite(self, id: str) -> bytes | None:
        """The bytes of a stored suite."""
        return read_stored(self._redis, self._keys, id)

    def recover(self) -> list[str] | None:
        """Take back what dead workers held, and replace turns that were lost. Returns what was taken back.

        Only one worker does it in any second; the others get None at once.
        """
        if not self._redis.set(self._keys.of("recovery"), 1, nx=True, px=1000):
            return None
        attempts, ttl = self._settings.max_attempts, self._settings.result_ttl_seconds
        lost = unjudged(
            Verdict.INTERNAL_ERROR,
            f"The worker that judged this was lost, {attempts} times in a row.",
            Reason.WORKER_LOST,
        )
        found = self._run(self._recover, attempts, lost, CANCELLED, ttl, self._settings.lease_seconds)
        self._replace_lost_turns()
        return [claim.decode() for claim in found]

    def _replace_lost_turns(self) -> None:
        evaluations = [id.decode() for id in self._redis.smembers(self._keys.of("live"))]
        if not evaluations:
            return
        queued = self._turns.waiting()
        workers = max(1, self._count_workers())
        with self._redis.pipeline(transaction=False) as pipeline:
            for id in evaluations:
                pipeline.zrange(self._keys.evaluation(id, "t"), 0, -1)
            turns = pipeline.execute()
        fresh: list[tuple[str, str]] = []
        patience = self._settings.lease_seconds + STARTING
        for id, known in zip(evaluations, turns, strict=True):
            alive = [turn for turn in (name.decode() for name in known) if turn in queued]
            missing = self._run(self._top_up, id, workers, patience, new_turns(1)[0], *alive)
            fresh += [(id, turn.decode()) for turn in missing]
        if fresh:
            self._turns.enqueue(fresh)

    def _count_workers(self) -> int:
        now = self._redis.time()
        return int(self._redis.zcount(self._keys.of("workers"), now[0], "+inf"))

    def _run(self, script: Any, *arguments: Any) -> Any:
        return script(args=[self._keys.prefix, *arguments])
