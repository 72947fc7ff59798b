"""`microcoder evaluate`: a file of submissions in, a file of judgements out, judged here or by a service.

Each line is judged by itself; what is read, judged and written is streamed, so the size of the file doesn't matter. The
judgements come out in the order of the lines. A line that can't be read ends the reading, not the judging: what stands
before it is judged and written first. The shape of a line is in `docs/commands.md`.
"""

import json
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import microcoder_client
from pydantic import ValidationError

from evaluator.crew import Crew
from evaluator.errors import InvalidSubmission
from evaluator.model import Submission, TestKind, Verdict
from evaluator.suspicions import describe
from service.encoding import plain
from service.intake import Refused, prepare
from service.schemas import EvaluationIn, field_name
from service.settings import Settings, load_settings
from service.suite_store import SuiteCache

if TYPE_CHECKING:
    from evaluator.judge import Judge
    from evaluator.sandbox.pool import Pool

OF_LINE = ("id", "expected_verdict")
"""Fields that come back as they are."""
OF_PROGRAM = ("source", "program", "answer", "entry_point", "language", "prelude", "whole_text_if_unfenced")
OF_RULES = ("tests", "checker", "limits", "policy", "fail_fast", "reward")
KNOWN = (*OF_LINE, *OF_PROGRAM, *OF_RULES)

REMOTE_BATCH = 32
"""Lines that travel as one evaluation."""
CACHE_BYTES = 64 << 20
"""Suites that stay decoded, counted as they were encoded: many lines, one after the other, have the same."""
WINDOW = 16
"""Calls, per worker, that may wait for a slow one before them: the output is in order."""


class BadLine(Exception):
    """A line that can't be judged. The message names line, field and remedy."""


class Interrupted(Exception):
    """Somebody pressed Ctrl-C; what was judged until then is written."""


@dataclass(frozen=True)
class Defaults:
    """What the command line says for lines that say nothing themselves."""

    limits: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    fail_fast: bool = True


@dataclass(frozen=True)
class Item:
    """One line, read."""

    line: int
    id: Any
    expected: str | None
    wire: dict[str, Any]
    """The submission as the service reads it, without its suite."""
    submission: Submission
    suite: bytes = field(repr=False)


class Judging(Protocol):
    """A way to judge some lines; called from several threads."""

    batch: int
    """Lines in one call."""
    most: int
    """Calls at a time."""
    grace: float
    """Seconds that calls get to return after `stop`."""

    def judge(self, items: list[Item]) -> list[dict[str, Any]]:
        """A judgement for each, as a JSON object."""

    def stop(self) -> None:
        """Let calls return soon."""


# Reading


def read_items(lines: Iterable[bytes], defaults: Defaults) -> Iterator[Item]:
    """The submissions of a file. Blank lines are passed over.

    Raises:
        BadLine: at the first line that can't be judged.
        InvalidSettings: the environment's settings can't be used.
    """
    settings = _open_settings()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _read_item(number, line, defaults, settings)


def _open_settings() -> Settings:
    """A service's bounds are for strangers: the limits of the model itself are enough here."""
    huge = 1 << 40
    bounds = ("max_body_bytes", "max_inline_suite_bytes", "max_suite_bytes", "max_source_bytes", "max_memory_bytes")
    return load_settings().model_copy(
        update={**dict.fromkeys(bounds, huge), "max_tests": 100_000, "max_cpu_seconds": 3600.0}
    )


def _read_item(number: int, line: bytes, defaults: Defaults, settings: Settings) -> Item:
    try:
        record = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"line {number} isn't JSON ({error}): write one JSON object a line.") from None
    if not isinstance(record, dict):
        raise BadLine(f"line {number} is a JSON {type(record).__name__}: write one JSON object a line.")
    if unknown := [name for name in record if name not in KNOWN]:
        raise BadLine(f"line {number}: the field '{unknown[0]}' isn't known; a line has {', '.join(KNOWN)}.")
    expected = record.get("expected_verdict")
    if expected is not None and expected not in set(Verdict):
        raise BadLine(f"line {number}: expected_verdict must be one of {', '.join(Verdict)}; not {expected!r}.")
    wire = _wire(number, record, defaults)
    tests = [_test(test, wire) for test in record["tests"]]
    try:
        suite_in = {"tests": tests, "checker": record.get("checker")}
        body = json.dumps({"submission": {**wire, "suite": suite_in}}).encode()
        intake = prepare(EvaluationIn.model_validate_json(body), settings)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise BadLine(_complaint(number, field_name(first["loc"]), first["msg"])) from None
    except Refused as error:
        raise BadLine(_complaint(number, *error.errors[0])) from None
    except InvalidSubmission as error:
        raise BadLine(_complaint(number, "", str(error))) from None
    [suite], [submission] = intake.suites.values(), intake.submissions.values()
    return Item(number, record.get("id"), expected, wire, submission, suite.data)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _wire(number: int, record: dict[str, Any], defaults: Defaults) -> dict[str, Any]:
    given = [name for name in ("source", "program", "answer") if record.get(name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise BadLine(f"line {number} has {found}: give exactly one of source, program and answer.")
    if not isinstance(record.get("tests"), list) or not record["tests"]:
        raise BadLine(f"line {number} has no tests: give 'tests', a list with at least one test.")
    beside = {name: record[name] for name in ("entry_point", "language", "prelude") if record.get(name) is not None}
    program = record.get("source") or record.get("program")
    wire: dict[str, Any] = {}
    if given == ["answer"]:
        wire = {"answer": record["answer"], **beside}
        if record.get("whole_text_if_unfenced"):
            wire["whole_text_if_unfenced"] = record["whole_text_if_unfenced"]
    else:
        wire["program"] = {**beside, **program} if isinstance(program, dict) else {"source": program, **beside}
    for name, default in (("limits", defaults.limits), ("policy", defaults.policy)):
        own = record.get(name)
        if own is not None and not isinstance(own, dict):
            raise BadLine(f"line {number}: {name} must be a JSON object, not {own!r}.")
        if mixed := {**default, **(own or {})}:
            wire[name] = mixed
    wire["fail_fast"] = defaults.fail_fast if record.get("fail_fast") is None else record["fail_fast"]
    if record.get("reward") is not None:
        wire["reward"] = record["reward"]
    return wire


def _test(test: Any, wire: dict[str, Any]) -> Any:
    """With its kind: `functional` where the program has an entry point, else `stdin`."""
    if not isinstance(test, dict) or "kind" in test:
        return test
    program = wire.get("program", wire)
    kind = TestKind.FUNCTIONAL if program.get("entry_point") else TestKind.STDIN
    return {"kind": kind, **test}


def _complaint(number: int, name: str, message: str) -> str:
    place = name.removeprefix("submission").removeprefix(".").removeprefix("suite.")
    text = re.sub(r"\bline (\d+):", r"test \1:", message.removeprefix("Value error, "))
    return f"line {number}: {place + ': ' if place else ''}{text.rstrip('.')}."


# Judging


class LocalJudging:
    """Judges here: each thread takes a judge with a pool of boxes of its own; pools are opened as they are needed."""

    batch = 1
    most = 1 << 16
    grace = 2.0

    def __init__(self, sandbox: str, workers: int) -> None:
        """Open the first pool.

        Raises:
            SandboxUnavailable: there can be no boxes here.
        """
        self._crew = Crew(sandbox, workers, _make_judge)
        self._suites = SuiteCache(None, CACHE_BYTES)

    def judge(self, items: list[Item]) -> list[dict[str, Any]]:
        """One after the other."""
        with self._crew.borrow() as judge:
            return [self._judge(judge, item) for item in items]

    def stop(self) -> None:
        """The judges look between tests."""
        self._crew.stopped.set()

    def close(self) -> None:
        """Destroy the boxes in which nothing runs."""
        self._crew.close()

    def _judge(self, judge: "Judge", item: Item) -> dict[str, Any]:
        suite = self._suites.get(item.submission.suite_id, item.suite)
        judgement = judge.judge(item.submission, suite, cancelled=self._crew.stopped.is_set, progress=lambda: None)
        document: dict[str, Any] = plain(judgement)
        return document | {"suspicion": describe(judgement.suspicions)}


def _make_judge(pool: "Pool") -> "Judge":
    from evaluator.judge import Judge  # as late as the boxes

    return Judge(pool)


class RemoteJudging:
    """Lets a service judge; each call is one evaluation."""

    batch = REMOTE_BATCH
    most = 4
    grace = 10.0

    def __init__(self, client: microcoder_client.Client) -> None:
        """Use this client."""
        self._client = client
        self._stopped = threading.Event()

    def judge(self, items: list[Item]) -> list[dict[str, Any]]:
        """All in one evaluation, which is cancelled when it is to stop."""
        id = f"cli-{uuid.uuid4().hex}"

        def look(judged: int, total: int) -> None:
            if self._stopped.is_set() and judged < total:
                self._client.cancel(id)

        judged = self._client.evaluate(_sent(items), id=id, detail="full", wait=2.0, progress=look)
        documents = [asdict(judgement) for judgement in judged]
        for document in documents:
            del document["cached"]  # a line says the same whoever judged it
        return documents

    def stop(self) -> None:
        """Each call looks when it hears of its evaluation."""
        self._stopped.set()


def _sent(items: list[Item]) -> list[microcoder_client.Submission]:
    sent = []
    for item in items:
        wire = dict(item.wire)
        program = wire.pop("program", {})
        sent.append(microcoder_client.Submission(**program, **wire, suite=microcoder_client.Suite(item.suite)))
    return sent


# Running


class Waiting(NamedTuple):
    """Lines whose judgements aren't written yet."""

    items: list[Item]
    judged: Future[list[dict[str, Any]]]


def run(
    items: Iterator[Item],
    judging: Judging,
    workers: int,
    write: Callable[[dict[str, Any]], Any],
    done: Callable[[int], Any],
    interrupt: threading.Event,
) -> None:
    """Judge all items with `workers` calls at a time, and write their judgements in order.

    `done` is called with the number of lines judged, from any thread. Whatever ends this early, what is judged by then
    is written before it is raised.

    Raises:
        BadLine: from `items`.
        Interrupted: `interrupt` was set.
    """
    waiting: deque[Waiting] = deque()
    executor = ThreadPoolExecutor(workers, "judge")

    def judge(batch: list[Item]) -> list[dict[str, Any]]:
        judged = judging.judge(batch)
        done(len(batch))
        return judged

    def settle(room: int) -> None:
        """Write what is judged, until at most `room` are left to wait for."""
        while waiting and not interrupt.is_set():
            if not waiting[0].judged.done():
                if len(waiting) <= room:
                    return
                wait([waiting[0].judged], timeout=0.2)
                continue
            _write(waiting.popleft(), write)

    bad: BadLine | None = None
    try:
        try:
            for batch in _batches(items, judging.batch):
                if interrupt.is_set():
                    break
                waiting.append(Waiting(batch, executor.submit(judge, batch)))
                settle(WINDOW * workers)
        except BadLine as error:
            bad = error
        settle(0)
    finally:
        if waiting:
            judging.stop()
        executor.shutdown(wait=False, cancel_futures=True)
        wait([left.judged for left in waiting], timeout=judging.grace)
        for left in waiting:
            if left.judged.done() and not left.judged.cancelled() and left.judged.exception() is None:
                _write(left, write)
    if interrupt.is_set():
        raise Interrupted
    if bad is not None:
        raise bad


def _write(batch: Waiting, write: Callable[[dict[str, Any]], Any]) -> None:
    """Write a batch, but for what was cut off."""
    for item, document in zip(batch.items, batch.judged.result(), strict=True):
        if document["verdict"] != Verdict.CANCELLED:
            write(report(item, document))


def _batches(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size`. A bad line is raised only after the good ones before it were given out."""
    batch: list[Item] = []
    try:
        for item in items:
            batch.append(item)
            if len(batch) == size:
                yield batch
                batch = []
    except BadLine:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def report(item: Item, document: dict[str, Any]) -> dict[str, Any]:
    """The line that is written for `item`."""
    head: dict[str, Any] = {"line": item.line}
    if item.id is not None:
        head["id"] = item.id
    if item.expected is not None:
        head |= {"expected_verdict": item.expected, "agrees": document["verdict"] == item.expected}
    return head | document
