"""pass@k, with intervals.

The estimator is the unbiased one (Chen et al., 2021): the chance that k of n generations, drawn without replacement,
hold a right one. Intervals are percentile bootstraps over problems, since the generations of one problem depend on
each other; the random numbers have a fixed seed, so that the same verdicts give the same interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy
import numpy.typing

RESAMPLES = 10_000
LEVEL = 0.95
SEED = 20_240_101
_ROWS = 500
"""Resamples drawn at once: bounds the memory."""


@dataclass(frozen=True)
class Estimate:
    """A mean over `count` problems, and the interval around it."""

    value: float
    low: float
    high: float
    count: int


def pass_at_k(total: int, right: int, k: int) -> float:
    """The chance that k of `total` generations hold one of the `right` ones.

    Raises:
        ValueError: there are fewer than k.
    """
    if not 1 <= k <= total:
        raise ValueError(f"pass@{k} of {total} generations isn't defined.")
    if total - right < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / count for count in range(total - right + 1, total + 1))


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of values, one a problem, and its interval. NaN where there are none."""
    if not values:
        return Estimate(math.nan, math.nan, math.nan, 0)
    means = _resample(numpy.asarray(values, dtype=float))
    low, high = numpy.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(numpy.mean(values)), float(low), float(high), len(values))


def estimate_difference(left: Mapping[str, float], right: Mapping[str, float]) -> Estimate:
    """The mean of right − left over the problems that both have: paired, so what a problem is worth cancels out."""
    return estimate([right[id] - left[id] for id in sorted(left.keys() & right.keys())])


Values = numpy.typing.NDArray[numpy.float64]


def _resample(values: Values) -> Values:
    generator = numpy.random.default_rng(SEED)
    means = [
        values[generator.integers(0, len(values), size=(_ROWS, len(values)))].mean(axis=1)
        for _ in range(RESAMPLES // _ROWS)
    ]
    return numpy.concatenate(means)
