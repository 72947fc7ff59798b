"""MBPP, full and sanitised: a sentence, three assertions, a solution.

Formats: https://github.com/google-research/google-research/tree/master/mbpp (CC-BY-4.0). The README there gives the
splits by `task_id`: 1–10 for prompting, 11–510 for testing, 511–600 for validation, 601–974 for training. The option
`split` reads one of them: `prompt`, `test`, `validation`, `train`. The statement alone doesn't name the function, so
the first assertion is part of it, as it is in the published evaluations.
"""

from typing import Any

from curation.problem import Identity, Problem
from curation.readers.origins import Origin, Unreadable, clean_text, demand, read_columns

SPLITS = {"prompt": (1, 10), "test": (11, 510), "validation": (511, 600), "train": (601, 974)}


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A row.

    Raises:
        Unreadable: it is none, or of another split.
    """
    row = demand(row, "task_id", "test_list", "code")
    task = int(row["task_id"])
    if split := origin.options.get("split"):
        first, last = SPLITS[split]
        if not first <= task <= last:
            raise Unreadable("of another split")
    text = clean_text(row.get("text") or row.get("prompt"))
    tests = [str(test) for test in [*row["test_list"], *(row.get("challenge_test_list") or [])]]
    beside = {name: row[name] for name in ("test_imports", "test_setup_code") if row.get(name)}
    suite, _ = read_columns({"test_list": tests, **beside})
    return Problem(
        id=f"{origin.name}/{task}",
        statement=f"{text.strip()}\n\nThis must hold:\n\n```python\n{tests[0].strip()}\n```",
        suite=suite,
        source=origin.name,
        identity=Identity("mbpp", "", str(task)),
        references=origin.pick([row["code"]]),
        licence=origin.licence,
        attribution=origin.attribution,
        date="2021-08-16",
        difficulty="easy",  # "designed to be solvable by entry level programmers"
    )
