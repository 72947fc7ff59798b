"""How well texts alone tell difficulty, on real labels: `python -m benchmarks.difficulty DATA`

The label of a problem: by how many of four models it was solved (o1-mini, o1-preview, Qwen2.5-7B-Instruct, Qwen3-8B;
one published answer each), over the LiveCodeBench problems that all four have. The offline guess of
`curation/offline.py` is made by models that have seen no problem of the same contest day or the same family, penalties
chosen within. Beside it: LiveCodeBench's own label, and the statement's length. Intervals are bootstraps over those
groups.

DATA holds `lcb/problems_v6.jsonl` and `lcb/*_eval_all.json`.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
from rich.console import Console
from rich.table import Table

from benchmarks.difficulty_figures import Measured, compare, draw_calibration, measure
from curation.attempts import Attempts, AttemptsIn
from curation.identities import family_of, slugify
from curation.offline import Lessons, Sketch, choose_penalty, fit, learn, predict_unseen
from curation.problem import Identity, Problem, make_suite
from curation.regression import Numbers, find_borders, join_groups
from curation.statements import normalise_statement
from evaluator.livecodebench.rows import iterate_problems

MODELS = {
    "O1-Mini-2024-09-12_eval_all.json": "o1-mini",
    "O1-Preview-2024-09-12_eval_all.json": "o1-preview",
    "Qwen-3-8B.codegeneration_1_0.2_eval_all.json": "Qwen3-8B",
    "Qwen2.5-Ins-7B.codegeneration_1_0.2_eval_all.json": "Qwen2.5-7B-Instruct",
}
LABELS = ("easy", "medium", "hard")
FOLDS = 10
GUESS, LABEL, LENGTH, BOTH = (
    "offline, statement",
    "LiveCodeBench's label",
    "length of the statement",
    "label and offline",
)
FEATURES = "offline, without words"


@dataclass(frozen=True)
class Set:
    """Problems, their lessons, LiveCodeBench's label as 0 to 2, days and sites."""

    problems: Sequence[Problem]
    lessons: Lessons
    labels: Numbers

    def choose(self, chosen: Sequence[int]) -> "Set":
        """Some of them."""
        places = numpy.array(chosen, dtype=numpy.int64)
        return Set([self.problems[place] for place in chosen], self.lessons.at(places), self.labels[places])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of labelled data")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the calibration here")
    parser.add_argument("--markdown", action="store_true", help="print Markdown, as docs/curation.md has it")
    arguments = parser.parse_args(argv)
    whole = read_set(arguments.data)
    scores = score(whole)
    rows = [*measure_all("all", whole, scores), *measure_sites(whole, scores), *measure_forward(whole)]
    classes = count_classes(whole, scores[GUESS])
    pairs = ((GUESS, LENGTH), (GUESS, LABEL), (BOTH, LABEL))
    differences = [{"pair": pair, **compare(whole.lessons, *(scores[name] for name in pair))} for pair in pairs]
    if arguments.plot:
        draw_calibration(1 - scores[GUESS], whole.lessons, arguments.plot)
    if arguments.json:
        document = {"rows": [row.record for row in rows], "classes": classes, "differences": differences}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    if arguments.markdown:
        print(write_markdown(rows, classes, differences))
    else:
        Console().print(draw(rows))
        Console().print(*classes, *differences, sep="\n")
    return 0


def read_set(data: Path) -> Set:
    """The problems that all four models have."""
    files = [
        AttemptsIn(path=f"lcb/{path}", model=model, budget="one published answer", evaluator="LiveCodeBench's")
        for path, model in MODELS.items()
    ]
    attempts = Attempts(files, data)
    problems, sketches, counts, labels = [], [], [], []
    for row in iterate_problems([data / "lcb" / "problems_v6.jsonl"]):
        problem = make_problem(row)
        count = attempts.find(problem, row.id)
        if count is not None:
            problems.append(problem)
            sketches.append(Sketch.of(problem))
            counts.append((count.solved, count.tried))
            labels.append(LABELS.index(problem.difficulty))
    groups = join_groups([(f"date {one.date}", f"family {family_of(one.identity)}") for one in problems])
    solved, tried = numpy.array(counts, float).T
    return Set(problems, Lessons(sketches, solved, tried, groups), numpy.array(labels, float))


def make_problem(row: Any) -> Problem:
    """A row as curation has it. The reader leaves out two that are interactive; their texts count here."""
    fields = row.fields
    site, title = fields["platform"], fields["question_title"]
    return Problem(
        id=row.id,
        statement=normalise_statement(fields["question_content"]),
        suite=make_suite(row.read_tests()),
        source="livecodebench",
        identity=Identity(site, slugify(title) if site == "leetcode" else "", row.id, title),
        date=fields["contest_date"][:10],
        difficulty=fields["difficulty"],
    )


def score(whole: Set) -> dict[str, Numbers]:
    """By each way a number for each problem, higher where it is said to be harder."""
    lessons = whole.lessons
    bare = replace_sketches(lessons, [Sketch(one.statement, frozenset(), None) for one in lessons.sketches])
    labelled = replace_sketches(
        lessons,
        [
            Sketch(numpy.append(one.statement, [label == 1, label == 2]), one.words, None)
            for one, label in zip(lessons.sketches, whole.labels, strict=True)
        ],
    )
    return {
        GUESS: 1 - predict_unseen(lessons, learn, folds=FOLDS),
        FEATURES: 1 - predict_unseen(bare, partial(fit, penalty=1.0), folds=FOLDS),
        LABEL: whole.labels,
        LENGTH: numpy.array([len(one.statement) for one in whole.problems], float),
        BOTH: 1 - predict_unseen(labelled, learn, folds=FOLDS),
    }


def replace_sketches(lessons: Lessons, sketches: Sequence[Sketch]) -> Lessons:
    """The same problems, otherwise described."""
    return Lessons(sketches, lessons.solved, lessons.tried, lessons.groups)


def measure_all(of: str, chosen: Set, scores: dict[str, Numbers]) -> list[Measured]:
    """A row for each way."""
    return [measure(of, name, values, chosen.lessons) for name, values in scores.items()]


def measure_sites(whole: Set, scores: dict[str, Numbers]) -> list[Measured]:
    """Within a site: that LeetCode's problems are easier than AtCoder's is no help here."""
    rows = []
    for site in ("atcoder", "leetcode"):
        places = [place for place, one in enumerate(whole.problems) if one.identity.site == site]
        within = {name: scores[name][places] for name in (GUESS, LABEL, LENGTH)}
        rows += measure_all(f"{site} alone", whole.choose(places), within)
    return rows


def measure_forward(whole: Set) -> list[Measured]:
    """Learnt from the earlier half of the contest days, asked about the later."""
    middle = sorted(str(one.date) for one in whole.problems)[len(whole.problems) // 2]
    early = whole.choose([place for place, one in enumerate(whole.problems) if str(one.date) < middle])
    late = whole.choose([place for place, one in enumerate(whole.problems) if str(one.date) >= middle])
    model = fit(early.lessons, choose_penalty(early.lessons))
    scores = {
        GUESS: 1 - model.predict(late.lessons.sketches),
        LABEL: late.labels,
        LENGTH: numpy.array([len(one.statement) for one in late.problems], float),
    }
    return measure_all(f"from {middle} on, learnt from earlier ones", late, scores)


def count_classes(whole: Set, scores: Numbers) -> list[dict[str, Any]]:
    """The classes that the borders give: how many, their measured rate, and LiveCodeBench's labels within."""
    lessons = whole.lessons
    borders = find_borders(scores, lessons.solved, lessons.tried)
    if borders is None:
        return []
    found = numpy.digitize(scores, borders)
    return [
        {
            "class": name,
            "score": [borders[number - 1] if number else 0.0, borders[number] if number < 2 else 1.0],
            "problems": int((found == number).sum()),
            "rate": float(lessons.solved[found == number].sum() / lessons.tried[found == number].sum()),
            **{f"labelled {label}": int((whole.labels[found == number] == k).sum()) for k, label in enumerate(LABELS)},
        }
        for number, name in enumerate(LABELS)
    ]


def draw(rows: Sequence[Measured]) -> Table:
    """For the terminal."""
    table = Table(*HEADS)
    for row in rows:
        table.add_row(*row.cells)
    return table


HEADS = ("problems", "", "by", "Spearman", "AUC: solved by none", "AUC: by one at most", "AUC: not by all")


def write_markdown(
    rows: Sequence[Measured], classes: Sequence[dict[str, Any]], differences: Sequence[dict[str, Any]]
) -> str:
    """For the documentation."""
    lines = [f"| {' | '.join(HEADS)} |", "| --- | ---: | --- | ---: | ---: | ---: | ---: |"]
    lines += [f"| {' | '.join(row.cells)} |" for row in rows]
    lines += [
        "",
        "| class | score | problems | solved | labelled easy, medium, hard |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for one in classes:
        low, high = one["score"]
        labels = ", ".join(str(one[f"labelled {label}"]) for label in LABELS)
        cells = (one["class"], f"{low:.2f}–{high:.2f}", str(one["problems"]), f"{one['rate']:.2f}", labels)
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for one in differences:
        low, high = one["interval"]
        name, other = one["pair"]
        lines.append(f"- {name} less {other}: Spearman {one['difference']:+.3f} ({low:+.3f} to {high:+.3f})")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
