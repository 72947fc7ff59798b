"""The figures of `compare` as one table: on the terminal, and in Markdown between the markers of a page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.labelled import BadInput

Figures = dict[str, Any]
BEGIN = "<!-- begin performance: written by benchmarks.compare -->\n"
END = "<!-- end performance -->\n"


class Row(NamedTuple):
    """One figure: what it is, its key in the JSON, its median with its spread, what it should be, and whether it is."""

    text: str
    key: str
    value: str
    goal: str
    holds: bool | None


GOALS: tuple[tuple[str, str, str, float | None], ...] = (
    ("reward batch without loops: LiveCodeBench's overhead over ours",
     "reward_batch.overhead_ratio_vs_livecodebench", "≥", 15),
    ("… through the whole service", "reward_batch.overhead_ratio_of_service_vs_livecodebench", "", None),
    ("… the same in processor time", "reward_batch.processor_overhead_ratio_vs_livecodebench", "", None),
    ("… our processor time over the floor's", "reward_batch.without_loops.library_processor_time_to_floor", "", None),
    ("… our wall over the programs' floor", "reward_batch.wall_ratio_to_floor_without_loops", "≤", 1.25),
    ("… LiveCodeBench's wall over the floor", "reward_batch.without_loops.livecodebench_to_floor", "", None),
    ("… LiveCodeBench's wall over ours", "reward_batch.wall_ratio_vs_livecodebench", "", None),
    ("reward batch with loops: our wall over the floor", "reward_batch.ratio_to_floor", "≤", 1.15),
    ("… through the whole service", "reward_batch.with_loops.service_to_floor", "", None),
    ("… LiveCodeBench's wall over the floor", "reward_batch.with_loops.livecodebench_to_floor", "", None),
    ("trivial test over a bare fork, bubblewrap", "trivial.ratio_to_fork.bubblewrap", "≤", 2.5),
    ("… Docker", "trivial.ratio_to_fork.docker", "≤", 2.5),
    ("15 trivial tests a program: a fork each over a series", "trivial.batched_speedup", "≥", 5),
    ("3 trivial tests a program: a fork each over a series", "trivial.batched_speedup_at_3_tests", "", None),
    ("trivial tests: the service's throughput over the library's", "service.share_of_library", "≥", 0.7),
    ("… an interpreter per request and test, over the service", "trivial.speedup_vs_request_per_test", "≥", 30),
    ("… a real SandboxFusion, over the service", "trivial.speedup_vs_sandboxfusion", "≥", 30),
    ("… an interpreter per test, over the service", "trivial.speedup_vs_subprocess", "", None),
    ("numpy test over a trivial one, a fork each", "numpy.ratio_to_trivial", "≤", 2),
    ("latency of 10 tests, idle service, p50, s", "latency.p50", "", None),
    ("… p95, s", "latency.p95", "", None),
    ("… p95 over p50", "latency.ratio", "≤", 3),
    ("latency behind 500 slow submissions, s", "latency.behind_500_slow_seconds", "≤", 3),
    ("two workers over one, reward batch without loops", "scale.two_workers_vs_one", "≥", 1.8),
    ("four workers over one", "scale.four_workers_vs_one", "", None),
    ("API's memory with a full queue over before", "queue.api_memory_ratio", "", None),
    ("… latency of /health", "queue.latency_ratio.health_ms", "", None),
    ("… latency of a post", "queue.latency_ratio.post_ms", "", None),
    ("… latency of a fetch", "queue.latency_ratio.fetch_ms", "", None),
    ("Redis commands a submission", "queue.redis_commands_per_submission", "", None),
    ("Redis bytes a submission", "queue.redis_bytes_per_submission", "", None),
    ("Redis's processor time a submission, µs", "queue.redis_cpu_us_per_submission", "", None),
    ("submissions a second that the API takes", "queue.post.submissions_a_second", "", None),
    ("submissions a second that the workers finish", "queue.judge.submissions_a_second", "", None),
)  # fmt: skip
"""What is shown, its key, and the goal."""


def find(document: Figures, key: str) -> Any:
    """The value under a path of names with dots, or None."""
    value: Any = document
    for name in key.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


def read_rows(document: Figures) -> Iterator[Row]:
    """A row for every figure that was measured."""
    for text, key, sign, goal in GOALS:
        value = find(document, key)
        if value is None:
            continue
        section, _, name = key.rpartition(".")
        spreads = [find(document, place) for place in _places(section, name)]
        rounds = next((spread for spread in spreads if spread is not None), None)
        shown = _number(value)
        if rounds is not None:
            shown += f" ({_number(rounds['lowest'])}–{_number(rounds['highest'])})"
        holds = None if goal is None else value >= goal if sign == "≥" else value <= goal
        yield Row(text, key, shown, f"{sign} {goal:g}" if goal is not None else "", holds)


def _places(section: str, name: str) -> Iterator[str]:
    """Where the rounds of a figure may stand."""
    yield f"{section}.{name}_rounds"
    if section == "reward_batch" and name == "ratio_to_floor":
        yield "reward_batch.with_loops.library_to_floor_rounds"
    if section == "reward_batch" and name == "wall_ratio_to_floor_without_loops":
        yield "reward_batch.without_loops.library_to_floor_rounds"


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 0.1 else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def _word(holds: bool | None) -> str:
    return {None: "", True: "yes", False: "no"}[holds]


def show(document: Figures, console: Console) -> None:
    """Print the figures, and how many verdicts were right."""
    title = "ours and others': medians and spread of the rounds" + (" (quick: rough)" if document["quick"] else "")
    table = Table("figure", "key", title=title, title_justify="left")
    for heading in ("median (spread)", "goal", "holds"):
        table.add_column(heading, justify="right")
    for row in read_rows(document):
        table.add_row(row.text, row.key, row.value, row.goal, _word(row.holds))
    if table.rows:
        console.print(table)
    for line in _tell_verdicts(document):
        console.print(line, highlight=False)
    if workloads := document.get("workloads"):
        small = Table("workload", title="milliseconds a program", title_justify="left")
        names = _sides(workloads)
        for name in names:
            small.add_column(name, justify="right")
        for name, record in _small(workloads):
            small.add_row(name, *(f"{record['ms_a_program'][side]['median']:.2f}" for side in names))
        console.print(small)


def _small(workloads: Figures) -> list[tuple[str, Figures]]:
    return [(name, record) for name, record in workloads.items() if isinstance(record, dict)]


def _sides(workloads: Figures) -> list[str]:
    return list(_small(workloads)[0][1]["ms_a_program"])


def _tell_verdicts(document: Figures) -> Iterator[str]:
    for batch, sides in (find(document, "reward_batch.verdicts") or {}).items():
        counts = ", ".join(f"{name} {record['right']:g} of {record['programs']}" for name, record in sides.items())
        yield f"right verdicts, {batch}: {counts}"


def write_markdown(document: Figures) -> str:
    """The same for a page."""
    machine = document["machine"]
    lines = [
        f"{machine['processors']} processors, Python {machine['python']}, kernel {machine['kernel']}; "
        f"{document['size']['rounds']} rounds{', a quick run: rough' if document['quick'] else ''}"
        f"{_tell_load(document)}.",
        "",
        "| figure | median (lowest–highest round) | goal | holds | key |",
        "| --- | ---: | ---: | --- | --- |",
    ]
    for row in read_rows(document):
        lines.append(f"| {row.text} | {row.value} | {row.goal} | {_word(row.holds)} | `{row.key}` |")
    lines += ["", *(f"- {line[0].upper()}{line[1:]}." for line in _tell_verdicts(document))]
    if workloads := document.get("workloads"):
        names = _sides(workloads)
        lines += ["", "Milliseconds a program:", "", "| workload | tests | " + " | ".join(names) + " |"]
        lines.append("| --- | ---: |" + " ---: |" * len(names))
        for name, record in _small(workloads):
            cells = [f"{record['ms_a_program'][side]['median']:.2f}" for side in names]
            lines.append(f"| {name} | {record['tests']} | " + " | ".join(cells) + " |")
    for name, why in document["skipped"].items():
        lines += ["", f"Not measured: `{name}`. {why}"]
    return "\n".join(lines) + "\n"


def _tell_load(document: Figures) -> str:
    """What else the machine did: the highest load around any part."""
    loads = [max(part["load"]) for part in document.values() if isinstance(part, dict) and "load" in part]
    return f"; the machine's load was up to {max(loads):.1f}" if loads else ""


def check_place(path: Path) -> None:
    """See that the tables can be put there.

    Raises:
        BadInput: the file isn't there, or lacks the markers.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: can't be read ({error.strerror}); name a page that has the markers.") from None
    if BEGIN not in text or END not in text.partition(BEGIN)[2]:
        raise BadInput(f"{path}: it lacks the lines {BEGIN.strip()} and {END.strip()}; add them.")


def place(text: str, path: Path) -> None:
    """Write the tables between the page's markers."""
    check_place(path)
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
