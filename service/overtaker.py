"""The second desk of a worker, for what has just arrived while the first is busy with something long.

A program that loops takes its whole limit, six seconds of a core or sixty, and can't be put aside meanwhile. So that
nobody waits for it who has little to do, a thread takes up evaluations that have just arrived, in a box of its own, for
as long as what is in hand takes long. The two share a processor: limits are of processor time, and time spent waiting
for one isn't counted.
"""

import logging
import threading

import redis

from service.claims import Claims, Overtaking
from service.desk import Desk
from service.hand import Hand

LONG = 0.5
"""Seconds after which the submission at the first desk is a long one."""
PAUSE = 0.25
"""Seconds between two looks."""

logger = logging.getLogger(__name__)


class Overtaker(threading.Thread):
    """The thread."""

    def __init__(self, worker: str, claims: Claims, first: Hand, desk: Desk) -> None:
        """Watch the `first` hand of `worker`, and work at `desk`."""
        super().__init__(name="overtaker", daemon=True)
        self._worker = worker
        self._claims = claims
        self._first = first
        self._desk = desk
        self._closed = threading.Event()

    def run(self) -> None:
        """Look until closed."""
        number = 0
        while not self._closed.wait(PAUSE):
            number += 1
            try:
                while self._first.age() > LONG and not self._closed.is_set() and self._take_one(number):
                    number += 1
            except redis.RedisError as error:
                logger.warning("event=overtaking_failed worker=%s error=%s", self._worker, type(error).__name__)

    def _take_one(self, number: int) -> bool:
        found = self._claims.claim("", f"{self._worker}:overtaker:{number}", overtake=Overtaking.RECENT)
        if found.claims:
            self._desk.work_off(found.claims)
        return bool(found.claims or found.hits)

    def close(self) -> None:
        """Take nothing more, and finish."""
        self._closed.set()
        if self.is_alive():
            self.join()
