"""What becomes of submissions when something fails: each fault brought about for real, and a table of what happened.

Redis, API, workers and boxes are processes of their own, of this machine, and are killed, stopped, filled and starved.
For each fault: was a submission lost, was one judged twice with different verdicts, did one get a verdict or a reward
that isn't right, and how long did it take until work went on.

    python -m benchmarks.faults [--only WORDS]… [--quick] [--json OUT] [--markdown OUT]
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import redis
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks import faults_of_clients, faults_of_machines, faults_of_redis, faults_of_sizes, faults_of_workers
from benchmarks.faults_scene import CannotTry, Outcome, Unexpected

AT_ONCE = 4
"""Faults of workers at a time: they mostly wait for a lease to end. All others are alone."""
BEGIN, END = "<!-- begin faults: written by benchmarks.faults -->", "<!-- end faults -->"

Fault = Callable[[], Outcome]


def main(arguments: list[str] | None = None) -> int:
    """Bring all about, print, and write what was asked for. Returns 1 where something wasn't as it should be."""
    options = parse(arguments)
    chosen = {name: fault for name, fault in list_faults(options.quick).items() if is_wanted(name, options.only)}
    console = Console(stderr=True)
    if not chosen:
        console.print("faults: no fault has these words in its name.", markup=False)
        return 2
    begun = time.monotonic()
    earlier = read(options.json) if options.only and options.json is not None and options.json.exists() else {}
    found: dict[str, Outcome] = {}
    for name, outcome in bring_about(chosen, console):
        found[name] = outcome
        if options.json is not None:  # at once: the whole takes a while
            write(earlier | found, options.json, options.quick)
    outcomes = {name: found[name] for name in chosen}
    seconds = time.monotonic() - begun
    show(outcomes, seconds, Console(width=None if sys.stdout.isatty() else 150))
    if options.markdown is not None:  # those that weren't tried now stay as they were
        place(write_markdown(in_order(earlier | outcomes, options.quick)), options.markdown)
    return 0 if all(outcome.good for outcome in outcomes.values()) else 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="faults with this in their name")
    parser.add_argument("--quick", action="store_true", help="short leases and pauses, a third of the time")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    parser.add_argument("--markdown", type=Path, metavar="OUT", help="put the table between the marks of this file")
    return parser.parse_args(arguments)


def list_faults(quick: bool) -> dict[str, Fault]:
    """Every fault by its name."""
    modules = faults_of_workers, faults_of_redis, faults_of_machines, faults_of_clients, faults_of_sizes
    return {name: fault for module in modules for name, fault in module.list_faults(quick).items()}


def read(path: Path) -> dict[str, Outcome]:
    """What an earlier run has written."""
    records = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Outcome(**{field: value for field, value in record.items() if field != "good"})
        for name, record in records.items()
    }


def write(outcomes: dict[str, Outcome], path: Path, quick: bool) -> None:
    """The figures as JSON."""
    records = {name: outcome.record for name, outcome in in_order(outcomes, quick).items()}
    path.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def in_order(outcomes: dict[str, Outcome], quick: bool) -> dict[str, Outcome]:
    """As the faults are listed; what is listed no more comes last."""
    order = {name: place for place, name in enumerate(list_faults(quick))}
    return dict(sorted(outcomes.items(), key=lambda item: order.get(item[0], len(order))))


def is_wanted(name: str, only: list[str]) -> bool:
    """Whether a fault was asked for."""
    return not only or any(words in name for words in only)


def bring_about(faults: dict[str, Fault], console: Console) -> Iterator[tuple[str, Outcome]]:
    """Each with what came of it: those of workers first, several at a time."""
    together = [name for name in faults if name.startswith("worker ")]
    with reporting(console, len(faults)) as report:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures: dict[str, Future[Outcome]] = {name: pool.submit(attempt, faults[name]) for name in together}
            for name, future in futures.items():
                yield name, report(name, future.result())
        for name in faults:
            if name not in futures:
                yield name, report(name, attempt(faults[name]))


@contextmanager
def reporting(console: Console, total: int) -> Iterator[Callable[[str, Outcome], Outcome]]:
    """A bar, and a line for each fault."""
    with Progress(TextColumn("faults"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task("faults", total=total)

        def report(name: str, outcome: Outcome) -> Outcome:
            bar.advance(task)
            said = (
                "well" if outcome.good else "; ".join([*outcome.faults, f"{outcome.lost} lost, {outcome.wrong} wrong"])
            )
            bar.console.print(f"{name}: {said}", highlight=False, markup=False, soft_wrap=True)
            return outcome

        yield report


def attempt(fault: Fault) -> Outcome:
    """What came of it, whatever that is."""
    try:
        return fault()
    except CannotTry as error:
        return Outcome(notes=[f"not tried here: {error}"])
    except (Unexpected, httpx.HTTPError, redis.RedisError, OSError, subprocess.SubprocessError) as error:
        return Outcome(faults=[f"{type(error).__name__}: {error}"])


def row(name: str, outcome: Outcome) -> list[str]:
    """A line of the table."""
    counts = (outcome.submissions, outcome.lost, outcome.wrong, outcome.masked, outcome.again, outcome.differently)
    shown = [str(count) for count in counts] if outcome.submissions else ["-"] * len(counts)
    times = [f"{value:.1f}" if value is not None else "-" for value in (outcome.went_on, outcome.done)]
    return [name, *shown, *times, "; ".join([*(f"FAULT: {fault}" for fault in outcome.faults), *outcome.notes])]


HEADINGS = (
    "fault", "submissions", "lost", "wrong", "internal errors", "judged again", "differently", "goes on, s", "done, s",
    "what was seen",
)  # fmt: skip


def show(outcomes: dict[str, Outcome], seconds: float, console: Console) -> None:
    """The table on the terminal."""
    table = Table(title="What becomes of submissions when something fails", title_justify="left")
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number in (0, len(HEADINGS) - 1) else "right")
    for name, outcome in outcomes.items():
        table.add_row(*row(name, outcome), style=None if outcome.good else "red")
    console.print(table)
    bad = [name for name, outcome in outcomes.items() if not outcome.good]
    said = "all as it should be" if not bad else f"not as they should be: {'; '.join(bad)}"
    console.print(f"{len(outcomes)} faults in {seconds:.0f} s: {said}.", highlight=False, markup=False)


def write_markdown(outcomes: dict[str, Outcome]) -> str:
    """The table for the documentation."""
    lines = [" | ".join(["", *HEADINGS, ""]).strip(), "| --- |" + " ---: |" * (len(HEADINGS) - 2) + " --- |"]
    lines += [" | ".join(["", *row(name, outcome), ""]).strip() for name, outcome in outcomes.items()]
    return "\n".join(lines)


def place(text: str, path: Path) -> None:
    """Put the table between its marks."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
