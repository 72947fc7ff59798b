"""Reads problems with programs of known verdict, one at a time: what `agreement` measures against.

Three formats, told apart by their fields; one JSON record a line:

- **triples**: `tests` and `submissions`, each with `code` and `label` (the labelled sets);
- **bugs**: `code` and `right_verdict`, one program a record (minimal reproductions of graders' bugs);
- **examples**: `statement`, and submissions with `source` or `answer` (`docs/examples`).

What a record asks for and the evaluator can't do is marked with `skip`, a reason; nothing is dropped on the quiet.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluator.checkers import LANGUAGES
from evaluator.errors import InvalidSubmission
from evaluator.model import (
    Checker,
    CheckerName,
    CheckerProgram,
    Convention,
    Limits,
    NamedChecker,
    Order,
    Policy,
    Prelude,
    TestCase,
    TestKind,
    Verdict,
)

INVALID_REQUEST = "invalid_request"
"""The label of what must be refused before any program runs."""
LABELS = frozenset({str(verdict) for verdict in Verdict} | {INVALID_REQUEST})

KINDS = {"stdin": TestKind.STDIN, "functional": TestKind.FUNCTIONAL, "assert": TestKind.ASSERTION}
_FLOAT = re.compile(r"float-tol((?: (?:abs|rel)=[0-9.e+-]+){1,2})")
_WALL = 4
"""Labels were made under a limit of CPU time, and four times that on the wall."""
_BUG_CPU_SECONDS = 4.0

_BUG_LIMITS = {"B58": Limits(cpu_seconds=0.5)}
"""Reproductions whose text names a limit."""
_BUG_POLICIES = {"B39": Policy(order=Order.ANY), "B40": Policy(order=Order.ANY)}
"""Reproductions whose statement says "in any order": whoever sends such a problem says so."""
_ANY_MAXIMUM = """
import json, sys
numbers, index = (json.load(open(name)) for name in sys.argv[1:3])
sys.exit(0 if type(index) is int and 0 <= index < len(numbers) and numbers[index] == max(numbers) else 1)
"""
_BUG_CHECKERS = {"B38": CheckerProgram((("any_maximum.py", _ANY_MAXIMUM),), Convention.TESTLIB)}
"""A reproduction of which several answers are right: whoever sends such a problem sends a checker."""


class BadInput(Exception):
    """A file can't be read as labelled problems. The message names file, line and remedy."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A program, or a model's whole answer that holds one, and the verdict that is right."""

    id: str
    label: str
    text: str = field(repr=False)
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Tests, the rules to judge by, and the programs. `skip` is the reason why it can't be judged."""

    id: str
    tests: tuple[TestCase, ...] = field(repr=False)
    submissions: tuple[Labelled, ...]
    entry_point: str | None = None
    prelude: Prelude = Prelude.AUTO
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    checker: Checker | None = field(default=None, repr=False)
    skip: str | None = None


def find_files(paths: list[Path]) -> list[Path]:
    """The files among `paths`, and the `*.jsonl` files of the folders, by name.

    Raises:
        BadInput: a path isn't there, a folder holds no such file, or two files have one name.
    """
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise BadInput(f"{path}: there is no such file or folder.")
        found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not found:
            raise BadInput(f"{path}: the folder holds no *.jsonl file; name the files themselves.")
        files += [file for file in found if file not in files]
    names = [file.name for file in files]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        raise BadInput(f"two files are called {twins[0]}; results go by name, so measure them one after the other.")
    return files


def read_problems(path: Path) -> Iterator[Problem]:
    """Read a file, a line at a time.

    Raises:
        BadInput: a line is in none of the formats.
    """
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield _read_line(line, f"{path.name}:{number}")
    except OSError as error:
        raise BadInput(f"{path}: can't be read ({error.strerror}).") from None


def foreign_format(path: Path) -> str | None:
    """Why a file of JSON records holds no labelled programs, judged by its first; None where it may hold some."""
    record = _first_record(path)
    if record is None or record.keys() & {"submissions", "right_verdict"}:
        return None
    if "observed" in record:
        return "programs whose published label wasn't reproduced, without tests: nothing to judge"
    return "no labelled programs: a record has neither 'submissions' nor 'right_verdict'"


def _first_record(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as stream:
            record = json.loads(next((line for line in stream if line.strip()), b""))
    except (OSError, ValueError):
        return None  # `read_problems` says what is wrong with it
    return record if isinstance(record, dict) else None


def _read_line(line: bytes, where: str) -> Problem:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{where}: not JSON ({error}); write one JSON object a line.") from None
    if not isinstance(record, dict):
        raise BadInput(f"{where}: a JSON {type(record).__name__}, where an object should be.")
    try:
        if "right_verdict" in record:
            problem = _read_bug(record)
        elif "statement" in record:
            problem = _read_example(record)
        else:
            problem = _read_triple(record)
    except KeyError as error:
        raise BadInput(f"{where}: the field {error} is missing; see benchmarks/labelled.py for the formats.") from None
    except (TypeError, AttributeError, ValueError) as error:
        raise BadInput(f"{where}: {error}") from None
    for item in problem.submissions:
        if item.label not in LABELS:
            raise BadInput(f"{where}: {item.label!r} is no verdict; a label is one of {', '.join(sorted(LABELS))}.")
    return problem


def _read_triple(record: dict[str, Any]) -> Problem:
    kind = KINDS[record["kind"]]
    function = record.get("fn_name") if kind is TestKind.FUNCTIONAL else None
    seconds = float(record["time_limit_s"])
    checker = _read_checker(record, kind)
    return Problem(
        id=record["id"],
        tests=_tests(kind, record["tests"]),
        submissions=_submissions(record["id"], record["submissions"], "code"),
        entry_point=f"{record['fn_class']}.{function}" if function and record.get("fn_class") else function,
        prelude=Prelude.CONTEST if record.get("needs_lcb_prelude") else Prelude.NONE,
        limits=Limits(cpu_seconds=seconds, wall_seconds=_WALL * seconds),
        checker=None if isinstance(checker, str) else checker,
        skip=checker if isinstance(checker, str) else None,
    )


def _read_checker(record: dict[str, Any], kind: TestKind) -> Checker | str | None:
    """What decides about this problem's outputs: on stdout whitespace-separated tokens, unless the record says else.

    A function's value is compared as the evaluator does when nobody says anything, and assertions judge themselves.
    A text is the reason why the problem can't be judged.
    """
    checker = record.get("checker")
    if checker is None:
        return NamedChecker(CheckerName.TOKENS) if kind is TestKind.STDIN else None
    if checker == "token case-insensitive":
        return NamedChecker(CheckerName.CASE_INSENSITIVE)
    if match := _FLOAT.fullmatch(checker):
        given = {name: float(number) for name, number in (part.split("=") for part in match[1].split())}
        return NamedChecker(CheckerName.FLOAT_TOLERANCE, given.get("abs"), given.get("rel"))
    if checker == "custom":
        return _read_validator(record["checker_files"], record.get("checker_flags") or "")
    raise InvalidSubmission(f"the checker {checker!r} isn't known.")


def _read_validator(files: dict[str, str], flags: str) -> CheckerProgram | str:
    """A Kattis output validator, or why it can't be used. A folder is one program, and so is a file beside it.

    Where there are several, all must accept. The one problem of that kind in the labelled sets has its rule twice, as a
    file and as a folder; the folder, which is taken, also refuses output that goes on after the answer.
    """
    folder = max(name.rpartition("/")[0] for name in files)
    texts = {name.rpartition("/")[2]: text for name, text in files.items() if name.rpartition("/")[0] == folder}
    for language, endings in LANGUAGES.items():
        sources = [name for name in texts if name.endswith(endings)]
        if len(sources) == 1:
            return CheckerProgram(tuple(texts.items()), Convention.KATTIS, language, flags=tuple(flags.split()))
    return f"its checker isn't one file of {' or '.join(LANGUAGES)}"


def _read_bug(record: dict[str, Any]) -> Problem:
    kind = KINDS[record["test_type"]]
    name, code = record["id"], record["code"]
    function = record.get("fn_name") if kind is TestKind.FUNCTIONAL else None
    in_class = function is not None and re.search(r"^class Solution\b", code, re.M) is not None
    item = Labelled(name, record["right_verdict"], code, is_answer=record["kind"] == "code_extraction")
    return Problem(
        id=name,
        tests=_tests(kind, record["tests"]),
        submissions=(item,),
        entry_point=f"Solution.{function}" if in_class else function,
        limits=_BUG_LIMITS.get(name, Limits(cpu_seconds=_BUG_CPU_SECONDS)),
        policy=_BUG_POLICIES.get(name, Policy()),
        checker=_BUG_CHECKERS.get(name),
    )


def _read_example(record: dict[str, Any]) -> Problem:
    kind = TestKind(record["kind"])
    return Problem(
        id=record["id"],
        tests=_tests(kind, record["tests"]),
        submissions=_submissions(record["id"], record["submissions"], "source"),
        entry_point=record.get("entry_point"),
        limits=Limits(**record.get("limits", {})),
        policy=Policy(**record.get("policy", {})),
    )


def _tests(kind: TestKind, records: list[dict[str, Any]]) -> tuple[TestCase, ...]:
    is_judged_by_itself = kind is TestKind.ASSERTION
    return tuple(
        TestCase(kind, test["input"], None if is_judged_by_itself else test["expected"], test.get("name"))
        for test in records
    )


def _submissions(problem: str, records: list[dict[str, Any]], text: str) -> tuple[Labelled, ...]:
    """Programs have no names of their own: `problem#0` is the first. An empty one is an answer without a program."""
    found = []
    for number, record in enumerate(records):
        content = record["answer"] if "answer" in record else record[text]
        is_answer = "answer" in record or not content.strip()
        found.append(Labelled(f"{problem}#{number}", record["label"], content, is_answer))
    return tuple(found)
