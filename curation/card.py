"""The data card: what the corpus is, where every problem went, how to build it again. Markdown, with pictures.

Everything on the card follows from the recipe and its files, so two builds write the same card. What is measured (the
margins of the references) goes to `reports/`, beside it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from curation.charts import draw_counts, draw_margins, draw_stages
from curation.mixture import CLASSES
from curation.pipeline import Done
from curation.problem import Problem
from curation.recipe import Recipe
from curation.stage import Ledger
from curation.tallies import Tally

SHOWN_TAGS = 20
_NUMBER = re.compile(r"[\d,.]+( %)?")


def write_card(folder: Path, recipe: Recipe, done: Sequence[Done], tally: Tally, rows: Mapping[str, int]) -> None:
    """Write `README.md` and its pictures into the folder of a build."""
    charts = folder / "charts"
    stages = [(one.name, sum(one.ledger.kept.values()), sum(one.ledger.dropped.values())) for one in done]
    draw_stages(stages, charts / "stages.png")
    draw_counts(tally.ordered_classes(), "difficulty", charts / "difficulty.png")
    draw_counts(tally.ordered_tests(), "tests of a problem", charts / "tests.png")
    parts = [
        f"# {recipe.name}",
        recipe.about.strip(),
        _summarise(tally, rows),
        _describe_files(rows, tally),
        "## Where every problem went",
        _table_stages(recipe, done),
        "![problems by stage](charts/stages.png)",
        _table_kept(done),
        *(_table_reasons(one) for one in done if one.ledger.dropped or one.ledger.marked),
        "## Sources and licences",
        _table_sources(done[0].ledger, tally),
        *_list_attributions(tally),
        "## Contamination",
        _report_contamination(recipe, done),
        "## What is in it",
        "![problems by difficulty](charts/difficulty.png)",
        "Difficulty is what a stage calibrated, or else what the source says; `unknown` where neither does.",
        *_report_rates(tally),
        "![problems by number of tests](charts/tests.png)",
        _table("tests are", "problems", tally.kinds.most_common()),
        _table("published", "problems", sorted(tally.years.items())),
        *_report_strengths(tally),
        *([_table("tag", "problems", tally.tags.most_common(SHOWN_TAGS))] if tally.tags else []),
        "## Building it again",
        "`manifest.json` names the recipe, the bytes of every source and of every file here, and the versions of what "
        "they depend on. With those, `python -m curation.build RECIPE --out DIR --check manifest.json` gives the same "
        "bytes, or says which differ. `stages/` holds what each stage kept and dropped, with reasons; what "
        "verification dropped is kept whole there.",
    ]
    (folder / "README.md").write_text("\n\n".join(part for part in parts if part) + "\n", "utf-8")


def _summarise(tally: Tally, rows: Mapping[str, int]) -> str:
    split = ", ".join(f"{tally.splits[name]:,} for {name}" for name in ("train", "validation"))
    left = tally.total - tally.for_trainers
    text = f"**{tally.total:,} problems**: {split}. Numbered siblings and texts that are half alike are on one side."
    if left:
        text += (
            f" {left:,} of them are in the JSON Lines only: a trainer's columns can't carry a checker "
            f"({tally.checkers:,} problems have one) or options of comparison ({tally.policies:,})."
        )
    return text


def _describe_files(rows: Mapping[str, int], tally: Tally) -> str:
    about = {
        "jsonl": "everything: statement, tests, checker, reference programs, notes",
        "trl": "`prompt`, `tests` and a few columns more: TRL and `trainer/`",
        "verl": "verl's columns, tests in `reward_model.ground_truth`",
    }
    listed = [
        (f"`{name}`", f"{count:,}", about["jsonl" if name.endswith("jsonl") else name.split("/")[0]])
        for name, count in rows.items()
    ]
    return _rows(("file", "rows", "for"), listed)


def _table_stages(recipe: Recipe, done: Sequence[Done]) -> str:
    rows = []
    for one in done:
        rows.append(_describe_stage(recipe, one, one.name))
        rows += [_describe_stage(recipe, one, key) for key in recipe.expected if key.startswith(f"{one.name} of ")]
    return _rows(("stage", "came", "kept", "kept, expected", "dropped"), rows)


def _describe_stage(recipe: Recipe, one: Done, key: str) -> tuple[str, ...]:
    came, kept = _count(one.ledger.came, key), _count(one.ledger.kept, key)
    said = ""
    if key in recipe.expected:
        least, most = recipe.expected[key]
        said = f"{least:,}" if least == most else f"{least:,}–{most:,}"
        said += "" if least <= kept <= most else " **(not so)**"
    return key, f"{came:,}", f"{kept:,}", said, f"{came - kept:,}"


def _count(by_source: Counter[str], key: str) -> int:
    """Of all sources; of those whose names begin so, where the key is `stage of beginning`."""
    beginning = key.partition(" of ")[2]
    return sum(count for source, count in by_source.items() if source.startswith(beginning))


def find_surprises(recipe: Recipe, done: Sequence[Done]) -> list[str]:
    """A sentence for each stage that kept another number of problems than the recipe expects."""
    sentences = []
    for key, (least, most) in recipe.expected.items():
        kept = next((_count(one.ledger.kept, key) for one in done if one.name == key.partition(" of ")[0]), least)
        if not least <= kept <= most:
            stage, _, source = key.partition(" of ")
            what = f"problems of {source}" if source else "problems"
            sentences.append(f"{stage} kept {kept:,} {what}; the recipe expects {least:,} to {most:,}.")
    return sentences


def _table_kept(done: Sequence[Done]) -> str:
    """What each stage kept of each source."""
    sources = sorted(done[0].ledger.came)
    if len(sources) == 1:
        return ""
    rows = [(one.name, *(f"{one.ledger.kept[source]:,}" for source in sources)) for one in done]
    return "Kept, by source:\n\n" + _rows(("stage", *sources), rows)


def _table_reasons(one: Done) -> str:
    rows = [("dropped", reason, f"{count:,}") for reason, count in one.ledger.reasons().items()]
    rows += [("marked", what, f"{count:,}") for what, count in sorted(one.ledger.marked.items())]
    return f"### {one.name}\n\n" + _rows(("", "what", "problems"), rows)


def _table_sources(collected: Ledger, tally: Tally) -> str:
    rows = []
    for source, came in sorted(collected.came.items()):
        licences = {licence: count for (name, licence), count in sorted(tally.sources.items()) if name == source}
        if licences:
            said = ", ".join(f"{licence} ({count:,})" for licence, count in licences.items())
        else:
            said = ""
        rows.append((source, f"{came:,}", f"{sum(licences.values()):,}", said))
    note = (
        "The licence is that of the problem's own text. `unknown`: nobody states one; the licence of the repository "
        "that copied a text from a contest site doesn't cover it, and a corpus with such texts isn't for passing on."
    )
    return _rows(("source", "rows", "in the corpus", "licence"), rows) + "\n\n" + note


def _list_attributions(tally: Tally) -> Iterable[str]:
    for source, names in sorted(tally.attributions.items()):
        listed = sorted(names)
        yield f"{source}: {'; '.join(listed[:50])}{' …' if len(listed) > 50 else ''}."


def _report_contamination(recipe: Recipe, done: Sequence[Done]) -> str:
    stage = next((one for one in done if one.name == "contamination"), None)
    if stage is None or not recipe.hold_out:
        return "No benchmark was held out."
    names = ", ".join(source.name for source in recipe.hold_out)
    cells: dict[str, Counter[str]] = {}
    for what, count in stage.ledger.marked.items():
        rule, _, benchmark = what.partition(": ")
        if benchmark:
            cells.setdefault(rule, Counter())[benchmark] += count
    benchmarks = sorted({name for counter in cells.values() for name in counter})
    rows = [(rule, *(f"{counter[name]:,}" for name in benchmarks)) for rule, counter in sorted(cells.items())]
    came, kept = sum(stage.ledger.came.values()), sum(stage.ledger.kept.values())
    text = (
        f"Held out: {names}. Of {came:,} problems that came to this stage {came - kept:,} are in one of them, by name, "
        "by tests or by text; the first rule that applied is counted. docs/curation.md says how well each rule does."
    )
    return text + ("\n\n" + _rows(("rule", *benchmarks), rows) if rows else "")


def _report_rates(tally: Tally) -> Iterable[str]:
    if tally.rates:
        yield (
            f"Solve rates are noted too. They hold for: {'; '.join(sorted(tally.conditions))}. A rate that isn't "
            "measured is a guess; docs/curation.md says how good it is."
        )
        ordered = sorted(tally.rates.items(), key=lambda item: (CLASSES.index(item[0][0]), item[0][1]))
        rows = [(name, way, f"{len(rates):,}", f"{sum(rates) / len(rates):.2f}") for (name, way), rates in ordered]
        yield _rows(("difficulty", "rate by", "problems", "mean rate"), rows)


def _report_strengths(tally: Tally) -> Iterable[str]:
    if tally.strengths:
        yield (
            "Of each problem's reference, mutants were made: the reference with one small fault. The tests find this "
            "part of those that can be told from the reference by their answers:"
        )
        yield _table("part of the mutants that the tests find", "problems", sorted(tally.strengths.items()))


def write_margins(folder: Path, problems: Iterable[Problem]) -> None:
    """Write how near the references came to their limits: measured, so not part of the corpus."""
    times: list[float] = []
    memories: list[float] = []
    for problem in problems:
        if isinstance(margins := problem.notes.get("margins"), dict):
            times.append(margins["cpu_seconds"] / margins["cpu_limit"])
            memories.append(margins["memory_bytes"] / margins["memory_limit"])
    if not times:
        return
    reports = folder / "reports"
    draw_margins(times, memories, reports / "margins.png")
    rows = [
        (
            name,
            f"{100 * _quantile(values, 0.5):.1f} %",
            f"{100 * _quantile(values, 0.95):.1f} %",
            f"{100 * max(values):.1f} %",
        )
        for name, values in (("time", times), ("memory", memories))
    ]
    text = (
        "# Margins of the reference programs\n\nOf each verified problem, what its neediest test used of the limit, "
        f"over all references and runs ({len(times):,} problems).\n\n"
        + _rows(("of the limit of", "half of the problems use at most", "95 of 100 at most", "the most"), rows)
        + "\n\n![margins](margins.png)\n"
    )
    (reports / "margins.md").write_text(text, "utf-8")


def _quantile(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def _table(name: str, count: str, rows: Iterable[tuple[str, int]]) -> str:
    return _rows((name, count), [(key, f"{number:,}") for key, number in rows])


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns of numbers are flush right."""
    cells = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    numeric = [all(_NUMBER.fullmatch(row[place]) for row in cells) for place in range(len(header))]
    lines = ["| " + " | ".join(header) + " |", "|" + "".join(" ---: |" if one else " --- |" for one in numeric)]
    lines += ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join(lines)
