"""Duplicates: the same problem more than once, under the same name, in the same words, in nearly the same, or reworded.

The first one stays, so the order of the sources says which. Four rules, in this order:

- identity: the same slug or number on the same site;
- text: the same words;
- tests: most of their telling tests are the same, whatever the statements say (this finds reworded copies);
- near text: the share of common three-word shingles, as MinHash estimates it.

Numbered siblings ("… I", "… II") are alike in text and aren't duplicates; they, and texts that are half alike, get one
family, so that they don't end up on both sides of a split. What must be remembered lies on disk.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
from datasketch import MinHash, MinHashLSH
from pydantic import Field

from curation.identities import are_siblings, family_of, iterate_keys
from curation.problem import Identity, Problem
from curation.shelf import Shelf
from curation.shingles import hash_grams, hash_tests, hash_text, split_words
from curation.stage import Params, Stage

PERMUTATIONS = 128
SHINGLE_WORDS = 3
COMMON = 64
"""A test or a band that more problems share than this says nothing, and isn't looked at."""


class DuplicatesParams(Params):
    """Settings of `duplicates`."""

    near: float = Field(0.7, gt=0, le=1)
    """Share of common shingles from which two texts are one problem."""
    family: float = Field(0.5, gt=0, le=1)
    """Share from which two problems are one family."""
    tests: float = Field(0.6, gt=0, le=1)
    """Share of the telling tests of the smaller suite."""
    least_tests: int = Field(2, ge=1)
    """Telling tests that must be shared."""


@dataclass(frozen=True)
class Twin:
    """An earlier problem that this one resembles."""

    rule: str
    id: str
    family: str
    score: float
    siblings: bool = False


class Duplicates(Stage):
    """See the module."""

    name = "duplicates"

    def __init__(self, params: DuplicatesParams, seed: int) -> None:
        """Compare by these settings; `seed` draws the permutations."""
        super().__init__()
        self._params = params
        self._seed = seed

    @property
    def params(self) -> dict[str, Any]:
        """The settings."""
        return {**self._params.model_dump(mode="json"), "seed": self._seed}

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Each problem against all that were kept before it."""
        with Library(self._params, self._seed) as library:
            for problem in problems:
                marks = library.describe(problem)
                twin = library.find_twin(marks)
                if twin is not None and not twin.siblings and twin.rule != "family":
                    self.drop(problem, f"duplicate by {twin.rule}", f"{twin.id} ({twin.score:.2f})")
                    continue
                family = twin.family if twin is not None else family_of(problem.identity) or problem.id
                if twin is not None:
                    self.mark("sibling of another" if twin.siblings else "family of another by text")
                library.add(marks, family)
                yield problem.with_note("family", family)


@dataclass(frozen=True)
class Marks:
    """What problems are compared by."""

    problem: Problem
    words: int
    text: int
    signature: MinHash
    tests: frozenset[int]


class Library:
    """The problems that were kept, by their marks."""

    def __init__(self, params: DuplicatesParams, seed: int) -> None:
        """Begin empty."""
        self._params = params
        self._empty = MinHash(num_perm=PERMUTATIONS, seed=seed)
        # Only the numbers of bands and rows that suit the threshold are taken; the tables are on the shelf.
        plan = MinHashLSH(threshold=params.family, num_perm=PERMUTATIONS)
        self._bands, self._rows = plan.b, plan.r
        self._shelf = Shelf(
            "CREATE TABLE kept (n INTEGER PRIMARY KEY, id TEXT, family TEXT, site TEXT, slug TEXT, title TEXT,"
            " text INTEGER, tests INTEGER, signature BLOB)",
            "CREATE TABLE names (key TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID",
            "CREATE TABLE texts (key INTEGER PRIMARY KEY, n INTEGER)",
            "CREATE TABLE tests (key INTEGER, n INTEGER, PRIMARY KEY (key, n)) WITHOUT ROWID",
            "CREATE TABLE bands (key INTEGER, n INTEGER, PRIMARY KEY (key, n)) WITHOUT ROWID",
        )
        self._count = 0

    def __enter__(self) -> "Library":
        """The library itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Throw it away."""
        self._shelf.close()

    def describe(self, problem: Problem) -> Marks:
        """The marks of a problem."""
        words = split_words(problem.statement)
        signature = self._empty.copy()
        signature.update_batch([gram.to_bytes(8, signed=True) for gram in hash_grams(words, SHINGLE_WORDS)])
        return Marks(problem, len(words), hash_text(" ".join(words)), signature, hash_tests(problem.suite))

    def find_twin(self, marks: Marks) -> Twin | None:
        """The earlier problem that it is, or that it is related to."""
        identity = marks.problem.identity
        for rule, key in iterate_keys(identity):
            if rule in ("slug", "id") and (found := self._look_up("names", key)) is not None:
                return self._make_twin(found, "identity", 1.0, identity)
        if marks.words and (found := self._look_up("texts", marks.text)) is not None:
            return self._make_twin(found, "text", 1.0, identity)
        return self._find_by_tests(marks) or self._find_by_text(marks)

    def add(self, marks: Marks, family: str) -> None:
        """Remember it."""
        self._count += 1
        n, problem = self._count, marks.problem
        identity = problem.identity
        blob = marks.signature.hashvalues.astype(numpy.uint64).tobytes()
        names = (identity.site, identity.slug, identity.title)
        self._shelf.do(
            "INSERT INTO kept VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (n, problem.id, family, *names, marks.text, len(marks.tests), blob),
        )
        keys = [(key, n) for rule, key in iterate_keys(identity) if rule in ("slug", "id")]
        self._shelf.do_many("INSERT OR IGNORE INTO names VALUES (?, ?)", keys)
        if marks.words:
            self._shelf.do("INSERT OR IGNORE INTO texts VALUES (?, ?)", (marks.text, n))
            self._shelf.do_many("INSERT OR IGNORE INTO bands VALUES (?, ?)", [(key, n) for key in self._cut(marks)])
        self._shelf.do_many("INSERT OR IGNORE INTO tests VALUES (?, ?)", [(key, n) for key in sorted(marks.tests)])

    def _cut(self, marks: Marks) -> list[int]:
        """A number for each band of the signature."""
        values = marks.signature.hashvalues
        rows = self._rows
        return [hash_text(f"{band}:{values[band * rows : band * rows + rows].tolist()}") for band in range(self._bands)]

    def _find_by_tests(self, marks: Marks) -> Twin | None:
        shared: Counter[int] = Counter()
        for key in marks.tests:
            rows = self._shelf.do("SELECT n FROM tests WHERE key = ? LIMIT ?", (key, COMMON + 1)).fetchall()
            if len(rows) <= COMMON:
                shared.update(n for (n,) in rows)
        best: tuple[float, int] | None = None
        for n, count in shared.items():
            (size,) = self._shelf.do("SELECT tests FROM kept WHERE n = ?", (n,)).fetchone()
            share = count / min(size, len(marks.tests))
            if count >= self._params.least_tests and share >= self._params.tests:
                best = max(best, (share, -n)) if best is not None else (share, -n)
        return None if best is None else self._make_twin(-best[1], "tests", best[0], marks.problem.identity)

    def _find_by_text(self, marks: Marks) -> Twin | None:
        """The text that shares most; above a lower threshold it is family."""
        if not marks.words:
            return None
        candidates: set[int] = set()
        for key in self._cut(marks):
            rows = self._shelf.do("SELECT n FROM bands WHERE key = ? LIMIT ?", (key, COMMON)).fetchall()
            candidates.update(n for (n,) in rows)
        best: tuple[float, int] | None = None
        for n in sorted(candidates):
            (blob,) = self._shelf.do("SELECT signature FROM kept WHERE n = ?", (n,)).fetchone()
            share = float(numpy.mean(numpy.frombuffer(blob, numpy.uint64) == marks.signature.hashvalues))
            if share >= self._params.family and (best is None or share > best[0]):
                best = (share, n)
        if best is None:
            return None
        rule = "near text" if best[0] >= self._params.near else "family"
        return self._make_twin(best[1], rule, best[0], marks.problem.identity)

    def _look_up(self, table: str, key: object) -> int | None:
        row = self._shelf.do(f"SELECT n FROM {table} WHERE key = ?", (key,)).fetchone()  # noqa: S608 - our own names
        return None if row is None else int(row[0])

    def _make_twin(self, n: int, rule: str, score: float, identity: Identity) -> Twin:
        id, family, site, slug, title = self._shelf.do(
            "SELECT id, family, site, slug, title FROM kept WHERE n = ?", (n,)
        ).fetchone()
        siblings = rule != "identity" and are_siblings(identity, Identity(site, slug, "", title))
        return Twin(rule, id, family, score, siblings)
