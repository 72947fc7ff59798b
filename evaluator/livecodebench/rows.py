"""LiveCodeBench's problems: rows of `code_generation_lite` (or `code_generation`), read one at a time.

JSON Lines as published (`test.jsonl` … `test6.jsonl`), parquet or arrow where pyarrow is installed, or a folder of
them. A row's tests are decoded only when they are asked for.
"""

import importlib
import json
import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from evaluator.livecodebench.documents import UnreadableFile, iterate_texts, read_record
from evaluator.livecodebench.private_tests import decode_tests
from evaluator.model import TestCase, TestKind

FIELDS = (
    "question_title", "question_content", "platform", "question_id", "contest_id", "contest_date", "starter_code",
    "difficulty",
)  # fmt: skip
"""What a row and a record of generations have in common."""
SELECTED_BY = ("platform", "difficulty", "contest_date")
COLUMNAR = (".parquet", ".arrow")
TEXTUAL = (".jsonl", ".json", ".jsonl.gz", ".jsonl.zst", ".json.gz", ".json.zst")
_QUESTION = re.compile(rb'"question_id"\s*:\s*"((?:[^"\\]|\\.)*)"')
_RELEASE_FILE = re.compile(r"test(\d*)\.jsonl(?:\.gz|\.zst)?")
_RELEASE = re.compile(r"(?:release_)?v(\d)(?:_v(\d))?|release_latest")


@dataclass(frozen=True)
class Problem:
    """One row. `fields` are those of `FIELDS`; `function` is None for programs that read standard input."""

    fields: dict[str, str]
    function: str | None
    public: str = field(repr=False)
    private: str = field(repr=False)

    @property
    def id(self) -> str:
        """The name by which everything refers to it."""
        return self.fields["question_id"]

    def read_tests(self) -> tuple[TestCase, ...]:
        """All tests, public ones first, as LiveCodeBench runs them.

        Raises:
            Undecodable: the row's tests can't be read.
        """
        kind = TestKind.STDIN if self.function is None else TestKind.FUNCTIONAL
        tests = [*decode_tests(self.public), *decode_tests(self.private)]
        return tuple(TestCase(kind, test["input"], test["output"]) for test in tests)


@dataclass(frozen=True)
class Selection:
    """Which problems count. Both dates are included, at midnight, as in LiveCodeBench's scripts."""

    start: datetime | None = None
    end: datetime | None = None
    platforms: frozenset[str] = frozenset()
    difficulties: frozenset[str] = frozenset()

    def has(self, fields: dict[str, Any]) -> bool:
        """Whether a problem with these fields counts."""
        if self.platforms and fields.get("platform") not in self.platforms:
            return False
        if self.difficulties and fields.get("difficulty") not in self.difficulties:
            return False
        if self.start is None and self.end is None:
            return True
        date = read_date(fields.get("contest_date"))
        if date is None:
            return False
        return (self.start is None or self.start <= date) and (self.end is None or date <= self.end)


def read_date(text: Any) -> datetime | None:
    """A contest's date, without its zone; None where it can't be read."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None


def iterate_problems(
    paths: Iterable[Path], release: str | None = None, wanted: Container[str] | None = None
) -> Iterator[Problem]:
    """The problems in these files and folders, each once. With `wanted`, only those with such an id.

    Raises:
        UnreadableFile: at the first thing that can't be read.
    """
    seen: set[str] = set()
    for path in find_files(paths, release):
        rows = _iterate_columnar(path) if path.suffix in COLUMNAR else _iterate_textual(path, wanted)
        for number, row in rows:
            problem = read_problem(path, number, row)
            if problem.id not in seen and (wanted is None or problem.id in wanted):
                seen.add(problem.id)
                yield problem


def find_files(paths: Iterable[Path], release: str | None = None) -> list[Path]:
    """The files that are meant, those of folders in the order of their names.

    Raises:
        UnreadableFile: there are none.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("*"))
            textual = [file for file in inside if _RELEASE_FILE.fullmatch(file.name)]
            columnar = [file for file in inside if file.suffix in COLUMNAR]
            files = textual or columnar or [file for file in inside if file.name.endswith(TEXTUAL)]
            if not files:
                raise UnreadableFile(f"{path} holds no test*.jsonl, *.parquet or *.arrow: name the files of problems.")
            found += files
        else:
            found.append(path)
    return found if release is None else _choose(found, release)


def _choose(files: list[Path], release: str) -> list[Path]:
    """Those of a release: `release_v5` is the files 1 to 5, `v5` file 5 alone, `v2_v4` the files 2 to 4."""
    match = _RELEASE.fullmatch(release)
    if match is None:
        raise UnreadableFile(f"{release!r} is no release: write release_v1 … release_v6, release_latest, v5 or v2_v4.")
    numbers = {file: int(name[1] or 1) for file in files if (name := _RELEASE_FILE.fullmatch(file.name))}
    last = int(match[2] or match[1] or 99)
    first = 1 if release.startswith("release") else int(match[1])
    chosen = [file for file, number in numbers.items() if first <= number <= last]
    if not chosen:
        raise UnreadableFile(f"No file of {release} (test.jsonl, test2.jsonl, …) is among the problems.")
    return chosen


def read_problem(path: Path, number: int, row: Any) -> Problem:
    """One row.

    Raises:
        UnreadableFile: it is no row of LiveCodeBench.
    """
    try:
        fields = {name: _text(row.get(name)) for name in FIELDS}
        metadata = row.get("metadata") or "{}"
        function = (json.loads(metadata) if isinstance(metadata, str) else metadata).get("func_name")
        if not fields["question_id"]:
            raise KeyError("question_id")
        return Problem(fields, function, _tests(row["public_test_cases"]), _tests(row.get("private_test_cases")))
    except KeyError as error:
        raise UnreadableFile(
            f"{path}, record {number} has no {error}: problems are rows of LiveCodeBench's code_generation_lite."
        ) from None
    except (AttributeError, TypeError, ValueError) as error:
        raise UnreadableFile(f"{path}, record {number} is no row of LiveCodeBench ({error}).") from None


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else "" if value is None else str(value)


def _tests(value: Any) -> str:
    """Tests as the text that they usually are; some copies of the data set hold them as lists."""
    return value if isinstance(value, str) else json.dumps(value or [])


def _iterate_textual(path: Path, wanted: Container[str] | None) -> Iterator[tuple[int, Any]]:
    for number, text in iterate_texts(path):
        # A row may be 100 MB of tests: those that nobody wants aren't parsed.
        found = None if wanted is None else _QUESTION.search(text)
        if found is None or wanted is None or json.loads(b'"' + found[1] + b'"') in wanted:
            yield number, read_record(path, number, text)


def _iterate_columnar(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        module = importlib.import_module("pyarrow.parquet" if path.suffix == ".parquet" else "pyarrow")
    except ImportError:
        raise UnreadableFile(f"{path} needs pyarrow: `pip install pyarrow`, or give the JSON Lines files.") from None
    number = 0
    for batch in _iterate_batches(path, module):
        for index in range(batch.num_rows):
            number += 1
            yield number, batch.slice(index, 1).to_pylist()[0]


def _iterate_batches(path: Path, module: Any) -> Iterator[Any]:
    try:
        if path.suffix == ".parquet":
            yield from module.ParquetFile(path).iter_batches(batch_size=4)
            return
        with module.OSFile(str(path)) as source, module.ipc.open_stream(source) as batches:
            yield from batches
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{path} can't be read by pyarrow ({error}).") from None
