"""Whether something grows: a line through what was seen at rest, its slope with an interval; and the plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

PER = 10_000
"""Tests to which growth is told."""
RESAMPLES = 4000
MEBIBYTE = 1 << 20
ALLOWED_PART, ALLOWED_BYTES, ALLOWED_COUNT = 0.02, 2 * MEBIBYTE, 0.5
"""Growth over the whole run that is none: of memory 2 % or 2 MiB, of things half of one."""
ALLOWED = {"boxes": 4, "files in scratch": 4, "processes": 8, "threads": 12, "descriptors": 110, "RSS of boxes": 80e6,
           "PSS of boxes": 40e6}  # fmt: skip
"""What comes and goes by design: two workers have from two to four boxes each, with their processes and descriptors."""
OTHERS = ("mounts of the host", "cgroups of the host", "shared memory of the host")
"""What everything else on the machine adds to as well: told, and not held against the service."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Of one measure, for `PER` tests. `grows`: even the low end of the interval is more than what is allowed."""

    name: str
    first: float
    last: float
    slope: float
    low: float
    high: float
    grows: bool


def is_bytes(name: str) -> bool:
    """Whether a measure is of bytes, or counts things."""
    return name.startswith(("RSS", "PSS", "Redis memory", "scratch", "shared memory"))


def measure_growth(name: str, tests: Sequence[float], values: Sequence[float]) -> Growth:
    """A line by least squares; its 95 % interval by drawing the points anew, always alike."""
    x, y = numpy.asarray(tests, float), numpy.asarray(values, float)
    slope = fit(x, y)
    chance = numpy.random.default_rng(1)
    drawn = []
    for _ in range(RESAMPLES):
        at = chance.integers(0, len(x), len(x))
        if len(set(x[at])) > 1:
            drawn.append(fit(x[at], y[at]))
    low, high = numpy.percentile(drawn, [2.5, 97.5])
    span = float(x[-1] - x[0])
    usual = max(ALLOWED_PART * float(y.mean()), ALLOWED_BYTES) if is_bytes(name) else ALLOWED_COUNT
    grows = bool(low * span > ALLOWED.get(name, usual)) and name not in OTHERS
    return Growth(name, float(y[0]), float(y[-1]), slope * PER, float(low) * PER, float(high) * PER, grows)


def fit(x: Any, y: Any) -> float:
    """The slope of the line."""
    away = x - x.mean()
    return float((away * (y - y.mean())).sum() / (away * away).sum())


def plot(samples: list[dict[str, Any]], rests: list[dict[str, Any]], warm: int, path: Path) -> None:
    """Every second as a thin line, what was seen at rest as points, over the tests done."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [name for name in rests[0] if name not in ("second", "tests")]
    columns = 4
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4 * columns, 2.4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for number, name in enumerate(names, start=1):
        axes = figure.add_subplot(rows, columns, number)
        scale = MEBIBYTE if is_bytes(name) else 1
        axes.plot(*_line(samples, name, scale), color="#9db4c0", linewidth=0.5)
        axes.plot(*_line(rests, name, scale), "o", color="#1b4965", markersize=2.5)
        axes.axvline(warm / 1000, color="#c0c0c0", linewidth=0.8, linestyle=":")
        axes.set_title(f"{name}{', MiB' if scale > 1 else ''}", fontsize=9)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("tests done, thousands; dots: at rest, lines: every second", fontsize=9)
    figure.savefig(path, dpi=90)


def _line(samples: list[dict[str, Any]], name: str, scale: float) -> tuple[list[float], list[float]]:
    return [sample["tests"] / 1000 for sample in samples], [sample[name] / scale for sample in samples]
