"""Is a verdict the same twenty times on a busy machine? `python -m benchmarks.flakes PATH… [--json OUT]`

A stratified draw of labelled programs (from every file and label its share, at least one of each; the seed is fixed,
and nothing is left out for being unsteady) is judged again and again through the library, by worker processes with a
box each, in another order each time, while other processes keep every processor busy and stir memory. Two judgements of
a program are the same when every test has the same verdict.

Programs whose label is `time_limit` are counted apart: how near a program comes to a limit is its own doing, and where
it lies on the limit no number of repetitions settles it. The exit code is 0 when there is no difference, 1 when there
is one; 2 when the input or the sandbox can't be used.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.agreement import positive_integer, survey
from benchmarks.flakes_work import Answer, Crew
from benchmarks.labelled import BadInput, Labelled, Problem, read_problems
from benchmarks.peers.sides import CannotRun
from evaluator.model import Verdict

SEED = 20_260_101
NEAR = 0.7
"""Part of its CPU limit from which a test that passes counts as near to it."""
SPIN = "while True: pass"
STIR = "b = bytearray(96 << 20)\nwhile True:\n    for at in range(0, len(b), 4096): b[at] = at & 255"
Stratum = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A program that was drawn, and its problem without the others."""

    file: str
    problem: Problem
    program: Labelled


@dataclass
class Record:
    """What twenty judgements of a program said."""

    chosen: Chosen
    seen: Counter[tuple[str, ...]] = field(default_factory=Counter)
    nearest: float = 0.0
    """The largest part of its CPU limit that any test used without overstepping it."""
    seconds: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    """For each way in which it was judged, the CPU seconds of each test, the last time."""

    def add(self, answer: Answer) -> None:
        """Count a judgement."""
        self.seen[answer.verdicts] += 1
        self.seconds[answer.verdicts] = [round(seconds, 4) for seconds in answer.cpu_seconds]
        limit = self.chosen.problem.limits.cpu_seconds
        self.nearest = max([self.nearest, *(part for s in answer.cpu_seconds if (part := s / limit) <= 1)])

    @property
    def is_limited(self) -> bool:
        """Whether the label itself is a limit."""
        return self.chosen.program.label == Verdict.TIME_LIMIT

    @property
    def difference(self) -> dict[str, Any]:
        """As `--json` lists it: each test that was judged in more ways than one."""
        ways = list(self.seen)
        places = [at for at in range(len(ways[0])) if len({way[at] for way in ways}) > 1]
        return {
            "program": self.chosen.program.id,
            "file": self.chosen.file,
            "label": self.chosen.program.label,
            "cpu_limit": self.chosen.problem.limits.cpu_seconds,
            "tests": [
                {
                    "test": "the whole" if at == 0 else at - 1,
                    "verdicts": dict(self._count(at)),
                    "cpu_seconds": None if at == 0 else [self.seconds[way][at - 1] for way in ways],
                }
                for at in places
            ],
        }

    def _count(self, at: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        for way, number in self.seen.items():
            counts[way[at]] += number
        return counts


# The draw


def draw(paths: list[Path], count: int, seed: int) -> list[Chosen]:
    """`count` programs, each file's labels in their proportion and at least one of each. The same for the same seed."""
    strata: dict[Stratum, list[tuple[int, int]]] = {}
    for path in paths:
        for at, problem in enumerate(read_problems(path)):
            for index, item in enumerate(problem.submissions if problem.skip is None else ()):
                strata.setdefault((path.name, item.label), []).append((at, index))
    chance = random.Random(seed)
    wanted: dict[tuple[str, int], list[int]] = {}
    for stratum, number in share(strata, count).items():
        for at, index in chance.sample(strata[stratum], number):
            wanted.setdefault((stratum[0], at), []).append(index)
    found = []
    for path in paths:
        for at, problem in enumerate(read_problems(path)):
            chosen = sorted(wanted.get((path.name, at), ()))
            found += [Chosen(path.name, problem, problem.submissions[index]) for index in chosen]
    return found


def share(strata: dict[Stratum, list[tuple[int, int]]], count: int) -> dict[Stratum, int]:
    """How many of each: one, and of the rest what is due by size, the largest remainders first."""
    sizes = {stratum: len(members) for stratum, members in strata.items()}
    total = sum(sizes.values())
    if not len(sizes) <= count <= total:
        raise BadInput(f"{count} programs can't be drawn from {total} of {len(sizes)} kinds: choose a number between.")
    rest = count - len(sizes)
    due = {stratum: rest * (size - 1) / max(1, total - len(sizes)) for stratum, size in sizes.items()}
    shares = {stratum: 1 + int(part) for stratum, part in due.items()}
    for stratum in sorted(due, key=lambda stratum: int(due[stratum]) - due[stratum])[: count - sum(shares.values())]:
        shares[stratum] += 1
    return shares


# The load


@contextmanager
def busy(processes: int) -> Any:
    """So many other processes that never rest, for the length of the block: every other one stirs memory."""
    load = [subprocess.Popen([sys.executable, "-c", (SPIN, STIR)[number % 2]]) for number in range(processes)]
    try:
        yield
    finally:
        for process in load:
            process.kill()
        for process in load:
            process.wait()


# The command


def main(arguments: list[str] | None = None) -> int:
    """Draw, judge, print, and write what was asked for."""
    options = _parse(arguments)
    console = Console(stderr=True)
    try:
        paths = list(survey(options.paths, None, options.json, console))
        chosen = draw(paths, options.programs, options.seed)
        records = [Record(item) for item in chosen]
        began = time.monotonic()
        with closing(Crew([(item.problem, item.program) for item in chosen], options.workers, options.sandbox)) as crew:
            loads = _repeat(crew, records, options, console)
    except (BadInput, CannotRun) as error:
        console.print(f"flakes: {error}", highlight=False, markup=False, soft_wrap=True)
        return 2
    document = summarise(records, options, loads, time.monotonic() - began)
    show(document, Console(width=None if sys.stdout.isatty() else 140))
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if any(document["groups"][name]["differing"] for name in document["groups"]) else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flakes", description=__doc__.split("\n\n")[1])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="labelled *.jsonl files, or folders")
    parser.add_argument("--programs", type=positive_integer, default=500, help="how many are drawn; default: 500")
    parser.add_argument("--repeats", type=positive_integer, default=20, help="default: 20")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of draw and orders; default: {SEED}")
    parser.add_argument("--workers", type=positive_integer, default=2, help="judging processes; default: 2")
    parser.add_argument("--load", type=int, default=4, metavar="N", help="busy processes beside them; default: 4")
    parser.add_argument("--sandbox", default="bubblewrap", help="docker, bubblewrap; default: bubblewrap")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures and every difference here")
    return parser.parse_args(arguments)


def _repeat(crew: Crew, records: list[Record], options: argparse.Namespace, console: Console) -> list[float]:
    """Judge all of them so often. Returns the machine's load (of one minute) after each repetition."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    chance, loads = random.Random(options.seed), []
    with busy(options.load), Progress(*columns, console=console) as progress:
        task = progress.add_task("judging", total=options.repeats * len(records))
        for number in range(options.repeats):
            order = chance.sample(range(len(records)), len(records))
            for answer in crew.judge(order):
                records[answer.number].add(answer)
                progress.advance(task)
            loads.append(round(os.getloadavg()[0], 1))
            if not console.is_terminal:
                differing = sum(len(record.seen) > 1 for record in records)
                console.print(f"repetition {number + 1}: load {loads[-1]}, {differing} programs differ so far")
    return loads


def summarise(records: list[Record], options: argparse.Namespace, loads: list[float], seconds: float) -> dict[str, Any]:
    """The figures, as `--json` writes them."""
    groups = {
        "not a limit": [record for record in records if not record.is_limited],
        "labelled time_limit": [record for record in records if record.is_limited],
    }
    return {
        "seed": options.seed,
        "repeats": options.repeats,
        "workers": options.workers,
        "busy_processes": options.load,
        "sandbox": options.sandbox,
        "processors": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": loads,
        "seconds": round(seconds, 1),
        "groups": {name: _summarise(group) for name, group in groups.items()},
    }


def _summarise(records: list[Record]) -> dict[str, Any]:
    differing = [record for record in records if len(record.seen) > 1]
    verdicts: Counter[str] = Counter()
    for record in records:
        for way, number in record.seen.items():
            verdicts[way[0]] += number
    return {
        "programs": len(records),
        "judgements": sum(sum(record.seen.values()) for record in records),
        "tests": sum(sum(map(_ran, way)) * n for record in records for way, n in record.seen.items()),
        "verdicts": dict(verdicts.most_common()),
        "differing": len(differing),
        "differing_in_reward": sum(len({way[0] == Verdict.ACCEPTED for way in r.seen}) > 1 for r in differing),
        "near_their_limit": sorted(
            (
                {"program": record.chosen.program.id, "part": round(record.nearest, 3)}
                for record in records
                if record.nearest >= NEAR
            ),
            key=lambda item: -float(str(item["part"])),
        ),
        "differences": [record.difference for record in differing],
        "strata": asdict(_Strata.of(records))["counts"],
    }


def _ran(way: str) -> bool:
    return way != Verdict.SKIPPED


@dataclass(frozen=True, slots=True)
class _Strata:
    counts: dict[str, dict[str, int]]

    @classmethod
    def of(cls, records: list[Record]) -> "_Strata":
        counts: dict[str, dict[str, int]] = {}
        for record in records:
            labels = counts.setdefault(record.chosen.file, {})
            labels[record.chosen.program.label] = labels.get(record.chosen.program.label, 0) + 1
        return cls(counts)


def show(document: dict[str, Any], console: Console) -> None:
    """Print the table and every difference."""
    title = f"{document['repeats']} repetitions under {document['busy_processes']} busy processes"
    table = Table("label", title=title, title_justify="left")
    for heading in ("programs", "judgements", "tests", "differ", "differ in reward", "near the limit"):
        table.add_column(heading, justify="right")
    for name, group in document["groups"].items():
        figures = [group[key] for key in ("programs", "judgements", "tests", "differing", "differing_in_reward")]
        table.add_row(name, *map(str, figures), str(len(group["near_their_limit"])))
    console.print(table)
    for group in document["groups"].values():
        for difference in group["differences"]:
            head = f"{difference['program']} (label {difference['label']}, {difference['cpu_limit']:g} s):"
            console.print(head, highlight=False, markup=False)
            for test in difference["tests"]:
                line = f"  test {test['test']}: {test['verdicts']}, CPU seconds {test['cpu_seconds']}"
                console.print(line, highlight=False, markup=False)


if __name__ == "__main__":
    sys.exit(main())
