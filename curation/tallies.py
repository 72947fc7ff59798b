"""What a data card counts in the corpus, in one pass."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from curation.exports import fits_trainers
from curation.mixture import CLASSES, class_of
from curation.problem import Problem

TEST_BORDERS = (1, 2, 3, 5, 8, 12, 15, 30, 100)
DATE_UNKNOWN = "no date"


@dataclass
class Tally:
    """Counts over the problems of a corpus."""

    total: int = 0
    splits: Counter[str] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    sources: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By (source, licence)."""
    kinds: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    years: Counter[str] = field(default_factory=Counter)
    tests: Counter[str] = field(default_factory=Counter)
    """By class of the number of tests."""
    strengths: Counter[str] = field(default_factory=Counter)
    """By class of the mutation score, where one is noted."""
    rates: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """Solve rates that are noted, by (class of difficulty, way)."""
    conditions: set[str] = field(default_factory=set)
    """What these rates hold for."""
    checkers: int = 0
    policies: int = 0
    for_trainers: int = 0
    attributions: dict[str, set[str]] = field(default_factory=dict)

    def add(self, problem: Problem) -> None:
        """Count a problem."""
        self.total += 1
        self.splits[str(problem.notes.get("split", "train"))] += 1
        self.classes[class_of(problem)] += 1
        self.sources[problem.source, problem.licence] += 1
        self.kinds[str(problem.kind)] += 1
        self.tags.update(problem.tags)
        self.years[(problem.date or DATE_UNKNOWN)[:4] if problem.date else DATE_UNKNOWN] += 1
        self.tests[class_of_tests(len(problem.suite.tests))] += 1
        if isinstance(mutation := problem.notes.get("mutation"), dict):
            self.strengths[class_of_score(mutation.get("score_after" if "added" in mutation else "score"))] += 1
        if isinstance(noted := problem.notes.get("difficulty"), dict) and "rate" in noted:
            self.rates.setdefault((class_of(problem), noted["way"]), []).append(noted["rate"])
            self.conditions.update(map(_name_conditions, noted["holds_for"]))
        self.checkers += problem.suite.checker is not None
        self.policies += bool(problem.policy)
        self.for_trainers += fits_trainers(problem)
        if problem.attribution:
            self.attributions.setdefault(problem.source, set()).add(problem.attribution)

    def ordered_classes(self) -> dict[str, int]:
        """Problems by class of difficulty, the easiest first."""
        return {name: self.classes[name] for name in CLASSES if self.classes[name]}

    def ordered_tests(self) -> dict[str, int]:
        """Problems by number of tests, the fewest first."""
        names = [class_of_tests(border) for border in TEST_BORDERS] + [class_of_tests(TEST_BORDERS[-1] + 1)]
        return {name: self.tests[name] for name in dict.fromkeys(names) if self.tests[name]}


def _name_conditions(one: dict[str, str]) -> str:
    return f"{one['model']} ({one['budget']}; judged by {one['evaluator']})"


def class_of_score(score: float | None) -> str:
    """The class that a mutation score is in."""
    if score is None:
        return "not known"
    return (
        "all" if score == 1 else next((f"more than {one:g}" for one in (0.9, 0.75, 0.5) if score > one), "0.5 or less")
    )


def class_of_tests(count: int) -> str:
    """The class that a number of tests is in: `1`, `2`, `3`, `4–5` …"""
    for before, border in zip((0, *TEST_BORDERS), TEST_BORDERS, strict=False):
        if count <= border:
            return str(border) if border == before + 1 else f"{before + 1}–{border}"
    return f"more than {TEST_BORDERS[-1]}"


def count_all(problems: Iterable[Problem]) -> Tally:
    """The tally of a corpus."""
    tally = Tally()
    for problem in problems:
        tally.add(problem)
    return tally
