"""How often the evaluator agrees with programs of known verdict: `python -m benchmarks.agreement PATH…`

The measure is accept or reject: a *false reject* is a program that should be accepted and isn't, a *false accept* one
that is and shouldn't be. How often the very verdict is the label's stands beside it (a crash that the labeller called
a wrong answer costs nobody a reward). An internal error agrees with no label.

Programs are judged here, each thread with a judge and a box of its own, or by a service (`--url`). Files are streamed
and only disagreements are kept, so the size of the files doesn't matter. The exit code is 0 when everything was judged,
whatever the figures: this measures, it doesn't pass judgement. It is 2 when the input or the sandbox can't be used.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import microcoder_client
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.labelled import INVALID_REQUEST, BadInput, Problem, find_files, foreign_format, read_problems
from benchmarks.referees import LocalReferee, Outcome, Referee, RemoteReferee
from evaluator.errors import EvaluatorError, SandboxUnavailable
from evaluator.model import Policy, Verdict

Judged = TypeVar("Judged", covariant=True)
WINDOW = 4
"""Problems, per worker, that may wait for a slow one before them."""


@dataclass
class Tally:
    """The figures of one file."""

    programs: int = 0
    agreed: int = 0
    same_verdict: int = 0
    false_rejects: int = 0
    false_accepts: int = 0
    internal_errors: int = 0
    seconds: float = 0.0
    skipped: Counter[str] = field(default_factory=Counter)
    disagreements: list[Outcome] = field(default_factory=list)
    other_verdicts: Counter[str] = field(default_factory=Counter)
    """Rejections of another kind than the label's, as `label, found verdict`."""

    def add(self, outcome: Outcome) -> None:
        """Count one program."""
        self.programs += 1
        self.same_verdict += outcome.verdict == outcome.label
        self.internal_errors += outcome.verdict == Verdict.INTERNAL_ERROR
        if side(outcome.verdict) == side(outcome.label):
            self.agreed += 1
            if outcome.verdict != outcome.label:
                self.other_verdicts[f"{outcome.label}, found {outcome.verdict}"] += 1
            return
        self.false_rejects += outcome.label == Verdict.ACCEPTED
        self.false_accepts += outcome.verdict == Verdict.ACCEPTED
        self.disagreements.append(outcome)

    @property
    def agreement(self) -> float | None:
        """The part of all judged programs, or None where there were none."""
        return self.agreed / self.programs if self.programs else None

    @property
    def record(self) -> dict[str, Any]:
        """As `--json` writes it."""
        return {
            "programs": self.programs,
            "agreement": self.agreement,
            "false_rejects": self.false_rejects,
            "false_accepts": self.false_accepts,
            "disagreements": [asdict(outcome) for outcome in self.disagreements],
            "internal_errors": self.internal_errors,
            "same_verdict": self.same_verdict / self.programs if self.programs else None,
            "other_verdicts": dict(self.other_verdicts),
            "skipped": dict(self.skipped),
            "seconds": round(self.seconds, 1),
        }


def side(verdict: str) -> str:
    """`accepted`, `invalid_request` and `internal_error` stand for themselves; all else is a rejection."""
    alone = {Verdict.ACCEPTED, Verdict.INTERNAL_ERROR, INVALID_REQUEST}
    return verdict if verdict in alone else "rejected"


# Judging


class Judging(Protocol[Judged]):
    """Whoever makes something of a problem. Called from several threads."""

    def judge(self, problem: Problem) -> Judged:
        """What comes of it."""


def judge_in_order(problems: Iterable[Problem], referee: Judging[Judged], workers: int) -> Iterator[Judged]:
    """Judge `workers` problems at a time; what comes of them comes in the order of the problems."""
    waiting: deque[Future[Judged]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="referee") as threads:
        try:
            for problem in problems:
                waiting.append(threads.submit(referee.judge, problem))
                if len(waiting) >= WINDOW * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@dataclass(frozen=True, slots=True)
class Plan:
    """How files are judged."""

    workers: int = 1
    limit: int | None = None
    """Only the first problems of each file."""
    own_policy: bool = True
    """Compare as each record asks; else as the evaluator does when nobody says anything."""
    time_factor: float = 1.0
    """For a machine that is slower than the one that the labels come from."""

    def adjust(self, problem: Problem) -> Problem:
        """The problem under this plan."""
        if not self.own_policy:
            problem = replace(problem, policy=Policy(), checker=None)
        if self.time_factor != 1.0:
            cpu, wall = problem.limits.cpu_seconds, problem.limits.wall_seconds
            longer = None if wall is None else wall * self.time_factor
            limits = replace(problem.limits, cpu_seconds=cpu * self.time_factor, wall_seconds=longer)
            problem = replace(problem, limits=limits)
        return problem


def measure(path: Path, referee: Referee, plan: Plan, advance: Callable[[int], None] = lambda count: None) -> Tally:
    """Judge the programs of one file."""
    tally = Tally()
    begun = time.monotonic()

    def judgeable() -> Iterator[Problem]:
        for problem in islice(read_problems(path), plan.limit):
            if problem.skip is None:
                yield plan.adjust(problem)
            else:
                tally.skipped[problem.skip] += len(problem.submissions)
                advance(len(problem.submissions))

    for outcomes in judge_in_order(judgeable(), referee, plan.workers):
        for outcome in outcomes:
            tally.add(outcome)
        advance(len(outcomes))
    tally.seconds = time.monotonic() - begun
    return tally


# The command


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write what was asked for."""
    options = _parse(arguments)
    console = Console(stderr=True)
    try:
        sizes = survey(options.paths, options.limit, options.json, console)
        referee = _referee(options)
        try:
            tallies = _measure_all(sizes, referee, options, console)
        finally:
            referee.close()
    except (BadInput, SandboxUnavailable, microcoder_client.MicrocoderError) as error:
        return _fail(console, error)
    except EvaluatorError as error:
        return _fail(console, f"The evaluator failed: {error}")
    except KeyboardInterrupt:
        return _fail(console, "Interrupted: nothing was written.", 130)
    _print(tallies, Console(width=None if sys.stdout.isatty() else 160))
    if options.json is not None:
        document = {"files": {name: tally.record for name, tally in tallies.items()}}
        options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def _referee(options: argparse.Namespace) -> Referee:
    if options.url:
        return RemoteReferee(microcoder_client.Client(options.url, options.api_key))
    return LocalReferee(options.sandbox)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__.split("\n\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="labelled *.jsonl files, or folders")
    parser.add_argument("--url", help="let this service judge; else judge here")
    parser.add_argument("--api-key", default=os.environ.get("MICROCODER_API_KEY"), help="default: MICROCODER_API_KEY")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures and every disagreement here")
    parser.add_argument(
        "--workers", type=positive_integer, default=len(os.sched_getaffinity(0)), help="default: one per CPU"
    )
    parser.add_argument("--limit", type=positive_integer, metavar="N", help="only the first N problems of each file")
    parser.add_argument(
        "--policy", choices=("record", "default"), default="record",
        help="compare as each record asks, or as the evaluator does by default; default: record",
    )  # fmt: skip
    parser.add_argument(
        "--time-factor", type=time_factor, default=1.0, metavar="F",
        help="multiply time limits, on a machine slower than the labels' own; default: 1",
    )  # fmt: skip
    parser.add_argument("--sandbox", default="auto", help="auto, docker, bubblewrap; default: auto")
    return parser.parse_args(arguments)


def positive_integer(text: str) -> int:
    """An argument of a command: a whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a whole number above 0")
    return int(text)


def time_factor(text: str) -> float:
    """An argument of a command: by how much to multiply time limits."""
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.1 <= factor <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a number from 0.1 to 100")
    return factor


def survey(paths: list[Path], limit: int | None, out: Path | None, console: Console) -> dict[Path, int]:
    """Read all files once, so that bad input is told of before the work; how many programs each holds.

    Raises:
        BadInput: what was given can't be read, or `out` can't be written.
    """
    if out is not None and not out.absolute().parent.is_dir():
        raise BadInput(f"{out}: there is no such folder; make it first.")
    sizes: dict[Path, int] = {}
    for path in find_files(paths):
        if (why := foreign_format(path)) is not None:
            console.print(f"{path.name} is skipped: {why}.", highlight=False, soft_wrap=True)
            continue
        sizes[path] = sum(len(problem.submissions) for problem in islice(read_problems(path), limit))
    if not any(sizes.values()):
        raise BadInput("there is no labelled program in what was given.")
    return sizes


def _measure_all(
    sizes: dict[Path, int], referee: Referee, options: argparse.Namespace, console: Console
) -> dict[str, Tally]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    tallies = {}
    plan = Plan(options.workers, options.limit, options.policy == "record", options.time_factor)
    with Progress(*columns, console=console) as progress:
        for path, size in sizes.items():
            task = progress.add_task(path.name, total=size)
            tallies[path.name] = measure(path, referee, plan, partial(progress.advance, task))
            if not console.is_terminal:
                tally = tallies[path.name]
                console.print(f"{path.name}: {tally.agreed} of {tally.programs} agree", highlight=False)
    return tallies


def _print(tallies: dict[str, Tally], console: Console) -> None:
    for name, tally in tallies.items():
        if not tally.disagreements:
            continue
        table = Table("program", "label", "verdict", "reason", title=f"{name}: disagreements", title_justify="left")
        table.columns[0].overflow = table.columns[3].overflow = "fold"
        for outcome in tally.disagreements:
            table.add_row(*(_plain(text) for text in (outcome.id, outcome.label, outcome.verdict, outcome.reason)))
        console.print(table)
    summary = Table("file", title="agreement with the labels", title_justify="left")
    for heading in ("programs", "agreement", "false rejects", "false accepts", "internal errors", "same verdict", "s"):
        summary.add_column(heading, justify="right")
    summary.add_column("skipped")
    for name, tally in tallies.items():
        skipped = "; ".join(f"{count}: {why}" for why, count in tally.skipped.items())
        summary.add_row(
            name, str(tally.programs), _percent(tally.agreed, tally), str(tally.false_rejects),
            str(tally.false_accepts), str(tally.internal_errors), _percent(tally.same_verdict, tally),
            f"{tally.seconds:.0f}", skipped,
        )  # fmt: skip
    console.print(summary)
    for name, tally in tallies.items():
        for pair, count in tally.other_verdicts.most_common():
            console.print(f"{name}: {count} x labelled {pair}", highlight=False)


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def _percent(part: int, tally: Tally) -> str:
    return f"{100 * part / tally.programs:.2f} %" if tally.programs else "-"


def _fail(console: Console, sentence: object, status: int = 2) -> int:
    console.print(f"agreement: {sentence}", highlight=False, markup=False, soft_wrap=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
