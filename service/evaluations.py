"""Evaluations as the API sees them: accept, look, wait, cancel. The record in Redis is the truth (see `records.py`).

Every method reads or changes the record in one step, so any API process can answer any request and may be restarted at
any time. Waiting holds no connection: one task per process reads one stream of finished ids and wakes whoever waits;
who is woken reads the record. When Redis is away, `redis.RedisError` flies, and the next call finds it again.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import redis
import redis.asyncio
import redis.asyncio.retry
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from service.encoding import CANCELLED, dump_order, dump_submissions, dump_suites, load_order, show
from service.exhibits import Exhibits
from service.intake import InlineSuite, Intake
from service.listening import COLLECT, WATCH
from service.living import COUNT_LIVING, LIVING
from service.records import ACCEPT, CANCEL, Keys
from service.settings import Settings
from service.statistics import Statistics
from service.suite_store import SuiteStore, pack
from service.turns import TurnQueue, new_turns

LOOK_AGAIN = 10.0
"""Seconds after which a waiter reads the record even when nobody woke it."""
WATCH_SECONDS = 60.0
"""How long workers ring for each judgement after the last listener was there."""
COUNT_SECONDS = 1.0
"""How long the number of workers is taken for unchanged. The workers themselves make up for turns that are missing."""
FEW = 32
"""Submissions whose text is made at once. More of them are left to a thread, which costs a switch there and back."""
EVENTS_AT_ONCE = 100
"""Judgements that a listener reads at a time."""
RETRIED = (redis.ConnectionError,)
"""What is tried again at once. Not what has taken too long already: who asked is to hear of that while it waits."""


T = TypeVar("T")


class Conflict(Exception):
    """The id belongs to another evaluation."""


class UnknownSuites(Exception):
    """Suites that aren't stored."""

    def __init__(self, ids: list[str]) -> None:
        """Keep the ids."""
        super().__init__(ids)
        self.ids = ids


class QueueFull(Exception):
    """So many submissions wait that no more are taken."""

    def __init__(self, unfinished: int) -> None:
        """Keep the number that waits."""
        super().__init__(unfinished)
        self.unfinished = unfinished


@dataclass(frozen=True, slots=True)
class Event:
    """The `number`-th judgement that an evaluation got: that of submission `index`, as JSON."""

    number: int
    index: int
    judgement: str


@dataclass(frozen=True, slots=True)
class End:
    """There is nothing more to come."""

    state: str
    total: int


@dataclass(frozen=True, slots=True)
class Depth:
    """What waits, who works, and what the cache of results holds and has done."""

    evaluations: int
    submissions: int
    turns: int
    workers: int
    cached_results: int
    cached_bytes: int
    hits: int
    misses: int


class Evaluations:
    """All that the API asks of Redis."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the connections; none is opened yet."""
        self._settings = settings
        self._keys = Keys(settings.queue)
        self._redis = _connect(settings, settings.redis_connections, retries=2)
        self._reader = _connect(settings, 2, retries=0)  # a broken connection is to be noticed
        retry = Retry(ConstantBackoff(0.05), 2, RETRIED)
        self._blocking = redis.Redis.from_url(settings.redis, socket_timeout=5, socket_connect_timeout=2, retry=retry)
        self._turns = TurnQueue(self._blocking, settings.queue, settings.failure_ttl_seconds)
        self._accept = self._redis.register_script(ACCEPT)
        self._cancel = self._redis.register_script(CANCEL)
        self._collect = self._redis.register_script(COLLECT)
        self._watch = self._redis.register_script(WATCH)
        self._living = self._redis.register_script(LIVING)
        self._count_living = self._redis.register_script(COUNT_LIVING)
        self.suites = SuiteStore(self._redis, self._keys, settings.suite_budget_bytes)
        self.statistics = Statistics(self._redis, self._keys)
        self.exhibits = Exhibits(self._redis, self._keys, self.suites)
        self._workers, self._count_again = 0, 0.0
        self._bells: dict[str, set[asyncio.Event]] = {}
        self._closing = False

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Wake waiters for the length of the block, then close every connection."""
        task = asyncio.create_task(self._ring())
        try:
            yield
        finally:
            self._closing = True
            while not task.done():  # redis-py 8 now and then swallows a cancellation while it connects
                task.cancel()
                await asyncio.wait({task}, timeout=0.2)
            await self._redis.aclose()
            await self._reader.aclose()
            self._blocking.close()

    async def accept(self, id: str, intake: Intake, *, listed: bool = True) -> None:
        """Take an evaluation, whole or not at all. The same id with the same body again changes nothing.

        `listed`: people shall see it among the latest.

        Raises:
            Conflict: the id has another body.
            UnknownSuites: some are to be uploaded first.
            QueueFull: try again later.
            SuiteStoreFull: an inline suite finds no room.
        """
        if time.monotonic() > self._count_again:
            self._workers, self._count_again = await self.count_workers(), time.monotonic() + COUNT_SECONDS
        turns = new_turns(max(1, min(self._workers, len(intake.submissions))))
        suites = intake.suite_ids
        blobs = await beside(len(intake.submissions) > FEW, dump_submissions, intake.submissions)
        counts = [self._settings.queue_bound, len(turns), len(suites)]
        order = dump_order(intake.order)
        told = dump_suites([item.suite_id for item in intake.submissions.values()]) if listed else ""
        arguments = [self._keys.prefix, id, intake.digest, order, *counts, told, *turns, *suites, *blobs]
        for _ in range(3):
            outcome, *rest = await self._accept(args=arguments)
            if outcome != b"missing":
                break
            missing = [suite.decode() for suite in rest]
            if unknown := [suite for suite in missing if suite not in intake.suites]:
                raise UnknownSuites(unknown)
            for suite in missing:
                await self._put(intake.suites[suite])
        match outcome:
            case b"conflict":
                raise Conflict(id)
            case b"missing":
                raise UnknownSuites(missing)
            case b"full":
                raise QueueFull(int(rest[0]))
            case b"accepted":
                await asyncio.to_thread(self._turns.enqueue, [(id, turn) for turn in turns])

    async def _put(self, suite: InlineSuite) -> None:
        chunks = await asyncio.to_thread(pack, suite.data)
        await self.suites.put(suite.id, len(suite.data), suite.tests, chunks)

    async def fetch(self, id: str, detail: str) -> tuple[str, bool] | None:
        """The evaluation's JSON, and whether it is final. None: there is no such evaluation."""
        keys = self._keys
        full = [("HGETALL", keys.evaluation(id, "f"))] if detail == "full" else []
        (total, order, state, cancelled), judged, claimed, *rest = await self._read_together(
            ("HMGET", keys.evaluation(id), "total", "order", "state", "cancelled"),
            ("HGETALL", keys.evaluation(id, "r")),
            ("HKEYS", keys.evaluation(id, "c")),
            *full,
        )
        if total is None:
            return None
        places = load_order(order, int(total))
        name = "cancelled" if cancelled else state.decode()
        done = sum(place in judged for place in places)
        running = len(claimed) if not order else sum(map(places.count, claimed))
        counts = {"total": len(places), "done": done, "running": running, "pending": len(places) - done - running}
        head = json.dumps({"id": id, "state": name, "counts": counts})
        long = detail == "full" or len(judged) > FEW
        body = await beside(long, _judgements, places, judged, rest[0] if rest else {}, detail)
        return f'{head[:-1]}, "judgements": [{body}]}}', name in ("done", "cancelled")

    async def _read_together(self, *commands: tuple[Any, ...]) -> list[Any]:
        """All in one step; a full Redis refuses that, even for reads, so there one after the other, the state first."""
        for whole in (True, False):
            async with self._redis.pipeline(transaction=whole) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                with contextlib.suppress(redis.OutOfMemoryError):
                    return list(await pipeline.execute())
        raise redis.OutOfMemoryError("Redis is full, and refuses even to read.")

    async def wait(self, id: str, seconds: float) -> None:
        """Return when the evaluation is final or unknown, or after `seconds`."""
        deadline = time.monotonic() + seconds
        with self._bell(id) as bell:
            while not await self._is_final(id):
                left = min(deadline - time.monotonic(), LOOK_AGAIN)
                if left <= 0:
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(bell.wait(), left)
                bell.clear()

    async def perform(self, id: str, intake: Intake) -> AsyncGenerator[tuple[int, bytes, bytes], None]:
        """Accept an evaluation, hand out index, judgement and tests of each submission as it is judged, and forget it.

        Raises what `accept` raises.
        """
        read, knows_of_nothing = 0, len(intake.order) == 1  # the end rings by itself, other judgements when asked to
        with self._bell(id) as bell:  # before it is accepted, so that its end rings
            await self.accept(id, intake, listed=False)
            while True:
                if knows_of_nothing:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(bell.wait(), LOOK_AGAIN)
                    bell.clear()
                state, *found = await self._collect(args=[self._keys.prefix, id, read, WATCH_SECONDS])
                for index, short, tests in zip(found[::3], found[1::3], found[2::3], strict=True):
                    yield int(index), short, tests
                if state in (b"done", b"gone"):
                    return
                read, knows_of_nothing = read + len(found) // 3, True

    async def watch(self, id: str) -> bool:
        """Let each judgement be told of for a while. False: there is no such evaluation."""
        return bool(await self._watch(args=[self._keys.prefix, id, WATCH_SECONDS]))

    async def follow(self, id: str, after: int, detail: str) -> AsyncIterator[Event | End | None]:
        """The judgements as they are made, but for the first `after`, then the end. None: nothing new for a while.

        Numbers follow the order of the ends, which is written down; so who comes back, here or elsewhere, goes on where
        it was. An evaluation that goes away ends the iteration without an `End`.
        """
        keys, read, number = self._keys, 0, 0
        with self._bell(id) as bell:
            while await self.watch(id):
                bell.clear()
                (total, order, state, cancelled), fresh = await self._read_together(
                    ("HMGET", keys.evaluation(id), "total", "order", "state", "cancelled"),
                    ("LRANGE", keys.evaluation(id, "o"), read, read + EVENTS_AT_ONCE - 1),
                )
                if total is None:
                    return
                places = load_order(order, int(total))
                read += len(fresh)
                async for event in self._events(id, _unseen(places, fresh, number, after), detail):
                    yield event
                number += sum(map(places.count, fresh)) if order else len(fresh)
                if not fresh and state == b"done":
                    yield End("cancelled" if cancelled else "done", len(places))
                    return
                if not fresh:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(bell.wait(), LOOK_AGAIN)
                    if not bell.is_set():
                        yield None

    async def _events(self, id: str, unseen: list[tuple[int, int, bytes]], detail: str) -> AsyncIterator[Event]:
        if not unseen:
            return
        wanted = list(dict.fromkeys(place for _, _, place in unseen))
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hmget(self._keys.evaluation(id, "r"), wanted)
            if detail == "full":
                pipeline.hmget(self._keys.evaluation(id, "f"), wanted)
            short, *tests = await pipeline.execute()
        judged = dict(zip(wanted, short, strict=True))
        listed = dict(zip(wanted, tests[0], strict=True)) if tests else {}
        for number, index, place in unseen:
            if (text := judged[place]) is None:  # it has expired just now
                return
            yield Event(number, index, show(text, listed.get(place), detail))

    async def cancel(self, id: str) -> bool:
        """Drop what waits, and let the workers stop what runs. False: there is no such evaluation."""
        ttl = self._settings.result_ttl_seconds
        return bool(await self._cancel(args=[self._keys.prefix, id, CANCELLED, ttl]))

    async def count_workers(self) -> int:
        """How many workers are alive."""
        return int(await self._count_living(args=[self._keys.prefix]))

    async def workers(self) -> list[dict[str, Any]]:
        """What each living worker says of itself."""
        return [json.loads(told) for told in await self._living(args=[self._keys.prefix])]

    async def depth(self) -> Depth:
        """How much there is of what. Asked on a connection of its own: who asks doesn't wait for a thousand others."""
        keys = self._keys
        async with self._reader.pipeline(transaction=False) as pipeline:
            pipeline.scard(self._keys.of("live"))
            pipeline.get(self._keys.of("unfinished"))
            pipeline.llen(self._turns.key)
            await self._count_living(args=[self._keys.prefix], client=pipeline)
            pipeline.zcard(keys.of("kept"))
            pipeline.mget(keys.of("kept:bytes"), keys.of("kept:hits"), keys.of("kept:misses"))
            evaluations, submissions, turns, workers, results, counters = await pipeline.execute()
        size, hits, misses = (int(value or 0) for value in counters)
        return Depth(evaluations, int(submissions or 0), turns, workers, results, size, hits, misses)

    async def _is_final(self, id: str) -> bool:
        state, cancelled = await self._redis.hmget(self._keys.evaluation(id), "state", "cancelled")
        return state is None or state == b"done" or cancelled is not None

    @contextlib.contextmanager
    def _bell(self, id: str) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        self._bells.setdefault(id, set()).add(bell)
        try:
            yield bell
        finally:
            self._bells[id].discard(bell)
            if not self._bells[id]:
                del self._bells[id]

    async def _ring(self) -> None:
        """Read the stream of finished evaluations. After a broken connection, wake everybody to look again."""
        stream, last = self._keys.of("events"), b""
        while not self._closing:
            try:
                if not last:
                    newest = await self._reader.xrevrange(stream, count=1)
                    last = newest[0][0] if newest else b"0-0"
                    for bells in list(self._bells.values()):
                        _strike(bells)
                reply = await self._reader.xread({stream: last}, count=1000, block=2000)
            except redis.RedisError:
                last = b""
                await asyncio.sleep(0.5)
                continue
            for _, entries in reply:
                last = entries[-1][0]
                for _, fields in entries:
                    _strike(self._bells.get(fields[b"id"].decode(), set()))


def _strike(bells: set[asyncio.Event]) -> None:
    for bell in bells:
        bell.set()


async def beside(long: bool, function: Callable[..., T], *arguments: Any) -> T:
    """Call it; in a thread where it takes long, so that other requests go on meanwhile."""
    return await asyncio.to_thread(function, *arguments) if long else function(*arguments)


def _unseen(places: list[bytes], fresh: list[bytes], number: int, after: int) -> list[tuple[int, int, bytes]]:
    """Number, index and place of each judgement among the fresh ones that comes after the first `after`."""
    if not fresh:
        return []
    indexes: dict[bytes, list[int]] = {}
    for index, place in enumerate(places):
        indexes.setdefault(place, []).append(index)
    every = [(index, place) for place in fresh for index in indexes[place]]
    return [(at, index, place) for at, (index, place) in enumerate(every, start=number + 1) if at > after]


def _judgements(places: list[bytes], judged: dict[bytes, bytes], tests: dict[bytes, bytes], detail: str) -> str:
    shown = {place: show(short, tests.get(place), detail) for place, short in judged.items()}
    return ", ".join(shown.get(place, "null") for place in places)


def _connect(settings: Settings, connections: int, retries: int) -> Any:
    """An asyncio client whose callers wait for a free connection (redis-py's default is to fail beyond 100)."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.redis,
        max_connections=connections,
        timeout=10,
        protocol=2,
        socket_timeout=5,
        socket_connect_timeout=2,
        retry=redis.asyncio.retry.Retry(ConstantBackoff(0.05), retries, RETRIED),
    )
    return redis.asyncio.Redis.from_pool(pool)  # closes the pool when it is closed
