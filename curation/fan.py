"""Several problems at a time, given in their order: for stages that wait for programs, or for models that answer."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

WINDOW = 4
"""Items, per worker, that may wait for a slow one before them: their order is kept."""
GRACE = 2.0
"""Seconds that calls get to return when the work is stopped. What takes longer ends with this process."""
T = TypeVar("T")
R = TypeVar("R")


class Interrupted(Exception):
    """Somebody pressed Ctrl-C; what was done until then is kept."""


def fan_out(
    items: Iterable[T],
    call: Callable[[T], R],
    workers: int,
    interrupt: threading.Event,
    stop: Callable[[], None] | None = None,
) -> Iterator[tuple[T, R]]:
    """Each item with what `call` makes of it, in any thread. `stop` lets calls return soon, where the work ends early.

    Raises:
        Interrupted: `interrupt` was set.
        Exception: what a call raised, when its item's turn comes.
    """
    waiting: deque[tuple[T, Future[R]]] = deque()
    executor = ThreadPoolExecutor(workers, "judge")
    try:
        for item in items:
            waiting.append((item, executor.submit(call, item)))
            while len(waiting) > WINDOW * workers:
                yield _settle(*waiting[0], interrupt)
                waiting.popleft()
        while waiting:
            yield _settle(*waiting[0], interrupt)
            waiting.popleft()
    finally:
        if waiting and stop is not None:
            stop()
        executor.shutdown(wait=False, cancel_futures=True)
        wait([begun for _, begun in waiting if not begun.cancelled()], timeout=GRACE)


def _settle(item: T, begun: "Future[R]", interrupt: threading.Event) -> tuple[T, R]:
    while not begun.done():
        wait([begun], timeout=0.2)
        if interrupt.is_set():
            raise Interrupted
    return item, begun.result()
