"""Codeforces problems of open-r1: the statement in parts, official tests, limits, rating.

Format: https://huggingface.co/datasets/open-r1/codeforces (CC-BY-4.0; the texts are Codeforces'). Rows with a
`generated_checker` have several right answers and a checker whose calling convention isn't one of ours; those whose
`official_tests_complete` is false lack tests that were cut off: they are read, and noted.
"""

import datetime
from typing import Any

from curation.identities import slugify
from curation.problem import Identity, Problem
from curation.readers.codecontests import rate
from curation.readers.origins import Origin, Unreadable, clean_text, demand, read_columns

PARTS = (("description", ""), ("input_format", "Input"), ("output_format", "Output"), ("note", "Note"))


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A row.

    Raises:
        Unreadable: it is none, or can't be judged by its tests alone.
    """
    row = demand(row, "id", "title", "description")
    if row.get("interaction_format"):
        raise Unreadable("interactive")
    if row.get("input_mode") not in (None, "", "stdio"):
        raise Unreadable("reads or writes files")
    if row.get("generated_checker"):
        raise Unreadable("needs a checker", "the row's generated_checker has a convention of its own")
    tests = row.get("official_tests") or row.get("examples")
    suite, _ = read_columns({"tests": tests or []})
    contest, index = clean_text(row.get("contest_id")), clean_text(row.get("index"))
    started = row.get("contest_start")
    date = datetime.datetime.fromtimestamp(started, datetime.UTC).date().isoformat() if started else None
    complete = bool(row.get("official_tests")) and row.get("official_tests_complete") is not False
    return Problem(
        id=f"{origin.name}/{str(row['id']).replace('/', '')}",
        statement=_join_parts(row),
        suite=suite,
        source=origin.name,
        identity=Identity("codeforces", "", f"{contest}{index}", clean_text(row["title"])),
        licence=origin.licence,
        attribution=origin.attribution,
        date=date,
        difficulty=rate(row.get("rating")),
        tags=tuple(slugify(str(tag)) for tag in row.get("tags") or []),
        cpu_seconds=float(row["time_limit"]) if row.get("time_limit") else None,
        memory_bytes=int(float(row["memory_limit"]) * (1 << 20)) if row.get("memory_limit") else None,
        notes={} if complete else {"tests_incomplete": True},
    )


def _join_parts(row: dict[str, Any]) -> str:
    parts = []
    for name, heading in PARTS:
        if text := clean_text(row.get(name)).strip():
            parts.append(f"## {heading}\n\n{text}" if heading else text)
    examples = row.get("examples") or []
    for example in examples:
        given, wanted = clean_text(example["input"]).strip(), clean_text(example["output"]).strip()
        parts.append(f"## Example\n\nInput:\n\n```\n{given}\n```\n\nOutput:\n\n```\n{wanted}\n```")
    return "\n\n".join(parts)
