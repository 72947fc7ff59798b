"""What was found out, on disk, by key: one JSON line each. Only where each line begins is in memory."""

import hashlib
import json
import threading
from pathlib import Path
from typing import IO, Any

_HEAD = b'{"key":"'
_DIGITS = 64


def make_key(*parts: Any) -> str:
    """The same for the same JSON values: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Journal:
    """Used from several threads. What is added is written at once, so that it outlives whatever ends the process."""

    def __init__(self, path: Path) -> None:
        """Note what is there. A last line that was cut off is passed over."""
        self._path = path
        self._lock = threading.Lock()
        self._places: dict[bytes, int] = {}
        self._file: IO[bytes] | None = None
        self._is_closed = False
        self._is_cut_off = False
        if path.exists():
            with path.open("rb") as file:
                self._scan(file)

    def _scan(self, file: IO[bytes]) -> None:
        place = 0
        for line in file:
            if not line.endswith(b"\n"):
                self._is_cut_off = True
            elif line.startswith(_HEAD):
                self._places[bytes.fromhex(line[len(_HEAD) : len(_HEAD) + _DIGITS].decode())] = place
            place += len(line)

    def __len__(self) -> int:
        """How much is known."""
        return len(self._places)

    def find(self, key: str) -> Any:
        """What is known under a key; None: nothing."""
        with self._lock:
            place = self._places.get(bytes.fromhex(key))
            if place is None:
                return None
            with self._path.open("rb") as file:
                file.seek(place)
                return json.loads(file.readline()).get("value")

    def add(self, key: str, value: Any) -> None:
        """Write a JSON value. After `close` nothing is written any more."""
        line = json.dumps({"key": key, "value": value}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            if self._is_closed:
                return
            if self._file is None:
                self._file = self._path.open("ab")
                if self._is_cut_off:
                    self._file.write(b"\n")
            place = self._file.tell()
            self._file.write(line)
            self._file.flush()
            self._places[bytes.fromhex(key)] = place

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()
