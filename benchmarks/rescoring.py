"""`microcoder rescore` beside LiveCodeBench's own evaluator, in one run, on the same programs and tests.

    python -m benchmarks.rescoring GENERATIONS --problems PATH… [--limit 300] [--workers 2] [--json OUT]

Both sides judge everything, one side after the other, with as many processes; then once more without the programs that
run into the time limit of either side, which cost both the same seconds. What is told are seconds on the wall, from the
first box or process to the last verdict. The floor is the programs' own processor time, of one run each and up to the
time limit, over the workers; overhead is what is above it. Verdicts that differ are listed, each with its reason.

The exit code is 0, whatever the figures; 2 when the input can't be used or a side can't run.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.agreement import positive_integer
from evaluator.errors import EvaluatorError
from evaluator.model import Verdict
from service.batch import LocalJudging
from service.rescore_flips import OFFICIAL
from service.rescore_official import OFFICIAL as OFFICIAL_FILE
from service.rescore_results import Rules, digest_of, iterate_lines
from service.rescore_run import Options, read_answers, rescore
from service.rescore_summary import Summary
from service.rescoring import Source

LATE = (-3, -5)
"""LiveCodeBench's codes for its time limit, and for a process that gave no result."""
HEADER = ("programs", "number", "floor", "MicroCoder", "LiveCodeBench", "ratio", "over the floor", "ratio of overheads")


@dataclass(frozen=True)
class Figures:
    """One set of programs, judged by both. Seconds on the wall."""

    programs: int
    floor: float
    ours: float
    theirs: float

    @property
    def cells(self) -> list[str]:
        """A row of the table, without its name."""
        over_ours, over_theirs = self.ours - self.floor, self.theirs - self.floor
        seconds = [f"{value:.1f} s" for value in (self.floor, self.ours, self.theirs)]
        floor = f"{self.ours / self.floor:.2f}×" if self.floor else "—"
        return [
            f"{self.programs:,}", *seconds, f"{self.theirs / self.ours:.1f}×", floor,
            f"{over_theirs / over_ours:.1f}×" if over_ours > 0 else "—",
        ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("generations", type=Path)
    parser.add_argument("--problems", type=Path, nargs="+", required=True)
    parser.add_argument("--limit", type=positive_integer, help="only the file's first problems")
    parser.add_argument("--workers", type=positive_integer, default=2)
    parser.add_argument("--timeout", type=float, default=6.0)
    parser.add_argument("--sandbox", default="bubblewrap", help="our boxes")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    try:
        document = measure(arguments)
    except (EvaluatorError, OSError) as error:
        print(f"rescoring: {error}", file=sys.stderr)
        return 2
    show(document, console)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Both sets, and the verdicts that differ.

    Raises:
        EvaluatorError: the input can't be used, or a side can't run.
    """
    with tempfile.TemporaryDirectory(prefix="rescoring-") as name:
        folder = Path(name)
        options = Options(
            arguments.generations, Source(tuple(arguments.problems)), Rules("microcoder", arguments.timeout),
            out=folder / "all", workers=arguments.workers, limit=arguments.limit, official=True,
        )  # fmt: skip
        summary = _rescore(options, arguments.sandbox)
        rest = folder / "rest.json"
        rest.write_text(json.dumps(list(_leave_out_late(options))), encoding="utf-8")
        again = Options(
            rest, options.source, options.rules, out=folder / "rest", workers=options.workers, official=True
        )
        quick = _rescore(again, arguments.sandbox)
    differ = [change for change in summary.changes if change.against == OFFICIAL]
    return {
        "workers": arguments.workers, "timeout": arguments.timeout, "alone": summary.alone,
        "all": asdict(_figures(summary)), "without_time_limits": asdict(_figures(quick)),
        "differences": [{**asdict(change), "reason": str(change.reason)} for change in differ],
    }  # fmt: skip


def _rescore(options: Options, sandbox: str) -> Summary:
    @contextlib.contextmanager
    def open_judging() -> Iterator[LocalJudging]:
        with contextlib.closing(LocalJudging(sandbox, options.workers)) as judging:
            yield judging

    return rescore(options, open_judging, Console(file=io.StringIO()), threading.Event())


def _leave_out_late(options: Options) -> Iterator[dict[str, Any]]:
    """The generations that neither side has stopped."""
    late = {
        (line["question_id"], line["program"])
        for line in iterate_lines(options.folder)
        if line["verdict"] == Verdict.TIME_LIMIT or "first_run" in line
    }
    for text in (options.folder / OFFICIAL_FILE).read_text("ascii").splitlines():
        line = json.loads(text)
        if line["metadata"].get("error_code") in LATE:
            late.add((line["question_id"], line["program"]))
    for item in read_answers(options):
        kept = [program for program in item.programs if (item.question_id, digest_of(program)) not in late]
        if kept:
            yield {"question_id": item.question_id, "code_list": kept}


def _figures(summary: Summary) -> Figures:
    assert summary.official_costs is not None and summary.official_seconds is not None
    costs = summary.official_costs.ours
    return Figures(costs.programs, costs.floor, summary.seconds, summary.official_seconds)


def show(document: dict[str, Any], console: Console) -> None:
    """Print the table, and the verdicts that differ."""
    table = Table(show_edge=False, pad_edge=False)
    for name in HEADER:
        table.add_column(name, justify="left" if name == "programs" else "right")
    table.add_row("all", *Figures(**document["all"]).cells)
    table.add_row("without time limits", *Figures(**document["without_time_limits"]).cells)
    console.print(table)
    console.print(f"{len(document['differences'])} verdicts differ:")
    for change in document["differences"]:
        theirs = "accepted" if change["other"] else "rejected"
        text = f"  {change['question_id']}#{change['generation']}: {change['verdict']} here, {theirs} there: "
        console.print(f"{text}{change['reason']}: {change['proof']}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
