"""The heartbeat of a worker: a thread that says "I live" while the judge makes progress, and falls silent when not.

It renews the lease of what is in hand, keeps RQ's records of the turn fresh, and watches the time since the judge last
finished a test. When that is longer than any test may take, the worker hangs: it is logged and ended at
once, the boxes go with it, and another worker takes the submission over when the lease runs out.
"""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import redis

from evaluator.model import Runtime
from service.claims import Claims
from service.encoding import plain
from service.hand import Hand
from service.settings import Settings
from service.statistics import Counts

HUNG = 70
"""Exit status of a worker that ended itself because the judge hung."""
TICK = 0.1
"""Seconds between two looks at what is in hand, which cost Redis nothing."""

logger = logging.getLogger(__name__)


class Heart(threading.Thread):
    """The thread. `beat_for_rq` is called with each beat while a turn is in hand."""

    def __init__(
        self, name: str, claims: Claims, settings: Settings, runtime: Runtime, end: Callable[[int], Any] = os._exit
    ) -> None:
        """Beat for the worker `name`; `end` ends the process."""
        super().__init__(name="heart", daemon=True)
        self.worker = name
        self.beat_for_rq: Callable[[], Any] | None = None
        self._claims = claims
        self._settings = settings
        self._end = end
        self._told = json.dumps(
            {"name": name, "host": socket.gethostname(), "pid": os.getpid(), "runtime": plain(runtime)}
        )
        self._turn = ("", "")
        self._stopped = threading.Event()
        self.counts = Counts()
        self.hand = Hand(claims)
        self._hands = [self.hand]

    def another_hand(self) -> Hand:
        """A hand more to keep alive."""
        self._hands.append(Hand(self._claims))
        return self._hands[-1]

    def run(self) -> None:
        """Beat until stopped."""
        pause = min(2.0, self._settings.lease_seconds / 4)
        due = 0.0
        while not self._hangs():
            try:
                for hand in self._hands:
                    hand.share()
                if time.monotonic() >= due:
                    due = time.monotonic() + pause
                    self.beat()
            except redis.RedisError as error:
                logger.warning("event=heartbeat_failed worker=%s error=%s", self.worker, type(error).__name__)
            if self._stopped.wait(TICK):
                return

    def beat(self) -> None:
        """Tell Redis of this worker and what it has in hand, now."""
        self._claims.heartbeat(self.worker, self._told, *self._turn)
        for hand in self._hands:
            hand.renew()
        self._tell_counts()
        if (beat := self.beat_for_rq) is not None:
            beat()

    def stop(self) -> None:
        """End the thread, and take the worker off the list of the living."""
        self._stopped.set()
        self.join(5)
        try:
            self._tell_counts()
            self._claims.retire(self.worker)
        except redis.RedisError as error:
            logger.warning("event=retire_failed worker=%s error=%s", self.worker, type(error).__name__)

    def _tell_counts(self) -> None:
        if counted := self.counts.take():
            try:
                self._claims.count(counted)
            except redis.RedisError:
                self.counts.put_back(counted)
                raise

    def take_turn(self, evaluation: str, turn: str) -> None:
        """This turn is in hand from now on; empty strings for none."""
        self._turn = (evaluation, turn)

    def _hangs(self) -> bool:
        return any(map(self._is_stuck, self._hands))

    def _is_stuck(self, hand: Hand) -> bool:
        found = hand.silence()
        if found is None:
            return False
        claim, silent = found
        allowed = 2 * claim.submission.limits.wall + self._settings.stall_grace_seconds
        if silent <= allowed:
            return False
        logger.critical(
            "event=worker_hangs worker=%s evaluation=%s index=%d silent_seconds=%.0f allowed_seconds=%.0f",
            self.worker,
            claim.evaluation,
            claim.index,
            silent,
            allowed,
        )
        self._end(HUNG)
        return True
