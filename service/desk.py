"""Where claimed submissions are judged, and what becomes of those that can't be."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import redis

from evaluator.errors import SandboxError
from evaluator.executions import Outputs
from evaluator.model import Judgement, Reason, Submission, Suite, Verdict
from evaluator.sandbox.base import Box
from evaluator.suspicions import SEEN_IN_RUNS
from service.claims import Claim, Hold, Judged
from service.encoding import dump_judgement, dump_outputs, first_rung
from service.hand import Hand
from service.outages import persist
from service.settings import Settings
from service.statistics import Counts
from service.suite_store import SuiteCache, SuiteLost

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
T = TypeVar("T")


def nothing() -> None:
    """No one to tell."""


class Judging(Protocol):
    """What a desk needs of the judge."""

    def judge(
        self, submission: Submission, suite: Suite, *, cancelled: Callable[[], bool], progress: Callable[[], None]
    ) -> Judgement:
        """Run the suite."""

    def execute(self, submission: Submission) -> tuple[Judgement, Outputs | None]:
        """Run the program for all that it writes."""


class Boxes(Protocol):
    """What a desk needs of the pool."""

    def take(self) -> Box:
        """A clean box."""

    def give(self, box: Box) -> None:
        """Take it back."""


class Stop:
    """Whether the worker shall end, and since when. Desks share it."""

    def __init__(self, grace: float) -> None:
        """What is in hand has `grace` seconds left when it is asked for."""
        self._grace = grace
        self._at: float | None = None
        self.failed = False

    def request(self, *, failed: bool = False) -> None:
        """Begin nothing more. `failed`: because this worker can't go on."""
        self.failed = self.failed or failed
        if self._at is None:
            self._at = time.monotonic() + self._grace

    @property
    def requested(self) -> bool:
        """Whether nothing more is to be begun."""
        return self._at is not None

    @property
    def overdue(self) -> bool:
        """Whether what is in hand is to be given back."""
        return self._at is not None and time.monotonic() > self._at

    def persist(self, act: Callable[[], T], meanwhile: Callable[[], None] = nothing) -> T:
        """Do it, however long Redis is out, so that no judgement is lost by that; until the end is overdue."""
        return persist(act, lambda: self.overdue, meanwhile)


class Desk:
    """Works off what one hand holds, with one judge. A worker has two: see `overtaker.py`."""

    def __init__(
        self,
        hand: Hand,
        judge: Judging,
        pool: Boxes,
        suites: SuiteCache,
        settings: Settings,
        stop: Stop,
        counts: Counts,
    ) -> None:
        """Judge with `judge` in boxes of `pool`."""
        self._counts = counts
        self._hand = hand
        self._judge = judge
        self._pool = pool
        self._suites = suites
        self._settings = settings
        self._stop = stop

    def work_off(self, claims: Sequence[Claim]) -> None:
        """Judge these, and store what comes of it."""
        self._hand.take(claims)
        try:
            self._work_off()
        except redis.RedisError:
            self._hand.take(())  # or the heart would keep for ever what nobody works on
            raise

    def _work_off(self) -> None:
        while (claim := self._hand.begin()) is not None:
            began = time.monotonic()
            judgement, outputs = self._judgement(claim)
            if not self._is_left_to_others(claim, judgement):
                self._hand.finish(_judged(claim, judgement, outputs, time.monotonic() - began))
                self._count(judgement)
            if self._stop.requested:
                self._persist(self._hand.give_back_waiting)
        self._persist(self._hand.store)

    def _persist(self, act: Callable[[], T]) -> T:
        return self._stop.persist(act, self._hand.progress)

    def _is_left_to_others(self, claim: Claim, judgement: Judgement) -> bool:
        """Whether this is no result, because the judge was interrupted or the loss was ours; then it is tried again."""
        if judgement.verdict is Verdict.CANCELLED:
            hold = self._hand.look(0)
            if hold is Hold.KEPT:  # interrupted because this worker shall end
                self._persist(self._hand.give_back)
            elif hold is Hold.LOST:
                self._hand.drop()
            return hold is not Hold.CANCELLED
        if judgement.verdict is not Verdict.INTERNAL_ERROR or judgement.reason is not Reason.BOX_LOST:
            return False
        logger.error("event=box_lost evaluation=%s index=%d attempt=%d", claim.evaluation, claim.index, claim.attempt)
        if not self._can_go_on():
            self._stop.request(failed=True)
            self._persist(self._hand.give_back)
            return True
        if claim.attempt < self._settings.max_attempts:
            self._persist(lambda: self._hand.give_back(tried=True))
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

    def _judgement(self, claim: Claim) -> tuple[Judgement, Outputs | None]:
        """The job boundary: whatever goes wrong with one submission is ours, is logged, and harms no other."""
        submission = claim.submission
        try:
            if submission.execution is not None:
                return self._judge.execute(submission)
            suite = self._persist(lambda: self._suites.get(submission.suite_id))
            self._hand.progress()
            judge = self._judge.judge
            return judge(submission, suite, cancelled=self._is_unwanted, progress=self._hand.progress), None
        except redis.RedisError:
            raise
        except SuiteLost:
            detail = "Its suite is gone from the store: upload the suite and send the submission again."
        except Exception as error:
            logger.exception("event=judge_failed evaluation=%s index=%d", claim.evaluation, claim.index)
            detail = f"The evaluator failed ({type(error).__name__}); the worker's log says more. Send it again."
        return Judgement(Verdict.INTERNAL_ERROR, None, detail=detail, reason=Reason.WORKER_LOST), None

    def _count(self, judgement: Judgement) -> None:
        for test in judgement.tests:
            if test.verdict is not Verdict.SKIPPED:
                self._counts.add(f"tests:{test.verdict}")
                self._counts.observe("test_seconds", test.wall_seconds)
        for note in judgement.suspicions:
            self._counts.add(f"suspicions:{note.kind}")

    def _is_unwanted(self) -> bool:
        return self._stop.overdue or self._hand.look() is not Hold.KEPT


def _judged(claim: Claim, judgement: Judgement, outputs: Outputs | None, seconds: float) -> Judged:
    short, tests = dump_judgement(judgement)
    verdicts = {judgement.verdict, *(test.verdict for test in judgement.tests)}
    is_certain = SEEN_IN_RUNS.isdisjoint(note.kind for note in judgement.suspicions)
    lasting = verdicts <= LASTING and is_certain and claim.submission.execution is None
    if outputs is not None:
        tests = dump_outputs(outputs)
    note = f"verdict={judgement.verdict} rung={first_rung(judgement.tests)} ms={seconds * 1000:.0f}"
    return Judged(claim, short, tests, lasting, note)
