"""`Client`: the blocking way to send. All that is said and understood is in `protocol.py`."""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx

from .cases import Submission, SuiteLike
from .exceptions import ConnectionFailed, DeadlineExceeded, MicrocoderError, ServiceError
from .judgements import Evaluation, Judgement
from .protocol import LONGEST_WAIT, BaseClient
from .retries import Backoff
from .steps import Flow, Hear, Heard, Listen, Pause, Posting, Progress, Stream

_logger = logging.getLogger("microcoder_client")
T = TypeVar("T")


class Client(BaseClient):
    """A connection to an evaluator, for use by any number of threads.

    with Client("http://127.0.0.1:8000") as client:
        [judgement] = client.evaluate(["print(int(input()) * 2)"], suite=[stdin_test("4", "8")])
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        deadline: float = 3600.0,
        patience: float = 120.0,
        timeout: float = 30.0,
        backoff: Backoff | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """See `BaseClient`; `transport` replaces the network, in tests."""
        super().__init__(url, api_key, deadline=deadline, patience=patience, timeout=timeout, backoff=backoff)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        self._http = httpx.Client(transport=transport, limits=limits)

    def evaluate(
        self,
        submissions: Sequence[Submission | str],
        *,
        suite: SuiteLike | None = None,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        fail_fast: bool | None = None,
        reward: str | None = None,
        test_order: str | None = None,
        id: str | None = None,
        detail: str | None = None,
        wait: float = LONGEST_WAIT,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> list[Judgement]:
        """Judge the submissions and return one judgement for each, in order.

        Ctrl-C, the deadline and a failing service cancel the evaluation before they are raised.

        Args:
            submissions: programs (source text), or `Submission`s. Their own settings go before those given here.
            suite: the tests of all submissions that bring none: a `Suite`, or a list of test cases.
            limits: what one test may use, such as `{"cpu_seconds": 2}`.
            policy: how outputs are compared, such as `{"profile": "exact"}`.
            fail_fast: stop a submission at its first failed test.
            reward: `all_or_nothing` or `fraction`.
            test_order: `adaptive` tries first what has failed other programs, where `fail_fast` is set.
            id: a name for the evaluation, so that it can be fetched later; a fresh one is drawn otherwise.
            detail: which tests a judgement lists: `summary` none, `failures` the first that failed, `full` all.
            wait: seconds that one request waits for the end before the client asks again.
            deadline: seconds in all, instead of the client's own.
            progress: called with (judged, all) whenever the client hears of it.

        Raises:
            MicrocoderError: see `exceptions.py` for the tree.
            ValueError: what was given makes no evaluation.
        """
        posting = self._posting(
            submissions,
            suite=suite,
            limits=limits,
            policy=policy,
            fail_fast=fail_fast,
            reward=reward,
            test_order=test_order,
            id=id,
        )
        try:
            return self._drive(self._evaluates(posting, wait, detail, self._until(deadline), progress))
        except (KeyboardInterrupt, ConnectionFailed, DeadlineExceeded, ServiceError):
            # Not after a refusal: an id that is refused may be another's evaluation.
            self._abandon(posting)
            raise

    def stream(
        self,
        submissions: Sequence[Submission | str],
        *,
        suite: SuiteLike | None = None,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        fail_fast: bool | None = None,
        reward: str | None = None,
        test_order: str | None = None,
        id: str | None = None,
        detail: str | None = None,
        deadline: float | None = None,
    ) -> Iterator[tuple[int, Judgement]]:
        """Judge the submissions and yield (index, judgement) for each as soon as it is made.

        The arguments are those of `evaluate`. Whatever ends the loop early, a `break` too, cancels the evaluation; use
        `contextlib.closing` where the iterator may be kept alive. A broken connection is opened again, and nothing is
        yielded twice.
        """
        posting = self._posting(
            submissions,
            suite=suite,
            limits=limits,
            policy=policy,
            fail_fast=fail_fast,
            reward=reward,
            test_order=test_order,
            id=id,
        )
        try:
            yield from self._listen(self._streams(posting, detail, self._until(deadline)))
        except (GeneratorExit, KeyboardInterrupt, ConnectionFailed, DeadlineExceeded, ServiceError):
            self._abandon(posting)
            raise

    def follow(
        self, id: str, *, detail: str | None = None, deadline: float | None = None
    ) -> Iterator[tuple[int, Judgement]]:
        """Yield (index, judgement) of an evaluation that was submitted, those already made first. Cancels nothing."""
        yield from self._listen(self._listens(id, detail, self._until(deadline)))

    def submit(
        self,
        submissions: Sequence[Submission | str],
        *,
        suite: SuiteLike | None = None,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        fail_fast: bool | None = None,
        reward: str | None = None,
        test_order: str | None = None,
        id: str | None = None,
    ) -> str:
        """Post without waiting; returns the id to `fetch`. The arguments are those of `evaluate`."""
        posting = self._posting(
            submissions,
            suite=suite,
            limits=limits,
            policy=policy,
            fail_fast=fail_fast,
            reward=reward,
            test_order=test_order,
            id=id,
        )
        return self._drive(self._posts(posting, 0.0, "summary", self._until(None))).id

    def fetch(self, id: str, *, wait: float = 0.0, detail: str | None = None) -> Evaluation:
        """The evaluation as it stands, after at most `wait` seconds for its end."""
        return self._drive(self._fetches(id, wait, detail, self._until(None)))

    def cancel(self, id: str) -> None:
        """Stop the evaluation. What is already judged stays."""
        self._drive(self._cancels(id, self._until(None)))

    def health(self) -> dict[str, Any]:
        """How the service is: queue depth, workers. Asked once, without retries."""
        return self._drive(self._asks_health())

    def runtimes(self) -> dict[str, Any]:
        """What programs run in: Python, packages, kind of box."""
        return self._drive(self._asks("v1/runtimes", self._until(None)))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def _abandon(self, posting: Posting) -> None:
        """Tell the service that nobody waits any more: once, briefly; what comes of it is of no interest."""
        try:
            self._drive(self._cancels(posting.id, time.monotonic()))
        except MicrocoderError as error:
            _logger.info("evaluation %s couldn't be cancelled: %s", posting.id, error)

    def _drive(self, flow: Flow[T]) -> T:
        """Do what the conversation asks for until it returns."""
        answer: httpx.Response | httpx.TransportError | None = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = self._do(step)

    def _listen(self, flow: Stream) -> Iterator[tuple[int, Judgement]]:
        """Do what the conversation asks for, and yield what it passes on."""
        answer: httpx.Response | httpx.TransportError | bytes | None = None
        pieces: Iterator[bytes] = iter(())
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    step = flow.send(answer)
                except StopIteration:
                    return
                answer = None
                if isinstance(step, Heard):
                    yield step.index, step.judgement
                elif isinstance(step, Hear):
                    answer = self._hear(pieces)
                else:
                    answer = self._do(step)
                    if isinstance(step, Listen) and isinstance(answer, httpx.Response):
                        stack.close()  # the one before it
                        stack.callback(answer.close)
                        pieces = answer.iter_bytes()

    def _do(self, step: httpx.Request | Pause | Listen) -> httpx.Response | httpx.TransportError | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            if not isinstance(step, Listen):
                return self._http.send(step)
            answer = self._http.send(step.request, stream=True)
            if not answer.is_success:
                answer.read()
            return answer
        except httpx.TransportError as error:
            return error

    def _hear(self, pieces: Iterator[bytes]) -> bytes | httpx.TransportError:
        try:
            return next(pieces, b"")
        except httpx.TransportError as error:
            return error
