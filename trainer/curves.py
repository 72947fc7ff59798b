"""Pictures of trainings, by matplotlib."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from PIL import Image

COLOURS = ("#2a6f97", "#d1495b", "#3a7d44", "#8a5a9c", "#c98a1b", "#555555")
DASHES = ("-", "-", (0, (4, 2)))
"""Curves that fall on each other stay visible."""
Curve = Sequence[tuple[float, float]]
"""(x, y), with x rising."""


def smooth(values: Sequence[float], width: int) -> list[float]:
    """Means over the last `width` values, fewer at the beginning."""
    return [sum(values[max(0, i - width + 1) : i + 1]) / min(i + 1, width) for i in range(len(values))]


def draw_panels(panels: Mapping[str, Mapping[str, Sequence[Curve]]], path: Path, *, title: str, x: str) -> None:
    """A file with a panel for each measure: its curves, in one colour where they belong together.

    Args:
        panels: measure → (label → curves). Where all panels have the same labels, one legend is for all.
        path: of the picture; its suffix says which kind.
        x: what the horizontal axis counts.
    """
    alike = len({tuple(curves) for curves in panels.values()}) == 1
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4.6 * columns, 3.3 * rows), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for number, (axis, (measure, groups)) in enumerate(zip(axes.flat, panels.items(), strict=False)):
        styles = zip(itertools.cycle(COLOURS), itertools.cycle(DASHES), groups.items(), strict=False)
        for colour, dashes, (label, curves) in styles:
            for place, curve in enumerate(curves):
                look = {"color": colour, "linestyle": dashes, "linewidth": 1.4}
                axis.plot(*_split(curve), **look, label=None if place else label)
        if number == 0 or not alike:
            axis.legend(fontsize=7)
        axis.set_title(measure, fontsize=10)
        axis.set_xlabel(x, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
    _save(figure, path, title)


def draw_intervals(panels: Mapping[str, Sequence[tuple[str, float, float, float]]], path: Path, *, title: str) -> None:
    """A file with a panel for each measure: (label, mean, low, high) as points with bars, a row each."""
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    labels = len(next(iter(panels.values())))
    size = (3.6 * columns, (0.9 + 0.28 * labels) * rows + 0.5)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, sharey=True)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (measure, points) in zip(axes.flat, panels.items(), strict=False):
        means = [mean for _, mean, _, _ in points]
        below = [mean - low for _, mean, low, _ in points]
        above = [high - mean for _, mean, _, high in points]
        axis.errorbar(
            means, range(len(points)), xerr=[below, above], fmt="o", color=COLOURS[0], capsize=3, markersize=4
        )
        axis.set_yticks(range(len(points)), [label for label, *_ in points], fontsize=8)
        axis.set_ylim(len(points) - 0.5, -0.5)
        axis.set_title(measure, fontsize=10)
        axis.tick_params(axis="x", labelsize=8)
        axis.grid(alpha=0.25)
    _save(figure, path, title)


def _split(curve: Curve) -> tuple[list[float], list[float]]:
    return [x for x, _ in curve], [y for _, y in curve]


def _save(figure: Any, path: Path, title: str) -> None:
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    if path.suffix == ".png":  # a third of the size
        with Image.open(path) as image:
            image.convert("RGB").quantize(256).save(path, optimize=True)
