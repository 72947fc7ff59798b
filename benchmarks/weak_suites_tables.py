"""The tables of `benchmarks.weak_suites`."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.rates import wilson_interval


def render(figures: dict[str, Any], *, markdown: bool) -> str:
    """All tables."""
    parts = []
    human = {name: one for name, one in figures.items() if name.startswith("humaneval")}
    mbpp = {name: one for name, one in figures.items() if name.startswith("mbpp")}
    if human:
        header = (
            "HumanEval, inputs",
            "tests added",
            "caught",
            "of the wrong",
            "of the slow",
            "right, rejected",
            "precision",
        )
        parts.append(write_table(header, map(row_of_programs, human.items()), markdown=markdown))
    if mbpp:
        header = ("MBPP, inputs", "problems", "tests added", "held-out mutants", "killed before", "killed after")
        parts.append(write_table(header, map(row_of_mutants, mbpp.items()), markdown=markdown))
    planted = {name: one for name, one in figures.items() if name.startswith("planted")}
    if planted:
        header = ("planted, inputs", "truly weak, called weak", "others called weak", "precision")
        parts.append(write_table(header, map(row_of_planted, planted.items()), markdown=markdown))
    return "\n\n".join(parts)


def row_of_programs(item: tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
    """A line."""
    name, one = item
    caught, alarms = one["wrong_caught"] + one["slow_caught"], len(one["false_alarms"])
    whole = share(caught, one["wrong"] + one["slow"])
    wrong, slow = share(one["wrong_caught"], one["wrong"] - one["alike"]), share(one["slow_caught"], one["slow"])
    right, precision = share(alarms, one["right"]), share(caught, caught + alarms)
    return name.partition(": ")[2], one["tests"], whole, wrong, slow, right, precision


def row_of_mutants(item: tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
    """A line."""
    name, one = item
    before, after = share(one["held_killed"], one["held_out"]), share(one["held_killed_after"], one["held_out"])
    return name.partition(": ")[2], one["problems"], one["tests"], one["held_out"], before, after


def row_of_planted(item: tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
    """A line."""
    name, one = item
    alarms = len(one["false_alarms"])
    called = share(one["called"], one["weak"])
    return name.partition(": ")[2], called, share(alarms, one["strong"]), share(one["called"], one["called"] + alarms)


def share(events: int, trials: int) -> str:
    """`19 of 20, 0.95 (0.76–0.99)`, with the 95 % interval."""
    interval = wilson_interval(events, trials)
    if interval is None:
        return "0 of 0"
    return f"{events} of {trials}, {events / trials:.2f} ({interval[0]:.2f}–{interval[1]:.2f})"


def write_table(header: Sequence[str], rows: Iterable[Sequence[Any]], *, markdown: bool) -> str:
    """As Markdown, or plain."""
    lines = [list(map(str, row)) for row in rows]
    if not markdown:
        return "\n".join("  ".join(f"{name}: {cell}" for name, cell in zip(header, row, strict=True)) for row in lines)
    head = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in lines)])
