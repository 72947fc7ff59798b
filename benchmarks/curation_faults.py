"""How many planted faults the stages catch: `python -m benchmarks.curation_faults DATA [--problems 40] [--json OUT]`

Problems are LeetCodeDataset's and MBPP's, with their references. What is planted, by a seed:

- duplicates: an exact copy; one in other case and spacing; one with a tenth of its words changed; one reworded
  (synonyms for common words, sentences in another order), with the same tests or with other halves of them. No copy
  keeps a name.
- rewordings that nobody here made: LiveCodeBench's rows of the same LeetCode problems, without names;
- wrong expected outputs: one of a problem's is changed;
- flaky references: one that fails a test with a chance of a half, a tenth, or a hundredth.

Recall is the caught share of what was planted; a false alarm is a problem that is dropped without a planted fault.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.contamination import BENCHMARK, iterate_problems
from benchmarks.rates import wilson_interval
from curation.admission import choose_longest
from curation.duplicates import Duplicates, DuplicatesParams
from curation.judging import LocalJudging
from curation.problem import Identity, Problem, make_suite
from curation.processing import Process, ProcessParams
from curation.recipe import SourceIn
from curation.sources import iterate_source
from curation.verification import Verify, VerifyParams
from evaluator.errors import InvalidSuite
from evaluator.model import TestCase, TestKind

MBPP = SourceIn(name="mbpp", reader="mbpp", path="sources/mbpp.jsonl.gz", options={"split": "train"})
SYNONYMS = {
    "return": "give back", "given": "you have", "array": "list of numbers", "integer": "whole number",
    "find": "determine", "equal": "the same",
    "minimum": "smallest possible", "maximum": "largest possible", "number": "count", "string": "text", "each": "every",
    "contains": "holds", "consists": "is made up", "element": "entry", "elements": "entries", "write": "define",
    "function": "routine", "remove": "take away", "check": "tell", "whether": "if", "length": "size",
    "substring": "part of the text", "choose": "pick", "operation": "step", "index": "place", "sum": "total",
}  # fmt: skip
TESTS = 10
"""Tests of a problem that is judged: the longest ones."""


@dataclass(frozen=True)
class Figure:
    """What came of one kind of fault."""

    stage: str
    fault: str
    planted: int
    caught: int
    clean: int
    false: int

    @property
    def interval(self) -> list[float]:
        """Of the recall."""
        return wilson_interval(self.caught, self.planted) or [0.0, 1.0]


def main(argv: Sequence[str] | None = None) -> int:
    """Plant, run the stages, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of labelled data")
    parser.add_argument("--base", type=int, default=400, help="problems of each source, for what is compared")
    parser.add_argument("--problems", type=int, default=40, help="problems of each source, for what is judged")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    arguments = parser.parse_args(argv)
    draw = random.Random(arguments.seed)
    leetcode = list(Process(ProcessParams()).run(iterate_problems(arguments.data)))
    leetcode = draw.sample(leetcode, min(arguments.base, len(leetcode)))
    mbpp = [one for one in iterate_source(MBPP, arguments.data) if isinstance(one, Problem)]
    mbpp = draw.sample(mbpp, min(arguments.base, len(mbpp)))
    figures = [*measure_duplicates([*leetcode, *mbpp], draw), measure_rewordings(leetcode, arguments.data)]
    Console(stderr=True).print(render(figures))
    judged = [*draw.sample(leetcode, arguments.problems), *draw.sample(mbpp, arguments.problems)]
    figures += measure_verification([shorten(one) for one in judged], draw)
    Console().print(render(figures))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in figures], indent=1) + "\n")
    return 0


# Duplicates


def measure_duplicates(problems: Sequence[Problem], draw: random.Random) -> Iterator[Figure]:
    """Each kind of copy of a fifth of the problems, behind all of them."""
    clean = set(keep(problems))
    originals = [one for one in problems if one.id in clean]
    chosen = draw.sample(originals, len(originals) // 5)
    kinds: dict[str, Callable[[Problem], Problem]] = {
        "exact copy": lambda one: one,
        "other case and spacing": lambda one: replace(one, statement=recase(one.statement)),
        "a tenth of the words changed": lambda one: replace(one, statement=change_words(one.statement, draw)),
        "reworded": lambda one: replace(one, statement=reword(one.statement, draw)),
        "reworded, other tests": lambda one: take_half(replace(one, statement=reword(one.statement, draw)), 1),
    }
    for name, change in kinds.items():
        halved = name == "reworded, other tests"
        base = [take_half(one, 0) if halved else one for one in originals]
        copies = [replace(change(one), id=f"copy/{one.id}", identity=Identity()) for one in chosen]
        kept = keep([*base, *copies])
        caught = len(copies) - sum(id.startswith("copy/") for id in kept)
        false = len(base) - sum(not id.startswith("copy/") for id in kept)
        yield Figure("duplicates", name, len(copies), caught, len(base), false)


def measure_rewordings(problems: Sequence[Problem], data: Path) -> Figure:
    """LiveCodeBench's rows of the same problems, whose texts and examples were made ready by somebody else."""
    rows = [one for one in iterate_source(BENCHMARK, data) if isinstance(one, Problem)]
    known = {one.identity.slug for one in problems}
    pairs = [one for one in rows if one.identity.slug in known and one.identity.site == "leetcode"]
    kept = keep([*problems, *(replace(one, id=f"copy/{one.id}", identity=Identity()) for one in pairs)])
    caught = len(pairs) - sum(id.startswith("copy/") for id in kept)
    false = len(problems) - sum(not id.startswith("copy/") for id in kept)
    return Figure("duplicates", "LiveCodeBench's own wording", len(pairs), caught, len(problems), false)


def keep(problems: Sequence[Problem]) -> list[str]:
    """Ids of what the stage keeps."""
    return [one.id for one in Duplicates(DuplicatesParams(), seed=1).run(problems)]


def recase(text: str) -> str:
    """The same words."""
    return re.sub(r"[ \n]+", "\n  ", text.upper())


def change_words(text: str, draw: random.Random) -> str:
    """A tenth of the words replaced by others of the text."""
    words = text.split(" ")
    for place in draw.sample(range(len(words)), max(1, len(words) // 10)):
        words[place] = draw.choice(words)
    return " ".join(words)


def reword(text: str, draw: random.Random) -> str:
    """Synonyms, and the sentences of each paragraph in another order. Examples and code stay."""
    prose, example, rest = text.partition("Example 1:")
    paragraphs = []
    for paragraph in prose.split("\n"):
        sentences = re.split(r"(?<=[.?!]) ", paragraph)
        draw.shuffle(sentences)
        paragraphs.append(" ".join(sentences))
    swapped = re.sub(r"[A-Za-z]+", lambda word: SYNONYMS.get(word[0].lower(), word[0]), "\n".join(paragraphs))
    return swapped + example + rest


def take_half(problem: Problem, side: int) -> Problem:
    """The problem with every other test; with all where that leaves none."""
    tests = problem.suite.tests[side::2] or problem.suite.tests
    return replace(problem, suite=make_suite(tests, problem.suite.checker))


# Verification


def measure_verification(problems: Sequence[Problem], draw: random.Random) -> Iterator[Figure]:
    """Wrong expected outputs and flaky references, among as many problems that were left alone."""
    with tempfile.TemporaryDirectory() as folder, closing(LocalJudging("bubblewrap", 2)) as boxes:

        def verify(chosen: Sequence[Problem]) -> set[str]:
            journal = Path(folder) / "journal.jsonl"
            stage = Verify(VerifyParams(), lambda: boxes, 2, journal, threading.Event())
            return {one.id for one in stage.run(chosen)}

        clean = verify(problems)
        alarms = len(problems) - len(clean)
        sound = [one for one in problems if one.id in clean]
        spoilt = [changed for one in sound if (changed := spoil_expectation(one, draw)) is not None]
        kept = verify(spoilt)
        name = "one wrong expected output"
        yield Figure("verify", name, len(spoilt), len(spoilt) - len(kept), len(problems), alarms)
        for chance in (0.5, 0.1, 0.01):
            flaky = [replace(one, references=(make_flaky(one.references[0], chance),)) for one in sound]
            kept = verify(flaky)
            name = f"a reference that fails a test with a chance of {chance:g}"
            yield Figure("verify", name, len(flaky), len(flaky) - len(kept), len(problems), alarms)


def shorten(problem: Problem, tests: int = TESTS) -> Problem:
    """The problem with its longest tests."""
    return replace(problem, suite=make_suite(choose_longest(list(problem.suite.tests), tests)))


def spoil_expectation(problem: Problem, draw: random.Random) -> Problem | None:
    """The problem with another value expected in one test; None where there is none to change."""
    tests = list(problem.suite.tests)
    places = list(range(len(tests)))
    draw.shuffle(places)
    for place in places:
        changed = _spoil(tests[place])
        if changed is not None:
            try:
                return replace(problem, suite=make_suite([*tests[:place], changed, *tests[place + 1 :]]))
            except InvalidSuite:
                continue
    return None


def _spoil(test: TestCase) -> TestCase | None:
    """The last number of what is expected is one more; true is false."""
    field = "input" if test.kind is TestKind.ASSERTION else "expected"
    before, equals, expected = test.input.rpartition("==") if field == "input" else ("", "", test.expected or "")
    numbers = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", expected))
    if numbers:
        last = numbers[-1]
        changed = f"{expected[: last.start()]}{int(last[0]) + 1}{expected[last.end() :]}"
    else:
        opposite = {"true": "false", "false": "true", "True": "False", "False": "True"}
        changed = re.sub(r"\b(?:true|false|True|False)\b", lambda word: opposite[word[0]], expected, count=1)
    return None if changed == expected else replace(test, **{field: before + equals + changed})


def make_flaky(source: str, chance: float) -> str:
    """The program, which ends before its work with this chance, drawn by the machine's own randomness."""
    # At the beginning of each run, so that no function's name or signature has to be known.
    return (
        f"import os\nif int.from_bytes(os.urandom(4), 'big') < {chance} * 2 ** 32:\n    raise SystemExit(1)\n{source}"
    )


def render(figures: Sequence[Figure]) -> Table:
    """For the terminal."""
    table = Table("stage", "fault", "planted", "caught", "recall, 95 %", "clean", "false alarms")
    for one in figures:
        low, high = one.interval
        recall = f"{one.caught / max(1, one.planted):.3f} ({low:.2f}–{high:.2f})"
        table.add_row(one.stage, one.fault, str(one.planted), str(one.caught), recall, str(one.clean), str(one.false))
    return table


if __name__ == "__main__":
    sys.exit(main())
