"""What `microcoder rescore` shows on a terminal: a bar while it works, a table at the end."""

import threading
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from service.rescore_charts import say_estimate
from service.rescore_report import (
    COSTS_HEADER,
    NAMES,
    describe_agreement,
    describe_alone,
    describe_attribution,
    describe_costs,
    describe_wall,
    list_left_out,
)
from service.rescore_summary import Summary


class _Rate(ProgressColumn):
    """Programs a second."""

    def render(self, task: Task) -> Text:
        """Draw."""
        return Text("" if task.speed is None else f"{task.speed:.1f}/s", style="dim")


class Bar:
    """A bar with rate and remaining time on a terminal, and nothing anywhere else. Told from any thread."""

    def __init__(self, console: Console, label: str, total: int) -> None:
        """Prepare."""
        self._lock = threading.Lock()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task(label, total=total)

    def advance(self, count: int) -> None:
        """So many more."""
        with self._lock:
            self._bar.advance(self._task, count)

    def __enter__(self) -> "Bar":
        """Draw."""
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Wipe it away."""
        self._bar.stop()


def show_summary(console: Console, summary: Summary) -> None:
    """Draw the scores, the agreement and the reasons."""
    table = Table(title=summary.name, title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("")
    for side in summary.sides:
        table.add_column(NAMES[side.name], justify="right")
    for k in summary.ours.scores:
        table.add_row(
            f"pass@{k}",
            *(say_estimate(side.scores[k]) if k in side.scores else "—" for side in summary.sides),
            style="bold",
        )
    for group in summary.ours.groups:
        cells = (say_estimate(side.groups[group]) if group in side.groups else "—" for side in summary.sides)
        table.add_row(" ".join(group), *cells)
    console.print(table)
    for sentence in _describe(summary):
        console.print(sentence, soft_wrap=True)
    if summary.official_costs is not None:
        costs = Table(show_edge=False, pad_edge=False)
        for name in COSTS_HEADER:
            costs.add_column(name, justify="left" if name == "programs" else "right")
        for row in describe_costs(summary):
            costs.add_row(*row)
        console.print(costs)
        if wall := describe_wall(summary):
            console.print(wall, soft_wrap=True)
    for line in list_left_out(summary):
        console.print(line, style="yellow", soft_wrap=True)


def _describe(summary: Summary) -> Iterator[str]:
    again = f" {summary.judged_before:,} were judged before," if summary.judged_before else ""
    yield (
        f"{summary.generations:,} generations of {summary.problems:,} problems, {summary.programs:,} programs:"
        f"{again} {summary.programs - summary.judged_before:,} judged now, in {summary.seconds:.1f} s."
    )
    yield describe_alone(summary)
    for name in summary.agreements:
        yield describe_agreement(summary, name)
        for reason, count in summary.reasons(name).most_common():
            yield f"  {count:6,}  {reason}"
    if attribution := describe_attribution(summary):
        yield attribution
