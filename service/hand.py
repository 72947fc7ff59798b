"""What a worker has in hand: submissions claimed at once, the one being judged, judgements not yet stored.

Short submissions are claimed and stored several at a time, so that Redis costs each little. One that turns out to be
long must not hold up the others: `share`, which the heart calls from its thread, then stores what is judged and gives
back what hasn't begun. So everything here is under a lock.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence

import redis

from service.claims import Claim, Claims, Hold, Judged

SHARE_AFTER = 0.1
"""Seconds that one submission may take before the others in hand don't wait for it any longer."""

logger = logging.getLogger(__name__)


class Hand:
    """Claims of one evaluation that were made at once."""

    def __init__(self, claims: Claims) -> None:
        """Hold nothing yet."""
        self._claims = claims
        self._lock = threading.RLock()
        self._waiting: deque[Claim] = deque()
        self._judged: list[Judged] = []
        self._begun: Claim | None = None
        self._began = self._progress = self._looked = 0.0
        self._hold = Hold.KEPT

    def take(self, claims: Sequence[Claim]) -> None:
        """Hold these and nothing else: what an error has left here is another's when its lease has run out."""
        with self._lock:
            self._waiting, self._judged, self._begun = deque(claims), [], None

    def begin(self) -> Claim | None:
        """The next one to judge; None where none is left."""
        with self._lock:
            self._begun = self._waiting.popleft() if self._waiting else None
            self._began = self._progress = self._looked = time.monotonic()
            self._hold = Hold.KEPT
            return self._begun

    def finish(self, judged: Judged) -> None:
        """The one that was begun has its judgement, which is to be stored."""
        with self._lock:
            self._judged.append(judged)
            self._begun = None

    def give_back(self, *, tried: bool = False) -> None:
        """Let others judge the one that was begun. `tried` counts this as one of its attempts."""
        with self._lock:
            if self._begun is not None:
                self._claims.give_back([self._begun], tried=tried)
            self._begun = None

    def drop(self) -> None:
        """The one that was begun is another's now."""
        with self._lock:
            self._begun = None

    def store(self) -> None:
        """Write what is judged."""
        with self._lock:
            if not self._judged:
                return
            judged, written = self._judged, self._claims.store(self._judged)
            self._judged = []
        for item, first in zip(judged, written, strict=True):
            claim = item.claim
            logger.info(
                "event=judged evaluation=%s index=%d %s attempt=%d first=%s",
                claim.evaluation,
                claim.index,
                item.note,
                claim.attempt,
                "yes" if first else "no",
            )

    def give_back_waiting(self) -> None:
        """Let others judge what hasn't begun."""
        with self._lock:
            if self._waiting:
                self._claims.give_back(list(self._waiting))
                self._waiting.clear()

    def share(self) -> None:
        """Keep nobody waiting for the one that was begun, when it takes long. For the heart's thread."""
        with self._lock:
            if self._begun is not None and time.monotonic() - self._began > SHARE_AFTER:
                self.store()
                self.give_back_waiting()

    # The lease

    def renew(self) -> None:
        """Keep all that is in hand, and learn what has become of the one that was begun."""
        with self._lock:
            held = [*self._waiting, *(item.claim for item in self._judged)]
            begun = self._begun
            if begun is not None:
                held.insert(0, begun)
            if held:
                holds = self._claims.renew(held)
                if begun is not None:
                    self._hold = holds[0]

    def look(self, pause: float = 0.1) -> Hold:
        """What has become of the one that was begun. Asks Redis, but not more often than every `pause` seconds."""
        now = time.monotonic()
        if self._begun is not None and self._hold is Hold.KEPT and now - self._looked >= pause:
            self._looked = now
            try:
                self.renew()
            except redis.RedisError as error:
                logger.warning("event=renewal_failed error=%s", type(error).__name__)
        return self._hold

    # Progress

    def progress(self) -> None:
        """The judge has finished a test."""
        self._progress = time.monotonic()

    def age(self) -> float:
        """Seconds since the one in hand was begun; 0 where there is none."""
        return 0.0 if self._begun is None else time.monotonic() - self._began

    def silence(self) -> tuple[Claim, float] | None:
        """What is being judged, and the seconds since its last progress."""
        claim = self._begun
        return None if claim is None else (claim, time.monotonic() - self._progress)
