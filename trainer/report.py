"""A training's report: `python -m trainer.report RUN` writes report.png and report.html into the run's folder."""

import argparse
import base64
import html
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PANELS = {
    "accuracy and reward": ("accuracy", "reward"),
    "verdicts, share": ("verdict/accepted", "verdict/wrong_answer", "verdict/no_code", "verdict/internal_error"),
    "diversity": ("diversity", "diversity/pooled_distinct"),
    "mean length, tokens": ("completions/mean_length", "length/accepted", "length/wrong_answer", "length/no_code"),
    "truncation, completions": ("truncation/truncated", "truncation/eligible", "truncation/masked"),
    "ends in a loop, completions": ("truncation/repeats_literally", "truncation/repeats_with_any_period"),
    "clipped, share of tokens": ("clip/low", "clip/high"),
    "entropy and divergence, nats": ("entropy", "kl"),
    "gradient norm": ("grad_norm",),
    "groups that teach nothing, share": ("groups/flat",),
    "temperature": ("temperature",),
    "seconds since the update before": (
        "seconds/generation",
        "seconds/evaluation",
        "seconds/update",
    ),
}
SHOWN = 12
"""Completions that the page shows, of the newest table."""
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.3rem .6rem;text-align:left;"
    "vertical-align:top}pre{margin:0;white-space:pre-wrap;max-width:38rem}img{max-width:100%}"
)


class NoRun(ValueError):
    """The folder holds no training. The message says what was looked for."""


def main(arguments: list[str] | None = None) -> int:
    """Write both files; 0, or 2 when the folder holds no training."""
    parser = argparse.ArgumentParser(prog="python -m trainer.report", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="the folder that `trainer.train --out` named")
    folder = parser.parse_args(arguments).run
    try:
        entries, told = read_history(folder), read_note(folder)
    except (NoRun, OSError, json.JSONDecodeError) as error:
        print(error, file=sys.stderr)
        return 2
    from trainer.curves import draw_panels

    draw_panels(gather_panels(entries), folder / "report.png", title=folder.resolve().name, x="update")
    (folder / "report.html").write_text(write_page(folder, entries, told), "utf-8")
    print(f"{folder / 'report.html'} and report.png: {len(entries)} updates.")
    return 0


def read_history(folder: Path) -> list[dict[str, Any]]:
    """What was logged, an entry an update: of the run's end, or of its newest checkpoint.

    Raises:
        NoRun: there is neither.
    """
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    files = [folder / "trainer_state.json", *(path / "trainer_state.json" for path in reversed(checkpoints))]
    found = next((path for path in files if path.exists()), None)
    if found is None:
        raise NoRun(f"{folder} holds no trainer_state.json, nor has it a checkpoint that does.")
    entries = [entry for entry in json.loads(found.read_text("utf-8"))["log_history"] if "loss" in entry]
    if not entries:
        raise NoRun(f"{found} has logged no update.")
    return entries


def read_note(folder: Path) -> dict[str, Any]:
    """How the run was made; nothing where it wasn't made by `trainer.train`."""
    path = folder / "run.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def gather_panels(entries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[list[tuple[float, float]]]]]:
    """Curves by panel; a measure that was never logged has none."""
    panels: dict[str, dict[str, list[list[tuple[float, float]]]]] = {}
    for panel, names in PANELS.items():
        for name in names:
            points = [(float(one["step"]), float(one[name])) for one in entries if one.get(name) is not None]
            if points:
                panels.setdefault(panel, {})[name] = [points]
    return panels


def write_page(folder: Path, entries: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> str:
    """The page: one file, without script or network."""
    picture = base64.b64encode((folder / "report.png").read_bytes()).decode()
    title = f"{told.get('algorithm', 'A training')}: {folder.resolve().name}"
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(title)}</h1>",
        _table(("", ""), [(name.replace("_", " "), value) for name, value in told.items()]) if told else "",
        "<h2>Beginning and end</h2>",
        _table(("measure", "first tenth", "last tenth"), _compare(entries)),
        "<h2>Where the time went</h2>",
        _table(("phase", "seconds", "share"), _phases(entries)),
        f'<h2>Curves</h2><img alt="curves of every measure" src="data:image/png;base64,{picture}">',
        _completions(folder),
    ]
    return "\n".join(part for part in parts if part) + "\n</html>\n"


def _compare(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    rows = []
    for names in PANELS.values():
        for name in names:
            values = [float(entry[name]) for entry in entries if entry.get(name) is not None]
            if values:
                width = max(1, len(values) // 10)
                first, last = sum(values[:width]) / width, sum(values[-width:]) / width
                rows.append((name, f"{first:.4g}", f"{last:.4g}"))
    return rows


def _phases(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    sums = {
        phase: sum(float(entry.get(f"seconds/{phase}") or 0) for entry in entries)
        for phase in ("generation", "evaluation", "update")
    }
    whole = sum(sums.values()) or 1.0
    return [(phase, f"{seconds:.1f}", f"{100 * seconds / whole:.0f} %") for phase, seconds in sums.items()]


def _completions(folder: Path) -> str:
    """Some completions of the newest table, the best and the worst first."""
    tables = sorted((folder / "completions").glob("completions_*.parquet"))
    if not tables:
        return ""
    import pandas

    frame = pandas.read_parquet(tables[-1]).sort_values("advantage", key=abs, ascending=False).head(SHOWN)
    columns = [name for name in ("advantage", "verdict", "prompt", "completion") if name in frame.columns]
    rows = [tuple(_spell(row[name]) for name in columns) for _, row in frame.iterrows()]
    return f"<h2>Completions of update {int(tables[-1].stem.rpartition('_')[2])}</h2>" + _table(columns, rows)


def _spell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td><pre>{html.escape(str(cell))}</pre></td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


if __name__ == "__main__":
    sys.exit(main())
