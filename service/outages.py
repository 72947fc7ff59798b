"""What passes by itself: a Redis that is away, loads its data, has no memory or no disk left, or only reads.

Nothing is lost by it. The API answers 503 and its clients come back; a worker keeps what it has judged and tries again.
"""

import re
import time
from collections.abc import Callable
from typing import TypeVar

import redis

PAUSE = 0.5
"""Seconds between two tries."""
CROWDED = "No connection available"
"""What our own pool says when all its connections are taken for too long."""
FULL, BROKEN_DISK, READS_ONLY = "OOM command not allowed", "MISCONF", "READONLY"
_REFUSALS = re.compile(
    rf"{FULL}|{BROKEN_DISK}|{READS_ONLY}|BUSY Redis|LOADING|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|NOREPLICAS"
)
"""How a server says that it can't do now what it can at other times. Redis 6 says it in a sentence about a script."""

T = TypeVar("T")


def passes(error: redis.RedisError) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | redis.OutOfMemoryError):
        return True
    if isinstance(error, redis.exceptions.ReadOnlyError | redis.exceptions.TryAgainError):
        return True
    return isinstance(error, redis.ResponseError) and _REFUSALS.search(str(error)) is not None


def remedy(error: redis.RedisError) -> tuple[str, int]:
    """What to tell a client of an error that passes, and after how many seconds it may come back."""
    said = str(error)
    if isinstance(error, redis.OutOfMemoryError) or FULL in said:
        return "Redis has no memory left: give it more (maxmemory), or try again later.", 10
    if BROKEN_DISK in said:
        return "Redis can't write to its disk: make room there, or try again later.", 10
    if isinstance(error, redis.exceptions.ReadOnlyError) or READS_ONLY in said:
        return "This Redis is a replica, which can't be written to: set REDIS_URL to the primary.", 10
    if CROWDED in said:
        return "So many requests are under way that this one found no connection to Redis: try again later.", 5
    return "Redis doesn't answer: nothing was lost, try again.", 5


def persist(act: Callable[[], T], is_over: Callable[[], bool], meanwhile: Callable[[], None]) -> T:
    """Do it, and again as long as Redis is out, until `is_over`. `meanwhile` is called before each pause.

    Raises:
        redis.RedisError: what doesn't pass, or hasn't passed in time.
    """
    while True:
        try:
            return act()
        except redis.RedisError as error:
            if not passes(error) or is_over():
                raise
        meanwhile()
        time.sleep(PAUSE)
