"""Files that come inside a request: their names stay beneath the run's directory, and there is room for them."""

import binascii
from collections.abc import Iterable
from pathlib import PurePosixPath

from evaluator.model import MEBIBYTE

LONGEST_NAME, LONGEST_PART = 4_000, 255
"""Bytes of a file's name, and of one part of it."""
DEEPEST = 100
"""Parts of a name."""
MAX_FILES = 1_000
MAX_BYTES = 48 * MEBIBYTE
"""A box's scratch holds 64 MiB, and the program wants to write there as well."""


class BadFiles(ValueError):
    """Files that can't be given to a run. The message names the file and says what to do."""


def check_names(names: Iterable[str]) -> None:
    """Refuse names that lead out of the run's directory, and those that no file can have.

    Raises:
        BadFiles: names the first.
    """
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
            raise BadFiles(f"{name[:80]!r} isn't a name beneath the run's directory: make it relative, without '..'.")
        if name.endswith(("/", "/.")):
            raise BadFiles(f"{name[:80]!r} is a folder's name: name a file in it.")
        if len(name.encode()) > LONGEST_NAME or any(len(part.encode()) > LONGEST_PART for part in path.parts):
            bounds = f"a name has at most {LONGEST_NAME} bytes, and {LONGEST_PART} between slashes"
            raise BadFiles(f"{name[:80]!r}… is too long: {bounds}.")
        if len(path.parts) > DEEPEST:
            raise BadFiles(f"{name[:80]!r}… lies {len(path.parts)} folders deep: at most {DEEPEST} may be.")


def check_number(count: int) -> None:
    """Refuse too many.

    Raises:
        BadFiles: says how many may be.
    """
    if count > MAX_FILES:
        raise BadFiles(f"{count} files are too many: at most {MAX_FILES} may be.")


def check_texts(files: Iterable[tuple[str, object]]) -> None:
    """Refuse contents that aren't text.

    Raises:
        BadFiles: names the first.
    """
    for name, text in files:
        if not isinstance(text, str):
            raise BadFiles(f"The content of {name[:80]!r} is no string: encode the file's bytes in base 64.")


def check_files(files: Iterable[tuple[str, str]]) -> None:
    """Refuse what can't be written: names as above, contents that aren't base 64, too many or too large.

    Raises:
        BadFiles: says what is wrong.
    """
    total, count, paths = 0, 0, set()
    for name, text in files:
        check_names([name])
        if (path := PurePosixPath(name)) in paths:
            raise BadFiles(f"{name[:80]!r} is there twice: keep one.")
        paths.add(path)
        try:
            total += len(binascii.a2b_base64(text, strict_mode=True))
        except ValueError:  # binascii.Error is one, and so is text that isn't ASCII
            raise BadFiles(f"The content of {name[:80]!r} isn't base 64: encode the file's bytes.") from None
        count += 1
    check_number(count)
    if total > MAX_BYTES:
        raise BadFiles(f"The files have {total} bytes: at most {MAX_BYTES} fit.")
