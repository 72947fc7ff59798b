"""From what is known of problems to classes: fits to measured solve rates, and borders that the data give."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy

import evaluator
from curation.features import describe_program
from curation.grading import CalibrateParams, Known
from curation.mixture import family_name
from curation.offline import Lessons, Offline, Sketch, choose_penalty, fit, predict_unseen
from curation.problem import Problem
from curation.regression import Isotonic, find_borders, fit_isotonic, join_groups, wilson_interval
from curation.rubric import weigh

LABELS = ("easy", "medium", "hard")
Borders = tuple[float, float] | None


@dataclass(frozen=True)
class Lesson:
    """A problem that was attempted."""

    sketch: Sketch
    known: Known
    keys: tuple[str, ...]


class Scales:
    """Takes what is known of all problems, learns from the measured ones, and then judges."""

    def __init__(self, params: CalibrateParams, seed: int) -> None:
        """Nothing is learnt yet. `seed` draws lessons, where there are too many."""
        self._params = params
        self._seed = seed
        self._random = random.Random(seed)
        self._lessons: list[Lesson] = []
        self._came = 0
        self._rubric: tuple[Isotonic, Borders] | None = None
        self._statements: tuple[Offline, Borders] | None = None
        self._programs: tuple[Offline, Borders] | None = None

    def add(self, problem: Problem, known: Known) -> None:
        """Keep a measured problem to learn from. Where there are too many, each stays with the same chance."""
        if not known.tried:
            return
        self._came += 1
        place = len(self._lessons)
        if place >= self._params.most_learnt:
            place = self._random.randrange(self._came)
            if place >= self._params.most_learnt:
                return
            self._lessons[place] = _make_lesson(problem, known)
        else:
            self._lessons.append(_make_lesson(problem, known))

    def learn(self) -> None:
        """Fit what there are enough lessons for."""
        least = self._params.least_learnt
        if len(self._lessons) >= least:
            self._statements = self._learn_offline(self._lessons, programs=False)
        with_program = [one for one in self._lessons if one.sketch.program is not None]
        if len(with_program) >= least:
            self._programs = self._learn_offline(with_program, programs=True)
        predicted = [one for one in self._lessons if one.known.predictions]
        if len(predicted) >= least:
            scores = numpy.array([weigh(one.known.predictions) for one in predicted])
            solved, tried = _count(predicted)
            self._rubric = fit_isotonic(scores, solved, tried), find_borders(scores, solved, tried)

    def judge(self, problem: Problem, known: Known) -> dict[str, Any]:
        """The note of a problem: `class` is there where a way decides it."""
        note: dict[str, Any] = {}
        if known.tried:
            note["measured"] = {
                "solved": known.solved,
                "tried": known.tried,
                "interval": [round(end, 3) for end in wilson_interval(known.solved, known.tried)],
            }
        if known.predictions:
            note["rubric"] = {
                "predictions": [list(one) for one in known.predictions],
                "score": round(weigh(known.predictions), 3),
            }
        return {**note, **self._classify(problem, known)}

    def _classify(self, problem: Problem, known: Known) -> dict[str, Any]:
        borders: Borders
        if known.tried >= self._params.least_tried:
            way, score, borders = "measured", 0.0, None
            rate = known.solved / known.tried
        elif known.predictions and self._rubric is not None:
            scale, borders = self._rubric
            way, score = "rubric", weigh(known.predictions)
            rate = float(scale.predict(numpy.array([score]))[0])
        elif self._statements is not None:
            programs = self._programs is not None and describe_program(problem) is not None
            model, borders = self._programs if programs and self._programs is not None else self._statements
            way = "offline, statement and program" if programs else "offline, statement"
            rate = float(model.predict([Sketch.of(problem)])[0])
            score = 1 - rate
        else:
            return {}
        note: dict[str, Any] = {"way": way, "rate": round(rate, 3)}
        is_labelled = problem.difficulty in LABELS and self._params.offline == "unlabelled"
        if not (way.startswith("offline") and is_labelled):
            note = {"class": self._name_class(rate, score, borders), **note}
        if borders is not None:
            note["score"], note["borders"] = round(score, 3), [round(border, 3) for border in borders]
        return {**note, "holds_for": self._name_conditions()}

    def _name_class(self, rate: float, score: float, borders: Borders) -> str:
        """By the borders on the score; by the settings' rates where there are none."""
        if borders is not None:
            easy, hard = borders
            return "easy" if score < easy else "medium" if score < hard else "hard"
        return "easy" if rate >= self._params.easy_from else "hard" if rate <= self._params.hard_until else "medium"

    def _name_conditions(self) -> list[dict[str, str]]:
        """Which model, budget and evaluator a rate is about, whichever way it was found."""
        if self._params.endpoint is not None:
            judged = f"MicroCoder {evaluator.__version__}, the problem's own tests"
            return [{"model": self._params.endpoint.model, "budget": self._params.endpoint.budget, "evaluator": judged}]
        return [file.holds_for for file in self._params.attempts]

    def _learn_offline(self, lessons: Sequence[Lesson], *, programs: bool) -> tuple[Offline, Borders]:
        solved, tried = _count(lessons)
        groups = join_groups([one.keys for one in lessons])
        known = Lessons([one.sketch for one in lessons], solved, tried, groups)
        penalty = choose_penalty(known, programs=programs, seed=self._seed)
        model = fit(known, penalty, programs=programs)
        if len(set(groups)) < 2:
            return model, None
        # Borders on what the model says of problems that it hasn't learnt from, as those of the corpus are.
        unseen = predict_unseen(known, partial(fit, penalty=penalty, programs=programs), seed=self._seed)
        return model, find_borders(1 - unseen, solved, tried)


def _make_lesson(problem: Problem, known: Known) -> Lesson:
    dates = (f"date {problem.date}",) if problem.date else ()
    return Lesson(Sketch.of(problem), known, (*dates, f"family {family_name(problem)}"))


def _count(lessons: Sequence[Lesson]) -> tuple[numpy.typing.NDArray[numpy.float64], ...]:
    return (
        numpy.array([one.known.solved for one in lessons], float),
        numpy.array([one.known.tried for one in lessons], float),
    )
