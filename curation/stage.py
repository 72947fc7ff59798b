"""What a stage is: problems in, problems out, and an account of what happened to the others.

A stage is an object with a name and settings whose `run` takes problems and yields problems, one at a time. It holds
back nothing that grows with the corpus (what must be remembered lies on disk, see `shelf.py`). Whatever isn't yielded
is dropped with a reason, so that came = kept + dropped, always. To add one: subclass `Stage`, give it a settings model,
and name it in `registry.py`.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

import evaluator
from curation.problem import Problem

Drop = Callable[[Problem | None, str, str], None]
"""Told of what was dropped (None: a row that made no problem), the reason and the detail."""


SHOWING = ("build", "card", "charts", "exports", "manifest", "tallies")
"""Modules that come after the stages: a change of them repeats no stage."""


@cache
def digest_code() -> str:
    """Of the evaluator's version and of every module here that a stage may use: what older code made is made again."""
    whole = hashlib.sha256(evaluator.__version__.encode())
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.stem not in SHOWING:
            whole.update(f"{path.relative_to(folder)}:{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


class Params(BaseModel):
    """Settings of a stage as a recipe gives them. Unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


P = TypeVar("P", bound=Params)


@dataclass
class Ledger:
    """What a stage did, counted."""

    came: Counter[str] = field(default_factory=Counter)
    """Problems by source."""
    kept: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By (reason, source)."""
    marked: Counter[str] = field(default_factory=Counter)
    """Problems that were changed or marked, by what was done."""

    def reasons(self) -> dict[str, int]:
        """Dropped problems by reason, most first."""
        sums: Counter[str] = Counter()
        for (reason, _), count in self.dropped.items():
            sums[reason] += count
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def document(self) -> dict[str, Any]:
        """As JSON; the same counts give the same text."""
        dropped: dict[str, dict[str, int]] = {}
        for (reason, source), count in sorted(self.dropped.items()):
            dropped.setdefault(reason, {})[source] = count
        return {
            "came": dict(sorted(self.came.items())),
            "kept": dict(sorted(self.kept.items())),
            "dropped": dropped,
            "marked": dict(sorted(self.marked.items())),
        }

    @classmethod
    def read(cls, document: dict[str, Any]) -> "Ledger":
        """What `document` wrote."""
        dropped = {(reason, source): n for reason, by in document["dropped"].items() for source, n in by.items()}
        came, kept, marked = (Counter(document[name]) for name in ("came", "kept", "marked"))
        return cls(came, kept, Counter(dropped), marked)


class Stage(ABC):
    """Base of all stages."""

    name: ClassVar[str]
    keeps_dropped: ClassVar[bool] = False
    """Whether dropped problems are kept whole, apart."""

    def __init__(self) -> None:
        """Begin a new account."""
        self.ledger = Ledger()
        self.on_drop: Drop | None = None

    @property
    @abstractmethod
    def params(self) -> dict[str, Any]:
        """All that decides what comes out, beside the problems that come in: JSON values."""

    @abstractmethod
    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Yield what is kept; call `drop` for everything else."""

    @property
    def fingerprint(self) -> str:
        """The same for two stages that do the same."""
        text = json.dumps([self.name, digest_code(), self.params], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def run(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """The stage over a stream of problems, counted."""
        for problem in self.work(self._count(problems)):
            self.ledger.kept[problem.source] += 1
            yield problem

    def drop(self, problem: Problem, reason: str, detail: str = "") -> None:
        """Leave a problem out. `reason` is one of few, `detail` is about this one."""
        self.ledger.dropped[reason, problem.source] += 1
        if self.on_drop is not None:
            self.on_drop(problem, reason, detail)

    def mark(self, what: str) -> None:
        """Count a problem that something was done to."""
        self.ledger.marked[what] += 1

    def _count(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        for problem in problems:
            self.ledger.came[problem.source] += 1
            yield problem


class ConfiguredStage(Stage, Generic[P]):
    """A stage that its settings alone decide."""

    def __init__(self, params: P) -> None:
        """Work by these settings."""
        super().__init__()
        self._params = params

    @property
    def params(self) -> dict[str, Any]:
        """The settings."""
        return self._params.model_dump(mode="json")
