"""HumanEval and HumanEval+: a signature with a docstring, a `check(candidate)`, a canonical solution.

Formats: https://github.com/openai/human-eval and https://github.com/evalplus/humanevalplus_release (MIT, Apache-2.0).
HumanEval+ adds inputs without expected values: they are noted as `inputs`, one JSON value a line, for whoever makes
tests of them. Its contracts, assertions about inputs, are noted within a program, among `guards`: what it refuses is no
valid input.
"""

import json
from typing import Any

from curation.problem import Identity, Problem
from curation.readers.origins import Origin, clean_text, demand, read_columns


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A row.

    Raises:
        Unreadable: it is none.
    """
    row = demand(row, "task_id", "prompt", "entry_point", "test")
    prompt, name = clean_text(row["prompt"]), str(row["entry_point"])
    # The check may call helpers that the prompt defines beside the function: they must be in the program.
    suite, _ = read_columns({"test": row["test"], "entry_point": name})
    task = str(row["task_id"]).rpartition("/")[2]
    inputs = [*(row.get("base_input") or []), *(row.get("plus_input") or [])]
    solution = row.get("canonical_solution")
    notes: dict[str, Any] = {}
    if inputs:
        notes["inputs"] = ["\n".join(json.dumps(value) for value in arguments) for arguments in inputs]
    if row.get("atol"):
        notes["absolute_tolerance"] = row["atol"]
    if isinstance(solution, str) and isinstance(contract := row.get("contract"), str) and contract.strip():
        notes["guards"] = list(origin.pick([prompt + contract + solution]))
    return Problem(
        id=f"{origin.name}/{task}",
        statement=f"Complete this function.\n\n```python\n{prompt.strip()}\n```",
        suite=suite,
        source=origin.name,
        identity=Identity("humaneval", "", task, name),
        entry_point=name,
        references=origin.pick([prompt + solution]) if isinstance(solution, str) else (),
        licence=origin.licence,
        attribution=origin.attribution,
        date="2021-07-07",
        notes=notes,
    )
