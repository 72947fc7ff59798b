"""What all readers share: rows out of files of any wrapping, where a row comes from, and what can't be read."""

import ast
import importlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from microcoder_client import UnreadableTests
from microcoder_client.rewards.columns import read_tests

from curation.problem import UNKNOWN
from evaluator.errors import InvalidSuite
from evaluator.livecodebench.documents import UnreadableFile, iterate_texts, read_record
from evaluator.model import Suite
from evaluator.suites import read_suite

COLUMNAR = (".parquet", ".arrow")
TEXTUAL = (".jsonl", ".json", ".jsonl.gz", ".jsonl.zst", ".json.gz", ".json.zst")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Unreadable(Exception):
    """A row that makes no problem. `reason` is one of few, for counting; `detail` is about this row."""

    def __init__(self, reason: str, detail: str = "") -> None:
        """Say why."""
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Origin:
    """Where rows come from, as the recipe says."""

    name: str
    licence: str = UNKNOWN
    """Of the problems' own text. A repository's licence doesn't cover what it copied from a contest site."""
    attribution: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    programs: int = 5
    """Programs kept of each kind, right and wrong."""

    def pick(self, programs: Iterable[Any]) -> tuple[str, ...]:
        """The first few distinct programs that Python 3 can parse."""
        picked: list[str] = []
        for program in programs:
            text = clean_text(program).replace("\r\n", "\n") if isinstance(program, str) else ""
            if text.strip() and text not in picked and is_python(text):
                picked.append(text)
                if len(picked) == self.programs:
                    break
        return tuple(picked)


def iterate_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """The rows of a file, or of all files in a folder, each with its number.

    JSON Lines, JSON arrays (plain, gzip, Zstandard), parquet and arrow; only one row, or one small batch, at a time.

    Raises:
        UnreadableFile: at the first thing that can't be read.
    """
    number = 0
    for file in find_files(path):
        rows = _iterate_columnar(file) if file.suffix in COLUMNAR else _iterate_textual(file)
        for row in rows:
            number += 1
            yield number, row


def find_files(path: Path) -> list[Path]:
    """The files of data that are meant by a path.

    Raises:
        UnreadableFile: there are none.
    """
    if not path.is_dir():
        return [path]
    files = [file for file in sorted(path.rglob("*")) if file.name.endswith((*TEXTUAL, *COLUMNAR))]
    if not files:
        raise UnreadableFile(f"{path} holds no .jsonl, .json or .parquet: name the files of this source.")
    return files


def _iterate_textual(path: Path) -> Iterator[Any]:
    for number, text in iterate_texts(path):
        yield read_record(path, number, text)


def _iterate_columnar(path: Path) -> Iterator[Any]:
    try:
        parquet, arrow = importlib.import_module("pyarrow.parquet"), importlib.import_module("pyarrow")
    except ImportError:
        raise UnreadableFile(f"{path} needs pyarrow: `pip install 'microcoder[curation]'`.") from None
    try:
        if path.suffix == ".parquet":
            for batch in parquet.ParquetFile(path).iter_batches(batch_size=8):
                yield from batch.to_pylist()
            return
        with arrow.OSFile(str(path)) as source, arrow.ipc.open_stream(source) as batches:
            for batch in batches:
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{path} can't be read by pyarrow ({error}).") from None


def demand(row: Any, *names: str) -> dict[str, Any]:
    """The row, if it is an object that has these fields.

    Raises:
        Unreadable: it isn't.
    """
    if not isinstance(row, dict):
        raise Unreadable("not a row of this format", f"a {type(row).__name__}, not an object")
    if missing := [name for name in names if row.get(name) is None]:
        raise Unreadable("not a row of this format", f"the field {missing[0]!r} is missing")
    return row


def clean_text(value: Any) -> str:
    """A text that can be encoded: halves of surrogate pairs become replacement characters. None is empty."""
    return "" if value is None else _SURROGATE.sub("\ufffd", str(value))


def read_columns(row: Mapping[str, Any], column: str | None = None) -> tuple[Suite, str | None]:
    """Tests in one of the forms that the client's rewards know, and the function that they call.

    Raises:
        Unreadable: there are none that can be judged.
    """
    try:
        task = read_tests(row, column=column)
        return read_suite(task.suite.data), task.entry_point
    except UnreadableTests as error:
        raise Unreadable("no tests that can be read", str(error)) from None
    except InvalidSuite as error:
        raise Unreadable("no tests that can be judged", str(error)) from None


def is_python(source: str) -> bool:
    """Whether Python 3 can parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def load_json(value: Any, default: Any) -> Any:
    """What a column holds that may be JSON, JSON text or empty."""
    if not isinstance(value, str):
        return default if value is None else value
    try:
        return json.loads(value) if value.strip() else default
    except (ValueError, RecursionError):
        return default
