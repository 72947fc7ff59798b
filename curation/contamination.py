"""Contamination: problems that are in a benchmark, under whatever words. They are held out, not trained on.

Rules, in this order; the first that applies gives the reason:

- identity: the same slug, number or title as a problem of the benchmark, on the same site;
- tests: most of the telling tests of the smaller suite are the other's too;
- n-gram: the share of the problem's 16-word runs that one benchmark problem has is above 0.22 (MicroCoder's rule);
- short text: a text of fewer than 60 words has too few such runs: half of the five-word runs of the shorter text;
- sibling: tests, n-gram or short text applies, but the names say that it is another number of the same theme ("… II"):
  another problem, with nearly the same statement and often the same examples. Held out by default; `siblings: keep`
  keeps it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from curation.identities import are_siblings, iterate_keys, iterate_questions
from curation.problem import Problem
from curation.readers.origins import Unreadable
from curation.recipe import Recipe, SourceIn
from curation.shingles import hash_grams, hash_tests, split_words
from curation.sources import digest_source, iterate_source
from curation.stage import Params, Stage

RULES = ("identity", "tests", "n-gram", "short text", "sibling")


class ContaminationParams(Params):
    """Settings of `contamination`."""

    words: int = Field(16, ge=2)
    overlap: float = Field(0.22, ge=0, le=1)
    """A problem with a greater share of its runs of words in one benchmark problem is held out."""
    short: int = Field(60, ge=0)
    """Words below which a text is short."""
    short_words: int = Field(5, ge=2)
    short_overlap: float = Field(0.5, ge=0, le=1)
    tests: float = Field(0.5, gt=0, le=1)
    least_tests: int = Field(2, ge=1)
    siblings: Literal["hold out", "keep"] = "hold out"


@dataclass(frozen=True)
class Overlap:
    """What a problem has in common with a problem of a benchmark. `score` is 1 for identity."""

    rule: str
    benchmark: str
    id: str
    score: float
    key: str = ""
    """Of identity: slug, id or title. Of siblings: the rule that found them alike."""


class Held:
    """The problems of benchmarks, indexed: numbers for texts and tests, keys for names."""

    def __init__(self, params: ContaminationParams) -> None:
        """Begin empty."""
        self._params = params
        self._names: dict[str, int] = {}
        self._grams: dict[int, list[int]] = defaultdict(list)
        self._short_grams: dict[int, list[int]] = defaultdict(list)
        self._tests: dict[int, list[int]] = defaultdict(list)
        self._kept: list[tuple[str, Problem]] = []
        self._sizes: list[tuple[int, int]] = []
        """Of each: five-word runs, telling tests."""

    def __len__(self) -> int:
        """How many problems are held out."""
        return len(self._kept)

    def add(self, benchmark: str, problem: Problem) -> None:
        """Hold out a problem. Only its names and numbers are kept."""
        place = len(self._kept)
        for _, key in iterate_keys(problem.identity):
            self._names.setdefault(key, place)
        words = split_words(problem.statement)
        short_grams, tests = hash_grams(words, self._params.short_words), hash_tests(problem.suite)
        for index, keys in (
            (self._grams, hash_grams(words, self._params.words)),
            (self._short_grams, short_grams),
            (self._tests, tests),
        ):
            for number in keys:
                index[number].append(place)
        stub = Problem(problem.id, "", problem.suite.__class__("", ()), problem.source, problem.identity)
        self._kept.append((benchmark, stub))
        self._sizes.append((len(short_grams), len(tests)))

    def find(self, problem: Problem) -> list[Overlap]:
        """The strongest overlap by each rule that applies, in the rules' order."""
        words = split_words(problem.statement)
        text = self._find_short_text(words) if len(words) < self._params.short else self._find_text(words)
        name = self._find_name(problem)
        found = [] if name is None else [name]
        for place, overlap in filter(None, (self._find_tests(problem), text)):
            siblings = are_siblings(problem.identity, self._kept[place][1].identity)
            found.append(replace(overlap, rule="sibling", key=overlap.rule) if siblings else overlap)
        return found

    def measure(self, problem: Problem) -> float:
        """The greatest share of the problem's long runs of words in one benchmark problem, whatever the thresholds."""
        grams = hash_grams(split_words(problem.statement), self._params.words)
        shared = _count(grams, self._grams)
        return max(shared.values(), default=0) / max(1, len(grams))

    def _find_name(self, problem: Problem) -> Overlap | None:
        for rule, key in iterate_questions(problem.identity):
            if (place := self._names.get(key)) is not None:
                return self._make(place, "identity", 1.0, rule)
        return None

    def _find_tests(self, problem: Problem) -> tuple[int, Overlap] | None:
        tests = hash_tests(problem.suite)
        best: tuple[float, int] | None = None
        for place, count in _count(tests, self._tests).items():
            share = count / min(len(tests), self._sizes[place][1])
            if count >= self._params.least_tests and share >= self._params.tests and (best is None or share > best[0]):
                best = (share, place)
        return None if best is None else (best[1], self._make(best[1], "tests", best[0]))

    def _find_text(self, words: list[str]) -> tuple[int, Overlap] | None:
        grams = hash_grams(words, self._params.words)
        shared = _count(grams, self._grams)
        place = max(shared, key=lambda one: (shared[one], -one), default=None)
        if place is None or shared[place] / len(grams) <= self._params.overlap:
            return None
        return place, self._make(place, "n-gram", shared[place] / len(grams))

    def _find_short_text(self, words: list[str]) -> tuple[int, Overlap] | None:
        grams = hash_grams(words, self._params.short_words)
        best: tuple[float, int] | None = None
        for place, count in _count(grams, self._short_grams).items():
            share = count / max(1, min(len(grams), self._sizes[place][0]))
            if share >= self._params.short_overlap and (best is None or share > best[0]):
                best = (share, place)
        return None if best is None else (best[1], self._make(best[1], "short text", best[0]))

    def _make(self, place: int, rule: str, score: float, key: str = "") -> Overlap:
        benchmark, problem = self._kept[place]
        return Overlap(rule, benchmark, problem.id, score, key)


def _count(keys: frozenset[int], index: dict[int, list[int]]) -> dict[int, int]:
    shared: Counter[int] = Counter()
    for key in keys:
        shared.update(index.get(key, ()))
    return dict(sorted(shared.items()))


class Contamination(Stage):
    """See the module."""

    name = "contamination"

    def __init__(self, params: ContaminationParams, recipe: Recipe, base: Path) -> None:
        """Hold out the recipe's benchmarks.

        Raises:
            BadRecipe: a benchmark's files aren't there.
        """
        super().__init__()
        self._params = params
        self._benchmarks = recipe.hold_out
        self._base = base
        self._digests = [digest_source(source, base) for source in recipe.hold_out]

    @property
    def params(self) -> dict[str, Any]:
        """The settings, and the benchmarks with the bytes of their files."""
        held = [
            {**source.model_dump(mode="json"), "digest": digest}
            for source, digest in zip(self._benchmarks, self._digests, strict=True)
        ]
        return {**self._params.model_dump(mode="json"), "hold_out": held}

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Each problem against all of the benchmarks'."""
        held = read_benchmarks(self._benchmarks, self._base, self._params)
        for problem in problems:
            found = held.find(problem)
            if not found:
                yield problem
            elif {one.rule for one in found} == {"sibling"} and self._params.siblings == "keep":
                self.mark(f"sibling in {found[0].benchmark}")
                yield problem.with_note("sibling_of", f"{found[0].benchmark}: {found[0].id}")
            else:
                first = found[0]
                self.mark(f"{first.rule}: {first.benchmark}")
                by = f" by {first.key}" if first.key else ""
                self.drop(problem, f"in a benchmark ({first.rule})", f"{first.id}{by} ({first.score:.2f})")


def read_benchmarks(benchmarks: Iterable[SourceIn], base: Path, params: ContaminationParams) -> Held:
    """All problems of these benchmarks, indexed. A row that can't be read can't be held out and is passed over."""
    held = Held(params)
    for source in benchmarks:
        for item in iterate_source(source, base):
            if not isinstance(item, Unreadable):
                held.add(source.name, item)
    return held
