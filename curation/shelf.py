"""A shelf on disk: tables for what a stage must remember about every problem, so that memory stays flat."""

import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

CACHE_KIBIBYTES = 16 * 1024


class Shelf:
    """A temporary SQLite database. It is gone when it is closed."""

    def __init__(self, *tables: str, folder: Path | None = None) -> None:
        """Make the tables: statements of SQL."""
        self._folder = tempfile.TemporaryDirectory(dir=folder, prefix="shelf-")
        self._database = sqlite3.connect(Path(self._folder.name) / "shelf.sqlite", isolation_level=None)
        for setting in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{CACHE_KIBIBYTES}", "temp_store=FILE"):
            self._database.execute(f"PRAGMA {setting}")
        for table in tables:
            self._database.execute(table)
        self._database.execute("BEGIN")

    def do(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement; the cursor gives its rows one at a time."""
        return self._database.execute(statement, values)

    def do_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for each row."""
        self._database.executemany(statement, rows)

    def close(self) -> None:
        """Throw it away."""
        self._database.close()
        self._folder.cleanup()

    def __enter__(self) -> "Shelf":
        """The shelf itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Throw it away."""
        self.close()
