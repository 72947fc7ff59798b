"""`AsyncClient`: the way to send from an event loop. All that is said and understood is in `protocol.py`."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
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


class AsyncClient(BaseClient):
    """A connection to an evaluator, for use by any number of tasks of one event loop.

    async with AsyncClient("http://127.0.0.1:8000") as client:
        [judgement] = await client.evaluate(["print(int(input()) * 2)"], suite=[stdin_test("4", "8")])
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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """See `BaseClient`; `transport` replaces the network, in tests."""
        super().__init__(url, api_key, deadline=deadline, patience=patience, timeout=timeout, backoff=backoff)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        self._http = httpx.AsyncClient(transport=transport, limits=limits)

    async def evaluate(
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
        """Judge the submissions and return one judgement for each, in order; see `Client.evaluate`.

        A task that is cancelled while it waits cancels the evaluation, and so do the deadline and a failing service.
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
            return await self._drive(self._evaluates(posting, wait, detail, self._until(deadline), progress))
        except (asyncio.CancelledError, ConnectionFailed, DeadlineExceeded, ServiceError):
            await self._abandon(posting)
            raise

    async def stream(
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
    ) -> AsyncIterator[tuple[int, Judgement]]:
        """Judge the submissions and yield (index, judgement) for each as soon as it is made; see `Client.stream`.

        Leave the loop early only inside `contextlib.aclosing`, so that the evaluation is cancelled then and there.
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
        heard = self._listen(self._streams(posting, detail, self._until(deadline)))
        try:
            async for item in heard:
                yield item
        except (GeneratorExit, asyncio.CancelledError, ConnectionFailed, DeadlineExceeded, ServiceError):
            await self._abandon(posting)
            raise
        finally:
            await heard.aclose()

    async def follow(
        self, id: str, *, detail: str | None = None, deadline: float | None = None
    ) -> AsyncIterator[tuple[int, Judgement]]:
        """Yield (index, judgement) of an evaluation that was submitted, those already made first. Cancels nothing."""
        async with contextlib.aclosing(self._listen(self._listens(id, detail, self._until(deadline)))) as heard:
            async for item in heard:
                yield item

    async def submit(
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
        """Post without waiting; returns the id to `fetch` or `follow`. The arguments are those of `evaluate`."""
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
        return (await self._drive(self._posts(posting, 0.0, "summary", self._until(None)))).id

    async def fetch(self, id: str, *, wait: float = 0.0, detail: str | None = None) -> Evaluation:
        """The evaluation as it stands, after at most `wait` seconds for its end."""
        return await self._drive(self._fetches(id, wait, detail, self._until(None)))

    async def cancel(self, id: str) -> None:
        """Stop the evaluation. What is already judged stays."""
        await self._drive(self._cancels(id, self._until(None)))

    async def health(self) -> dict[str, Any]:
        """How the service is: queue depth, workers. Asked once, without retries."""
        return await self._drive(self._asks_health())

    async def runtimes(self) -> dict[str, Any]:
        """What programs run in: Python, packages, kind of box."""
        return await self._drive(self._asks("v1/runtimes", self._until(None)))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        """The client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def _abandon(self, posting: Posting) -> None:
        """Tell the service that nobody waits any more: once, briefly; what comes of it is of no interest."""
        try:
            await self._drive(self._cancels(posting.id, time.monotonic()))
        except MicrocoderError as error:
            _logger.info("evaluation %s couldn't be cancelled: %s", posting.id, error)

    async def _drive(self, flow: Flow[T]) -> T:
        """Do what the conversation asks for until it returns."""
        answer: httpx.Response | httpx.TransportError | None = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self._do(step)

    async def _listen(self, flow: Stream) -> AsyncGenerator[tuple[int, Judgement], None]:
        """Do what the conversation asks for, and yield what it passes on."""
        answer: httpx.Response | httpx.TransportError | bytes | None = None
        pieces: AsyncIterator[bytes] | None = None
        async with contextlib.AsyncExitStack() as stack:
            while True:
                try:
                    step = flow.send(answer)
                except StopIteration:
                    return
                answer = None
                if isinstance(step, Heard):
                    yield step.index, step.judgement
                elif isinstance(step, Hear):
                    assert pieces is not None, "nothing is listened to before `Listen`"
                    answer = await self._hear(pieces)
                else:
                    answer = await self._do(step)
                    if isinstance(step, Listen) and isinstance(answer, httpx.Response):
                        await stack.aclose()  # the one before it
                        stack.push_async_callback(answer.aclose)
                        pieces = answer.aiter_bytes()

    async def _do(self, step: httpx.Request | Pause | Listen) -> httpx.Response | httpx.TransportError | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            if not isinstance(step, Listen):
                return await self._http.send(step)
            answer = await self._http.send(step.request, stream=True)
            if not answer.is_success:
                await answer.aread()
            return answer
        except httpx.TransportError as error:
            return error

    async def _hear(self, pieces: AsyncIterator[bytes]) -> bytes | httpx.TransportError:
        try:
            return await anext(pieces, b"")
        except httpx.TransportError as error:
            return error
