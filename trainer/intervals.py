"""Intervals: of a mean over a few seeds, and of a share by bootstrap over problems."""

import math
import random
import statistics
from collections.abc import Callable, Sequence

# 97.5 % quantiles of Student's t, by degrees of freedom; from 20 on the normal one is near enough for a plot.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093),
)
Interval = tuple[float, float, float]
"""Estimate, lower and upper end (95 %)."""


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of independent runs, and Student's interval; NaN for one run alone.

    Runs without a value, NaN, don't count.
    """
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return math.nan, math.nan, math.nan
    middle, freedom = statistics.fmean(values), len(values) - 1
    if freedom < 1:
        return middle, math.nan, math.nan
    quantile = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else 1.96
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return middle, middle - half, middle + half


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 0, rounds: int = 2000, of: Callable[[Sequence[float]], float] | None = None
) -> Interval:
    """A statistic of per-problem values (the mean, by default) and its percentile interval when problems are redrawn.

    For a paired comparison pass the differences, problem by problem.
    """
    measure, chance = of or statistics.fmean, random.Random(seed)
    found = sorted(measure(chance.choices(values, k=len(values))) for _ in range(rounds))
    return measure(values), found[int(0.025 * rounds)], found[int(0.975 * rounds)]
