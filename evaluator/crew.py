"""Judges for several threads, each with a pool of boxes of its own, opened as they are needed."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from evaluator.sandbox.pool import Pool

T = TypeVar("T")


class Crew(Generic[T]):
    """`make` makes what judges, out of a pool. Each is lent to one thread at a time."""

    def __init__(self, sandbox: str, workers: int, make: "Callable[[Pool], T]") -> None:
        """Open the first pool, of this kind of boxes; at most `workers` are opened.

        Raises:
            SandboxUnavailable: there can be no boxes here.
        """
        self.stopped = threading.Event()
        """For judges to look at between tests."""
        self._sandbox = sandbox
        self._workers = workers
        self._make = make
        self._pools: list[Pool] = []
        self._free: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._free.put(self._open())
        for _ in range(workers - 1):
            self._free.put(None)

    @contextmanager
    def borrow(self) -> Iterator[T]:
        """One that is free, as soon as there is one."""
        judge = self._free.get()
        try:
            judge = judge or self._open()
            yield judge
        finally:
            self._free.put(judge)

    def close(self) -> None:
        """Destroy the boxes, unless a program still runs in one: boxes end with this process."""
        if self._free.qsize() < self._workers:
            return
        for pool in self._pools:
            pool.close()

    def _open(self) -> T:
        from evaluator.sandbox.pool import open_pool  # boxes are for Linux; a service can be asked from anywhere

        pool = open_pool(self._sandbox, spare=False)
        self._pools.append(pool)
        return self._make(pool)
