"""Verify: every reference program passes its whole suite, twice, and every program known to be wrong fails.

A problem is kept when all its references are accepted in both runs, with the same outputs, and none needs more than a
part of its limits. What it used is noted as `margins`: measured, so different from build to build, and not part of the
corpus. Problems without a reference can't be verified; they are kept apart, whole, with all others that were dropped.

What is judged is written to a journal at once: a build that was interrupted doesn't judge it again.
"""

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import Field

from curation.judging import Judging, Order, Outcome
from curation.problem import Problem
from curation.stage import Params, Stage
from evaluator.model import Verdict

WINDOW = 4
"""Problems, per worker, that may wait for a slow one before them: the stage keeps their order."""
GRACE = 2.0
"""Seconds that programs get to end when the work is stopped. What takes longer ends with this process."""
OURS = (Verdict.INTERNAL_ERROR, Verdict.CANCELLED)


class Interrupted(Exception):
    """Somebody pressed Ctrl-C; what was done until then is kept."""


class VerifyParams(Params):
    """Settings of `verify`."""

    runs: int = Field(2, ge=2)
    """Of each reference. A program that is wrong once in three runs is caught by two with 5 chances in 9, a test."""
    margin: float = Field(1.5, ge=1)
    """A reference may need 1/margin of its time limit: one nearer to it would fail on a busier machine."""
    wrong: Literal["drop", "mark"] = "drop"
    """What becomes of a problem whose tests accept a program known to be wrong."""


@dataclass(frozen=True)
class Finding:
    """What judging a problem's programs showed. Of each reference, one outcome a run."""

    references: tuple[tuple[Outcome, ...], ...]
    wrong: tuple[Outcome, ...]

    @property
    def is_ours(self) -> bool:
        """Whether something wasn't judged."""
        return any(one.verdict in OURS for runs in (*self.references, self.wrong) for one in runs)


class Verify(Stage):
    """See the module."""

    name = "verify"
    keeps_dropped = True

    def __init__(
        self,
        params: VerifyParams,
        open_judging: Callable[[], Judging],
        workers: int,
        journal: Path,
        interrupt: threading.Event,
    ) -> None:
        """Judge `workers` problems at a time; findings are looked for in the journal and added to it."""
        super().__init__()
        self._params = params
        self._open_judging = open_judging
        self._workers = workers
        self._journal = Journal(journal)
        self._interrupt = interrupt

    @property
    def params(self) -> dict[str, Any]:
        """The settings."""
        return self._params.model_dump(mode="json")

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Several at a time, in their order.

        Raises:
            Interrupted: `interrupt` was set.
        """
        waiting: deque[tuple[Problem, Future[Finding] | None]] = deque()
        judging = self._open_judging()
        workers = min(self._workers, judging.most)
        executor = ThreadPoolExecutor(workers, "judge")
        with self._journal:
            try:
                for problem in problems:
                    begun = executor.submit(self._examine, judging, problem) if problem.references else None
                    waiting.append((problem, begun))
                    while len(waiting) > WINDOW * workers:
                        yield from self._settle(*waiting[0])
                        waiting.popleft()
                while waiting:
                    yield from self._settle(*waiting[0])
                    waiting.popleft()
            finally:
                if waiting:
                    judging.stop()
                executor.shutdown(wait=False, cancel_futures=True)
                wait([begun for _, begun in waiting if begun is not None], timeout=GRACE)

    def _settle(self, problem: Problem, begun: Future[Finding] | None) -> Iterator[Problem]:
        if begun is None:
            self.drop(problem, "no reference program")
            return
        while not begun.done():
            wait([begun], timeout=0.2)
            if self._interrupt.is_set():
                raise Interrupted
        reason, detail = self._object_to(problem, begun.result())
        if reason:
            self.drop(problem, reason, detail)
            return
        yield self._note(problem, begun.result())

    def _examine(self, judging: Judging, problem: Problem) -> Finding:
        """Judge all programs, or remember how they were judged. In any thread."""
        key = self._key(problem)
        known = self._journal.find(key)
        if known is not None:
            return known
        runs = self._params.runs
        orders = [Order(source, run) for source in problem.references for run in range(runs)]
        wrong = [Order(source, fail_fast=True) for source in problem.wrong]
        outcomes = judging.judge(problem, [*orders, *wrong])
        of_references = outcomes[: len(orders)]
        references = tuple(tuple(of_references[at : at + runs]) for at in range(0, len(orders), runs))
        finding = Finding(references, tuple(outcomes[len(orders) :]))
        if not finding.is_ours:
            self._journal.add(key, problem.id, finding)
        return finding

    def _key(self, problem: Problem) -> str:
        """The same for problems that are judged alike."""
        limits = problem.limits()
        rules = (problem.suite.id, problem.entry_point, asdict(limits), dict(problem.policy), self._params.runs)
        text = json.dumps([rules, problem.references, problem.wrong], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _object_to(self, problem: Problem, finding: Finding) -> tuple[str, str]:
        """Why the problem can't be kept: a reason and a detail, or two empty texts."""
        if finding.is_ours:
            return "couldn't be judged", _first_detail(finding)
        verdicts = [judge_runs(runs) for runs in finding.references]
        if "flaky" in verdicts:
            return "a reference isn't deterministic", ""
        rejected = [
            runs[0] for runs, verdict in zip(finding.references, verdicts, strict=True) if verdict != "accepted"
        ]
        if rejected and len(rejected) < len(verdicts):
            if any(one.verdict == Verdict.WRONG_ANSWER for one in rejected):
                return "references disagree", rejected[0].detail
            return "a reference fails", f"{rejected[0].verdict}: {rejected[0].detail}"
        if rejected:
            return "no reference passes", f"{rejected[0].verdict}: {rejected[0].detail}"
        slowest = max(one.slowest for runs in finding.references for one in runs)
        if slowest * self._params.margin > problem.limits().cpu_seconds:
            return "a reference is too near to its time limit", f"{slowest:.2f} s"
        survivors = [one for one in finding.wrong if one.verdict == Verdict.ACCEPTED]
        if survivors and self._params.wrong == "drop":
            return "a program known to be wrong passes", f"{len(survivors)} of {len(finding.wrong)}"
        return "", ""

    def _note(self, problem: Problem, finding: Finding) -> Problem:
        survivors = sum(one.verdict == Verdict.ACCEPTED for one in finding.wrong)
        if survivors:
            self.mark("a program known to be wrong passes")
        if finding.wrong:
            self.mark("wrong programs known, all fail" if not survivors else "wrong programs known, some pass")
        noted: dict[str, Any] = {
            "references": len(finding.references),
            "runs": self._params.runs,
            "wrong": len(finding.wrong),
            "wrong_passing": survivors,
        }
        outcomes = [one for runs in finding.references for one in runs]
        margins = {
            "cpu_seconds": round(max(one.slowest for one in outcomes), 4),
            "cpu_limit": problem.limits().cpu_seconds,
            "memory_bytes": max(one.memory_bytes for one in outcomes),
            "memory_limit": problem.limits().memory_bytes,
        }
        return problem.with_note("verified", noted).with_note("margins", margins)


def judge_runs(runs: Sequence[Outcome]) -> str:
    """`accepted`, a verdict, or `flaky` where two runs differ in a test's verdict or in what was printed."""
    first = runs[0]
    for other in runs[1:]:
        same_output = None in (first.outputs, other.outputs) or first.outputs == other.outputs
        if other.tests != first.tests or not (same_output or first.verdict != Verdict.ACCEPTED):
            return "flaky"
    return first.verdict


def _first_detail(finding: Finding) -> str:
    outcomes = (one for runs in (*finding.references, finding.wrong) for one in runs)
    return next((one.detail for one in outcomes if one.verdict in OURS), "")


@dataclass
class Journal:
    """Findings on disk, one a line. Only where each begins is in memory."""

    path: Path
    _places: dict[bytes, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _file: IO[bytes] | None = None

    def __enter__(self) -> "Journal":
        """Open it, and note what is there. A last line that was cut off is passed over."""
        self._file = self.path.open("a+b")
        self._file.seek(0)
        place = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                self._file.write(b"\n")
                break
            if line.startswith(b'{"key":"'):
                self._places[bytes.fromhex(line[8:72].decode())] = place
            place += len(line)
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it. What is found later isn't written."""
        with self._lock:
            assert self._file is not None
            self._file.close()
            self._file = None

    def find(self, key: str) -> Finding | None:
        """What is known under a key."""
        place = self._places.get(bytes.fromhex(key))
        if place is None:
            return None
        with self._lock, self.path.open("rb") as file:
            file.seek(place)
            return _read_finding(json.loads(file.readline()))

    def add(self, key: str, id: str, finding: Finding) -> None:
        """Write a finding at once."""
        record = {"key": key, "id": id, **asdict(finding)}
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            if self._file is not None:
                self._file.write(line)
                self._file.flush()


def _read_finding(record: dict[str, Any]) -> Finding:
    references = tuple(tuple(map(_read_outcome, runs)) for runs in record["references"])
    return Finding(references, tuple(map(_read_outcome, record["wrong"])))


def _read_outcome(record: dict[str, Any]) -> Outcome:
    outputs = record["outputs"]
    return Outcome(
        **{**record, "tests": tuple(record["tests"]), "outputs": None if outputs is None else tuple(outputs)}
    )
