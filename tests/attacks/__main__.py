"""`python -m tests.attacks`: runs every test that the list of attacks names, in every kind of box, and says what came
of each; with numbers (`python -m tests.attacks 27 32`) only those. `--write` puts the list into docs/security.md
instead."""

import os
import sys
from collections import Counter, defaultdict

import pytest
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.catalogue_helper import KINDS, PAGE, Attack, is_named, place_table, read_catalogue, spell_table, split_id

COLUMNS = (*KINDS, "")


class Gatherer:
    """What pytest tells: which tests there are, and how each ended."""

    def __init__(self, attacks: list[Attack], progress: Progress) -> None:
        self.references = {reference for attack in attacks for reference in attack.tests}
        self.outcomes: dict[str, str] = {}
        self.reasons: Counter[str] = Counter()
        self.failures: list[tuple[str, str]] = []
        self._progress = progress
        self._task = progress.add_task("attacks", total=None)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the tests that nobody names."""
        items[:] = [item for item in items if any(is_named(name, item.nodeid) for name in self.references)]
        self._progress.update(self._task, total=len(items))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that can't be read is a failure of all that it holds."""
        if report.failed:
            self.failures.append((report.nodeid, report.longreprtext))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The worst of a test's three phases is its outcome."""
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
            self.failures.append((report.nodeid, report.longreprtext))
        elif report.skipped:
            self.outcomes.setdefault(report.nodeid, "skipped")
            self.reasons[str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)] += 1
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")
        if report.when == "teardown":
            self._progress.advance(self._task)
            done = len(self.outcomes)
            if not self._progress.console.is_terminal and done % 50 == 0:
                self._progress.console.print(f"{done} tests done", highlight=False)


def count(attack: Attack, outcomes: dict[str, str]) -> dict[str, Counter[str]]:
    """Kind of box -> how the tests of an attack ended there."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for identity, outcome in outcomes.items():
        if any(is_named(reference, identity) for reference in attack.tests):
            found[split_id(identity)[2]][outcome] += 1
    return found


def describe(ends: Counter[str]) -> str:
    """A cell: how many passed, failed, were left out."""
    if not ends:
        return ""
    if ends["failed"]:
        return f"[red]{ends['failed']} of {ends.total()} failed[/red]"
    return f"[green]{ends['passed']}[/green]" if ends["passed"] else "[yellow]not here[/yellow]"


def judge(attack: Attack, ends: dict[str, Counter[str]]) -> str:
    """What is to be said of an attack."""
    together = sum(ends.values(), Counter())
    if attack.not_applicable:
        return "does not apply"
    return "FAILED" if together["failed"] else "passed" if together["passed"] else "NOT RUN"


def show(attacks: list[Attack], gatherer: Gatherer, console: Console) -> int:
    """The table and what it comes to. Returns the exit status."""
    table = Table(title="Attacks, and how many tests of each passed in which kind of box")
    for heading in ("#", "attack", *KINDS, "elsewhere", "seen from", "verdict"):
        table.add_column(heading, justify="right" if heading == "#" else "left")
    verdicts: Counter[str] = Counter()
    outside = 0
    for attack in attacks:
        ends = count(attack, gatherer.outcomes)
        verdict = judge(attack, ends)
        verdicts[verdict] += 1
        outside += attack.asserted == "host" and verdict == "passed"
        colour = {"passed": "green", "does not apply": "dim"}.get(verdict, "red")
        cells = [describe(ends[column]) for column in COLUMNS]
        seen = attack.asserted if attack.tests else "–"
        table.add_row(str(attack.number), attack.title, *cells, seen, f"[{colour}]{verdict}[/{colour}]")
    console.print(table)
    for name, text in gatherer.failures:
        console.rule(f"[red]{name}")
        console.print(text[-3000:], markup=False, highlight=False)
    results = Counter(gatherer.outcomes.values())
    host = sum(name.startswith(("tests/test_attacks_host", "tests/attacks/")) for name in gatherer.outcomes)
    console.print(
        f"{len(attacks)} attacks: {verdicts['passed']} passed, {verdicts['FAILED']} failed, {verdicts['NOT RUN']} not "
        f"run, {verdicts['does not apply']} do not apply; {outside} of those that passed are asserted from the host."
    )
    console.print(
        f"{len(gatherer.outcomes)} tests: {results['passed']} passed, {results['failed']} failed, "
        f"{results['skipped']} left out; {host} of them look from the host."
    )
    for attack in attacks:
        if attack.not_applicable:
            console.print(f"{attack.number} does not apply: {attack.not_applicable}.")
    for reason, times in gatherer.reasons.items():
        console.print(f"left out ({times}): {reason.removeprefix('Skipped: ')}")
    return 1 if gatherer.failures or verdicts["FAILED"] or verdicts["NOT RUN"] else 0


def main() -> int:
    """Run them, or write the page."""
    attacks = read_catalogue()
    if "--write" in sys.argv:
        PAGE.write_text(place_table(PAGE.read_text("utf-8"), spell_table(attacks)), "utf-8")
        return 0
    chosen = {int(argument) for argument in sys.argv[1:]}
    attacks = [attack for attack in attacks if not chosen or attack.number in chosen]
    os.environ["MICROCODER_ATTACKS"] = "all"
    console = Console(width=None if sys.stdout.isatty() else 170)
    files = sorted({reference.partition("::")[0] for attack in attacks for reference in attack.tests})
    with Progress(console=console) as progress:
        gatherer = Gatherer(attacks, progress)
        options = ["-p", "no:terminal", "-o", "addopts=--import-mode=importlib --strict-markers --strict-config"]
        pytest.main([*options, *files], plugins=[gatherer])
    return show(attacks, gatherer, console)


if __name__ == "__main__":
    sys.exit(main())
