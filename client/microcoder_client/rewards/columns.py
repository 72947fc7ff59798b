"""Tests out of a dataset's row, in the columns that public datasets of programming problems have.

| column or key | what it holds | where it is met |
| --- | --- | --- |
| `inputs` and `outputs`, with `fn_name` for functions | two lists | APPS, TACO, PRIME (Eurus-2), DeepCoder |
| `input` and `output` as lists | two lists | CodeContests' `public_tests`, `private_tests`, `generated_tests` |
| `test_case_inputs` and `test_case_outputs` | two lists | verifiers' competition problems |
| `assert_case` | assertions | verl's SandboxFusion rewards |
| a list of `{input, output}`, with a type and a function's name or not | tests | LiveCodeBench, DeepCoder, open-r1 |
| a list of texts | assertions | MBPP's `test_list`, AceCoder's `test_cases` |
| `test` and `entry_point` | a `check(candidate)` | HumanEval, LeetCodeDataset |
| `functional`, or `test` by itself | test code | rLLM's LeetCode part, code-r1; KodCode |
| `public_test_cases`, `private_test_cases` | both together, encoded or not | LiveCodeBench |

Each may be a value, JSON text, a Python literal as text, or an array of numpy's, and may lie inside another column:
`input_output`, `test_cases`, `tests`, `ground_truth`, `verification_info`, `reward_model`, `info`, `label`, `answer`, …
The type is `testtype` or `type`. The function is named by `fn_name`, `func_name` or `metadata.func_name`, in a test,
beside the tests, or in the row.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from microcoder_client.cases import Suite, TestCase
from microcoder_client.exceptions import UnreadableTests
from microcoder_client.rewards.encoded_tests import decode
from microcoder_client.rewards.formats import (
    Cases,
    Clues,
    look_like_code,
    parse,
    read_assertions,
    read_check,
    read_pairs,
    read_records,
    sequence,
)

PAIRS = (("inputs", "outputs"), ("test_case_inputs", "test_case_outputs"), ("input", "output"))
PARTS = ("public_tests", "private_tests", "generated_tests")
HOLDERS = (
    "verification_info",
    "reward_model",
    "input_output",
    "test_cases",
    "tests",
    "test_list",
    "ground_truth",
    "official_tests",
    "unit_tests",
    "test",
    "info",
    "label",
    "answer",
)
"""Columns that hold tests in one of the forms, the first that is there counts."""
BESIDE = ("entry_point", "import_prefix", "fn_name", "func_name", "metadata", "test_setup_code", "test_imports")
"""Columns that say something about the tests."""
CHECKERS = ("checker", "generated_checker")
_OTHERS = ("assert_case", "functional", "test_code", "public_test_cases", "private_test_cases")
KNOWN = frozenset((*HOLDERS, *PARTS, *BESIDE, *CHECKERS, *_OTHERS, *(name for pair in PAIRS for name in pair)))
"""Every column that is looked at; the others are passed over."""
CACHE_BYTES = 256 << 20


@dataclass(frozen=True)
class Task:
    """What a program is judged by: a suite, and the function to call where there is one."""

    suite: Suite
    entry_point: str | None = None


def read_tests(row: Any, *, column: str | None = None, max_tests: int | None = None) -> Task:
    """The tests of a row, or of a column's value.

    Args:
        row: a row (column name to value), or the value of one column.
        column: where the tests are, when the row has several columns that could hold them.
        max_tests: keep so many at most, those with the longest inputs, in their order.

    Raises:
        UnreadableTests: there are none, or not in a form that is known here. The message says where and why.
    """
    if column is not None:
        if not isinstance(row, Mapping) or column not in row:
            raise UnreadableTests(f"The row has no column {column!r}: name the one that holds the tests.")
        beside = {name: value for name, value in row.items() if name in (*BESIDE, *CHECKERS)}
        row = {**beside, column if column in KNOWN else "tests": row[column]}
    cases = _read(row, Clues(), "the row")
    if not cases.tests:
        raise UnreadableTests("The row's list of tests is empty: leave such rows out of the dataset.")
    return Task(Suite.of(_longest(cases.tests, max_tests)), cases.function)


def _longest(tests: tuple[TestCase, ...], count: int | None) -> tuple[TestCase, ...]:
    if count is None or len(tests) <= count:
        return tests
    ranked = sorted(range(len(tests)), key=lambda index: -len(tests[index].input))
    return tuple(tests[index] for index in sorted(ranked[:count]))


def _read(value: Any, clues: Clues, where: str) -> Cases:
    if isinstance(value, str):
        return _read_text(value, clues, where)
    if isinstance(value, Mapping):
        return _read_mapping(value, _more(value, clues), where)
    items = sequence(value)
    if items is None:
        raise UnreadableTests(f"In {where}: a {type(value).__name__} holds no tests; {_SUPPORTED}")
    if items and all(isinstance(item, str) for item in items):
        return read_assertions(items, clues)
    return read_records(items, clues, where)


_SUPPORTED = "see microcoder_client/rewards/columns.py for the forms that are understood."


def _read_text(text: str, clues: Clues, where: str) -> Cases:
    found = parse(text)
    if isinstance(found, (Mapping, list)):
        return _read(found, clues, where)
    decoded = None if look_like_code(text) else decode(text)
    if decoded is not None:
        return _read_text(decoded, clues, where)
    if look_like_code(text):
        return read_assertions([text], clues)
    raise UnreadableTests(f"In {where}: the text {text[:60]!r} is no tests; {_SUPPORTED}")


def _read_mapping(row: Mapping[str, Any], clues: Clues, where: str) -> Cases:
    """The form that a mapping itself has, or else what one of its columns holds."""
    for name in CHECKERS:
        # Comparing with the one answer that is written down would reject the right ones that aren't.
        if isinstance(row.get(name), str) and row[name].strip():
            raise UnreadableTests(
                f"In {where}: the tests need the program in {name!r}, which isn't read: leave it out."
            )
    check = row.get("test_code") or row.get("test")
    if isinstance(check, str) and isinstance(row.get("entry_point"), str) and "def check(" in check:
        return read_check(f"{row.get('import_prefix') or ''}{check}", row["entry_point"], clues)
    if asserts := sequence(row.get("assert_case")):
        return read_assertions(asserts, clues)
    for inputs, outputs in PAIRS:
        if (left := sequence(row.get(inputs))) is not None and (right := sequence(row.get(outputs))) is not None:
            return read_pairs(left, right, clues, where)
    if isinstance(row.get("functional"), str):
        return read_assertions([row["functional"]], clues)
    for names in (("public_test_cases", "private_test_cases"), PARTS):
        if present := [name for name in names if not _is_empty(row.get(name))]:
            return _join([_read(row[name], clues, name) for name in present], where)
    for name in HOLDERS:
        if _may_hold(row.get(name)):
            return _read(row[name], clues, name)
    raise UnreadableTests(
        f"In {where}: none of the columns {', '.join(map(str, row)) or '(there are none)'} holds tests; {_SUPPORTED}"
    )


def _is_empty(value: Any) -> bool:
    return value is None or (hasattr(value, "__len__") and len(value) == 0)


def _may_hold(value: Any) -> bool:
    """Not an object, such as many a row's `info`, that says nothing of tests."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = parse(value)
    return not _is_empty(value) and not (isinstance(value, Mapping) and KNOWN.isdisjoint(value))


def _more(row: Mapping[str, Any], clues: Clues) -> Clues:
    """What a row says beside its tests: the function to call, code to run before assertions."""
    metadata = row.get("metadata")
    if isinstance(metadata, str):
        metadata = parse(metadata)
    inner = metadata if isinstance(metadata, Mapping) else {}
    names = (row.get("fn_name"), row.get("func_name"), inner.get("fn_name"), inner.get("func_name"))
    function = next((name for name in names if isinstance(name, str) and name), clues.function)
    imports = sequence(row.get("test_imports")) or []
    setup = "\n".join(str(line) for line in [*imports, row.get("test_setup_code") or ""] if line)
    return replace(clues, function=function, setup=setup or clues.setup)


def _join(parts: list[Cases], where: str) -> Cases:
    functions = {part.function for part in parts if part.tests}
    if len(functions) > 1:
        raise UnreadableTests(f"In {where}: some tests call a function and others don't; split them into two rows.")
    return Cases(tuple(test for part in parts for test in part.tests), next(iter(functions), None))


class TaskReader:
    """Reads rows, and remembers what it read: a group's completions share their row. For use by any threads."""

    def __init__(self, column: str | None = None, max_tests: int | None = None, budget: int = CACHE_BYTES) -> None:
        """Keep up to `budget` bytes of suites."""
        self._column, self._max_tests, self._budget = column, max_tests, budget
        self._tasks: OrderedDict[bytes, Task] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def read(self, row: Any) -> Task:
        """See `read_tests`."""
        mark = self._mark(row)
        with self._lock:
            if (task := self._tasks.get(mark)) is not None:
                self._tasks.move_to_end(mark)
                return task
        task = read_tests(row, column=self._column, max_tests=self._max_tests)
        with self._lock:
            if mark not in self._tasks:
                self._tasks[mark] = task
                self._bytes += len(task.suite.data)
            while self._bytes > self._budget and len(self._tasks) > 1:
                _, dropped = self._tasks.popitem(last=False)
                self._bytes -= len(dropped.suite.data)
        return task

    def _mark(self, row: Any) -> bytes:
        """The same for rows whose tests are the same. Texts, which may be many megabytes, are hashed as they are."""
        columns = row if isinstance(row, Mapping) else {"": row}
        mark = hashlib.sha256()
        for name in sorted(name for name in columns if name in KNOWN or name in ("", self._column)):
            value = columns[name]
            text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=_spell)
            data = text.encode("utf-8", "surrogatepass")
            mark.update(f"{name}:{type(value).__name__}:{len(data)}:".encode())
            mark.update(data)
        return mark.digest()


def _spell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    items = sequence(value)
    return repr(value) if items is None else items
