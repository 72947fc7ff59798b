"""How well each rule of contamination does, on real labels: `python -m benchmarks.contamination DATA`

The labels: of the problems in LeetCodeDataset's two test splits, those whose slug is in LiveCodeBench are in it, the
others aren't. Each rule is asked about every problem by itself; then all together, as the stage asks them. LeetCode's
slugs are unique, so the rule on slugs has no error here by definition: the others are measured against it.

DATA holds `sources/LeetCodeDataset-v0.*-test.jsonl.gz` and `lcb/problems_v6.jsonl`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from curation.contamination import ContaminationParams, Held, Overlap, read_benchmarks
from curation.identities import are_siblings, iterate_keys, iterate_questions
from curation.problem import Identity, Problem
from curation.readers.origins import Unreadable, iterate_rows
from curation.recipe import SourceIn
from curation.sources import iterate_source
from curation.statements import normalise_statement

SOURCES = ("sources/LeetCodeDataset-v0.3.1-test.jsonl.gz", "sources/LeetCodeDataset-v0.2.0-test.jsonl.gz")
BENCHMARK = SourceIn(name="livecodebench-v6", reader="livecodebench", path="lcb/problems_v6.jsonl")
V6_BEGINS = "2025-01-05"
"""First LeetCode contest of the problems that release_v6 added."""
OVERLAPS = (0.1, 0.22, 0.4, 0.6)
SHORT = 60
Rule = Callable[[Problem], bool]


@dataclass(frozen=True)
class Score:
    """A rule against the labels. `siblings`: false alarms that are another number of a benchmark problem's theme."""

    rule: str
    found: int
    missed: int
    false: int
    siblings: int

    @property
    def recall(self) -> float:
        """Found of those that are in the benchmark."""
        return self.found / max(1, self.found + self.missed)

    @property
    def precision(self) -> float:
        """In the benchmark, of those found; NaN where nothing was found."""
        reported = self.found + self.false
        return self.found / reported if reported else float("nan")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of labelled data")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    parser.add_argument("--markdown", action="store_true", help="print Markdown, as docs/curation.md has it")
    arguments = parser.parse_args(argv)
    problems = list(iterate_problems(arguments.data))
    benchmark = [item for item in iterate_source(BENCHMARK, arguments.data) if isinstance(item, Problem)]
    scores = measure(problems, benchmark, arguments.data)
    latest = {one.identity.slug for one in benchmark if one.identity.slug and (one.date or "") >= V6_BEGINS}
    text = describe(problems, benchmark, latest)
    if arguments.markdown:
        print(f"{text}\n\n{write_markdown(scores)}")
    else:
        Console().print(text)
        Console().print(draw(scores))
    if arguments.json:
        rows = [{**asdict(score), "recall": score.recall, "precision": score.precision} for score in scores]
        arguments.json.write_text(json.dumps({"about": text, "rules": rows}, indent=1) + "\n")
    return 0


def iterate_problems(data: Path) -> Iterator[Problem]:
    """LeetCodeDataset's problems, each slug once, as the stage before contamination gives them."""
    seen: set[str] = set()
    for number, path in enumerate(SOURCES):
        for item in iterate_source(SourceIn(name=f"leetcode-{number}", reader="leetcode", path=path), data):
            if isinstance(item, Unreadable):
                raise SystemExit(f"{path}: {item}")
            if item.identity.slug not in seen:
                seen.add(item.identity.slug)
                yield replace(item, statement=normalise_statement(item.statement))


def measure(problems: Sequence[Problem], benchmark: Sequence[Problem], data: Path) -> list[Score]:
    """Every rule, and all together."""
    slugs = {one.identity.slug for one in benchmark if one.identity.slug}
    siblings = [one.identity for one in benchmark if one.identity.site == "leetcode"]
    scores = []

    def add(name: str, rule: Rule, of: Iterable[Problem] = problems) -> None:
        hits = [(one, rule(one)) for one in of]
        false = [one for one, hit in hits if hit and one.identity.slug not in slugs]
        found = sum(hit for one, hit in hits if one.identity.slug in slugs)
        missed = sum(not hit for one, hit in hits if one.identity.slug in slugs)
        related = sum(any(are_siblings(one.identity, other) for other in siblings) for one in false)
        scores.append(Score(name, found, missed, len(false), related))

    add("slug", _by_name("slug", benchmark))
    add("number, the site's inner one", _by_name("id", benchmark))
    numbers = _read_published_numbers(data)
    ids = {one.identity.id for one in benchmark if one.identity.site == "leetcode"}
    add("number, as published", lambda one: numbers[one.identity.slug] in ids)
    add("title, without the site", _by_title(benchmark))
    held = read_benchmarks([BENCHMARK], data, ContaminationParams())
    for overlap in OVERLAPS:
        add(f"16-grams above {overlap:g}", lambda one, overlap=overlap: held.measure(one) > overlap)
    add("16-grams above 0.22, siblings apart", _by_rule("n-gram", held))
    bare = [replace(one, statement=cut_examples(one.statement)) for one in problems]
    short = [one for one in bare if len(one.statement.split()) < SHORT]
    name = f"of {len(short)} texts under {SHORT} words"
    add(f"{name}: 16-grams above 0.22", lambda one: held.measure(one) > 0.22, short)
    add(f"{name}: 5-grams, half", lambda one: bool(_rules(held, one) & {"short text", "sibling"}), short)
    add(f"{name}: 5-grams, half, siblings apart", lambda one: "short text" in _rules(held, one), short)
    add("tests, half of the telling ones", lambda one: bool(_find_tests(held, one)))
    add("tests, siblings apart", _by_rule("tests", held))
    add("tests and texts, without names", lambda one: bool(held.find(_unname(one))))
    add("all, siblings held out (default)", lambda one: bool(held.find(one)))
    add("all, siblings kept", lambda one: bool(_rules(held, one) - {"sibling"}))
    return scores


def _rules(held: Held, problem: Problem) -> set[str]:
    return {overlap.rule for overlap in held.find(problem)}


def _by_rule(rule: str, held: Held) -> Rule:
    return lambda one: rule in _rules(held, one)


def _find_tests(held: Held, problem: Problem) -> list[Overlap]:
    return [overlap for overlap in held.find(problem) if "tests" in (overlap.rule, overlap.key)]


def _unname(problem: Problem) -> Problem:
    return replace(problem, identity=Identity())


def _by_name(rule: str, benchmark: Sequence[Problem]) -> Rule:
    keys = {key for one in benchmark for kind, key in iterate_keys(one.identity) if kind == rule}
    return lambda one: any(kind == rule and key in keys for kind, key in iterate_questions(one.identity))


def _by_title(benchmark: Sequence[Problem]) -> Rule:
    """As if the source didn't say where its problems are from."""
    keys = {key for one in benchmark for kind, key in iterate_keys(one.identity) if kind == "title"}
    return lambda one: any(key in keys for _, key in iterate_questions(Identity(title=one.identity.title)))


def _read_published_numbers(data: Path) -> dict[str, str]:
    numbers: dict[str, str] = {}
    for path in SOURCES:
        for _, row in iterate_rows(data / path):
            number = row.get("question_id") or row.get("meta", {}).get("question_id")
            numbers.setdefault(row["task_id"], str(number))
    return numbers


def cut_examples(statement: str) -> str:
    """The description alone."""
    return statement.partition("Example 1:")[0].strip()


def describe(problems: Sequence[Problem], benchmark: Sequence[Problem], latest: set[str]) -> str:
    """The labels, in a sentence or two."""
    slugs = {one.identity.slug for one in benchmark if one.identity.slug}
    inside = sum(one.identity.slug in slugs for one in problems)
    new = sum(one.identity.slug in latest for one in problems)
    return (
        f"{len(problems)} problems, of which {inside} are in LiveCodeBench by slug; {new} of the {len(latest)} "
        "LeetCode problems that release_v6 added are among them."
    )


def draw(scores: Sequence[Score]) -> Table:
    """For the terminal."""
    table = Table("rule", "found", "missed", "false alarms", "of these siblings", "recall", "precision")
    for one in scores:
        counts = (str(one.found), str(one.missed), str(one.false), str(one.siblings))
        table.add_row(one.rule, *counts, f"{one.recall:.3f}", f"{one.precision:.3f}")
    return table


def write_markdown(scores: Sequence[Score]) -> str:
    """For the documentation."""
    lines = [
        "| rule | found | missed | false alarms | of these siblings | recall | precision |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in scores:
        counts = f"{one.found} | {one.missed} | {one.false} | {one.siblings}"
        lines.append(f"| {one.rule} | {counts} | {one.recall:.3f} | {one.precision:.3f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
