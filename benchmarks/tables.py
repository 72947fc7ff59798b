"""The figures of `accuracy` as tables: on the terminal, and in Markdown that the documentation includes."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.labelled import BadInput

Figures = dict[str, Any]


def check_place(path: Path, section: str) -> None:
    """See that a table can be put there.

    Raises:
        BadInput: there is no such folder, or the file has other content and no markers of that section.
    """
    if not path.absolute().parent.is_dir():
        raise BadInput(f"{path}: there is no such folder; make it first.")
    if path.exists():
        _split(path, section)


def place(text: str, path: Path, section: str) -> None:
    """Write a table into a file of its own, or between the markers of its section.

    Raises:
        BadInput: the file has other content and no such markers.
    """
    before, after = _split(path, section) if path.exists() else markers(section)
    path.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")


def markers(section: str) -> tuple[str, str]:
    """The lines between which a section's table stands."""
    return f"<!-- begin {section}: written by benchmarks.accuracy -->\n", f"<!-- end {section} -->\n"


def _split(path: Path, section: str) -> tuple[str, str]:
    text = path.read_text(encoding="utf-8")
    begin, end = markers(section)
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise BadInput(f"{path}: it lacks the lines {begin.strip()} and {end.strip()}; add them, or name another file.")
    return before + begin, end + after


def write_markdown(document: dict[str, Any]) -> str:
    """Two tables: each evaluator over all files, and each file with both kinds of errors of every evaluator."""
    evaluators = document["evaluators"]
    lines = [
        "| evaluator | programs | false rejects | rate, 95 % interval | false accepts | rate, 95 % interval "
        "| internal errors | left out |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, record in evaluators.items():
        lines.append("| " + " | ".join([f"`{name}`", *_row(record["overall"])]) + " |")
    files = list(next(iter(evaluators.values()))["files"])
    lines += [
        "",
        "False rejects / false accepts by file. A dash: the evaluator has no rule for that kind of test.",
        "",
        "| file | right programs | wrong ones | " + " | ".join(f"`{name}`" for name in evaluators) + " |",
        "| --- | ---: | ---: |" + " ---: |" * len(evaluators),
    ]
    for file in files:
        records = {name: record["files"][file] for name, record in evaluators.items()}
        widest = max(records.values(), key=lambda record: record["programs"])
        cells = [file, str(widest["accepted_labels"]), str(widest["rejected_labels"])]
        cells += [_pair(record) + _part(record, widest) for record in records.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def show(document: dict[str, Any], console: Console) -> None:
    """Print the same tables, and the disagreements of our own headline evaluator."""
    evaluators = document["evaluators"]
    headline = evaluators.get("microcoder")
    if headline is not None and any(record["disagreements"] for record in headline["files"].values()):
        console.print(_disagreements(headline))
    summary = Table("evaluator", title="error rates, with 95 % intervals", title_justify="left")
    for heading in ("programs", "false rejects", "rate", "false accepts", "rate", "internal errors"):
        summary.add_column(heading, justify="right")
    summary.add_column("left out")
    for name, record in evaluators.items():
        summary.add_row(name, *_row(record["overall"]))
    console.print(summary)
    by_file = Table("file", title="false rejects / false accepts by file", title_justify="left")
    for name in evaluators:
        by_file.add_column(name, justify="right", overflow="fold")
    for file in next(iter(evaluators.values()))["files"]:
        by_file.add_row(file, *(_pair(record["files"][file]) for record in evaluators.values()))
    console.print(by_file)


def _disagreements(headline: Figures) -> Table:
    table = Table("program", "label", "verdict", "reason", title="microcoder: disagreements", title_justify="left")
    table.columns[0].overflow = table.columns[3].overflow = "fold"
    for record in headline["files"].values():
        for item in record["disagreements"]:
            table.add_row(*(item[key].replace("[", "\\[") for key in ("id", "label", "verdict", "reason")))
    return table


def _row(counts: Figures) -> list[str]:
    skipped = "; ".join(f"{number}: {why}" for why, number in counts["skipped"].items())
    return [
        str(counts["programs"]),
        str(counts["false_rejects"]), _percent(counts["false_reject_rate"], counts["false_reject_interval"]),
        str(counts["false_accepts"]), _percent(counts["false_accept_rate"], counts["false_accept_interval"]),
        str(counts["internal_errors"]), skipped,
    ]  # fmt: skip


def _percent(rate: float | None, interval: list[float] | None) -> str:
    if rate is None or interval is None:
        return "–"
    low, high = interval
    return f"{100 * rate:.2f} % ({100 * low:.2f}–{100 * high:.2f})"


def _pair(counts: Figures) -> str:
    return f"{counts['false_rejects']} / {counts['false_accepts']}" if counts["programs"] else "–"


def _part(counts: Figures, widest: Figures) -> str:
    """What to add where an evaluator judged only a part of the file's programs."""
    part = counts["programs"]
    return f" (of {part})" if 0 < part < widest["programs"] else ""
