"""Suites in Redis: each stored once under its hash, compressed in chunks, within a budget of bytes.

When the budget is spent, the suites that were used longest ago make room, except those that an unfinished evaluation
needs. So a suite may be gone when it is named again; the client is told to upload it (404). A suite that was accepted
with an evaluation stays until that is done.
"""

import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from evaluator.model import Suite
from evaluator.suites import read_suite
from service.records import HELPERS, Keys

CHUNK = 4 << 20
"""Bytes of a suite that are compressed together."""
UNCOMMITTED_TTL = 600
"""Seconds until chunks go away whose upload was never finished."""


KEEP_SUITE = (
    HELPERS
    + """
local _, suite, budget, stored, size, tests, chunks = unpack(ARGV)
local now, meta = clock(), key('suite:' .. suite)
if redis.call('EXISTS', meta) == 1 then
  for chunk = 0, chunks - 1 do redis.call('PERSIST', meta .. ':' .. chunk) end
  redis.call('ZADD', key('suites'), now, suite)
  return 1
end
local room = tonumber(budget) - stored - tonumber(redis.call('GET', key('suites:bytes')) or 0)
if room < 0 then
  for _, old in ipairs(redis.call('ZRANGE', key('suites'), 0, -1)) do
    if redis.call('SCARD', key('suite:' .. old .. ':refs')) == 0 then
      local data = key('suite:' .. old)
      local freed, count = unpack(redis.call('HMGET', data, 'stored', 'chunks'))
      for chunk = 0, count - 1 do redis.call('DEL', data .. ':' .. chunk) end
      redis.call('DEL', data)
      redis.call('ZREM', key('suites'), old)
      redis.call('DECRBY', key('suites:bytes'), freed)
      room = room + freed
      if room >= 0 then break end
    end
  end
  if room < 0 then return 0 end
end
for chunk = 0, chunks - 1 do
  if redis.call('PERSIST', meta .. ':' .. chunk) == 0 then return 2 end
end
redis.call('HSET', meta, 'stored', stored, 'size', size, 'tests', tests, 'chunks', chunks)
redis.call('ZADD', key('suites'), now, suite)
redis.call('INCRBY', key('suites:bytes'), stored)
return 1
"""
)
"""prefix, suite, budget, bytes stored, bytes as uploaded, tests, chunks. The chunks are there already, about to expire.
Returns 1: kept; 0: no room, all that is stored is in use; 2: a chunk went away meanwhile, write them again."""


class SuiteStoreFull(Exception):
    """Every stored suite is in use, and the budget is spent."""


@dataclass(frozen=True, slots=True)
class StoredSuite:
    """What is known of a suite without reading it."""

    id: str
    size: int
    tests: int


def pack(data: bytes) -> list[bytes]:
    """The chunks to store."""
    return [zlib.compress(data[at : at + CHUNK], 3) for at in range(0, len(data), CHUNK)]


def unpack(chunks: Iterable[bytes]) -> bytes:
    """The bytes as they were uploaded."""
    return b"".join(zlib.decompress(chunk) for chunk in chunks)


class SuiteStore:
    """The store, as the API sees it. `redis` is an asyncio client."""

    def __init__(self, redis: Any, keys: Keys, budget: int) -> None:
        """Use `redis`, and at most `budget` bytes of it."""
        self._redis = redis
        self._keys = keys
        self._budget = budget
        self._keep = redis.register_script(KEEP_SUITE)

    async def describe(self, id: str) -> StoredSuite | None:
        """What is known of suite `id`; None where it isn't stored."""
        size, tests = await self._redis.hmget(self._keys.of(f"suite:{id}"), "size", "tests")
        return None if size is None else StoredSuite(id, int(size), int(tests))

    async def chunks(self, id: str) -> AsyncIterator[bytes]:
        """The bytes of suite `id`, piece by piece.

        Raises:
            SuiteLost: it isn't stored, or made room for another meanwhile.
        """
        count = await self._redis.hget(self._keys.of(f"suite:{id}"), "chunks")
        await self._redis.zadd(self._keys.of("suites"), {id: time.time()}, xx=True)
        for number in range(int(count or 0)):
            chunk = await self._redis.get(self._keys.of(f"suite:{id}:{number}"))
            if chunk is None:
                raise SuiteLost(id)
            yield zlib.decompress(chunk)
        if count is None:
            raise SuiteLost(id)

    async def put(self, id: str, size: int, tests: int, chunks: list[bytes]) -> None:
        """Store what `pack` made of a suite.

        Raises:
            SuiteStoreFull: there is no room, and nothing may be dropped.
        """
        stored = sum(map(len, chunks))
        arguments = [self._keys.prefix, id, self._budget, stored, size, tests, len(chunks)]
        for _ in range(3):
            for number, chunk in enumerate(chunks):
                await self._redis.set(self._keys.of(f"suite:{id}:{number}"), chunk, ex=UNCOMMITTED_TTL)
            outcome = int(await self._keep(args=arguments))
            if outcome == 1:
                return
            if outcome == 0:
                break
        raise SuiteStoreFull(f"There is no room for {stored} more bytes of suites.")


def read_stored(redis: Any, keys: Keys, id: str) -> bytes | None:
    """The bytes of suite `id`, through a blocking client; None where it isn't stored."""
    count = redis.hget(keys.of(f"suite:{id}"), "chunks")
    if count is None:
        return None
    chunks = list(_chunks(redis, keys, id, int(count)))
    return None if None in chunks else unpack(chunks)


def _chunks(redis: Any, keys: Keys, id: str, count: int) -> Iterator[Any]:
    for number in range(count):
        yield redis.get(keys.of(f"suite:{id}:{number}"))


class SuiteLost(Exception):
    """A suite that an unfinished evaluation needs is gone from Redis."""


class SuiteCache:
    """Decoded suites, the least recently used dropped first. Counts their bytes as uploaded. Threads may share it."""

    def __init__(self, read: Callable[[str], bytes | None] | None, budget: int) -> None:
        """`read` gets a suite's bytes; None where they always come with the question. At most `budget` bytes are kept,
        or one suite."""
        self._read = read
        self._budget = budget
        self._suites: OrderedDict[str, tuple[Suite, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, id: str, data: bytes | None = None) -> Suite:
        """The suite. `data`, its bytes, where they are at hand.

        Raises:
            SuiteLost: it isn't stored.
        """
        with self._lock:
            if id in self._suites:
                self._suites.move_to_end(id)
                return self._suites[id][0]
            if data is None and self._read is not None:
                data = self._read(id)
            if data is None:
                raise SuiteLost(id)
            suite = read_suite(data)
            self._suites[id] = (suite, len(data))
            while len(self._suites) > 1 and sum(size for _, size in self._suites.values()) > self._budget:
                self._suites.popitem(last=False)
            return suite
