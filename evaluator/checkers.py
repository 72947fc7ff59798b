"""Checkers as a suite carries them: read, checked, written; and the policies that the built-in ones stand for.

    {"checker": {"name": "float_tolerance", "absolute_tolerance": 1e-6, "relative_tolerance": 1e-6}}
    {"checker": {"convention": "kattis", "language": "cpp", "files": {"validate.cc": "…"}, "flags": ["strict"]}}

What can't be run is refused here, before any program runs. `checker_box.py` runs it.
"""

import math
import re
from typing import Any, Final

from evaluator.errors import InvalidSuite
from evaluator.model import Checker, CheckerName, CheckerProgram, Convention, NamedChecker, Order, Policy

LANGUAGES: Final = {"python": (".py",), "cpp": (".cc", ".cpp", ".cxx", ".c++", ".C")}
MAXIMUM_FILES: Final = 64
MAXIMUM_CHARACTERS: Final = 4 << 20
MAXIMUM_FLAGS: Final = 64
RANGES: Final = {"cpu_seconds": (0.1, 30.0), "memory_bytes": (64 << 20, 16 << 30)}
_NAME = re.compile(r"(?!/)(?!.*(?:^|/)\.{0,2}(?:/|$))[A-Za-z0-9_.+/-]{1,200}")
_PROGRAM_FIELDS = ("convention", "language", "files", "main", "flags", "cpu_seconds", "memory_bytes")
_TOLERANCES = ("absolute_tolerance", "relative_tolerance")
_POLICIES: Final[dict[CheckerName, dict[str, Any]]] = {
    CheckerName.TOKENS: {"ignore_lines": True},
    CheckerName.FLOAT_TOLERANCE: {"ignore_lines": True},
    CheckerName.CASE_INSENSITIVE: {"ignore_lines": True, "ignore_case": True},
    CheckerName.LINE_PERMUTATION: {"order": Order.LINES},
    CheckerName.ANY_ORDER: {"order": Order.ANY},
}


def policy_of(checker: NamedChecker) -> Policy:
    """The comparison that a built-in checker stands for."""
    return Policy(
        absolute_tolerance=checker.absolute_tolerance or 0.0,
        relative_tolerance=checker.relative_tolerance or 0.0,
        exact_tokens=checker.name is not CheckerName.FLOAT_TOLERANCE,
        **_POLICIES[checker.name],
    )


def write_checker(checker: Checker) -> dict[str, Any]:
    """The JSON object of a checker: fields in a fixed order, without what is the default."""
    if isinstance(checker, NamedChecker):
        record: dict[str, Any] = {"name": str(checker.name)}
        record |= {name: getattr(checker, name) for name in _TOLERANCES}
        return {name: value for name, value in record.items() if value is not None}
    record = {name: getattr(checker, name) for name in _PROGRAM_FIELDS}
    defaults = CheckerProgram((), Convention.KATTIS)
    usual = {name: getattr(defaults, name) for name in ("main", "flags", "cpu_seconds", "memory_bytes")}
    record = {name: value for name, value in record.items() if name not in usual or value != usual[name]}
    record |= {"convention": str(checker.convention), "files": dict(checker.files)}
    return record | ({"flags": list(checker.flags)} if checker.flags else {})


def read_checker(record: object) -> Checker:
    """The checker in a JSON object.

    Raises:
        InvalidSuite: it is none; the message names field and remedy.
    """
    if not isinstance(record, dict):
        raise InvalidSuite(f"'checker' must be an object, not {type(record).__name__}.")
    if "name" in record:
        return _read_named(record)
    _refuse_unknown(record, _PROGRAM_FIELDS)
    convention, language = record.get("convention"), record.get("language", "python")
    if convention not in tuple(Convention):
        raise InvalidSuite(
            f"'checker.convention' must be one of {', '.join(Convention)}, not {convention!r:.60}; "
            f"a built-in checker has a 'name' instead: {', '.join(CheckerName)}."
        )
    if not isinstance(language, str) or language not in LANGUAGES:
        raise InvalidSuite(f"'checker.language' must be one of {', '.join(LANGUAGES)}, not {language!r:.60}.")
    files = _read_files(record.get("files"))
    limits = {name: _read_number(record[name], name, *RANGES[name]) for name in RANGES if name in record}
    if "memory_bytes" in limits:
        limits["memory_bytes"] = int(limits["memory_bytes"])
    return CheckerProgram(
        files=files,
        convention=Convention(convention),
        language=language,
        main=_read_main(record.get("main"), language, files),
        flags=_read_flags(record.get("flags", [])),
        **limits,  # type: ignore[arg-type]
    )


def main_file(checker: CheckerProgram) -> str:
    """The name of the file that is run, or of the first one that is compiled."""
    return checker.main or next(name for name, _ in checker.files if name.endswith(LANGUAGES[checker.language]))


def _read_named(record: dict[str, Any]) -> NamedChecker:
    if record["name"] not in tuple(CheckerName):
        raise InvalidSuite(f"'checker.name' must be one of {', '.join(CheckerName)}, not {record['name']!r:.60}.")
    name = CheckerName(record["name"])
    tolerant = name is CheckerName.FLOAT_TOLERANCE
    _refuse_unknown(record, ("name", *(_TOLERANCES if tolerant else ())))
    if tolerant and not any(record.get(tolerance) for tolerance in _TOLERANCES):
        raise InvalidSuite(f"the checker 'float_tolerance' needs {' or '.join(map(repr, _TOLERANCES))} above 0.")
    given = {key: _read_number(record[key], key, 0.0, 1e300) for key in _TOLERANCES if record.get(key) is not None}
    return NamedChecker(name, **given)


def _refuse_unknown(record: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in record.keys() - set(known):
        raise InvalidSuite(f"unknown field 'checker.{name:.60}'; this checker has {', '.join(known)}.")


def _read_number(value: object, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -math.inf < value < math.inf:
        raise InvalidSuite(f"'checker.{name}' must be a finite number, not {value!r:.60}.")
    if not low <= value <= high:
        raise InvalidSuite(f"'checker.{name}' must be between {low:g} and {high:g}, not {value!r:.60}.")
    return value


def _read_files(files: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(files, dict) or not files:
        raise InvalidSuite("'checker.files' must be an object with at least one file: its name, and its text.")
    if len(files) > MAXIMUM_FILES or sum(len(text) for text in files.values() if isinstance(text, str)) > (
        MAXIMUM_CHARACTERS
    ):
        raise InvalidSuite(f"'checker.files' may hold {MAXIMUM_FILES} files of {MAXIMUM_CHARACTERS} characters in all.")
    for name, text in files.items():
        if not _NAME.fullmatch(name):
            raise InvalidSuite(
                f"'checker.files': {name!r:.60} is no name for a file: letters, digits and _ . + - only, "
                "folders parted by /, none of them '..'."
            )
        if not isinstance(text, str) or not _is_text(text):
            raise InvalidSuite(f"'checker.files': the content of {name!r:.60} must be text.")
    return tuple(files.items())


def _read_main(main: object, language: str, files: tuple[tuple[str, str], ...]) -> str | None:
    sources = [name for name, _ in files if name.endswith(LANGUAGES[language])]
    if not sources:
        raise InvalidSuite(f"'checker.files' holds no source file: one whose name ends in {LANGUAGES[language][0]}.")
    if main is None:
        if language == "python" and len(sources) > 1:
            raise InvalidSuite(f"'checker.main' is missing: name the file to run, one of {', '.join(sources):.200}.")
        return None
    if main not in sources or not isinstance(main, str):
        raise InvalidSuite(f"'checker.main' must be one of the source files, not {main!r:.60}.")
    return main


def _read_flags(flags: object) -> tuple[str, ...]:
    if not isinstance(flags, list) or len(flags) > MAXIMUM_FLAGS or not all(isinstance(flag, str) for flag in flags):
        raise InvalidSuite(f"'checker.flags' must be a list of at most {MAXIMUM_FLAGS} strings.")
    if any("\0" in flag or len(flag) > 1000 or not _is_text(flag) for flag in flags):
        raise InvalidSuite("'checker.flags': a flag is text of at most 1000 characters, none of them NUL.")
    return tuple(flags)


def _is_text(text: str) -> bool:
    """Whether UTF-8 can hold it."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
