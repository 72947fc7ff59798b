"""What the service has counted, in one hash in Redis: workers add to it, scripts of the record too, the API reads it.

So counters outlive the process that counted, one address shows what all workers of a service did, and workers need no
port. Fields of the hash:

    judgements:<verdict>            results that were written, each once: judged, from the cache, cancelled or lost
    tests:<verdict>                 tests that workers ran
    suspicions:<kind>               notes on what workers judged
    box_starts, box_recycles        boxes that were made; that were destroyed and not given to the next program
    <histogram>:<bound>             observations up to the bound, above the bound before it; `+Inf` has the rest
    <histogram>:sum                 their sum
"""

import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.records import PACE_SECONDS, PACE_SPANS, Keys

BOUNDS = {
    "turn_seconds": (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0),
    "test_seconds": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
}
"""Upper bounds of each histogram's buckets, in seconds."""


class Counts:
    """What a worker has counted and not yet told. Threads share it."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._lock = threading.Lock()
        self._counted: defaultdict[str, float] = defaultdict(float)
        self._followed: dict[str, tuple[Callable[[], int], int]] = {}

    def add(self, name: str, count: int = 1) -> None:
        """Count."""
        with self._lock:
            self._counted[name] += count

    def observe(self, histogram: str, seconds: float) -> None:
        """Count a duration."""
        bounds = BOUNDS[histogram]
        place = bisect_left(bounds, seconds)
        with self._lock:
            self._counted[f"{histogram}:{bounds[place] if place < len(bounds) else '+Inf'}"] += 1
            self._counted[f"{histogram}:sum"] += seconds

    def follow(self, name: str, read: Callable[[], int]) -> None:
        """Tell of a number that somebody else counts, from 0 on."""
        self._followed[name] = (read, 0)

    def take(self) -> dict[str, float]:
        """What is to be told, which is then told."""
        with self._lock:
            for name, (read, told) in self._followed.items():
                now = read()
                self._counted[name] += now - told
                self._followed[name] = (read, now)
            taken = {name: count for name, count in self._counted.items() if count}
            self._counted.clear()
        return taken

    def put_back(self, taken: Mapping[str, float]) -> None:
        """It couldn't be told."""
        with self._lock:
            for name, count in taken.items():
                self._counted[name] += count


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram: how many observations up to each bound, those of smaller bounds included."""

    buckets: tuple[tuple[str, float], ...]
    sum: float


class Statistics:
    """What was counted, as the API sees it. `redis` is an asyncio client."""

    def __init__(self, redis: Any, keys: Keys) -> None:
        """Use `redis`."""
        self._redis = redis
        self._keys = keys

    async def read(self) -> dict[str, float]:
        """Every counter, and `suite_bytes`: what stored suites take now."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hgetall(self._keys.of("stats"))
            pipeline.get(self._keys.of("suites:bytes"))
            pipeline.zcard(self._keys.of("suites"))
            pipeline.zcard(self._keys.of("claims"))
            counted, size, suites, claims = await pipeline.execute()
        found = {name.decode(): float(count) for name, count in counted.items()}
        return found | {"suite_bytes": float(size or 0), "suites": float(suites), "claims": float(claims)}

    async def pace(self) -> list[int]:
        """Judgements in each of the last spans of `PACE_SECONDS`, the oldest first; the current one isn't over."""
        last = int(time.time() // PACE_SECONDS)
        spans = range(last - PACE_SPANS + 1, last + 1)
        found = await self._redis.mget([self._keys.of(f"pace:{span}") for span in spans])
        return [int(count or 0) for count in found]


def labelled(counted: Mapping[str, float], name: str) -> dict[str, float]:
    """The counters `name:<label>` by their label."""
    return {field.partition(":")[2]: count for field, count in counted.items() if field.startswith(name + ":")}


def distribution(counted: Mapping[str, float], name: str) -> Distribution:
    """The histogram `name`."""
    found, total = labelled(counted, name), 0.0
    buckets = []
    for bound in [*map(str, BOUNDS[name]), "+Inf"]:
        total += found.get(bound, 0)
        buckets.append((bound, total))
    return Distribution(tuple(buckets), found.get("sum", 0.0))
