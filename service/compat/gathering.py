"""Many executions become few evaluations: what an evaluation costs the queue is shared.

A request that comes while little is under way goes at once, alone. While much is, those that come within a twentieth of
a second go together, which is less than they would wait anyway. Each has its answer as soon as it is judged.
"""

import asyncio
import contextlib
import os
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import redis

from evaluator.model import Submission
from service.evaluations import Evaluations, QueueFull
from service.intake import Intake

AT_ONCE = 8
"""Submissions under way below which nobody is kept waiting for company."""
TOGETHER = 16
"""At most so many go together."""
HOLD_SECONDS = 0.05

Found = tuple[bytes, bytes]
"""A judgement and its tests, as they lie in Redis."""


@dataclass(eq=False)
class Group:
    """Submissions that went together."""

    id: str
    undone: int


@dataclass(eq=False)
class Item:
    """An execution, and who waits for it. Its future has None where the evaluation went away."""

    submission: Submission
    found: "asyncio.Future[Found | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    group: Group | None = None


class Gathering:
    """Sends executions to the queue, several as one evaluation where many come."""

    def __init__(self, evaluations: Evaluations) -> None:
        """Nothing is under way yet."""
        self._evaluations = evaluations
        self._waiting: list[Item] = []
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def perform(self, submission: Submission) -> Found | None:
        """The judgement, when it is there. Who stops waiting (by cancellation) takes the submission back.

        Raises:
            QueueFull: try again later.
            redis.RedisError: Redis is away.
        """
        item = Item(submission)
        self._waiting.append(item)
        self._consider()
        try:
            return await item.found
        finally:
            if item.found.cancelled():
                await self._leave(item)

    async def _leave(self, item: Item) -> None:
        if item.group is None:
            if item in self._waiting:
                self._waiting.remove(item)
            return
        item.group.undone -= 1
        if item.group.undone == 0:  # nobody waits for any of them
            with contextlib.suppress(redis.RedisError):
                await self._evaluations.cancel(item.group.id)

    def _consider(self) -> None:
        """Send what is there to be sent."""
        while self._waiting and (self._under_way < AT_ONCE or len(self._waiting) >= TOGETHER):
            self._send()
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        items, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
        if items:
            group = Group(uuid.uuid4().hex, len(items))
            for item in items:
                item.group = group
            self._under_way += len(items)
            self._start(self._perform(group, items))

    async def _perform(self, group: Group, items: list[Item]) -> None:
        left = dict(enumerate(items))
        # What is asked for twice is done twice here: two runs of one program may print different things.
        submissions = {os.urandom(32): item.submission for item in items}
        intake = Intake(submissions, list(left), {}, group.id)
        failure: Exception | None = None
        try:
            async with contextlib.aclosing(self._evaluations.perform(group.id, intake)) as judged:
                async for index, short, tests in judged:
                    self._finish(group, left.pop(index), (short, tests))
        except (QueueFull, redis.RedisError) as error:
            failure = error
        finally:
            for item in left.values():
                self._finish(group, item, None, failure)

    def _finish(self, group: Group, item: Item, found: Found | None, failure: Exception | None = None) -> None:
        self._under_way -= 1
        if not item.found.done():
            group.undone -= 1
            if failure is None:
                item.found.set_result(found)
            else:
                item.found.set_exception(failure)
        self._consider()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
