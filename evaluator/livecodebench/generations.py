"""What a model generated, in LiveCodeBench's own files.

Recognised by what is in them: the custom evaluator's lists (`question_id`, `code_list`),
`*_codegeneration_output.json`, `*_eval_all.json` (with the verdicts that were published), raw answers (`output_list`).
A JSON array or JSON Lines; several records of one problem are put together.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from evaluator.extraction import extract_between_last_fences, extract_code
from evaluator.livecodebench.documents import UnreadableFile, iterate_texts, read_record


class Extraction(StrEnum):
    """Where programs come from."""

    GIVEN = "given"
    """The record's `code_list`; where it has none, as `livecodebench`."""
    LIVECODEBENCH = "livecodebench"
    """Out of `output_list`: the text between the last two lines with three backticks."""
    MICROCODER = "microcoder"
    """Out of `output_list`: the last complete block of Python (`evaluator/extraction.py`)."""


@dataclass
class Answers:
    """A model's answers to one problem. `published` is empty where no verdicts were published."""

    question_id: str | None
    programs: list[str]
    published: list[bool] = field(default_factory=list)
    remarks: list[dict[str, Any]] = field(default_factory=list)
    """LiveCodeBench's `metadata` of each published verdict."""
    record: dict[str, Any] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    """The record's own `code_list`, whatever was asked for."""


_EXTRACTORS: dict[Extraction, Callable[[str], str]] = {
    Extraction.GIVEN: extract_between_last_fences,
    Extraction.LIVECODEBENCH: extract_between_last_fences,
    Extraction.MICROCODER: lambda answer: extract_code(answer) or "",
}


def read_generations(path: Path, extraction: Extraction = Extraction.GIVEN) -> list[Answers]:
    """All answers of a file, a problem at a time, in the order of the file.

    Raises:
        UnreadableFile: it can't be read, or holds no generations.
    """
    found: list[Answers] = []
    by_id: dict[str, Answers] = {}
    for answers in _iterate_answers(path, extraction):
        before = by_id.get(answers.question_id) if answers.question_id is not None else None
        if before is not None:
            _add(before, answers)
            continue
        found.append(answers)
        if answers.question_id is not None:
            by_id[answers.question_id] = answers
    if not found:
        raise UnreadableFile(f"{path} holds no generations.")
    return found


def _iterate_answers(path: Path, extraction: Extraction) -> Iterator[Answers]:
    for number, text in iterate_texts(path):
        record = read_record(path, number, text)
        where = f"{path}, record {number}"
        if isinstance(record, list) and all(isinstance(code, str) for code in record):
            yield Answers(None, record, record={"code_list": record}, given=record)
        elif isinstance(record, dict) and "question_id" in record:
            yield _read_answers(where, record, extraction)
        elif isinstance(record, dict) and "detail" in record and "pass@1" in record:
            raise UnreadableFile(
                f"{path} is an _eval.json, which holds no programs: give the _eval_all.json beside it."
            )
        else:
            raise UnreadableFile(
                f"{where} isn't a generation: it needs 'question_id', and 'code_list' or 'output_list'."
            )


def _read_answers(where: str, record: dict[str, Any], extraction: Extraction) -> Answers:
    codes, outputs = record.get("code_list"), record.get("output_list")
    for name, value in (("code_list", codes), ("output_list", outputs)):
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str | None) for item in value)):
            raise UnreadableFile(f"{where}: '{name}' must be a list of strings.")
    if codes is None and outputs is None:
        raise UnreadableFile(f"{where} has neither 'code_list' nor 'output_list'.")
    if extraction is not Extraction.GIVEN and outputs is None:
        raise UnreadableFile(f"{where} has no 'output_list' to extract programs from: leave --extraction out.")
    given = [code or "" for code in codes or ()]
    programs = given
    if codes is None or extraction is not Extraction.GIVEN:
        programs = [_EXTRACTORS[extraction](output or "") for output in outputs or ()]
    graded = record.get("graded_list")
    published = [bool(verdict) for verdict in graded] if isinstance(graded, list) else []
    if published and len(published) != len(programs):
        raise UnreadableFile(f"{where}: 'graded_list' has {len(published)} verdicts for {len(programs)} programs.")
    remarks = record.get("metadata")
    read = [_read_remark(remark) for remark in remarks] if isinstance(remarks, list) else []
    read += [{}] * (len(published) - len(read))
    return Answers(str(record["question_id"]), programs, published, read, record, given)


def _read_remark(remark: Any) -> dict[str, Any]:
    try:
        value = json.loads(remark) if isinstance(remark, str) else remark
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _add(before: Answers, more: Answers) -> None:
    if bool(before.published) != bool(more.published) and before.programs:
        before.published, before.remarks = [], []
    else:
        before.published += more.published
        before.remarks += more.remarks
    before.programs = before.programs + more.programs
    before.given = before.given + more.given
    for name in ("code_list", "output_list", "graded_list", "metadata"):
        if isinstance(before.record.get(name), list) and isinstance(more.record.get(name), list):
            before.record = {**before.record, name: before.record[name] + more.record[name]}


def assign_ids(path: Path, answers: list[Answers], ids: list[str]) -> None:
    """Name answers that came without ids: they stand in the benchmark's order, which is that of the ids.

    Raises:
        UnreadableFile: they are not as many as the problems.
    """
    if all(item.question_id is not None for item in answers):
        return
    if len(answers) != len(ids):
        raise UnreadableFile(
            f"{path} has {len(answers)} lists of programs without question ids, and {len(ids)} problems are selected: "
            "select the same, or write question ids."
        )
    for item, id in zip(answers, sorted(ids), strict=True):
        item.question_id = id
