"""Collect: problems out of files, by the reader that a recipe names for them."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from curation.difficulties import read_difficulty
from curation.problem import Problem
from curation.readers import (
    apps,
    codecontests,
    codeforces,
    deepcoder,
    humaneval,
    jsonlines,
    kattis,
    lcb,
    leetcode,
    mbpp,
)
from curation.readers.origins import Origin, Unreadable, find_files, iterate_rows
from curation.recipe import BadRecipe, Recipe, SourceIn
from curation.shelf import Shelf
from curation.stage import Stage

RowReader = Callable[[Any, int, Origin], Problem]
READERS: dict[str, RowReader] = {
    "apps": apps.read,
    "codecontests": codecontests.read,
    "codeforces": codeforces.read,
    "deepcoder": deepcoder.read,
    "humaneval": humaneval.read,
    "jsonlines": jsonlines.read,
    "kattis": kattis.read,
    "leetcode": leetcode.read,
    "livecodebench": lcb.read,
    "mbpp": mbpp.read,
    "taco": apps.read,
}
PIECE = 1 << 20


class Collect(Stage):
    """The first stage: takes no problems, gives those of all sources, in the recipe's order."""

    name = "collect"

    def __init__(self, recipe: Recipe, base: Path) -> None:
        """Read from files beneath `base`.

        Raises:
            BadRecipe: a reader isn't known, or a file isn't there.
        """
        super().__init__()
        self._sources = recipe.sources
        self._base = base
        self._digests = [digest_source(source, base) for source in recipe.sources]

    @property
    def params(self) -> dict[str, Any]:
        """The sources, and the bytes of their files."""
        return {
            "sources": [
                {**source.model_dump(mode="json"), "digest": digest}
                for source, digest in zip(self._sources, self._digests, strict=True)
            ]
        }

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """All that can be read, each id once."""
        with Shelf("CREATE TABLE seen (id TEXT PRIMARY KEY) WITHOUT ROWID") as shelf:
            for source in self._sources:
                before = self.ledger.came[source.name]
                for item in iterate_source(source, self._base, self.mark):
                    self.ledger.came[source.name] += 1
                    if isinstance(item, Unreadable):
                        self.lose(source.name, item.reason, item.detail)
                    elif shelf.do("INSERT OR IGNORE INTO seen VALUES (?)", (item.id,)).rowcount == 0:
                        self.drop(item, "its id is there twice", item.id)
                    else:
                        yield item
                if self.ledger.came[source.name] == before:
                    raise BadRecipe(f"{source.name}: {self._base / source.path} holds no record; name another file.")

    def lose(self, source: str, reason: str, detail: str) -> None:
        """Count a row that made no problem."""
        self.ledger.dropped[reason, source] += 1
        if self.on_drop is not None:
            self.on_drop(None, reason, f"{source}: {detail}")


def iterate_source(
    source: SourceIn, base: Path, remark: Callable[[str], None] = lambda said: None
) -> Iterator[Problem | Unreadable]:
    """The problems of a source, and what couldn't be read, in order. `remark` is told what was read in another way.

    Raises:
        UnreadableFile: a file itself can't be read.
    """
    path = base / source.path
    origin = Origin(source.name, source.licence, source.attribution, source.options, source.programs)
    read = READERS[source.reader]
    if source.reader == "kattis" and path.is_dir():
        packages: Iterator[tuple[int, Any]] = enumerate(kattis.iterate_packages(path), start=1)
        rows, read = packages, lambda folder, number, origin: kattis.read_package(folder, origin)
    else:
        rows = iterate_rows(path)
    for number, row in rows:
        try:
            problem = read(row, number, origin)
        except Unreadable as error:
            yield Unreadable(error.reason, f"row {number}: {error.detail}")
            continue
        difficulty, said = read_difficulty(problem.difficulty)
        if said:
            remark(said)
        yield problem if difficulty == problem.difficulty else replace(problem, difficulty=difficulty)


def digest_source(source: SourceIn, base: Path) -> str:
    """SHA-256 over a source's files, names and bytes.

    Raises:
        BadRecipe: the reader isn't known, or a file isn't there.
    """
    if source.reader not in READERS:
        raise BadRecipe(f"{source.name}: there is no reader {source.reader!r}; choose one of {', '.join(READERS)}.")
    path = base / source.path
    if not path.exists():
        raise BadRecipe(f"{source.name}: {path} isn't there; give the folder of your data with --data.")
    is_folder = source.reader == "kattis" and path.is_dir()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if is_folder else find_files(path)
    whole = hashlib.sha256()
    for file in files:
        digest = hashlib.sha256()
        with file.open("rb") as stream:
            while piece := stream.read(PIECE):
                digest.update(piece)
        whole.update(f"{file.relative_to(path) if path.is_dir() else file.name}:{digest.hexdigest()}\n".encode())
    return whole.hexdigest()
