"""Does a series say what a fork for each test says? `python -m benchmarks.modes PATH… [--json OUT]`

Every labelled program is judged in both modes: its tests one after another in one child where it is harmless, and a
child for each test. The verdict of every test is compared, up to the first that isn't accepted (what comes after it
runs in children of its own in either mode). The exit code is 0 when there is no difference, 1 when there is one; 2 when
the input or the sandbox can't be used.

A program whose verdicts change from run to run says nothing about the modes. So where there is a difference, the
program is judged twice more with a child for each test; if these disagree among each other, it is listed as unsteady
and not counted.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.agreement import judge_in_order, positive_integer, survey
from benchmarks.counting import Counter, CountingBackend
from benchmarks.labelled import BadInput, Labelled, Problem, read_problems
from benchmarks.library import count_processors
from evaluator.errors import EvaluatorError, InvalidSubmission, SandboxUnavailable
from evaluator.extraction import extract_code
from evaluator.judge import Judge
from evaluator.model import Judgement, Program, Submission, Suite, Verdict
from evaluator.sandbox.pool import Pool, load_backend
from evaluator.suites import read_suite, write_suite

REPEATS = 2


@dataclass(frozen=True, slots=True)
class Difference:
    """A program on which the modes don't agree: its verdicts test by test, in both."""

    program: str
    series: tuple[str, ...]
    forks: tuple[str, ...]

    @property
    def places(self) -> list[int]:
        """The tests that differ."""
        pairs = zip(self.series, self.forks, strict=True)
        return [number for number, (one, other) in enumerate(pairs) if one != other]


@dataclass
class Tally:
    """What was compared."""

    programs: int = 0
    tests: int = 0
    """That ran: not those after a rejection."""
    in_series: int = 0
    """Of these, accepted on what a series gave."""
    refused: int = 0
    """Programs that can't be judged in any mode, because their suite is invalid."""
    seconds: float = 0.0
    skipped: int = 0
    differences: list[Difference] = field(default_factory=list)
    unsteady: list[Difference] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Count what another counted too."""
        for name in ("programs", "tests", "in_series", "refused", "seconds", "skipped"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.differences += other.differences
        self.unsteady += other.unsteady

    @property
    def record(self) -> dict[str, Any]:
        """As `--json` writes it."""
        share = round(self.in_series / self.tests, 4) if self.tests else None
        return asdict(self) | {"seconds": round(self.seconds, 1), "share_in_series": share}


# Judging in both modes


class Judges:
    """One thread's judge in each mode, in the same boxes."""

    def __init__(self, sandbox: str) -> None:
        self.counter = Counter()
        backend = CountingBackend(load_backend(sandbox), self.counter)
        self.pool = Pool(backend, backend.start())
        self.series, self.forks = Judge(self.pool), Judge(self.pool, series=False)


class BothModes:
    """Judges the programs of a problem in both modes. Called from several threads."""

    def __init__(self, sandbox: str) -> None:
        """Open the first boxes.

        Raises:
            SandboxUnavailable: the message says what to do.
        """
        self._sandbox = sandbox
        self._local = threading.local()
        self._spare = [Judges(sandbox)]
        self._all = list(self._spare)

    def judge(self, problem: Problem) -> Tally:
        """What came of its programs."""
        tally = Tally()
        try:
            suite = read_suite(write_suite(problem.tests, problem.checker))
        except InvalidSubmission:
            tally.refused = tally.programs = len(problem.submissions)
            return tally
        for item in problem.submissions:
            self._compare(problem, suite, item, tally)
        return tally

    def _compare(self, problem: Problem, suite: Suite, item: Labelled, tally: Tally) -> None:
        source = extract_code(item.text) if item.is_answer else item.text
        program = None if source is None else Program(source, entry_point=problem.entry_point, prelude=problem.prelude)
        submission = Submission(program, suite.id, problem.limits, problem.policy)
        judges = self._mine()
        tally.programs += 1
        before = judges.counter.runs
        try:
            series, forks = judges.series.judge(submission, suite), judges.forks.judge(submission, suite)
        except InvalidSubmission:
            tally.refused += 1
            return
        tally.tests += sum(result.verdict is not Verdict.SKIPPED for result in forks.tests)
        accepted = sum(result.verdict is Verdict.ACCEPTED for result in series.tests)
        tally.in_series += min(judges.counter.runs - before, accepted)
        if list_verdicts(series) == list_verdicts(forks):
            return
        difference = Difference(item.id, list_verdicts(series), list_verdicts(forks))
        again = [list_verdicts(judges.forks.judge(submission, suite)) for _ in range(REPEATS)]
        steady = all(verdicts == difference.forks for verdicts in again)
        (tally.differences if steady else tally.unsteady).append(difference)

    def _mine(self) -> Judges:
        if not hasattr(self._local, "judges"):
            try:
                self._local.judges = self._spare.pop()
            except IndexError:
                self._local.judges = Judges(self._sandbox)
                self._all.append(self._local.judges)
        judges: Judges = self._local.judges
        return judges

    def close(self) -> None:
        """Destroy all boxes."""
        for judges in self._all:
            judges.pool.close()


def list_verdicts(judgement: Judgement) -> tuple[str, ...]:
    """The judgement's own verdict, then that of every test."""
    return (str(judgement.verdict), *(str(result.verdict) for result in judgement.tests))


# The command


def main(arguments: list[str] | None = None) -> int:
    """Compare, print, and write what was asked for."""
    options = _parse(arguments)
    console = Console(stderr=True)
    try:
        sizes = survey(options.paths, options.limit, options.json, console)
        modes = BothModes(options.sandbox)
        try:
            tallies = _measure_all(sizes, modes, options, console)
        finally:
            modes.close()
    except (BadInput, SandboxUnavailable) as error:
        return _fail(console, error)
    except EvaluatorError as error:
        return _fail(console, f"The evaluator failed: {error}")
    except KeyboardInterrupt:
        return _fail(console, "Interrupted: nothing was written.", 130)
    whole = Tally()
    for tally in tallies.values():
        whole.add(tally)
    _print(tallies, whole, Console(width=None if sys.stdout.isatty() else 140))
    if options.json is not None:
        document = {"files": {name: tally.record for name, tally in tallies.items()}, "overall": whole.record}
        options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if whole.differences else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.modes", description=__doc__.split("\n\n")[1])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="labelled *.jsonl files, or folders")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the counts and every difference here")
    parser.add_argument("--workers", type=positive_integer, default=count_processors(), help="default: one per CPU")
    parser.add_argument("--limit", type=positive_integer, metavar="N", help="only the first N problems of each file")
    parser.add_argument("--sandbox", default="bubblewrap", help="docker, bubblewrap; default: bubblewrap")
    return parser.parse_args(arguments)


def _measure_all(
    sizes: dict[Path, int], modes: BothModes, options: argparse.Namespace, console: Console
) -> dict[str, Tally]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    tallies = {}
    with Progress(*columns, console=console) as progress:
        for path, size in sizes.items():
            task = progress.add_task(path.name, total=size)
            tallies[path.name] = _measure(path, modes, options, partial(progress.advance, task))
            if not console.is_terminal:
                tally = tallies[path.name]
                console.print(f"{path.name}: {tally.programs} programs, {len(tally.differences)} differences")
    return tallies


def _measure(path: Path, modes: BothModes, options: argparse.Namespace, advance: "partial[None]") -> Tally:
    tally = Tally()
    begun = time.monotonic()

    def judgeable() -> Iterator[Problem]:
        for problem in islice(read_problems(path), options.limit):
            if problem.skip is None:
                yield problem
            else:
                tally.skipped += len(problem.submissions)
                advance(len(problem.submissions))

    for part in judge_in_order(judgeable(), modes, options.workers):
        tally.add(part)
        advance(part.programs)
    tally.seconds = time.monotonic() - begun
    return tally


def _print(tallies: dict[str, Tally], whole: Tally, console: Console) -> None:
    table = Table("file", title="a series against a fork for each test", title_justify="left")
    for heading in ("programs", "tests", "in a series", "differences", "unsteady", "refused", "skipped", "s"):
        table.add_column(heading, justify="right")
    for name, tally in [*tallies.items(), ("all", whole)]:
        share = f"{100 * tally.in_series / tally.tests:.1f} %" if tally.tests else "-"
        counts = (len(tally.differences), len(tally.unsteady), tally.refused, tally.skipped, round(tally.seconds))
        table.add_row(name, str(tally.programs), str(tally.tests), share, *map(str, counts))
    console.print(table)
    for kind, found in (("differs", whole.differences), ("is unsteady", whole.unsteady)):
        for difference in found:
            console.print(f"{difference.program} {kind}:", highlight=False, markup=False)
            for place in difference.places:
                what = "the whole" if place == 0 else f"test {place - 1}"
                said = f"in a series {difference.series[place]}, in a fork {difference.forks[place]}"
                console.print(f"  {what}: {said}", highlight=False, markup=False)


def _fail(console: Console, sentence: object, status: int = 2) -> int:
    console.print(f"modes: {sentence}", highlight=False, markup=False, soft_wrap=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
