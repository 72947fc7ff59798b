"""The pictures of a data card, as PNG: the same figures give the same bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

KEPT, DROPPED, INK = "#2f6f9f", "#d9b38c", "#333333"
WIDTH = 7.6
"""Inches, at 100 dots an inch."""


def draw_stages(rows: Sequence[tuple[str, int, int]], path: Path) -> None:
    """Horizontal bars: of each stage (name, kept, dropped), the first at the top."""
    figure, axes = _open(0.42 * len(rows) + 0.9)
    places = [-place for place in range(len(rows))]
    kept, dropped = [row[1] for row in rows], [row[2] for row in rows]
    axes.barh(places, kept, color=KEPT, label="kept")
    axes.barh(places, dropped, left=kept, color=DROPPED, label="dropped")
    for place, (_, stay, go) in zip(places, rows, strict=True):
        axes.annotate(f" {stay:,}", (stay + go, place), va="center", fontsize=9, color=INK)
    axes.set_yticks(places, [row[0] for row in rows])
    axes.set_xlim(0, 1.12 * max((stay + go for _, stay, go in rows), default=1) or 1)
    axes.set_xlabel("problems that came (the number is what stayed)")
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    _save(figure, path)


def draw_counts(counts: Mapping[str, int], label: str, path: Path) -> None:
    """Vertical bars with their numbers, in the order given."""
    figure, axes = _open(2.8)
    places = range(len(counts))
    axes.bar(places, list(counts.values()), color=KEPT, width=0.7)
    for place, count in zip(places, counts.values(), strict=True):
        axes.annotate(f"{count:,}", (place, count), ha="center", va="bottom", fontsize=9, color=INK)
    crowded = sum(map(len, counts)) > 70
    axes.set_xticks(list(places), list(counts), rotation=30 if crowded else 0, ha="right" if crowded else "center")
    axes.set_ylim(0, 1.15 * max(counts.values(), default=1) or 1)
    axes.set_xlabel(label)
    axes.set_ylabel("problems")
    _save(figure, path)


def draw_margins(times: Sequence[float], memories: Sequence[float], path: Path) -> None:
    """Two cumulative curves: which part of its limits the neediest test of a reference used, on a logarithmic axis."""
    figure, axes = _open(2.9)
    for values, colour, label in ((times, KEPT, "time"), (memories, DROPPED, "memory")):
        shares = sorted(max(value, 1e-4) for value in values)
        heights = [(place + 1) / len(shares) for place in range(len(shares))]
        axes.step(shares, heights, where="post", color=colour, label=label)
    axes.set_xscale("log")
    axes.set_xlim(1e-4, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("share of the limit that the neediest test used")
    axes.set_ylabel("share of problems")
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    _save(figure, path)


def _open(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})
