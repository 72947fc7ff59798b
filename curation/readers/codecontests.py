"""CodeContests: descriptions with public, private and generated tests, right and wrong programs.

Format: https://huggingface.co/datasets/deepmind/code_contests, whose numbers for sources and languages count on from
those of https://github.com/google-deepmind/code_contests/blob/main/contest_problem.proto (CC-BY-4.0; the texts belong
to the sites).
"""

from collections.abc import Iterator
from typing import Any

from curation.identities import slugify
from curation.problem import Identity, Problem
from curation.readers.origins import Origin, Unreadable, clean_text, demand, read_columns

SITES = ("", "codechef", "codeforces", "hackerearth", "codejam", "atcoder", "aizu")
PYTHON_3 = (3, "PYTHON3")
PARTS = ("public_tests", "private_tests", "generated_tests")
EASY, HARD = 1300, 2000
"""Codeforces ratings that end the easy problems, and begin the hard ones."""


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A row.

    Raises:
        Unreadable: it is none, has no tests, or reads and writes files.
    """
    row = demand(row, "name", "description", "public_tests")
    if "<image>" in row["description"]:
        raise Unreadable("needs images")
    if row.get("input_file") or row.get("output_file"):
        raise Unreadable("reads or writes files")
    parts = origin.options.get("tests", PARTS)
    suite, _ = read_columns({name: row[name] for name in PARTS if name in parts and row.get(name)})
    name, contest, index = clean_text(row["name"]), row.get("cf_contest_id"), clean_text(row.get("cf_index"))
    number_there = f"{contest}{index}" if contest and index else ""
    site = _read_site(row.get("source"))
    title = name.partition(". ")[2] or name
    return Problem(
        id=f"{origin.name}/{number_there or slugify(name)}",
        statement=clean_text(row["description"]),
        suite=suite,
        source=origin.name,
        identity=Identity(site, "", number_there, title),
        references=origin.pick(_iterate_programs(row.get("solutions"))),
        wrong=origin.pick(_iterate_programs(row.get("incorrect_solutions"))),
        licence=origin.licence,
        attribution=origin.attribution,
        difficulty=rate(row.get("cf_rating")),
        tags=tuple(slugify(str(tag)) for tag in row.get("cf_tags") or [] if tag),
        cpu_seconds=_read_duration(row.get("time_limit")),
        memory_bytes=max(16 << 20, int(row.get("memory_limit_bytes") or 0)) if row.get("memory_limit_bytes") else None,
    )


def rate(rating: Any) -> str:
    """A Codeforces rating as a class of difficulty."""
    if not isinstance(rating, (int, float)) or rating <= 0:
        return ""
    return "easy" if rating < EASY else "medium" if rating < HARD else "hard"


def _read_site(value: Any) -> str:
    if isinstance(value, int):
        return SITES[value] if 0 <= value < len(SITES) else ""
    return str(value or "").lower()


def _iterate_programs(value: Any) -> Iterator[str]:
    """Columns of two lists, or a list of objects."""
    if isinstance(value, dict):
        pairs = zip(value.get("language") or [], value.get("solution") or [], strict=False)
    else:
        pairs = ((item.get("language"), item.get("solution")) for item in value or [])  # type: ignore[assignment]
    for language, solution in pairs:
        if language in PYTHON_3:
            yield solution


def _read_duration(value: Any) -> float | None:
    if not isinstance(value, dict):
        return None
    return float(value.get("seconds") or 0) + float(value.get("nanos") or 0) / 1e9 or None
