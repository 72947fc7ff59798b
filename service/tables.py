"""What the command line draws: a progress bar, the counts at the end of a file, the doctor's findings."""

import threading
from collections import Counter
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from evaluator.model import Verdict

DISAGREEMENTS_SHOWN = 10
_MARKS = {"works": ("✓", "green"), "missing": ("✗", "red"), "note": ("·", "dim")}


class Progress:
    """A bar on a terminal, and nothing anywhere else. `total` None: nobody knows how much there is."""

    def __init__(self, console: Console, total: int | None) -> None:
        """Prepare."""
        self._lock = threading.Lock()
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("judged"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("judged", total=total)

    def advance(self, count: int) -> None:
        """So many more lines are judged. From any thread."""
        with self._lock:
            self._bar.advance(self._task, count)

    def __enter__(self) -> "Progress":
        """Draw."""
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Wipe it away."""
        self._bar.stop()


class Tally:
    """Counts what was judged, and remembers the first disagreements."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._verdicts: Counter[str] = Counter()
        self._suspicions: Counter[str] = Counter()
        self._examples: list[dict[str, Any]] = []
        self.compared = 0
        self.disagreements = 0

    @property
    def judged(self) -> int:
        """How many lines were judged."""
        return self._verdicts.total()

    @property
    def internal_errors(self) -> int:
        """How many judgements failed by our own fault."""
        return self._verdicts[Verdict.INTERNAL_ERROR]

    def add(self, document: dict[str, Any]) -> None:
        """Count one written line."""
        self._verdicts[document["verdict"]] += 1
        self._suspicions.update(note["kind"] for note in document.get("suspicions", ()))
        if "agrees" not in document:
            return
        self.compared += 1
        if not document["agrees"]:
            self.disagreements += 1
            if len(self._examples) < DISAGREEMENTS_SHOWN:
                self._examples.append(document)

    def show(self, console: Console) -> None:
        """Draw the counts, then what disagrees."""
        table = Table(title=f"{self.judged} judged", title_justify="left", show_edge=False, pad_edge=False)
        table.add_column("verdict")
        table.add_column("submissions", justify="right")
        table.add_column("share", justify="right")
        for verdict in Verdict:
            if count := self._verdicts[verdict]:
                table.add_row(verdict, str(count), f"{count / self.judged:.1%}", style=_style(verdict))
        console.print(table)
        if self._suspicions:
            noted = ", ".join(f"{kind} {count}" for kind, count in self._suspicions.most_common())
            console.print(f"Suspicions, which change no verdict: {noted}. See docs/reward_hacking.md.", soft_wrap=True)
        if self.compared:
            agree = self.compared - self.disagreements
            console.print(f"{agree} of {self.compared} agree with their expected_verdict.")
        for document in self._examples:
            console.print(_disagreement(document), soft_wrap=True)
        if self.disagreements > len(self._examples):
            console.print(
                f'  … and {self.disagreements - len(self._examples)} more: see "agrees": false in the output.'
            )


def _style(verdict: Verdict) -> str:
    if verdict is Verdict.ACCEPTED:
        return "green"
    return "bold red" if verdict is Verdict.INTERNAL_ERROR else ""


def _disagreement(document: dict[str, Any]) -> Text:
    name = f" ({document['id']})" if document.get("id") is not None else ""
    reason = f": {reason}" if (reason := _reason(document)) else ""
    text = (
        f"  line {document['line']}{name}: expected {document['expected_verdict']}, got {document['verdict']}{reason}"
    )
    return Text(text)


def _reason(document: dict[str, Any]) -> str:
    first = document.get("first_failed")
    tests = {test["index"]: test for test in document.get("tests", ())}
    detail = document.get("detail") or (tests[first].get("detail") if first in tests else None)
    return str(detail or "").replace("\n", " ")[:200]


def show_findings(console: Console, findings: list[Any], usable: bool) -> None:
    """Draw what the doctor found. Takes its `Finding`s as they are."""
    table = Table(show_header=False, show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold")
    group = None
    for finding in findings:
        if finding.group != group:
            group = finding.group
            table.add_row("", Text(str(group), "bold"), "")
        mark, style = _MARKS[finding.state]
        found = Text(finding.found)
        if finding.remedy:
            found = found + Text(f"\n→ {finding.remedy}", "yellow")
        table.add_row(Text(mark, style), Text(f"  {finding.subject}"), found)
    console.print(table)
    console.print()
    if usable:
        console.print("The service can run here: microcoder serve", style="green")
    else:
        console.print("The service can't run here yet: one kind of box and one Redis must work.", style="red")
