"""The worker's side of a series: tests handed one by one to a child that runs them all.

Whatever goes wrong here is no verdict: the series ends early, and the tests that are left get a child each.
"""

import select
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator

from evaluator.model import Limits
from evaluator.sandbox.base import Call, Run
from evaluator.sandbox.runner.wire import LENGTH, READY, REPLY

PATIENCE = 0.3
"""Seconds on the wall after which a test is too long for a series. Where it needs them, a fork costs nothing more."""
START_PATIENCE = 5.0
CLOSING_PATIENCE = 0.005
"""Seconds for a test that is under way when the series ends: to kill its child takes as long."""
MAX_INPUT = 1 << 18
MAX_REPLY = 1 << 20


class Series:
    """One series, from the opening of the child to its end. `connection` leads to the child.

    `finish` ends the child's order: it is told whether the child has to be killed for that.
    """

    def __init__(self, connection: socket.socket, limits: Limits, finish: Callable[[bool], None]) -> None:
        self._connection = connection
        self._connection.setblocking(False)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._patience = min(PATIENCE, limits.cpu_seconds)
        self._limits = limits
        self._finish = finish
        self._is_waiting = False
        self._is_running = False
        self._is_open = True

    def receive_start(self, patience: float) -> bytes | None:
        """The byte that a child says when it has come so far. None: it ended, or says nothing."""
        start = self._receive(len(READY), time.monotonic() + patience)
        self._is_waiting = start is not None
        return start

    def run_all(self, calls: Iterable[Call]) -> Generator[Run, None, None]:
        """A run for each call, until one can't be run this way. The next is under way while the last is looked at."""
        try:
            if not self._is_waiting:
                self.receive_start(START_PATIENCE)
            waiting = iter(calls)
            sent = self._send_next(waiting)
            while sent:
                run = self._receive_run(time.monotonic())
                self._is_running = False
                if run is None:
                    return
                self._is_waiting = True
                sent = self._send_next(waiting) if run.exit_code == 0 else False
                yield run
        finally:
            self.close()

    def close(self) -> None:
        """Hang up: a child that waits ends by itself, another is killed. Harmless when called twice."""
        if self._is_open:
            self._is_open = False
            if self._is_running:
                self._is_waiting = self._receive_run(time.monotonic(), CLOSING_PATIENCE) is not None
            self._connection.close()
            self._finish(not self._is_waiting)

    def _send_next(self, calls: Iterator[Call]) -> bool:
        call = next(calls, None)
        if not self._is_waiting or call is None or len(call.input) > MAX_INPUT:
            return False
        try:
            message = LENGTH.pack(len(call.input)) + call.input
            self._is_waiting = False
            self._is_running = self._connection.send(message) == len(message)
            return self._is_running
        except OSError:
            return False

    def _receive_run(self, begun: float, patience: float | None = None) -> Run | None:
        deadline = begun + (self._patience if patience is None else patience)
        head = self._receive(REPLY.size, deadline)
        if head is None:
            return None
        status, nanoseconds, memory, size, value_size = REPLY.unpack(head)
        if size + value_size > min(MAX_REPLY, self._limits.output_bytes):
            return None
        body = self._receive(size + value_size, deadline)
        if body is None:
            return None
        wall = time.monotonic() - begun
        return Run(
            exit_code=status,
            signal=None,
            cpu_seconds=min(nanoseconds / 1e9, wall),  # the program could have it say anything
            wall_seconds=wall,
            memory_bytes=min(memory, 1 << 62),
            limit=None,
            stdout=body[:size],
            stderr=b"",
            truncated=False,
            value=body[size:] or None,
            shared=True,
        )

    def _receive(self, size: int, deadline: float) -> bytes | None:
        """So many bytes, or None: they didn't come in time."""
        data = b""
        while len(data) < size:
            try:
                part = self._connection.recv(size - len(data))
                if not part:
                    return None
                data = data + part if data else part
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0 or not self._poll.poll(left * 1000):
                    return None
            except OSError:
                return None
        return data
