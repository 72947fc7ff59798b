"""The worker: a process that owns boxes, takes turns from the queue, judges, and writes what it found.

The only module of the service that imports the sandbox or the judge. How turns come in is in `turn_worker.py`.

It may be killed at any moment: what it had in hand is judged by another, and reported once. SIGTERM: it finishes the
submission in hand (or gives it back when that takes too long) and exits with 0.
"""

import contextlib
import logging
import signal
import time
import uuid
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from rq.exceptions import StopRequested

from evaluator.errors import SandboxError, SandboxUnavailable
from evaluator.judge import Judge
from evaluator.model import Judgement, Reason, Submission, Suite, Verdict
from evaluator.sandbox.base import Box
from evaluator.sandbox.pool import open_pool
from service.claims import Claim, Claims, Hold, Judged
from service.encoding import dump_judgement, first_rung
from service.fingerprints import fingerprint_of_place
from service.heart import Heart
from service.logs import configure_logging
from service.settings import Settings
from service.suite_store import SuiteCache, SuiteLost
from service.turn_worker import TurnWorker

DONE, FAILED = 0, 1
REDIS_PATIENCE = 60.0
"""Seconds that a finished judgement waits for Redis to come back."""

ROUND_SECONDS, ROUND_SUBMISSIONS = 0.05, 16
"""How much is claimed at once: what takes about so long, and not more than so many."""
LASTING = frozenset(
    {
        Verdict.ACCEPTED,
        Verdict.WRONG_ANSWER,
        Verdict.RUNTIME_ERROR,
        Verdict.COMPILE_ERROR,
        Verdict.OUTPUT_LIMIT,
        Verdict.SKIPPED,
    }
)
"""Verdicts that the same program gets again. Time and memory may turn out otherwise."""

logger = logging.getLogger(__name__)


def run_worker(settings: Settings) -> int:
    """Work until SIGTERM or SIGINT; returns the exit status. To be called in the main thread of its own process."""
    configure_logging(settings.log_level)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop_early)
    try:
        pool = open_pool(settings.sandbox)
    except SandboxUnavailable as error:
        logger.error("event=no_sandbox message=%s", error)
        return FAILED
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
            return _work(client, settings, TurnTaker(claims, heart, Judge(pool), pool, settings), heart)


def _stop_early(number: int, frame: FrameType | None) -> None:
    """SIGTERM before there is anything to finish."""
    raise SystemExit(DONE)


def _work(client: Any, settings: Settings, turns: "TurnTaker", heart: Heart) -> int:
    """Work, through any number of restarts of Redis, until told to stop."""
    heart.start()
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
        heart.stop()
    return FAILED if turns.failed else DONE


def run(evaluation: str) -> None:
    """What a turn names. A worker of RQ's own can't do it."""
    raise RuntimeError(f"Evaluation {evaluation} can only be worked on by `microcoder worker`, not by `rq worker`.")


class Judging(Protocol):
    """What a turn needs of the judge."""

    def judge(
        self, submission: Submission, suite: Suite, *, cancelled: Callable[[], bool], progress: Callable[[], None]
    ) -> Judgement:
        """Run the suite."""


class Boxes(Protocol):
    """What a turn needs of the pool."""

    def take(self) -> Box:
        """A clean box."""

    def give(self, box: Box) -> None:
        """Take it back."""


class TurnTaker:
    """Takes turns: judges an evaluation's submissions one at a time, for a while."""

    def __init__(self, claims: Claims, heart: Heart, judge: Judging, pool: Boxes, settings: Settings) -> None:
        """Judge with `judge` in boxes of `pool`, tell of it through `heart`."""
        self._claims = claims
        self._heart = heart
        self._hand = heart.hand
        self._judge = judge
        self._pool = pool
        self._settings = settings
        self._suites = SuiteCache(claims.read_suite, settings.worker_cache_bytes)
        self._stop_at: float | None = None
        self._overtake = True
        self.failed = False

    @property
    def stopping(self) -> bool:
        """Whether no further submission is to be begun."""
        return self._stop_at is not None

    def stop(self) -> None:
        """Begin nothing more; what is in hand has a little time left."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self._settings.shutdown_grace_seconds

    def take(self, evaluation: str, turn: str) -> None:
        """Judge for about `turn_seconds`, then queue again for the rest."""
        self._heart.take_turn(evaluation, turn)
        try:
            self._judge_for_a_while(evaluation, turn)
        finally:
            self._heart.take_turn("", "")
        self._claims.end_turn(evaluation, turn)

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
            found = self._claims.claim(evaluation, owner, most, overtake=self._overtake)
            if found.hits:
                logger.info("event=cached evaluation=%s submissions=%d", found.evaluation, found.hits)
            elif not found.claims:
                break
            self._overtake = found.evaluation == evaluation
            if found.claims:
                began = time.monotonic()
                self._work_off(found.claims)
                each = (time.monotonic() - began) / len(found.claims)
                most = max(1, min(ROUND_SUBMISSIONS, int(ROUND_SECONDS / each)))
            if found.evaluation == evaluation and not found.waiting:
                break

    def _work_off(self, claims: Sequence[Claim]) -> None:
        self._hand.take(claims)
        while (claim := self._hand.begin()) is not None:
            began = time.monotonic()
            judgement = self._judgement(claim)
            if not self._is_left_to_others(claim, judgement):
                self._hand.finish(_judged(claim, judgement, time.monotonic() - began))
            if self.stopping:
                _patiently(self._hand.give_back_waiting)
        _patiently(self._hand.store)

    def recover(self) -> list[str] | None:
        """Take back what dead workers held. None: another worker is doing it."""
        found = self._claims.recover()
        if found:
            logger.warning("event=recovered claims=%d first=%s", len(found), found[0])
        return found

    def _is_left_to_others(self, claim: Claim, judgement: Judgement) -> bool:
        """Whether this is no result, because the judge was interrupted or the loss was ours; then it is tried again."""
        if judgement.verdict is Verdict.CANCELLED:
            hold = self._hand.look(0)
            if hold is Hold.KEPT:  # interrupted because this worker shall end
                _patiently(self._hand.give_back)
            elif hold is Hold.LOST:
                self._hand.drop()
            return hold is not Hold.CANCELLED
        if judgement.verdict is not Verdict.INTERNAL_ERROR or judgement.reason is not Reason.BOX_LOST:
            return False
        logger.error("event=box_lost evaluation=%s index=%d attempt=%d", claim.evaluation, claim.index, claim.attempt)
        if not self._can_go_on():
            self.failed = True
            self.stop()
            _patiently(self._hand.give_back)
            return True
        if claim.attempt < self._settings.max_attempts:
            _patiently(lambda: self._hand.give_back(tried=True))
            return True
        return False

    def _can_go_on(self) -> bool:
        """Whether this worker still gets boxes. One that doesn't must not fail all that waits: it ends instead."""
        try:
            self._pool.give(self._pool.take())
        except SandboxError as error:
            logger.error("event=sandbox_gone message=%s", error)
            return False
        return True

    def _judgement(self, claim: Claim) -> Judgement:
        """The job boundary: whatever goes wrong with one submission is ours, is logged, and harms no other."""
        try:
            suite = _patiently(lambda: self._suites.get(claim.submission.suite_id))
            self._hand.progress()
            return self._judge.judge(claim.submission, suite, cancelled=self._is_unwanted, progress=self._hand.progress)
        except redis.RedisError:
            raise
        except SuiteLost:
            detail = "Its suite is gone from the store: upload the suite and send the submission again."
        except Exception as error:
            logger.exception("event=judge_failed evaluation=%s index=%d", claim.evaluation, claim.index)
            detail = f"The evaluator failed ({type(error).__name__}); the worker's log says more. Send it again."
        return Judgement(Verdict.INTERNAL_ERROR, None, detail=detail, reason=Reason.WORKER_LOST)

    def _is_unwanted(self) -> bool:
        if self._stop_at is not None and time.monotonic() > self._stop_at:
            return True
        return self._hand.look() is not Hold.KEPT


def _judged(claim: Claim, judgement: Judgement, seconds: float) -> Judged:
    short, tests = dump_judgement(judgement)
    verdicts = {judgement.verdict, *(test.verdict for test in judgement.tests)}
    lasting = verdicts <= LASTING and judgement.suspicion is None
    note = f"verdict={judgement.verdict} rung={first_rung(judgement.tests)} ms={seconds * 1000:.0f}"
    return Judged(claim, short, tests, lasting, note)


def _patiently(act: Callable[[], Any]) -> Any:
    """Do it, and again while Redis is away, so that a restart of Redis doesn't cost a judgement."""
    deadline = time.monotonic() + REDIS_PATIENCE
    while True:
        try:
            return act()
        except (redis.ConnectionError, redis.TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
