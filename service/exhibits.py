"""Evaluations as the page shows them: the latest in short, one with its submissions, one submission with its tests.

Unlike `/v1`, it shows a test's input and expected output beside what the program gave, out of the stored suite, cut to
what a person reads. The programs themselves aren't kept once they are judged.
"""

import asyncio
import contextlib
import json
from typing import Any

from evaluator.model import Suite, TestCase, Verdict
from evaluator.suites import read_suite
from service.encoding import load_order, load_suite, show
from service.records import Keys
from service.suite_store import SuiteLost, SuiteStore

LISTED = 30
"""Evaluations in the list of the latest."""
SUBMISSIONS, TESTS = 100, 50
"""Of an evaluation, of a submission: shown at a time."""
TEXT = 4000
"""Characters of an input or an output that are shown."""
LARGEST_SUITE = 32 << 20
"""Bytes of a suite that is read to be shown."""
HEAD = ("total", "done", "arrived", "state", "cancelled", *(f"verdict:{verdict}" for verdict in Verdict))
"""Fields of the record that a list shows."""


class Exhibits:
    """What the page asks of the record. `redis` is an asyncio client."""

    def __init__(self, redis: Any, keys: Keys, suites: SuiteStore) -> None:
        """Read from `redis`, and suites from `suites`."""
        self._redis = redis
        self._keys = keys
        self._suites = suites
        self._reading = asyncio.Semaphore(2)

    async def latest(self) -> list[dict[str, Any]]:
        """The latest evaluations that are still kept, the newest first."""
        ids = [id.decode() for id in await self._redis.lrange(self._keys.of("latest"), 0, -1)]
        found: list[dict[str, Any]] = []
        for first in range(0, len(ids), LISTED):
            some = ids[first : first + LISTED]
            async with self._redis.pipeline(transaction=False) as pipeline:
                for id in some:
                    pipeline.hmget(self._keys.evaluation(id), *HEAD)
                records = await pipeline.execute()
            found += [_head(id, record) for id, record in zip(some, records, strict=True) if record[0] is not None]
            if len(found) >= LISTED:
                break
        return found[:LISTED]

    async def evaluation(self, id: str, first: int) -> dict[str, Any] | None:
        """An evaluation with `SUBMISSIONS` of its submissions from `first` on, without tests. None: it isn't there."""
        async with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.hmget(self._keys.evaluation(id), *HEAD)
            pipeline.hget(self._keys.evaluation(id), "order")
            record, order = await pipeline.execute()
        if record[0] is None:
            return None
        places = load_order(order, int(record[0]))
        some = places[first : first + SUBMISSIONS]
        judged = await self._redis.hmget(self._keys.evaluation(id, "r"), some) if some else []
        shown = [{"index": first + at, **_summary(text)} for at, text in enumerate(judged)]
        return {**_head(id, record), "submissions": len(places), "first": first, "judgements": shown}

    async def submission(self, id: str, index: int, first: int | None) -> dict[str, Any] | None:
        """A judgement with `TESTS` of its tests from `first` on: where the first failed, if it isn't said."""
        names = ("total", "order", "suites")
        total, order, told = await self._redis.hmget(self._keys.evaluation(id), *names)
        places = load_order(order, int(total)) if total is not None else []
        if index >= len(places):
            return None
        place = places[index]
        short = await self._redis.hget(self._keys.evaluation(id, "r"), place)
        tests = await self._redis.hget(self._keys.evaluation(id, "f"), place)
        if short is None:
            return {"index": index, "verdict": None, "tests": [], "count": 0, "first": 0, "note": None}
        judgement: dict[str, Any] = json.loads(await asyncio.to_thread(show, short, tests, "full"))
        results = judgement["tests"]
        failed = judgement["first_failed"] or 0
        first = failed // TESTS * TESTS if first is None else first
        cases, note = await self._cases(load_suite((told or b"").decode(), int(place)))
        shown = [_beside(test, cases) for test in results[first : first + TESTS]]
        return {**judgement, "index": index, "tests": shown, "count": len(results), "first": first, "note": note}

    async def _cases(self, id: str) -> tuple[Suite | None, str | None]:
        """The suite, or why it isn't shown."""
        stored = await self._suites.describe(id) if id else None
        if stored is None:
            return None, "Its suite is no longer stored: inputs can't be shown."
        if stored.size > LARGEST_SUITE:
            return None, "Its suite is too large to be shown here: fetch it with GET /v1/suites/{id}."
        async with self._reading:
            with contextlib.suppress(SuiteLost):
                data = b"".join([chunk async for chunk in self._suites.chunks(id)])
                return await asyncio.to_thread(read_suite, data), None
        return None, "Its suite has just made room for another: inputs can't be shown."


def _head(id: str, record: list[bytes | None]) -> dict[str, Any]:
    """What the fields `HEAD` say."""
    total, done, arrived, state, cancelled, *counts = record
    return {
        "id": id,
        "state": "cancelled" if cancelled else (state or b"").decode(),
        "arrived": float(arrived or 0),
        "total": int(total or 0),
        "done": int(done or 0),
        "verdicts": {verdict: int(count) for verdict, count in zip(Verdict, counts, strict=True) if count},
    }


def _summary(text: bytes | None) -> dict[str, Any]:
    if text is None:
        return {"verdict": None}
    judgement = json.loads(text)
    names = ("verdict", "reward", "cpu_seconds", "memory_bytes", "detail", "cached")
    return {name: judgement[name] for name in names}


def _beside(test: dict[str, Any], suite: Suite | None) -> dict[str, Any]:
    """A test's result with its input and expected output."""
    case: TestCase | None = suite.tests[test["index"]] if suite is not None else None
    texts = {
        "input": _cut(case.input if case else None),
        "wanted": _cut(case.expected if case else None),
        "output": _cut(test["output"]),
        "stderr": _cut(test["stderr"]),
    }
    return {**test, **texts, "kind": case.kind if case else None, "name": case.name if case else None}


def _cut(text: str | None) -> str | None:
    if text is None:
        return None
    readable = text.encode("utf-8", "replace").decode()
    return readable if len(readable) <= TEXT else f"{readable[:TEXT]}\n… ({len(readable)} characters)"
