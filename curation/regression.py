"""Small statistics in numpy: logistic regression of counts, a monotone fit, ranks, borders of classes, intervals.

Counts are pairs of arrays: `solved` of `tried`, one a problem.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy
import numpy.typing

Numbers = numpy.typing.NDArray[numpy.float64]
Places = numpy.typing.NDArray[numpy.int64]

STEPS = 50
Z = 1.959964
"""Of the 95 % interval."""
CUTS = 60
"""Places that a border is looked for at."""


@dataclass(frozen=True)
class Logistic:
    """Weights, and the constant before them."""

    constant: float
    weights: Numbers

    def predict(self, features: Numbers) -> Numbers:
        """The rate of each row."""
        return _squash(self.constant + features @ self.weights)


def fit_logistic(features: Numbers, solved: Numbers, tried: Numbers, penalty: Numbers) -> Logistic:
    """The weights of the greatest binomial likelihood less a ridge, by Newton's steps.

    `features`: one row a problem; `penalty`: of each column, positive. The constant isn't penalised: where all or none
    was solved, half a success is set beside them, so that it stays finite.
    """
    rows = numpy.column_stack([numpy.ones(len(features)), features])
    ridge = numpy.concatenate([[1e-6], penalty])
    rate = (solved.sum() + 0.5) / (tried.sum() + 1)
    weights = numpy.zeros(rows.shape[1])
    weights[0] = math.log(rate / (1 - rate))
    for _ in range(STEPS):
        rates = _squash(rows @ weights)
        slope = rows.T @ (solved - tried * rates) - ridge * weights
        curve = (rows * (tried * rates * (1 - rates))[:, None]).T @ rows + numpy.diag(ridge)
        step = numpy.linalg.solve(curve, slope)
        weights = weights + step * min(1.0, 5.0 / max(float(numpy.abs(step).max()), 1e-12))
        if numpy.abs(step).max() < 1e-7:
            break
    return Logistic(float(weights[0]), weights[1:])


def _squash(values: Numbers) -> Numbers:
    clipped: Numbers = 1 / (1 + numpy.exp(-numpy.clip(values, -30, 30)))
    return clipped


@dataclass(frozen=True)
class Isotonic:
    """Rates that never rise with the score: steps, and straight lines between their middles."""

    scores: Numbers
    rates: Numbers

    def predict(self, scores: Numbers) -> Numbers:
        """The rate at each score; beyond the ends, that of the end."""
        found: Numbers = numpy.interp(scores, self.scores, self.rates)
        return found


def fit_isotonic(scores: Numbers, solved: Numbers, tried: Numbers) -> Isotonic:
    """The falling rates of the greatest binomial likelihood: neighbours that rise are pooled.

    Ayer et al., An empirical distribution function for sampling with incomplete information, Annals of Mathematical
    Statistics 26 (1955), 641–647.
    """
    blocks: list[tuple[float, float, float]] = []  # sum of score × tried, solved, tried
    for value in numpy.unique(scores):
        same = scores == value
        block = (float(value * tried[same].sum()), float(solved[same].sum()), float(tried[same].sum()))
        while blocks and blocks[-1][1] / blocks[-1][2] <= block[1] / block[2]:
            before = blocks.pop()
            block = (before[0] + block[0], before[1] + block[1], before[2] + block[2])
        blocks.append(block)
    places = numpy.array([total / weight for total, _, weight in blocks])
    return Isotonic(places, numpy.array([right / weight for _, right, weight in blocks]))


def find_borders(scores: Numbers, solved: Numbers, tried: Numbers, least: float = 0.1) -> tuple[float, float] | None:
    """Two scores that part easy, medium and hard, found by the data; higher scores are harder.

    They are those under which three classes, each with one rate, are likeliest, the rates falling from class to class
    and each class holding at least the share `least`. None where no two borders are like that.
    """
    order = numpy.argsort(scores, kind="stable")
    ordered = scores[order]
    right = numpy.concatenate([[0.0], numpy.cumsum(solved[order])])
    all = numpy.concatenate([[0.0], numpy.cumsum(tried[order])])
    room = max(1, math.ceil(least * len(scores)))
    starts = numpy.flatnonzero(numpy.diff(ordered) > 0) + 1
    starts = starts[(starts >= room) & (starts <= len(scores) - room)]
    starts = starts[numpy.unique(numpy.linspace(0, len(starts) - 1, CUTS).astype(int))] if len(starts) else starts
    best, found = -math.inf, None
    for number, low in enumerate(starts):
        for high in starts[number + 1 :]:
            edges = [0, low, high, len(scores)]
            parts = [(right[end] - right[start], all[end] - all[start]) for start, end in pairwise(edges)]
            rates = [k / n for k, n in parts]
            if high - low < room or not rates[0] > rates[1] > rates[2]:
                continue
            likelihood = sum(_log_likelihood(k, n) for k, n in parts)
            if likelihood > best:
                best = likelihood
                found = (float(ordered[low - 1 : low + 1].mean()), float(ordered[high - 1 : high + 1].mean()))
    return found


def _log_likelihood(right: float, all: float) -> float:
    return sum(part * math.log(part / all) for part in (right, all - right) if part > 0)


def measure_likelihood(rates: Numbers, solved: Numbers, tried: Numbers) -> float:
    """The logarithm of the likelihood of the counts under these rates, constants left out."""
    bounded = numpy.clip(rates, 1e-6, 1 - 1e-6)
    return float((solved * numpy.log(bounded) + (tried - solved) * numpy.log(1 - bounded)).sum())


def wilson_interval(solved: float, tried: float) -> tuple[float, float]:
    """The 95 % interval of a rate, which holds for few attempts as well.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927), 209–212.
    """
    if tried <= 0:
        return 0.0, 1.0
    rate, scale = solved / tried, 1 + Z * Z / tried
    centre = rate + Z * Z / (2 * tried)
    width = Z * math.sqrt(rate * (1 - rate) / tried + Z * Z / (4 * tried * tried))
    low = 0.0 if solved == 0 else (centre - width) / scale
    high = 1.0 if solved == tried else (centre + width) / scale
    return low, high


def rank(values: Numbers) -> Numbers:
    """Ranks from 1; what is equal has the mean of its ranks."""
    _, places, counts = numpy.unique(values, return_inverse=True, return_counts=True)
    last = numpy.cumsum(counts)
    ranks: Numbers = (last - (counts - 1) / 2)[places]
    return ranks


def correlate_ranks(one: Numbers, other: Numbers) -> float:
    """Spearman's coefficient; NaN where one of them doesn't vary."""
    left, right = rank(one), rank(other)
    left, right = left - left.mean(), right - right.mean()
    size = math.sqrt(float(left @ left) * float(right @ right))
    return float(left @ right) / size if size else math.nan


def measure_auc(scores: Numbers, positive: numpy.typing.NDArray[numpy.bool_]) -> float:
    """The chance that a positive scores higher than another, ties counted half; NaN where one kind is missing."""
    many, few = int(positive.sum()), int((~positive).sum())
    if not many or not few:
        return math.nan
    return float((rank(scores)[positive].sum() - many * (many + 1) / 2) / (many * few))


def join_groups(keys: Sequence[Sequence[str]]) -> list[str]:
    """A group for each problem: those that share a key, directly or through others, are in one."""
    parents: dict[str, str] = {}

    def find(key: str) -> str:
        while (parent := parents.setdefault(key, key)) != key:
            parents[key] = key = parents[parent]
        return key

    for first, *others in keys:
        for other in others:
            parents[find(other)] = find(first)
    return [find(first) for first, *_ in keys]


def split_groups(groups: Sequence[str], folds: int, seed: int) -> Places:
    """A fold for each problem, so that a group is in one: the largest groups first, each into the smallest fold."""
    names, places = numpy.unique(numpy.array(groups), return_inverse=True)
    sizes = numpy.bincount(places)
    order = numpy.random.default_rng(seed).permutation(len(names))
    fold_of, filled = numpy.zeros(len(names), int), numpy.zeros(folds)
    for name in sorted(order, key=lambda one: -sizes[one]):
        fold_of[name] = int(filled.argmin())
        filled[fold_of[name]] += sizes[name]
    found: Places = fold_of[places]
    return found


def predict_across(folds: Places, learn: Callable[[Places], Callable[[Places], Numbers]]) -> Numbers:
    """Predictions for each problem by a model that hasn't seen its fold. `learn` takes and gives problems' places."""
    found = numpy.empty(len(folds))
    for fold in numpy.unique(folds):
        inside = numpy.flatnonzero(folds == fold)
        found[inside] = learn(numpy.flatnonzero(folds != fold))(inside)
    return found
