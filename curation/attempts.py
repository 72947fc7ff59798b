"""How many of a model's attempts solved each problem, out of files of generations that are judged already.

Two kinds of files, recognised by what is in them: LiveCodeBench's `*_eval_all.json` (`graded_list`; `microcoder
rescore` writes them too), and `results.jsonl` of `microcoder rescore`. The latter has each different program once:
where a model gave the same program twice, the counts of the former are the right ones.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from curation.identities import iterate_keys, slugify
from curation.problem import Identity, Problem
from curation.stage import Params
from evaluator.livecodebench.documents import UnreadableFile, iterate_texts, read_record
from evaluator.model import Verdict

OURS = (Verdict.INTERNAL_ERROR, Verdict.CANCELLED)
"""Verdicts that say nothing about the program."""


class AttemptsIn(Params):
    """A file of judged generations, and what its counts hold for."""

    path: str
    model: str = Field(min_length=1)
    budget: str = Field(min_length=1)
    """What the model could spend on an answer: tokens, temperature."""
    evaluator: str = Field(min_length=1)
    """Who judged, on which tests."""

    @property
    def holds_for(self) -> dict[str, str]:
        """Model, budget and evaluator."""
        return {"model": self.model, "budget": self.budget, "evaluator": self.evaluator}


@dataclass
class Count:
    """Attempts at one problem."""

    solved: int = 0
    tried: int = 0
    files: set[int] = field(default_factory=set)


class Attempts:
    """The counts of one or several files together.

    A problem counts only where every file has it: a rate over several models means the same for all problems.
    """

    def __init__(self, files: Sequence[AttemptsIn], base: Path) -> None:
        """Read files beneath `base`.

        Raises:
            UnreadableFile: one can't be read, or isn't of a known kind.
        """
        self.files = tuple(files)
        self._counts: dict[str, Count] = {}
        self._names: dict[str, str] = {}
        for number, file in enumerate(files):
            self._read(base / file.path, number)

    def find(self, problem: Problem, id: str) -> Count | None:
        """The attempts at a problem: under an id, or under its site's names."""
        keys = [key for rule, key in iterate_keys(problem.identity) if rule in ("slug", "id")]
        ids = (self._names.get(key) for key in keys)
        return next((count for one in (id, *ids) if one and (count := self._find(one))), None)

    def _find(self, id: str) -> Count | None:
        count = self._counts.get(id)
        return count if count is not None and len(count.files) == len(self.files) else None

    def _read(self, path: Path, number: int) -> None:
        found = 0
        for place, text in iterate_texts(path):
            record = read_record(path, place, text)
            verdicts = _read_verdicts(record)
            if verdicts is None:
                raise UnreadableFile(
                    f"{path}, record {place} holds no verdicts: give an _eval_all.json ('question_id' and "
                    "'graded_list') or a results.jsonl ('question_id' and 'verdict')."
                )
            id = str(record["question_id"])
            count = self._counts.setdefault(id, Count())
            count.solved += sum(verdicts)
            count.tried += len(verdicts)
            if verdicts:
                count.files.add(number)
            for rule, key in iterate_keys(_name(record)):
                if rule in ("slug", "id"):
                    self._names.setdefault(key, id)
            found += 1
        if not found:
            raise UnreadableFile(f"{path} holds no record.")


def _read_verdicts(record: Any) -> list[bool] | None:
    if not isinstance(record, dict) or "question_id" not in record:
        return None
    if isinstance(graded := record.get("graded_list"), list):
        return [bool(verdict) for verdict in graded]
    if isinstance(verdict := record.get("verdict"), str):
        return [] if verdict in OURS else [verdict == Verdict.ACCEPTED]
    return None


def _name(record: dict[str, Any]) -> Identity:
    site, id, title = (str(record.get(name) or "") for name in ("platform", "question_id", "question_title"))
    if not site:
        return Identity()
    id = id.replace("_", "") if site == "codeforces" else id  # as the reader of LiveCodeBench names them
    return Identity(site, slugify(title) if site == "leetcode" else "", id, title)


def digest_file(path: Path) -> str:
    """SHA-256 of a file's bytes.

    Raises:
        UnreadableFile: there is none.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UnreadableFile(
            f"Can't read {path}: {error.strerror}; give the folder of your data with --data."
        ) from None
