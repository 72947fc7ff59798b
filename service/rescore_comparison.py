"""`--compare A B`: two folders of results, and how sure the difference between them is."""

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evaluator.livecodebench.documents import UnreadableFile
from evaluator.livecodebench.estimates import Estimate, estimate, estimate_difference, pass_at_k
from evaluator.livecodebench.score_files import KS
from service.rescore_charts import say_estimate

SHOWN = 10
"""Problems that are named."""


@dataclass(frozen=True)
class Scores:
    """A folder's verdicts: for each problem, whether each generation is right."""

    name: str
    right: dict[str, list[bool]]

    def values(self, k: int, ids: set[str]) -> dict[str, float]:
        """pass@k of these problems."""
        return {id: pass_at_k(len(self.right[id]), sum(self.right[id]), k) for id in ids}


def read_scores(folder: Path) -> Scores:
    """A folder's verdicts, out of its `*_eval_all.json`; or such a file itself.

    Raises:
        UnreadableFile: there is none.
    """
    files = [folder] if folder.is_file() else sorted(folder.glob("*_eval_all.json"))
    if len(files) != 1:
        raise UnreadableFile(
            f"{folder} holds {len(files)} files *_eval_all.json: name a folder that rescore has written."
        )
    try:
        records = json.loads(files[0].read_text("utf-8"))
        right = {record["question_id"]: [bool(one) for one in record["graded_list"]] for record in records}
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableFile(
            f"{files[0]} can't be read ({error}): it must be LiveCodeBench's *_eval_all.json."
        ) from None
    return Scores(files[0].name.removesuffix("_eval_all.json"), {id: one for id, one in right.items() if one})


def compare_folders(left: Path, right: Path, console: Console) -> None:
    """Show both scores on the problems that both have, and the paired difference.

    Raises:
        UnreadableFile: a folder can't be read, or they have no problem in common.
    """
    one, two = read_scores(left), read_scores(right)
    common = one.right.keys() & two.right.keys()
    if not common:
        raise UnreadableFile(f"{left} and {right} have no problem in common.")
    table = Table(title=f"{len(common):,} problems in common", title_justify="left", show_edge=False, pad_edge=False)
    for name in ("", f"A: {one.name}", f"B: {two.name}", "B − A"):
        table.add_column(name, justify="right" if name else "left")
    least = min(min(len(one.right[id]), len(two.right[id])) for id in common)
    for k in (k for k in KS if k <= least):
        a, b = one.values(k, common), two.values(k, common)
        ordered = sorted(common)
        table.add_row(
            f"pass@{k}",
            say_estimate(estimate([a[id] for id in ordered])),
            say_estimate(estimate([b[id] for id in ordered])),
            say_difference(estimate_difference(a, b)),
        )
    console.print(table)
    a, b = one.values(1, common), two.values(1, common)
    for name, ids in (("A", [i for i in a if a[i] > b[i]]), ("B", [i for i in a if b[i] > a[i]])):
        some = ", ".join(sorted(ids)[:SHOWN]) + (" …" if len(ids) > SHOWN else "")
        console.print(f"{len(ids):,} problems where {name} is better{': ' + some if ids else '.'}", soft_wrap=True)


def say_difference(difference: Estimate) -> str:
    """Points of percent with the interval, and whether that leaves 0 out."""
    interval = f"{100 * difference.value:+.1f} ({100 * difference.low:+.1f} to {100 * difference.high:+.1f})"
    return f"{interval} points{'' if difference.low <= 0 <= difference.high else ' *'}"
