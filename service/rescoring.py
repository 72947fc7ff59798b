"""Judging a file of generations: every program of a problem once, problems one after the other, boxes in parallel.

Problems are read as a stream, and only those whose programs are waiting are held. A program that ran a little over the
time limit is judged again when no other runs, and only that counts (`rescore_limit.py`). What is judged is written at
once, and not judged again by a run that goes on.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from evaluator.errors import InvalidSuite
from evaluator.livecodebench.generations import Answers
from evaluator.livecodebench.private_tests import Undecodable
from evaluator.livecodebench.rows import SELECTED_BY, Problem, Selection, iterate_problems
from evaluator.model import Policy, Prelude, Program, Submission, TestCase, Verdict
from evaluator.suites import suite_id, write_suite
from service.batch import Interrupted, Item, Judging
from service.rescore_limit import hold, judge_alone, limits_of_run, needs_run_alone
from service.rescore_results import Key, Results, Rules, add_first_run, digest_of, make_line

WAITING = 4
"""Calls, per worker, that are prepared."""
HELD_BYTES = 256 << 20
"""Tests that are held for programs that wait."""
_CLASS = re.compile(r"^class Solution\b", re.M)


@dataclass(frozen=True)
class Source:
    """Where problems come from, and which count."""

    paths: tuple[Path, ...]
    release: str | None = None
    selection: Selection = field(default_factory=Selection)

    def iterate(self, wanted: Iterable[str] | None = None) -> Iterator[Problem]:
        """Those that are selected, and wanted."""
        ids = None if wanted is None else frozenset(wanted)
        for problem in iterate_problems(self.paths, self.release, ids):
            if self.selection.has(problem.fields):
                yield problem


@dataclass(frozen=True)
class SuiteBytes:
    """A problem's tests as they are sent, and the name that follows from that."""

    id: str
    data: bytes = field(repr=False)


def write_tests(tests: tuple[TestCase, ...]) -> SuiteBytes:
    """Tests as they are sent.

    Raises:
        InvalidSuite: they can't be judged.
    """
    data = write_suite(tests)
    return SuiteBytes(suite_id(data), data)


@dataclass(frozen=True)
class Work:
    """A program that is to be judged."""

    key: Key
    item: Item
    functional: bool
    given: int


@dataclass
class Survey:
    """What came of reading the problems. `problems` are without their tests."""

    problems: dict[str, Problem] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def iterate_work(
    answers: list[Answers], source: Source, rules: Rules, results: Results, survey: Survey, skip: Callable[[int], Any]
) -> Iterator[Work]:
    """The programs that are to be judged, a problem after the other; `survey` is filled on the way.

    `skip` is told of the programs that needn't be judged.
    """
    by_id = {item.question_id: item for item in answers if item.question_id is not None}
    seen: set[str] = set()
    for problem in iterate_problems(source.paths, source.release, by_id):
        seen.add(problem.id)
        programs = dict.fromkeys(by_id[problem.id].programs)
        suite = _write_tests_of(problem, source, survey)
        if suite is None:
            skip(len(programs))
            continue
        for text in programs:
            key = Key(problem.id, digest_of(text))
            if results.has(key, suite.id):
                skip(1)
            else:
                yield make_work(key, text, problem, suite, rules)
    for id in by_id.keys() - seen:
        record = by_id[id].record
        if not all(record.get(name) for name in SELECTED_BY) or source.selection.has(record):
            survey.missing.append(id)
        skip(len(set(by_id[id].programs)))


def _write_tests_of(problem: Problem, source: Source, survey: Survey) -> SuiteBytes | None:
    """The problem's tests; None where it isn't selected or its tests can't be used. The survey is told."""
    if not source.selection.has(problem.fields):
        return None
    try:
        suite = write_tests(problem.read_tests())
    except (Undecodable, InvalidSuite) as error:
        survey.unusable[problem.id] = str(error)
        return None
    survey.problems[problem.id] = replace(problem, public="", private="")
    return suite


def make_work(key: Key, text: str, problem: Problem, suite: SuiteBytes, rules: Rules) -> Work:
    """A program with everything that judging it needs."""
    function = problem.function
    entry_point = f"Solution.{function}" if function is not None and _CLASS.search(text) else function
    program = Program(text, entry_point=entry_point, prelude=Prelude.CONTEST) if text.strip() else None
    limits = limits_of_run(rules.cpu_seconds)
    submission = Submission(
        program,
        suite.id,
        limits,
        Policy(profile=rules.profile),
        fail_fast=rules.fail_fast,
    )
    wire: dict[str, Any] = {
        "program": {"source": text, "entry_point": entry_point, "prelude": str(Prelude.CONTEST)},
        "limits": {"cpu_seconds": limits.cpu_seconds, "wall_seconds": limits.wall_seconds},
        "policy": {"profile": rules.profile},
        "fail_fast": rules.fail_fast,
    }
    item = Item(0, key.question_id, None, wire, submission, suite.data)
    return Work(key, item, function is not None, suite.data.count(b"\n"))


@dataclass(frozen=True)
class _Near:
    """A program that ran a little over the limit, and the line of that run."""

    work: Work
    line: dict[str, Any]


class Flow:
    """Programs on their way through the boxes."""

    def __init__(
        self,
        judging: Judging,
        workers: int,
        rules: Rules,
        write: Callable[[dict[str, Any]], Any],
        interrupt: threading.Event,
    ) -> None:
        """`write` gets the line of each program, in the calling thread."""
        self._judging = judging
        self._room = WAITING * workers
        self._rules = rules
        self._write = write
        self._interrupt = interrupt
        self._executor = ThreadPoolExecutor(workers, "judge")
        self._batch: list[Work] = []
        self._pending: dict[Future[list[dict[str, Any]]], list[Work]] = {}
        self._near: list[_Near] = []
        self.runtime: dict[str, Any] = {}
        """Where programs were judged."""

    def judge_all(self, works: Iterable[Work]) -> None:
        """Judge them all.

        Raises:
            Interrupted: what was judged until then is written.
        """
        try:
            for work in works:
                if work.item.submission.program is None:
                    self._write(_without_program(work))
                    continue
                self._batch.append(work)
                if len(self._batch) >= self._judging.batch:
                    self._send()
                while len(self._pending) >= self._room or self._is_full():
                    self._settle()
                if _weigh(near.work for near in self._near) > HELD_BYTES:
                    self._judge_near()
            self._judge_near()
        except BaseException:
            self._stop()
            raise
        self._executor.shutdown()

    def _is_full(self) -> bool:
        return bool(self._pending) and _weigh(work for batch in self._pending.values() for work in batch) > HELD_BYTES

    def _send(self) -> None:
        batch, self._batch = self._batch, []
        if batch:
            self._pending[self._executor.submit(self._judge, batch)] = batch

    def _judge(self, batch: list[Work]) -> list[dict[str, Any]]:
        start = time.monotonic()
        documents = self._judging.judge([work.item for work in batch])
        seconds = (time.monotonic() - start) / len(batch)
        self.runtime = next((document["runtime"] for document in documents if document.get("runtime")), self.runtime)
        held = [hold(document, self._rules.cpu_seconds, self._rules.fail_fast) for document in documents]
        return [
            make_line(work.key, work.item.submission.suite_id, work.functional, work.given, document, seconds)
            for work, document in zip(batch, held, strict=True)
        ]

    def _settle(self) -> None:
        """Take what is judged; wait a moment where nothing is."""
        done, _ = wait(self._pending, timeout=0.2, return_when=FIRST_COMPLETED)
        if self._interrupt.is_set():
            raise Interrupted
        for future in done:
            for work, line in zip(self._pending.pop(future), future.result(), strict=True):
                if self._is_near(line):
                    self._near.append(_Near(work, line))
                else:
                    self._write(line)

    def _is_near(self, line: dict[str, Any]) -> bool:
        return needs_run_alone(line, self._rules.cpu_seconds)

    def _judge_near(self) -> None:
        """Judge again, each alone, what ran a little over the limit. Nothing else runs meanwhile."""
        self._send()
        while self._pending:
            self._settle()
        for near in self._near:
            runs = judge_alone(partial(self._judge_one, near.work), self._rules.cpu_seconds)
            self._write(add_first_run(runs, near.line))
        self._near = []

    def _judge_one(self, work: Work) -> dict[str, Any]:
        judged = self._executor.submit(self._judge, [work])
        while not judged.done():
            wait([judged], timeout=0.2)
            if self._interrupt.is_set():
                raise Interrupted
        return judged.result()[0]

    def _stop(self) -> None:
        """End early: let calls return, and write what they bring, but for what is near the limit."""
        self._judging.stop()
        self._executor.shutdown(wait=False, cancel_futures=True)
        wait(self._pending, timeout=self._judging.grace)
        for future in self._pending:
            if future.done() and not future.cancelled() and future.exception() is None:
                for line in future.result():
                    if line["verdict"] != Verdict.CANCELLED and not self._is_near(line):
                        self._write(line)


def _weigh(works: Iterable[Work]) -> int:
    """Bytes of the tests that these programs hold; those of one problem hold the same."""
    return sum({work.item.submission.suite_id: len(work.item.suite) for work in works}.values())


def _without_program(work: Work) -> dict[str, Any]:
    document: dict[str, Any] = {
        "verdict": Verdict.NO_CODE,
        "detail": "The answer holds no program.",
        "first_failed": None,
        "cpu_seconds": 0.0,
        "memory_bytes": 0,
        "tests": [],
    }
    return make_line(work.key, work.item.submission.suite_id, work.functional, work.given, document, 0.0)
