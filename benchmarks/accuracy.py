"""Both error rates of several graders, side by side: `python -m benchmarks.accuracy PATH…`

Every evaluator judges the same labelled programs. A *false reject* is a program labelled `accepted` that it rejects, a
*false accept* one that it accepts and shouldn't; each rate stands with its 95 % interval. The evaluators:

- `microcoder`: ours, as a user has it by default, with the suites' own checkers;
- `microcoder_no_checkers`, `microcoder_exact`, `microcoder_livecodebench`: our other comparisons;
- `livecodebench`: LiveCodeBench's own code, which runs the programs itself;
- `prime_code`, `sandbox_fusion`, `judge0`: other graders' comparisons, re-stated, on what our boxes recorded.

The exit code is 0 when everything was judged, whatever the figures, and 2 when the input, a sandbox or LiveCodeBench's
package can't be used. `--json` is written anew after each file, so that a long run that is stopped leaves what it has.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import tables
from benchmarks.agreement import Plan, judge_in_order, positive_integer, survey, time_factor
from benchmarks.graders import GRADERS
from benchmarks.labelled import BadInput, Problem, read_problems
from benchmarks.livecodebench_grader import LiveCodeBench
from benchmarks.rates import Counts, total
from benchmarks.recordings import Comparisons
from benchmarks.referees import LocalReferee, Outcome
from evaluator.errors import EvaluatorError, SandboxUnavailable
from evaluator.livecodebench.official import OfficialFailed

HEADLINE = "microcoder"
COMPARED = tuple(grader.name for grader in GRADERS)
OWN = tuple(name for name in COMPARED if name.startswith(HEADLINE))
EVALUATORS = (HEADLINE, *OWN, *LiveCodeBench.names, *(name for name in COMPARED if name not in OWN))

Judged = dict[str, list[Outcome] | str]
"""By evaluator: its outcomes, one a program, or the reason why it can't judge the problem."""


class Jury(Protocol):
    """Some of the evaluators, which judge a problem together. Called from several threads."""

    names: tuple[str, ...]

    def judge(self, problem: Problem) -> Judged:
        """What each of them says."""

    def close(self) -> None:
        """Give back what it holds."""


class Headline:
    """The evaluator as a user has it: `evaluator.judge`, nothing replaced."""

    names: tuple[str, ...] = (HEADLINE,)

    def __init__(self, sandbox: str) -> None:
        self._referee = LocalReferee(sandbox)
        self.pools = self._referee.pools

    def judge(self, problem: Problem) -> Judged:
        """An outcome for each program."""
        return {HEADLINE: self._referee.judge(problem)}

    def close(self) -> None:
        """Destroy all boxes."""
        self._referee.close()


class Bench:
    """All the juries that were asked for."""

    def __init__(self, names: tuple[str, ...], sandbox: str) -> None:
        """Open what they need, so that a machine without it is told of at once.

        Raises:
            SandboxUnavailable: there are no boxes here.
            OfficialFailed: LiveCodeBench's package can't be installed.
        """
        self.names = names
        self.runtime: dict[str, Any] = {"cpus": len(os.sched_getaffinity(0))}
        self._juries: list[Jury] = []
        if set(LiveCodeBench.names) & set(names):
            judge = LiveCodeBench()
            self._juries.append(judge)
            self.runtime["livecodebench"] = judge.package
        if set(names) - set(LiveCodeBench.names):
            headline = Headline(sandbox)
            compared = tuple(grader for grader in GRADERS if grader.name in names)
            self._juries += [headline, Comparisons(compared, headline.pools)]
            self.runtime |= asdict(headline.pools.runtime)

    def judge(self, problem: Problem) -> tuple[int, Judged]:
        """How many programs a problem has, and what every evaluator says of them."""
        judged: Judged = {}
        for jury in self._juries:
            if set(jury.names) & set(self.names):
                judged |= jury.judge(problem)
        return len(problem.submissions), judged

    def close(self) -> None:
        """Close them all."""
        for jury in self._juries:
            jury.close()


def measure(path: Path, bench: Bench, plan: Plan, advance: Callable[[int], None]) -> dict[str, Counts]:
    """What each evaluator makes of a file."""
    counts = {name: Counts() for name in bench.names}

    def judgeable() -> Iterator[Problem]:
        for problem in islice(read_problems(path), plan.limit):
            if problem.skip is None:
                yield plan.adjust(problem)
                continue
            for name in bench.names:
                counts[name].skipped[problem.skip] += len(problem.submissions)
            advance(len(problem.submissions))

    for programs, judged in judge_in_order(judgeable(), bench, plan.workers):
        for name, outcomes in judged.items():
            if isinstance(outcomes, str):
                counts[name].skipped[outcomes] += programs
                continue
            for outcome in outcomes:
                counts[name].add(outcome)
        advance(programs)
    return counts


def write_document(files: dict[str, dict[str, Counts]], names: tuple[str, ...], runtime: dict[str, Any]) -> Any:
    """The figures as `--json` writes them. `overall` is of the files that were given, whichever they are."""
    evaluators = {}
    for name in names:
        records = {file: counts[name].record for file, counts in files.items()}
        evaluators[name] = {"files": records, "overall": total(records.values())}
    return {"evaluators": evaluators, "runtime": runtime}


def read_earlier(path: Path, out: Path | None) -> dict[str, Any]:
    """The evaluators of an earlier run.

    Raises:
        BadInput: there are none, or this run would write over them.
    """
    if out is not None and out.absolute() == path.absolute():
        raise BadInput(f"{path}: this run would write over what it takes from there; give --json another name.")
    try:
        evaluators: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["evaluators"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: no figures of an earlier run ({type(error).__name__}).") from None
    return evaluators


def join(document: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """The document with the evaluators of an earlier run that this one left out.

    Raises:
        BadInput: the earlier run was on other files.
    """
    new = document["evaluators"]
    merged = {name: new.get(name, earlier.get(name)) for name in EVALUATORS if name in new or name in earlier}
    size = sizes_of(next(iter(new.values())))
    for name, record in merged.items():
        if sizes_of(record) != size:
            raise BadInput(f"{name} of the earlier run was measured on other files, or other parts; measure it again.")
    return {"evaluators": merged, "runtime": document["runtime"]}


def sizes_of(record: dict[str, Any]) -> dict[str, int]:
    """How many programs of each file an evaluator was given."""
    return {file: counts["programs"] + sum(counts["skipped"].values()) for file, counts in record["files"].items()}


# The command


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write what was asked for."""
    options = parse(arguments)
    console = Console(stderr=True)
    try:
        sizes = survey(options.paths, options.limit, options.json, console)
        if options.markdown is not None:
            tables.check_place(options.markdown, options.section)
        earlier = {} if options.reuse is None else read_earlier(options.reuse, options.json)
        bench = Bench(options.evaluators, options.sandbox)
        try:
            document = measure_all(sizes, bench, options, console)
        finally:
            bench.close()
        if earlier:
            document = join(document, earlier)
            write_json(options.json, document)
    except (BadInput, SandboxUnavailable, OfficialFailed) as error:
        return fail(console, error)
    except EvaluatorError as error:
        return fail(console, f"The evaluator failed: {error}")
    except KeyboardInterrupt:
        return fail(console, "Interrupted: only whole files were written.", 130)
    tables.show(document, Console(width=None if sys.stdout.isatty() else 160))
    if options.markdown is not None:
        tables.place(tables.write_markdown(document), options.markdown, options.section)
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__.split("\n\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="labelled *.jsonl files, or folders")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures and every disagreement here")
    parser.add_argument(
        "--markdown", type=Path, metavar="OUT",
        help="write the table here; between the markers of its section, where the file has them",
    )  # fmt: skip
    parser.add_argument("--section", default="accuracy", help="the name in those markers; default: accuracy")
    parser.add_argument(
        "--evaluators", type=chosen, default=EVALUATORS, metavar="A,B", help=f"default: {','.join(EVALUATORS)}"
    )
    parser.add_argument(
        "--reuse", type=Path, metavar="JSON", help="take the evaluators that aren't measured now from an earlier --json"
    )
    parser.add_argument(
        "--workers", type=positive_integer, default=len(os.sched_getaffinity(0)), help="default: one per CPU"
    )
    parser.add_argument("--limit", type=positive_integer, metavar="N", help="only the first N problems of each file")
    parser.add_argument(
        "--time-factor", type=time_factor, default=1.0, metavar="F",
        help="multiply time limits, on a machine slower than the labels' own; default: 1",
    )  # fmt: skip
    parser.add_argument(
        "--sandbox", default="bubblewrap",
        help="auto, docker, bubblewrap; default: bubblewrap, where C++ checkers find the machine's g++",
    )  # fmt: skip
    return parser.parse_args(arguments)


def chosen(text: str) -> tuple[str, ...]:
    """The evaluators in a list with commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in EVALUATORS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no evaluator; there are {', '.join(EVALUATORS)}")
    if not names:
        raise argparse.ArgumentTypeError("name at least one evaluator")
    return tuple(name for name in EVALUATORS if name in names)


def measure_all(sizes: dict[Path, int], bench: Bench, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure every file, with progress, and write the figures after each."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    plan = Plan(options.workers, options.limit, time_factor=options.time_factor)
    runtime = bench.runtime | {"workers": options.workers, "time_factor": options.time_factor}
    files: dict[str, dict[str, Counts]] = {}
    document: dict[str, Any] = {}
    with Progress(*columns, console=console) as progress:
        for path, size in sizes.items():
            task = progress.add_task(path.name, total=size)
            files[path.name] = measure(path, bench, plan, partial(progress.advance, task))
            document = write_document(files, bench.names, runtime)
            write_json(options.json, document)
            if not console.is_terminal:
                console.print(f"{path.name}: {size} programs", highlight=False)
    return document


def write_json(out: Path | None, document: dict[str, Any]) -> None:
    """Write the figures, where that is asked for."""
    if out is not None:
        out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def fail(console: Console, sentence: object, status: int = 2) -> int:
    """Say what is wrong, and return the exit status."""
    console.print(f"accuracy: {sentence}", highlight=False, markup=False, soft_wrap=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
