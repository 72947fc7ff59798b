"""A further desk of a worker, for what has just arrived while the one before it is busy with something long.

A program that loops takes its whole limit, six seconds of a core or sixty, and can't be put aside meanwhile. So that
nobody waits for it who has little to do, a thread takes up evaluations that have just arrived, in a box of its own, for
as long as what is in hand takes long. What it takes may turn out to be long too: then the next desk looks, and takes
up what has arrived since. All share a processor: limits are of processor time, and time spent waiting for one isn't
counted.
"""

import logging
import threading
import time

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

    def __init__(self, name: str, claims: Claims, watched: Hand, desk: Desk) -> None:
        """Look for work while what is in the `watched` hand takes long. `name` is `worker:name`."""
        super().__init__(name="overtaker", daemon=True)
        self._owner = name
        self._claims = claims
        self._watched = watched
        self._desk = desk
        self._closed = threading.Event()
        self._number = 0

    def run(self) -> None:
        """Look until closed."""
        while not self._closed.wait(PAUSE):
            try:
                if self._watched.age() > LONG:
                    self._overtake()
            except redis.RedisError as error:
                logger.warning("event=overtaking_failed owner=%s error=%s", self._owner, type(error).__name__)

    def _overtake(self) -> None:
        """Take up what has just arrived, and stay with it while it is short."""
        evaluation = ""
        while self._watched.age() > LONG and not self._closed.is_set():
            self._number += 1
            began = time.monotonic()
            owner = f"{self._owner}:{self._number}"
            found = self._claims.claim(evaluation, owner, overtake=Overtaking.RECENT)
            if not found.claims and not found.hits:
                return
            if found.claims:
                self._desk.work_off(found.claims)
            evaluation = found.evaluation if found.waiting and time.monotonic() - began < LONG else ""

    def close(self) -> None:
        """Take nothing more, and finish."""
        self._closed.set()
        if self.is_alive():
            self.join()
