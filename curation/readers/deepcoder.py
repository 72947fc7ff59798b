"""DeepCoder's rows, parquet or JSON: `problem`, `tests`, and maybe `solutions`, `starter_code`, `metadata`.

Format: https://huggingface.co/datasets/agentica-org/DeepCoder-Preview-Dataset (its parts `primeintellect`, `taco`,
`lcbv5` and `codeforces`), and the excerpts in https://github.com/agentica-project/rllm (MIT; the texts belong to
contest sites). PrimeIntellect's own SYNTHETIC-1 rows are read too: their text is called `prompt`, their tests stand in
`verification_info`, their solution in `gold_standard_solution`.
"""

import hashlib
import re
from typing import Any

from curation.identities import slugify
from curation.problem import Identity, Problem
from curation.readers.addresses import read_address
from curation.readers.origins import Origin, clean_text, demand, load_json, read_columns
from evaluator.extraction import extract_code

_TAGS = re.compile(r"\n+Tags:\n\[(?P<tags>[^\]\n]*)\]")
_LIMITS = re.compile(r"\n+Time Limit: (?P<time>[^\n]*)(?:\nMemory Limit: (?P<memory>[^\n]*))?\s*$")
_TIME = re.compile(r"(?P<ms>\d+) ms|'seconds': (?P<s>\d+)(?:, 'nanos': (?P<ns>\d+))?|(?P<plain>\d+(?:\.\d+)?) s")


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A row.

    Raises:
        Unreadable: it is none, or has no tests that can be judged.
    """
    row = demand(row)
    text = clean_text(row.get("problem") or row.get("prompt") or row.get("question"))
    row = demand({**row, "problem": text or None}, "problem")
    metadata = load_json(row.get("metadata"), {})
    metadata = metadata if isinstance(metadata, dict) else {}
    holder = "tests" if row.get("tests") is not None else "verification_info"
    suite, entry_point = read_columns({holder: row.get(holder), "metadata": metadata})
    statement, tags, seconds = _split_tail(text)
    identity = _identify(metadata)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Problem(
        id=f"{origin.name}/{row.get('problem_id') or digest}",
        statement=statement,
        suite=suite,
        source=origin.name,
        identity=identity,
        entry_point=entry_point,
        starter=clean_text(row.get("starter_code")),
        references=origin.pick(_list_solutions(row)),
        licence=origin.licence,
        attribution=origin.attribution,
        tags=tags,
        cpu_seconds=seconds,
    )


def _split_tail(text: str) -> tuple[str, tuple[str, ...], float | None]:
    """The statement without the lists of tags and limits that were appended to it, and these."""
    limits = _LIMITS.search(text)
    time = _TIME.search(limits["time"]) if limits else None
    text = text[: limits.start()] if limits else text
    found = _TAGS.search(text)
    names = re.findall(r"'([^']+)'", found["tags"]) if found else []
    text = text[: found.start()] if found else text
    return text.strip(), tuple(slugify(name) for name in names), _read_seconds(time)


def _read_seconds(time: re.Match[str] | None) -> float | None:
    if time is None:
        return None
    if time["ms"]:
        return int(time["ms"]) / 1000 or None
    return float(time["s"] or 0) + float(time["ns"] or 0) / 1e9 + float(time["plain"] or 0) or None


def _identify(metadata: dict[str, Any]) -> Identity:
    if address := metadata.get("problem_url") or metadata.get("url"):
        return read_address(str(address))
    return Identity()


def _list_solutions(row: dict[str, Any]) -> list[Any]:
    """Programs, each as it is or in a fenced block."""
    found = load_json(row.get("solutions"), row.get("solutions")) or row.get("gold_standard_solution") or []
    listed = found if isinstance(found, list) else [found]
    return [extract_code(text, whole_text=True) or text for text in listed if isinstance(text, str)]
