"""Select: a mix of difficulties, in proportion over sources and topics, and a split by families. Drawn by a seed.

Easy problems are at most a part of what is selected (a fifth by default). Where there are too many of a class, each
stratum (source and first tag) gives in proportion to its size. Families, not problems, go to one side of the split.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import Field

from curation.identities import family_of
from curation.problem import Problem, read_problem, write_problem
from curation.shelf import Shelf
from curation.stage import Params, Stage

CLASSES = ("easy", "medium", "hard", "unknown")
MEASURED = ("margins",)
"""Notes that differ from build to build: not part of the corpus."""


class SelectParams(Params):
    """Settings of `select`."""

    at_most: dict[str, float] = Field(default={"easy": 0.2})
    """By class of difficulty, the greatest share of what is selected."""
    size: int | None = Field(None, ge=1)
    """Problems in all; None: as many as there are."""
    validation: float = Field(0.1, ge=0, lt=1)
    """Share of problems that are set apart, as whole families."""


class Select(Stage):
    """See the module. What is kept has the note `split`: `train` or `validation`."""

    name = "select"

    def __init__(self, params: SelectParams, seed: int) -> None:
        """Draw by this seed."""
        super().__init__()
        self._params = params
        self._seed = seed

    @property
    def params(self) -> dict[str, Any]:
        """The settings, and the seed."""
        return {**self._params.model_dump(mode="json"), "seed": self._seed}

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """All are read before the first is given: they wait on disk."""
        table = (
            "CREATE TABLE waiting (n INTEGER PRIMARY KEY, class TEXT, stratum TEXT, family TEXT, draw TEXT,"
            " chosen INTEGER DEFAULT 1, data BLOB)"
        )
        with Shelf(table) as shelf:
            columns = "(class, stratum, family, draw, data)"
            shelf.do_many(f"INSERT INTO waiting {columns} VALUES (?, ?, ?, ?, ?)", map(self._describe, problems))  # noqa: S608
            self._choose(shelf)
            validation = self._split(shelf)
            for n, family, chosen, data in shelf.do("SELECT n, family, chosen, data FROM waiting ORDER BY n"):
                problem = read_problem(json.loads(data), f"waiting problem {n}")
                if not chosen:
                    self.drop(problem, f"too many {class_of(problem)} problems")
                    continue
                split = "validation" if family in validation else "train"
                self.mark(split)
                yield problem.with_note("split", split)

    def _describe(self, problem: Problem) -> tuple[str, str, str, str, bytes]:
        stratum = f"{problem.source} {problem.tags[0] if problem.tags else ''}"
        return class_of(problem), stratum, family_name(problem), self._draw(problem.id), write_problem(problem)

    def _draw(self, text: str) -> str:
        """A number between 0 and 1, as text; the same for the same text and seed."""
        return hashlib.sha256(f"{self._seed} {text}".encode()).hexdigest()

    def _choose(self, shelf: Shelf) -> None:
        """Bound the classes, then the whole."""
        shares = self._params.at_most
        counts: dict[str, int] = dict(shelf.do("SELECT class, count(*) FROM waiting GROUP BY class"))
        free = sum(count for name, count in counts.items() if name not in shares)
        size = min(self._params.size or sum(counts.values()), sum(counts.values()))
        for name, most in bound_classes(counts, shares, free, size).items():
            self._keep(shelf, most, "class = ?", (name,))
        self._keep(shelf, size)

    def _keep(self, shelf: Shelf, count: int, condition: str = "1", values: tuple[str, ...] = ()) -> None:
        """Choose so many of those that meet a condition, each stratum in proportion."""
        place = "(row_number() OVER (PARTITION BY stratum ORDER BY draw) - 0.5) / count(*) OVER (PARTITION BY stratum)"
        ranked = f"SELECT n, draw, {place} AS place FROM waiting WHERE chosen AND {condition}"  # noqa: S608
        rest = f"SELECT n FROM ({ranked}) ORDER BY place, draw LIMIT -1 OFFSET {count:d}"  # noqa: S608 - our own text
        shelf.do(f"UPDATE waiting SET chosen = 0 WHERE n IN ({rest})", values)  # noqa: S608

    def _split(self, shelf: Shelf) -> set[str]:
        """Families for validation: in the order of their draws, while they fit. The least of several is taken whole."""
        rows = shelf.do("SELECT family, count(*) FROM waiting WHERE chosen GROUP BY family").fetchall()
        wanted = round(self._params.validation * sum(count for _, count in rows))
        taken: set[str] = set()
        total = 0
        for family, count in sorted(rows, key=lambda row: self._draw(row[0])):
            if total + count <= wanted:
                taken.add(family)
                total += count
        return taken


def bound_classes(counts: dict[str, int], shares: dict[str, float], free: int, size: int) -> dict[str, int]:
    """How many of each bounded class may be chosen, so that none is more than its share of the whole.

    The whole is at most `size`, and at most what the unbounded classes (`free` problems) allow: with f free problems
    and shares that sum to s, it is f / (1 - s). Where there is no free problem, there is nothing to mix with: no bound.
    """
    bounded = sum(shares.values())
    if not free:
        return {}
    whole = size if bounded >= 1 else min(size, int(free / (1 - bounded) + 1e-9))
    return {name: min(counts.get(name, 0), int(share * whole + 1e-9)) for name, share in shares.items()}


def class_of(problem: Problem) -> str:
    """What was calibrated, else what the source says."""
    calibrated = problem.notes.get("difficulty")
    name = calibrated.get("class") if isinstance(calibrated, dict) else None
    found = name or problem.difficulty
    return found if found in CLASSES else "unknown"


def family_name(problem: Problem) -> str:
    """What the duplicates stage found, else what the name says."""
    return str(problem.notes.get("family") or family_of(problem.identity) or problem.id)
