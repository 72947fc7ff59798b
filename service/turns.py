"""All of RQ as the API sees it: a turn is put into the one queue, naming its function, not importing it.

A turn says which evaluation is to be worked on for a while, nothing else; what is to be done stands in the record. So a
turn that gets lost costs nothing but time: `Claims.recover` in a worker notices and enqueues another.
"""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from rq import Queue
from rq.serializers import JSONSerializer

TURN = "service.worker.run"
"""The only function that a worker runs."""


class TurnQueue:
    """The queue of turns. `redis` is a blocking client; call it from a thread where there is an event loop."""

    def __init__(self, redis: Any, name: str, failure_ttl: int) -> None:
        """Use the RQ queue `name`; records of failed turns go away after `failure_ttl` seconds."""
        self._redis = redis
        self._queue = Queue(name, connection=redis, serializer=JSONSerializer)
        self._failure_ttl = failure_ttl

    @property
    def key(self) -> str:
        """The key of RQ's list of queued turns."""
        return str(self._queue.key)

    def enqueue(self, turns: Iterable[tuple[str, str]]) -> None:
        """Put pairs of evaluation and turn at the tail of the queue."""
        self._queue.enqueue_many(
            [
                Queue.prepare_data(
                    TURN,
                    args=[evaluation],
                    timeout=-1,
                    result_ttl=0,
                    failure_ttl=self._failure_ttl,
                    description="turn",
                    job_id=turn,
                )
                for evaluation, turn in turns
            ]
        )

    def waiting(self) -> set[str]:
        """The turns that are queued."""
        return {turn.decode() for turn in self._redis.lrange(self.key, 0, -1)}


def new_turns(count: int) -> Sequence[str]:
    """Names for turns."""
    return [uuid.uuid4().hex for _ in range(count)]


def turn_after(turn: str) -> str:
    """The name of the turn that follows this one: always the same, so that who isn't sure may enqueue it again."""
    return uuid.uuid5(uuid.NAMESPACE_OID, turn).hex
