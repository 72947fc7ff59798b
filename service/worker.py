"""The worker: a process that owns boxes, takes turns from the queue, judges, and writes what it found.

The only module of the service that imports the judge. How turns come in is in `turn_worker.py`, how a submission is
judged in `desk.py`.

It may be killed at any moment: what it had in hand is judged by another, and reported once. SIGTERM: it finishes the
submission in hand (or gives it back when that takes too long) and exits with 0.
"""

import contextlib
import logging
import signal
import time
import uuid
from functools import partial
from types import FrameType
from typing import Any

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from rq.exceptions import StopRequested

from evaluator.errors import SandboxUnavailable
from evaluator.judge import Judge
from evaluator.sandbox.pool import open_pool
from service.claims import Claims, Overtaking
from service.desk import Boxes, Desk, Judging, Stop
from service.fingerprints import fingerprint_of_place
from service.hand import Hand
from service.heart import Heart
from service.logs import configure_logging
from service.overtaker import Overtaker
from service.settings import Settings
from service.suite_store import SuiteCache
from service.turn_worker import TurnWorker

DONE, FAILED = 0, 1
ROUND_SECONDS, ROUND_SUBMISSIONS = 0.05, 16
"""How much is claimed at once: what takes about so long, and not more than so many."""
OVERTAKERS = ("second", "third")
"""Desks for what has just arrived. Their boxes are made when they are first needed."""

logger = logging.getLogger(__name__)


def run_worker(settings: Settings) -> int:
    """Work until SIGTERM or SIGINT; returns the exit status. To be called in the main thread of its own process."""
    configure_logging(settings.log_level)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop_early)
    try:
        pool = open_pool(settings.sandbox, self_test=settings.self_test)
    except SandboxUnavailable as error:
        logger.error("event=no_sandbox message=%s", error)
        return FAILED
    if not settings.self_test:
        logger.warning("event=self_test_off message=This worker serves from boxes that it hasn't tried.")
    with contextlib.closing(pool):
        client = redis.Redis.from_url(
            settings.redis,
            socket_timeout=15,
            socket_connect_timeout=5,
            retry=Retry(ConstantBackoff(0.1), 2),
        )
        with client:
            claims = Claims(client, settings, fingerprint_of_place(pool.runtime))
            heart = Heart(uuid.uuid4().hex, claims, settings, pool.runtime)
            heart.counts.follow("box_starts", lambda: pool.started)
            heart.counts.follow("box_recycles", lambda: pool.ended)
            turns = TurnTaker(claims, heart, Judge(pool, series=settings.series), pool, settings)
            overtakers: list[Overtaker] = []
            watched = heart.hand
            for name in OVERTAKERS:  # each watches the one before it
                branch, hand = pool.branch(), heart.another_hand()
                desk = turns.desk(hand, Judge(branch, series=settings.series), branch)
                overtakers.append(Overtaker(f"{heart.worker}:{name}", claims, watched, desk))
                watched = hand
            return _work(client, settings, turns, heart, overtakers)


def _stop_early(number: int, frame: FrameType | None) -> None:
    """SIGTERM before there is anything to finish."""
    raise SystemExit(DONE)


def _work(client: Any, settings: Settings, turns: "TurnTaker", heart: Heart, overtakers: list[Overtaker]) -> int:
    """Work, through any number of restarts of Redis, until told to stop."""
    heart.start()
    for overtaker in overtakers:
        overtaker.start()
    try:
        while True:
            try:
                TurnWorker(client, settings, turns, heart).work()
            except redis.RedisError as error:
                logger.error("event=redis_away error=%s message=%s", type(error).__name__, error)
            if turns.stopping:
                break
            time.sleep(1)
    except StopRequested:
        pass
    finally:
        for overtaker in overtakers:
            overtaker.close()  # it may still have something in hand, which the heart keeps
        heart.stop()
    return FAILED if turns.failed else DONE


def run(evaluation: str) -> None:
    """What a turn names. A worker of RQ's own can't do it."""
    raise RuntimeError(f"Evaluation {evaluation} can only be worked on by `microcoder worker`, not by `rq worker`.")


class TurnTaker:
    """Takes turns: judges an evaluation's submissions one at a time, for a while."""

    def __init__(self, claims: Claims, heart: Heart, judge: Judging, pool: Boxes, settings: Settings) -> None:
        """Judge with `judge` in boxes of `pool`, tell of it through `heart`."""
        self._claims = claims
        self._heart = heart
        self._settings = settings
        self._stop = Stop(settings.shutdown_grace_seconds)
        self._suites = SuiteCache(claims.read_suite, settings.worker_cache_bytes)
        self._desk = self.desk(heart.hand, judge, pool)
        self._overtake = Overtaking.FRESH

    def desk(self, hand: Hand, judge: Judging, pool: Boxes) -> Desk:
        """A desk of this worker: it shares the suites, and the end."""
        return Desk(hand, judge, pool, self._suites, self._settings, self._stop, self._heart.counts)

    @property
    def failed(self) -> bool:
        """Whether it ends because it can't go on."""
        return self._stop.failed

    @property
    def stopping(self) -> bool:
        """Whether no further submission is to be begun."""
        return self._stop.requested

    def stop(self) -> None:
        """Begin nothing more; what is in hand has a little time left."""
        self._stop.request()

    def take(self, evaluation: str, turn: str) -> None:
        """Judge for about `turn_seconds`, then queue again for the rest."""
        self._heart.take_turn(evaluation, turn)
        began = time.monotonic()
        try:
            self._judge_for_a_while(evaluation, turn)
        finally:
            self._heart.take_turn("", "")
            self._heart.counts.observe("turn_seconds", time.monotonic() - began)
        self._stop.persist(lambda: self._claims.end_turn(evaluation, turn))

    def _judge_for_a_while(self, evaluation: str, turn: str) -> None:
        """Judge round by round. Between two rounds of this evaluation, one of a fresh evaluation may come in.

        So what is small waits for the rounds in hand, however much was queued before it, and what is large keeps half
        of the time.
        """
        end = time.monotonic() + self._settings.turn_seconds
        number, most = 0, 1
        while not self.stopping and (number == 0 or time.monotonic() < end):
            number += 1
            owner = f"{self._heart.worker}:{turn}:{number}"
            found = self._stop.persist(partial(self._claims.claim, evaluation, owner, most, overtake=self._overtake))
            if found.hits:
                logger.info("event=cached evaluation=%s submissions=%d", found.evaluation, found.hits)
            elif not found.claims:
                break
            self._overtake = Overtaking.FRESH if found.evaluation == evaluation else Overtaking.NONE
            if found.claims:
                began = time.monotonic()
                self._desk.work_off(found.claims)
                each = (time.monotonic() - began) / len(found.claims)
                most = max(1, min(ROUND_SUBMISSIONS, int(ROUND_SECONDS / each)))
            if found.evaluation == evaluation and not found.waiting:
                break

    def recover(self) -> list[str] | None:
        """Take back what dead workers held. None: another worker is doing it."""
        found = self._claims.recover()
        if found:
            logger.warning("event=recovered claims=%d first=%s", len(found), found[0])
        return found
