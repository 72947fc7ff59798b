"""What every foreign wire format needs: run a program for its outputs, or judge one, and wait for it.

A request that nobody waits for any longer is cancelled, and what can't be done now is said at once: `NotNow`, which
each format translates to what its clients repeat.
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import redis
from starlette.requests import ClientDisconnect, Request

from evaluator.executions import Execution, Outputs
from evaluator.model import MEBIBYTE, Limits, Program, Submission, Verdict
from service.compat.gathering import Found, Gathering
from service.encoding import load_outputs, show
from service.evaluations import Evaluations, QueueFull
from service.intake import InlineSuite, Intake
from service.settings import Settings
from service.suite_store import SuiteStoreFull

QUEUE_SECONDS = 8.0
"""How long a program may wait beyond its own limits. verl's client hangs up after 10."""
RETRY_AFTER = 1
SMALLEST_SECONDS, SMALLEST_MEMORY = 0.01, 16 * MEBIBYTE


class NotNow(Exception):
    """Nothing was learnt about the program, by no fault of its own: to be sent again. The message says why."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended, and what it wrote."""

    verdict: Verdict
    exit_code: int | None
    signal: int | None
    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    detail: str
    """One sentence about a limit that ended it, else nothing."""
    stdout: str
    stderr: str
    files: tuple[tuple[str, bytes], ...] = ()


class Performer:
    """Has programs run and judged by the workers."""

    def __init__(self, settings: Settings, evaluations: Evaluations) -> None:
        """Use the same queue as `/v1`."""
        self._settings = settings
        self._evaluations = evaluations
        self._gathering = Gathering(evaluations)

    def limits(self, seconds: float, memory_bytes: int | None, *, cpu_seconds: float | None = None) -> Limits:
        """Limits of one run: `seconds` on the wall (time spent waiting for a processor isn't counted).

        What exceeds the service's bounds is cut to them; no limit of memory at all is their highest.
        """
        settings = self._settings
        wall = min(seconds, settings.max_cpu_seconds)
        cpu = min(wall if cpu_seconds is None else cpu_seconds, settings.max_cpu_seconds)
        memory = settings.max_memory_bytes if memory_bytes is None else min(memory_bytes, settings.max_memory_bytes)
        return Limits(max(cpu, SMALLEST_SECONDS), max(wall, SMALLEST_SECONDS), max(memory, SMALLEST_MEMORY))

    async def run(self, request: Request, source: str, execution: Execution, limits: Limits, patience: float) -> Ran:
        """Run a program.

        Raises:
            NotNow: try again.
            ClientDisconnect: nobody waits any more.
        """
        submission = Submission(Program(source), "", limits, execution=execution)
        short, outputs = await self._wait(request, self._gathering.perform(submission), patience)
        return _ran(json.loads(short), load_outputs(outputs))

    async def judge(
        self, request: Request, submission: Submission, suite: InlineSuite | None, patience: float
    ) -> dict[str, Any]:
        """Judge a program. Returns the judgement as `/v1` has it, with all its tests.

        Raises:
            NotNow: try again.
            UnknownSuites: it isn't stored.
            ClientDisconnect: nobody waits any more.
        """
        suites = {} if suite is None else {suite.id: suite}
        short, tests = await self._wait(request, self._perform(Intake.of([submission], suites)), patience)
        judgement: dict[str, Any] = json.loads(show(short, tests, "full"))
        return judgement

    async def _perform(self, intake: Intake) -> Found | None:
        """Judge one submission as an evaluation of its own, which goes when nobody waits for it."""
        id = uuid.uuid4().hex
        try:
            async with contextlib.aclosing(self._evaluations.perform(id, intake)) as judged:
                async for _, short, tests in judged:
                    return short, tests
        except asyncio.CancelledError:
            with contextlib.suppress(redis.RedisError):
                await self._evaluations.cancel(id)
            raise
        return None

    async def _wait(self, request: Request, perform: Coroutine[Any, Any, Found | None], patience: float) -> Found:
        work = asyncio.create_task(perform)
        departure = asyncio.create_task(_hang_up(request))
        try:
            await asyncio.wait({work, departure}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if departure.done() and not work.done():
                raise ClientDisconnect
            if not work.done():
                raise NotNow(
                    f"No worker had time for this within {patience:g} s. Send it again, or start more workers."
                )
            found = work.result()
        except QueueFull as error:
            raise NotNow(f"{error.unfinished} submissions wait already. Send this again later.") from None
        except SuiteStoreFull:
            raise NotNow("The store of suites is full of suites in use. Send this again later.") from None
        except redis.RedisError:
            raise NotNow("Redis doesn't answer. Send this again.") from None
        finally:
            departure.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})  # it takes back what waits
        if found is None or json.loads(found[0])["verdict"] in (Verdict.INTERNAL_ERROR, Verdict.CANCELLED):
            raise NotNow("The evaluator failed, and learnt nothing about this program. Send this again.")
        return found


async def _hang_up(request: Request) -> None:
    """Return when the client has gone. Its request has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _ran(judgement: dict[str, Any], outputs: Outputs) -> Ran:
    [test] = judgement["tests"] or [_ended_well(judgement)]
    verdict = Verdict(judgement["verdict"])
    limits = (Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT, Verdict.OUTPUT_LIMIT)
    return Ran(
        verdict=verdict,
        exit_code=test["exit_code"],
        signal=test["signal"],
        cpu_seconds=judgement["cpu_seconds"],
        wall_seconds=judgement["wall_seconds"],
        memory_bytes=judgement["memory_bytes"],
        detail=judgement["detail"] or "" if verdict in limits else "",
        stdout=outputs.stdout.decode("utf-8", "replace"),
        stderr=outputs.stderr.decode("utf-8", "replace"),
        files=outputs.files,
    )


def _ended_well(judgement: dict[str, Any]) -> dict[str, Any]:
    """A judgement's short form lists no test that was accepted."""
    assert judgement["verdict"] == Verdict.ACCEPTED
    return {"exit_code": 0, "signal": None}


def exit_status(ran: Ran) -> int:
    """As a shell tells it: 128 and the signal's number where one ended it. Never 0 for a program that failed."""
    if ran.verdict is Verdict.OUTPUT_LIMIT:
        return 153  # SIGXFSZ, the signal of files that grow too large
    if ran.signal is not None:
        return 128 + ran.signal
    if ran.verdict is Verdict.ACCEPTED:
        return 0
    return ran.exit_code or (137 if ran.verdict is Verdict.MEMORY_LIMIT else 1)
