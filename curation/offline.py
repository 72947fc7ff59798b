"""A guess at the solve rate from texts alone: no model is asked.

A logistic regression over the features of `features.py` and the words of the description. What it has learnt it has
learnt from problems whose solve rates are known, and so it holds for what those hold for.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy

from curation.features import describe_program, describe_statement, list_words
from curation.problem import Problem
from curation.regression import (
    Logistic,
    Numbers,
    Places,
    fit_logistic,
    measure_likelihood,
    predict_across,
    split_groups,
)

MOST_WORDS = 1000
FEATURE_PENALTY = 10.0
"""Ridge on standardised features."""
WORD_PENALTIES = (30.0, 100.0, 300.0)
"""Ridges on words, which are 0 or 1: larger ones learn less. Which one is chosen by cross-validation."""
FOLDS = 5


@dataclass(frozen=True)
class Sketch:
    """What is kept of a problem's texts."""

    statement: Numbers
    words: frozenset[str]
    program: Numbers | None

    @classmethod
    def of(cls, problem: Problem) -> "Sketch":
        """Read a problem."""
        return cls(describe_statement(problem), list_words(problem), describe_program(problem))


@dataclass(frozen=True)
class Lessons:
    """Problems whose solve rates are known, and the groups (contests, families) that mustn't be torn apart."""

    sketches: Sequence[Sketch]
    solved: Numbers
    tried: Numbers
    groups: Sequence[str]

    def at(self, places: Places) -> "Lessons":
        """Some of them."""
        return Lessons(
            [self.sketches[place] for place in places],
            self.solved[places],
            self.tried[places],
            [self.groups[place] for place in places],
        )


@dataclass(frozen=True)
class Offline:
    """A model that has learnt. `programs`: whether it reads the references too."""

    vocabulary: tuple[str, ...]
    mean: Numbers
    spread: Numbers
    model: Logistic
    programs: bool

    def predict(self, sketches: Sequence[Sketch]) -> Numbers:
        """The solve rate of each."""
        return self.model.predict((_table(sketches, self.vocabulary, self.programs) - self.mean) / self.spread)


def learn(lessons: Lessons, *, programs: bool = False, seed: int = 1) -> Offline:
    """A model, its penalty chosen by cross-validation. With `programs`, each sketch must have one."""
    return fit(lessons, choose_penalty(lessons, programs=programs, seed=seed), programs=programs)


def choose_penalty(lessons: Lessons, *, programs: bool = False, seed: int = 1) -> float:
    """The penalty on words under which what isn't learnt from is likeliest."""
    if len(set(lessons.groups)) < FOLDS:
        return max(WORD_PENALTIES)
    likelihoods = {}
    for penalty in WORD_PENALTIES:
        rates = predict_unseen(lessons, partial(fit, penalty=penalty, programs=programs), seed=seed)
        likelihoods[penalty] = measure_likelihood(rates, lessons.solved, lessons.tried)
    return max(likelihoods, key=lambda penalty: likelihoods[penalty])


def predict_unseen(
    lessons: Lessons, teach: Callable[[Lessons], Offline], *, folds: int = FOLDS, seed: int = 1
) -> Numbers:
    """The solve rate of each problem, by a model that has seen nothing of its group."""

    def learn_from(known: Places) -> Callable[[Places], Numbers]:
        model = teach(lessons.at(known))
        return lambda others: model.predict(lessons.at(others).sketches)

    return predict_across(split_groups(lessons.groups, folds, seed), learn_from)


def fit(lessons: Lessons, penalty: float, *, programs: bool = False) -> Offline:
    """A model with this penalty on words."""
    sketches = lessons.sketches
    vocabulary = _choose_words(sketches)
    rows = _table(sketches, vocabulary, programs)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread == 0] = 1.0
    features = rows.shape[1] - len(vocabulary)
    spread[features:] = 1.0  # a rare word would weigh as much as a common one
    penalties = numpy.array([FEATURE_PENALTY] * features + [penalty] * len(vocabulary))
    model = fit_logistic((rows - mean) / spread, lessons.solved, lessons.tried, penalties)
    return Offline(vocabulary, mean, spread, model, programs)


def _choose_words(sketches: Sequence[Sketch]) -> tuple[str, ...]:
    """Words that neither few nor nearly all descriptions have."""
    counts = Counter(word for sketch in sketches for word in sketch.words)
    least, most = max(3, math.ceil(0.015 * len(sketches))), 0.9 * len(sketches)
    common = sorted(word for word in counts if least <= counts[word] <= most)
    return tuple(sorted(common, key=lambda word: -counts[word])[:MOST_WORDS])


def _table(sketches: Sequence[Sketch], vocabulary: Sequence[str], programs: bool) -> Numbers:
    places = {word: place for place, word in enumerate(vocabulary)}
    words = numpy.zeros((len(sketches), len(vocabulary)))
    for number, sketch in enumerate(sketches):
        words[number, [places[word] for word in sketch.words if word in places]] = 1.0
    parts = [numpy.array([sketch.statement for sketch in sketches])]
    if programs:
        parts.append(numpy.array([sketch.program for sketch in sketches]))
    return numpy.column_stack([*parts, words])
