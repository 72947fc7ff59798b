"""Stages one after the other, each into a file of its own: what is done isn't done again.

A stage's output lies in `stages/NN-name.jsonl.gz`, what it dropped in `stages/NN-name.dropped.jsonl.gz`, its account in
`stages/NN-name.json`. The account is written last and holds a mark, made of the stage's fingerprint and the mark before
it: while that is the same, the stage is passed over. So a changed setting, or a changed source file, repeats its stage
and those behind it, and an interrupted build goes on at the stage that it was in.
"""

import gzip
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

from curation.fan import Interrupted
from curation.problem import Problem, iterate_problems_of, write_problem
from curation.stage import Ledger, Stage

FORMAT = 1
"""Of the files here. A change repeats everything."""


class Observer(Protocol):
    """Told of what goes on."""

    def begin(self, stage: str, total: int | None) -> None:
        """A stage begins, with so many problems to come (None: unknown)."""

    def advance(self, stage: str) -> None:
        """A stage has taken one more problem."""

    def end(self, stage: str, ledger: Ledger, repeated: bool) -> None:
        """A stage is done, now (`repeated` False: it was done before)."""


@dataclass(frozen=True)
class Done:
    """A stage that is done."""

    name: str
    fingerprint: str
    ledger: Ledger
    path: Path
    """Its problems."""

    def iterate(self) -> Iterator[Problem]:
        """What it kept."""
        return iterate_problems_of(self.path)


def run_stages(stages: Iterable[Stage], folder: Path, observer: Observer, interrupt: threading.Event) -> list[Done]:
    """Do what isn't done.

    Raises:
        Interrupted: `interrupt` was set; stages that are done stay so.
        UnreadableFile: a source can't be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark, done = f"format {FORMAT}", list[Done]()
    for number, stage in enumerate(stages):
        mark = hashlib.sha256(f"{mark} {stage.fingerprint}".encode()).hexdigest()
        before = done[-1] if done else None
        done.append(_do(stage, folder / f"{number:02d}-{stage.name}", mark, before, observer, interrupt))
    return done


def _do(
    stage: Stage, base: Path, mark: str, before: Done | None, observer: Observer, interrupt: threading.Event
) -> Done:
    account, path = base.with_suffix(".json"), base.with_suffix(".jsonl.gz")
    ledger = _read_account(account, mark) if path.is_file() else None
    repeated = ledger is None
    if ledger is None:
        account.unlink(missing_ok=True)
        observer.begin(stage.name, None if before is None else sum(before.ledger.kept.values()))
        came = _watch([] if before is None else before.iterate(), lambda: observer.advance(stage.name), interrupt)
        with ExitStack() as stack:
            kept = stack.enter_context(_writing(path))
            dropped = stack.enter_context(_writing(base.with_suffix(".dropped.jsonl.gz")))
            stage.on_drop = _write_drops(dropped, whole=stage.keeps_dropped)
            for problem in stage.run(came):
                kept.write(write_problem(problem))
                if before is None:
                    observer.advance(stage.name)
                if interrupt.is_set():
                    raise Interrupted
        ledger = stage.ledger
        document = {"mark": mark, "stage": stage.name, "params": stage.params, **ledger.document()}
        part = account.with_name(account.name + ".part")
        part.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        part.rename(account)
    observer.end(stage.name, ledger, repeated)
    return Done(stage.name, stage.fingerprint, ledger, path)


def _read_account(path: Path, mark: str) -> Ledger | None:
    """What a stage did, if it did just that."""
    try:
        document = json.loads(path.read_text("utf-8"))
        return Ledger.read(document) if document["mark"] == mark else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _watch(problems: Iterable[Problem], advance: Callable[[], None], interrupt: threading.Event) -> Iterator[Problem]:
    for problem in problems:
        if interrupt.is_set():
            raise Interrupted
        advance()
        yield problem


class _writing:
    """A compressed file that has its name only when it is whole; the same content gives the same bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")

    def __enter__(self) -> IO[bytes]:
        self._file = self._part.open("wb")
        self._zip = gzip.GzipFile("", "wb", compresslevel=3, fileobj=self._file, mtime=0)
        return cast(IO[bytes], self._zip)

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        self._zip.close()
        self._file.close()
        if kind is None:
            self._part.rename(self._path)
        else:
            self._part.unlink()


def _write_drops(file: IO[bytes], *, whole: bool) -> Callable[[Problem | None, str, str], None]:
    """Writes a line for each: reason, detail, and the id, or the problem itself."""

    def write(problem: Problem | None, reason: str, detail: str) -> None:
        record: dict[str, object] = {"reason": reason, "detail": detail[:500]}
        if problem is not None:
            record["problem" if whole else "id"] = json.loads(write_problem(problem)) if whole else problem.id
        file.write(json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n")

    return write
