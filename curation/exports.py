"""The corpus as trainers read it: JSON Lines with everything, parquet for TRL (and `trainer/`), parquet for verl.

The tests of a parquet row are JSON text in a form that the client's rewards read (docs/trainers.md): two lists, with
the function's name where one is called, or a list of assertions. That form carries neither a checker nor options of
comparison, so a problem that needs either is in the JSON Lines only.
"""

import importlib
import json
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from curation.mixture import MEASURED, class_of
from curation.problem import Problem, write_problem
from curation.statements import write_prompt
from evaluator.model import TestKind

SPLITS = ("train", "validation")
ROWS = 256
"""Rows of a row group."""


def export(problems: Iterable[Problem], folder: Path) -> Counter[str]:
    """Write `train` and `validation`; returns how many rows each file has, by its relative name."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        lines = {split: stack.enter_context((folder / f"{split}.jsonl").open("wb")) for split in SPLITS}
        tables = {
            (form, split): stack.enter_context(Table(folder / form / f"{split}.parquet", form))
            for form in ("trl", "verl")
            for split in SPLITS
        }
        for split in SPLITS:
            counts.update({f"{split}.jsonl": 0, f"trl/{split}.parquet": 0, f"verl/{split}.parquet": 0})
        for problem in problems:
            problem = strip_measured(problem)
            split = str(problem.notes["split"])
            lines[split].write(write_problem(problem))
            counts[f"{split}.jsonl"] += 1
            if not fits_trainers(problem):
                continue
            tables["trl", split].add(make_trl_row(problem))
            tables["verl", split].add(make_verl_row(problem, counts[f"verl/{split}.parquet"]))
            for form in ("trl", "verl"):
                counts[f"{form}/{split}.parquet"] += 1
    return counts


def strip_measured(problem: Problem) -> Problem:
    """The problem without what differs from build to build, and without bulky inputs for making tests."""
    notes = {name: value for name, value in problem.notes.items() if name not in (*MEASURED, "inputs")}
    return replace(problem, notes=notes)


def fits_trainers(problem: Problem) -> bool:
    """Whether its tests alone decide: no checker, no options of comparison, every test with something expected."""
    plain = problem.suite.checker is None and not problem.policy
    return plain and (
        problem.kind is TestKind.ASSERTION or all(test.expected is not None for test in problem.suite.tests)
    )


def write_tests(problem: Problem) -> str:
    """The tests as JSON text, in a form that `microcoder_client.rewards.columns` reads."""
    tests = problem.suite.tests
    if problem.kind is TestKind.ASSERTION:
        return json.dumps([test.input for test in tests])
    document: dict[str, Any] = {}
    if problem.kind is TestKind.FUNCTIONAL:
        document["fn_name"] = (problem.entry_point or "").removeprefix("Solution.")
    document["inputs"] = [test.input for test in tests]
    document["outputs"] = [test.expected for test in tests]
    return json.dumps(document)


def make_trl_row(problem: Problem) -> dict[str, Any]:
    """Columns for `GRPOTrainer` and `trainer/`: `prompt` is a conversation, `tests` goes to the reward function."""
    return {
        "prompt": [{"role": "user", "content": write_prompt(problem)}],
        "tests": write_tests(problem),
        "id": problem.id,
        "source": problem.source,
        "licence": problem.licence,
        "difficulty": class_of(problem),
        "tags": list(problem.tags),
    }


def make_verl_row(problem: Problem, index: int) -> dict[str, Any]:
    """verl's columns: https://verl.readthedocs.io/en/latest/preparation/prepare_data.html."""
    return {
        "data_source": problem.source,
        "prompt": [{"role": "user", "content": write_prompt(problem)}],
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": write_tests(problem)},
        "extra_info": {
            "split": str(problem.notes["split"]),
            "index": index,
            "id": problem.id,
            "licence": problem.licence,
            "difficulty": class_of(problem),
        },
    }


class Table:
    """A parquet file that is written a row group at a time."""

    def __init__(self, path: Path, form: str) -> None:
        """Begin a file in the form `trl` or `verl`."""
        self._arrow = importlib.import_module("pyarrow")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._schema = self._make_schema(form)
        parquet = importlib.import_module("pyarrow.parquet")
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        """One more row."""
        self._rows.append(row)
        if len(self._rows) == ROWS:
            self._flush()

    def __enter__(self) -> "Table":
        """The table itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Write what is left."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []

    def _make_schema(self, form: str) -> Any:
        text, number = self._arrow.string(), self._arrow.int64()
        prompt = self._arrow.list_(self._arrow.struct([("role", text), ("content", text)]))
        if form == "trl":
            columns = [("prompt", prompt), ("tests", text), *((name, text) for name in ("id", "source", "licence"))]
            return self._arrow.schema([*columns, ("difficulty", text), ("tags", self._arrow.list_(text))])
        reward = self._arrow.struct([("style", text), ("ground_truth", text)])
        fields = [("split", text), ("index", number), ("id", text), ("licence", text), ("difficulty", text)]
        return self._arrow.schema(
            [("data_source", text), ("prompt", prompt), ("ability", text), ("reward_model", reward),
             ("extra_info", self._arrow.struct(fields))]
        )  # fmt: skip
