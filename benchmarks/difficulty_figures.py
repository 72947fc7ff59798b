"""Figures of `benchmarks/difficulty.py`: rank correlation and AUC with intervals over groups, and the calibration."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from curation.charts import DROPPED, INK, KEPT
from curation.offline import Lessons
from curation.regression import Numbers, Places, correlate_ranks, measure_auc

RESAMPLES, SEED = 2000, 20_240_501
BINS = 10
TARGETS: tuple[Callable[[Numbers], Any], ...] = (
    lambda solved: solved == 0,
    lambda solved: solved <= 1,
    lambda solved: solved < 4,
)


@dataclass(frozen=True)
class Measured:
    """One way over some problems: (value, low, high) of Spearman's coefficient and of three AUCs."""

    of: str
    count: int
    by: str
    figures: tuple[tuple[float, float, float], ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """As a table has them."""
        figures = (f"{value:.3f} ({low:.2f}–{high:.2f})" for value, low, high in self.figures)
        return (self.of, str(self.count), self.by, *figures)

    @property
    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {"of": self.of, "problems": self.count, "by": self.by, "figures": self.figures}


def measure(of: str, by: str, scores: Numbers, lessons: Lessons) -> Measured:
    """Of scores that are higher where a problem is said to be harder; against how many models solved it."""
    value = _figures(scores, lessons.solved)
    drawn = numpy.array([_figures(scores[places], lessons.solved[places]) for places in resample(lessons)])
    low, high = numpy.nanquantile(drawn, [0.025, 0.975], axis=0)
    return Measured(of, len(scores), by, tuple(zip(value, map(float, low), map(float, high), strict=True)))


def _figures(scores: Numbers, solved: Numbers) -> list[float]:
    return [-correlate_ranks(scores, solved), *(measure_auc(scores, target(solved)) for target in TARGETS)]


def resample(lessons: Lessons) -> Iterator[Places]:
    """Places of problems, groups drawn with replacement: problems of one day aren't independent of each other."""
    _, of = numpy.unique(numpy.array(lessons.groups), return_inverse=True)
    members = [numpy.flatnonzero(of == group) for group in range(of.max() + 1)]
    generator = numpy.random.default_rng(SEED)
    for _ in range(RESAMPLES):
        yield numpy.concatenate([members[group] for group in generator.integers(0, len(members), len(members))])


def compare(lessons: Lessons, one: Numbers, other: Numbers) -> dict[str, Any]:
    """Spearman's coefficient of one less that of the other, on the same problems."""

    def differ(places: Places) -> float:
        solved = lessons.solved[places]
        return correlate_ranks(other[places], solved) - correlate_ranks(one[places], solved)

    low, high = numpy.quantile([differ(places) for places in resample(lessons)], [0.025, 0.975])
    whole = differ(numpy.arange(len(one)))
    return {"difference": whole, "interval": [float(low), float(high)]}


def draw_calibration(rates: Numbers, lessons: Lessons, path: Path) -> None:
    """Left: predicted and measured rates of ten equal bins. Right: predicted rates by how many models solved it."""
    figure = Figure(figsize=(8.4, 3.5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    measured_rates = lessons.solved / lessons.tried
    bins = numpy.array_split(numpy.argsort(rates, kind="stable"), BINS)
    generator = numpy.random.default_rng(SEED)
    for bin in bins:
        drawn = measured_rates[bin][generator.integers(0, len(bin), (RESAMPLES, len(bin)))].mean(axis=1)
        left.vlines(rates[bin].mean(), *numpy.quantile(drawn, [0.025, 0.975]), color=KEPT, linewidth=1.5)
    left.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--", label="as predicted")
    means = [(rates[bin].mean(), measured_rates[bin].mean()) for bin in bins]
    left.plot(*zip(*means, strict=True), "o", color=KEPT, label=f"a tenth of {len(rates)} problems, 95 %")
    left.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted solve rate", ylabel="share of the four models that solved it")
    left.legend(loc="upper left", frameon=False, fontsize=9)
    groups = [rates[lessons.solved == k] for k in range(5)]
    right.boxplot(
        groups, positions=range(5), widths=0.6, patch_artist=True, showfliers=False, whis=(5, 95),
        boxprops={"facecolor": DROPPED, "edgecolor": INK}, medianprops={"color": INK},
    )  # fmt: skip
    right.set(ylim=(0, 1), xlabel="models that solved it", ylabel="predicted solve rate")
    right.set_xticks(range(5), [f"{k}\n({len(group)})" for k, group in enumerate(groups)])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})
