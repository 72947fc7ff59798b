"""APPS and TACO: a question, tests and solutions as JSON text, an address.

Formats: https://huggingface.co/datasets/codeparrot/apps (`problem_id, question, solutions, input_output, difficulty,
url, starter_code`) and https://huggingface.co/datasets/BAAI/TACO (`question, solutions, starter_code, input_output,
difficulty, raw_tags, name, source, tags, skill_types, url, time_limit, date, picture_num, memory_limit`). Both are
repositories under a free licence with texts of contest sites.
"""

import hashlib
import re
from typing import Any

from curation.identities import slugify
from curation.problem import Problem
from curation.readers.addresses import read_address
from curation.readers.origins import Origin, Unreadable, clean_text, demand, load_json, read_columns

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*(\w*)")
_SECONDS = {"": 1.0, "second": 1.0, "seconds": 1.0, "sec": 1.0, "s": 1.0, "ms": 0.001, "milliseconds": 0.001}
_BYTES = {"bytes": 1, "kilobytes": 1 << 10, "kb": 1 << 10, "megabytes": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}
_BYTES |= {"gigabytes": 1 << 30, "gb": 1 << 30, "": 1 << 20}


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A row.

    Raises:
        Unreadable: it is none, has no tests, or needs pictures.
    """
    row = demand(row, "question", "input_output")
    pictures = str(row.get("picture_num") or "").strip()
    if pictures not in ("", "0", "None"):
        raise Unreadable("needs images", f"the row counts {pictures}")
    suite, entry_point = read_columns({"input_output": row["input_output"]})
    question = clean_text(row["question"])
    identity = read_address(clean_text(row.get("url")), clean_text(row.get("name")))
    name = row.get("problem_id")
    if name is None:
        digest = hashlib.sha256(question.encode()).hexdigest()[:12]
        name = "-".join(part for part in (identity.site, identity.id or identity.slug, digest) if part)
    return Problem(
        id=f"{origin.name}/{name}",
        statement=question,
        suite=suite,
        source=origin.name,
        identity=identity,
        entry_point=entry_point,
        starter=clean_text(row.get("starter_code")),
        references=origin.pick(load_json(row.get("solutions"), [])),
        licence=origin.licence,
        attribution=origin.attribution,
        date=_read_date(row.get("date")),
        difficulty=clean_text(row.get("difficulty")),
        tags=_read_tags(row),
        cpu_seconds=_read_quantity(row.get("time_limit"), _SECONDS),
        memory_bytes=_read_memory(row.get("memory_limit")),
    )


def _read_date(value: Any) -> str | None:
    text = str(value or "")[:10]
    return text if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None


def _read_tags(row: dict[str, Any]) -> tuple[str, ...]:
    """TACO writes lists as Python does, in a text."""
    value = row.get("tags")
    items = re.findall(r"'([^']+)'|\"([^\"]+)\"", value) if isinstance(value, str) else []
    names = [one or other for one, other in items] if isinstance(value, str) else [str(item) for item in value or []]
    return tuple(dict.fromkeys(slugify(name) for name in names))


def _read_quantity(value: Any, units: dict[str, float]) -> float | None:
    match = _NUMBER.match(str(value or ""))
    unit = None if match is None else units.get(match[2].lower())
    return None if match is None or unit is None else float(match[1]) * unit or None


def _read_memory(value: Any) -> int | None:
    size = _read_quantity(value, dict(_BYTES))
    return None if size is None else max(int(size), 16 << 20)
