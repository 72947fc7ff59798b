"""How well weak suites are found and strengthened: `python -m benchmarks.weak_suites DATA [--markdown] [--part PART …]`

humaneval  Suites are strengthened from the base tests and the canonical solution alone. Of published programs that pass
           the base tests, those that EvalPlus's tests reject should be caught; those that they accept shouldn't be.
           Once more with EvalPlus's contracts, which say what inputs are valid; and with two published programs that
           pass the base tests as further references, which must agree (and aren't counted).
mbpp       A part of the mutants chooses tests, another part is held out: how many of these are killed before and after?
planted    Of problems with many tests all but the shortest are taken away. A suite is truly weak that kills at most
           nine tenths of the mutants that the whole suite kills; is it called weak, and is no other?

Nothing but the base tests and the reference is looked at before tests are chosen.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.contamination import iterate_problems
from benchmarks.curation_faults import shorten
from benchmarks.weak_suites_tables import render
from curation.judging import Answer, Judging, LocalJudging, Order, Outcome
from curation.mutants import make_mutants
from curation.problem import Problem, make_suite
from curation.recipe import SourceIn
from curation.sources import iterate_source
from curation.weaknesses import Examination, StrengthenParams, Unjudged, Weakness
from evaluator.model import TestCase, TestKind, Verdict

HUMANEVAL = SourceIn(name="humaneval", reader="humaneval", path="sources/HumanEval.jsonl.gz")
HUMANEVAL_PLUS = SourceIn(name="humaneval-plus", reader="humaneval", path="sources/HumanEvalPlus.jsonl.gz")
MBPP = SourceIn(name="mbpp", reader="mbpp", path="sources/mbpp.jsonl.gz")
LABELLED = "labelled/humanevalplus_functional.jsonl"
SEED = "11"
PARTS = ("humaneval", "mbpp", "planted")
HELD_OUT = 20
TESTS = 40
"""Of a problem whose suite is called whole."""
T = TypeVar("T")
R = TypeVar("R")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of labelled data")
    parser.add_argument("--part", action="append", choices=PARTS, help="only these")
    parser.add_argument("--problems", type=int, default=110, help="of MBPP, and a third of it with planted faults")
    parser.add_argument("--markdown", action="store_true", help="tables for docs/curation.md")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    arguments = parser.parse_args(argv)
    figures: dict[str, Any] = {}
    with closing(LocalJudging("bubblewrap", 2)) as boxes:
        for part in arguments.part or PARTS:
            figures.update(measure(boxes, part, arguments.data, arguments.problems))
            print(render(figures, markdown=arguments.markdown), file=sys.stderr)
            if arguments.json:
                arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(render(figures, markdown=arguments.markdown))
    return 0


def measure(boxes: Judging, part: str, data: Path, problems: int) -> dict[str, Any]:
    """The figures of one part, by name."""
    remembering = Remembering(boxes)
    params = {reach: StrengthenParams(weak_until=1, reach=reach, mutants=20) for reach in ("seen", "near")}
    if part == "planted":
        params = {name: one.model_copy(update={"weak_until": 0.9}) for name, one in params.items()}
        return {
            f"{part}: {name}": asdict(measure_planted(remembering, data, one, problems // 3))
            for name, one in params.items()
        }
    if part == "mbpp":
        params = {name: one.model_copy(update={"mutants": 10}) for name, one in params.items()}  # programs are short
        return {
            f"{part}: {name}": asdict(measure_mbpp(remembering, data, one, problems)) for name, one in params.items()
        }
    rows = {
        "seen": (params["seen"], {}),
        "near": (params["near"], {}),
        "near, within EvalPlus's contracts": (params["near"], {"contracts": True}),
        "near, two more programs agree": (params["near"], {"fellows": 2}),
    }
    return {
        f"{part}: {name}": asdict(measure_humaneval(remembering, data, one, **more))
        for name, (one, more) in rows.items()
    }


class Remembering:
    """Boxes that judge the same program on the same suite once: the same mutants are asked about in several rows."""

    def __init__(self, boxes: Judging) -> None:
        self.boxes, self.most = boxes, boxes.most
        self.known: dict[tuple[Any, ...], Outcome] = {}

    def judge(self, problem: Problem, orders: Sequence[Order]) -> list[Outcome]:
        """What is known, and the rest by the boxes."""
        keys = [(problem.suite.id, problem.cpu_seconds, problem.entry_point, order) for order in orders]
        new = [key for key in dict.fromkeys(keys) if key not in self.known]
        self.known.update(zip(new, self.boxes.judge(problem, [key[-1] for key in new]), strict=True))
        return [self.known[key] for key in keys]

    def collect(self, problem: Problem, orders: Sequence[Order]) -> list[tuple[Answer, ...]]:
        """By the boxes."""
        return self.boxes.collect(problem, orders)

    def stop(self) -> None:
        """As the boxes."""
        self.boxes.stop()

    def close(self) -> None:
        """As the boxes."""
        self.boxes.close()


def do_all(items: Iterable[T], call: Callable[[T], R]) -> list[R]:
    """Two at a time, in order."""
    with ThreadPoolExecutor(2) as executor:
        return list(executor.map(call, items))


def examine(boxes: Judging, problem: Problem, params: StrengthenParams) -> Weakness:
    """What the stage finds out."""
    try:
        return Examination(params, boxes, problem, SEED).examine()
    except Unjudged:
        return Weakness(unable="something couldn't be judged")


@dataclass
class Strengthened:
    """Suites that were looked at."""

    problems: int = 0
    unable: dict[str, int] = field(default_factory=dict)
    tests: int = 0
    """Added in all."""
    mutants: int = 0
    killed: int = 0
    told_apart: int = 0


# HumanEval


@dataclass
class Programs(Strengthened):
    """Published programs that pass the base tests, and what became of them."""

    wrong: int = 0
    """Rejected by EvalPlus's tests for an answer or an error, as the label says."""
    alike: int = 0
    """Of these, accepted by the same tests where floats may differ in their last digits: not wrong."""
    wrong_caught: int = 0
    slow: int = 0
    """Rejected by EvalPlus's tests for their time."""
    slow_caught: int = 0
    right: int = 0
    false_alarms: list[dict[str, str]] = field(default_factory=list)


def measure_humaneval(
    boxes: Judging, data: Path, params: StrengthenParams, *, contracts: bool = False, fellows: int = 0
) -> Programs:
    """All problems; the programs of each that the base tests accept. `fellows` of these are references, too."""
    lines = (data / LABELLED).read_text("utf-8").splitlines()
    labelled = {record["id"].rpartition("/")[2]: record for record in map(json.loads, lines)}
    problems = [one for one in iterate_source(HUMANEVAL, data) if isinstance(one, Problem)]
    if contracts:
        plus = [one for one in iterate_source(HUMANEVAL_PLUS, data) if isinstance(one, Problem)]
        guards = {one.identity.id: one.notes.get("guards", []) for one in plus}
        problems = [one.with_note("guards", guards[one.identity.id]) for one in problems]
    figures = Programs(len(problems))

    def do(problem: Problem) -> tuple[Problem, Weakness, list[tuple[dict[str, Any], str, str]], int]:
        record = labelled[problem.identity.id]
        programs = [one for one in record["submissions"] if one["published_label"].startswith("accepted")]
        published = [one for one in programs if "canonical" not in one["label_source"]]
        draw = random.Random(f"{SEED} {problem.id}")
        chosen = [one["code"] for one in draw.sample(published, min(fellows, len(published)))]
        programs = [one for one in programs if one["code"] not in chosen]
        alike = count_alike(boxes, problem, record, programs)
        found = examine(boxes, replace(problem, references=(*problem.references, *chosen)), params)
        return problem, found, judge_programs(boxes, problem, found, programs), alike

    for problem, found, judged, alike in do_all(problems, do):
        count(figures, found)
        figures.alike += alike
        for program, verdict, detail in judged:
            count_program(figures, problem, program, verdict, detail)
    return figures


def count_alike(boxes: Judging, problem: Problem, record: dict[str, Any], programs: list[dict[str, Any]]) -> int:
    """Programs labelled as wrong that EvalPlus's tests accept under the evaluator's own comparison."""
    wrong = [one["code"] for one in programs if one["label"] == Verdict.WRONG_ANSWER]
    tests = [TestCase(TestKind.FUNCTIONAL, test["input"], test["expected"]) for test in record["tests"]]
    return len(pass_suite(boxes, replace(problem, suite=make_suite(tests)), wrong)) if wrong else 0


def judge_programs(
    boxes: Judging, problem: Problem, found: Weakness, programs: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], str, str]]:
    """Each program with the verdict of the added tests, which are one here: so they are fewer processes."""
    if not found.tests:
        return [(one, Verdict.ACCEPTED, "") for one in programs]
    whole = make_suite([TestCase(TestKind.ASSERTION, "\n".join(test.input for test in found.tests))])
    asked = replace(problem, suite=whole, cpu_seconds=5.0)
    outcomes = boxes.judge(asked, [Order(one["code"]) for one in programs])
    return [(one, outcome.verdict, outcome.detail) for one, outcome in zip(programs, outcomes, strict=True)]


def count(figures: "Programs | Mutants", found: Weakness) -> None:
    """What was found out about a suite."""
    figures.tests += len(found.tests)
    figures.mutants += found.mutants
    figures.killed += found.killed
    figures.told_apart += found.told_apart
    if found.unable:
        figures.unable[found.unable] = figures.unable.get(found.unable, 0) + 1


def count_program(figures: Programs, problem: Problem, program: dict[str, Any], verdict: str, detail: str) -> None:
    """A program: one of three kinds, caught or not."""
    caught = verdict != Verdict.ACCEPTED
    if program["label"] == Verdict.ACCEPTED:
        figures.right += 1
        if caught:
            said = {"problem": problem.id, "program": program["label_source"], "verdict": verdict, "detail": detail}
            figures.false_alarms.append(said)
    elif program["label"] == Verdict.TIME_LIMIT:
        figures.slow += 1
        figures.slow_caught += caught
    else:
        figures.wrong += 1
        figures.wrong_caught += caught


# MBPP


@dataclass
class Mutants(Strengthened):
    """Mutants that chose tests, and others that didn't."""

    held_out: int = 0
    held_killed: int = 0
    held_killed_after: int = 0


def measure_mbpp(boxes: Judging, data: Path, params: StrengthenParams, wanted: int) -> Mutants:
    """Problems drawn by a seed."""
    problems = [one for one in iterate_source(MBPP, data) if isinstance(one, Problem) and one.references]
    problems = random.Random(SEED).sample(problems, wanted)
    figures = Mutants()

    def do(problem: Problem) -> tuple[Weakness, int, int, int]:
        found = examine(boxes, problem, params)
        held = hold_out(problem, params)
        left = pass_suite(boxes, problem, held)
        added = replace(problem, suite=make_suite(found.tests)) if found.tests else None
        left_after = pass_suite(boxes, added, left) if added else left
        return found, len(held), len(held) - len(left), len(held) - len(left_after)

    for found, held, killed, killed_after in do_all(filter(lambda one: is_passed(boxes, one), problems), do):
        figures.problems += 1
        count(figures, found)
        figures.held_out += held
        figures.held_killed += killed
        figures.held_killed_after += killed_after
    return figures


def hold_out(problem: Problem, params: StrengthenParams) -> list[str]:
    """Mutants that the stage doesn't make of this problem."""
    source = problem.references[0]
    used = {one.source for one in make_mutants(source, params.mutants, f"{SEED} {problem.id}")}
    others = make_mutants(source, 1000, f"{SEED} {problem.id} held out")
    return [one.source for one in others if one.source not in used][:HELD_OUT]


def pass_suite(boxes: Judging, problem: Problem, sources: Sequence[str]) -> list[str]:
    """Those programs that the suite accepts."""
    limited = replace(problem, cpu_seconds=0.5)
    outcomes = boxes.judge(limited, [Order(source, fail_fast=True) for source in sources])
    return [source for source, one in zip(sources, outcomes, strict=True) if one.verdict == Verdict.ACCEPTED]


def is_passed(boxes: Judging, problem: Problem) -> bool:
    """Whether the reference passes."""
    return bool(problem.references) and bool(pass_suite(boxes, problem, problem.references[:1]))


# Planted


@dataclass
class Planted:
    """Suites, and what they were called."""

    problems: int = 0
    weak: int = 0
    called: int = 0
    """Of the weak ones."""
    strong: int = 0
    false_alarms: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    unknown: int = 0


def measure_planted(boxes: Judging, data: Path, params: StrengthenParams, wanted: int) -> Planted:
    """Each problem with its whole suite, and with its shortest test alone."""
    problems = [one for one in iterate_problems(data) if len(one.suite.tests) >= TESTS and one.references]
    problems = [shorten(one, TESTS) for one in random.Random(SEED).sample(problems, min(2 * wanted, len(problems)))]
    problems = [one for one in problems if is_passed(boxes, one)][:wanted]
    figures = Planted(len(problems))

    def do(problem: Problem) -> list[tuple[str, float, Weakness]]:
        mutants = [one.source for one in make_mutants(problem.references[0], params.mutants, f"{SEED} {problem.id}")]
        killed = set(mutants) - set(pass_suite(boxes, problem, mutants))
        shortest = min(problem.suite.tests, key=lambda test: len(test.input))
        thin = replace(problem, suite=make_suite([shortest]))
        passing = set(pass_suite(boxes, thin, sorted(killed)))
        true = 1 - len(passing) / len(killed) if killed else 1.0
        found = [examine(boxes, one, params) for one in (problem, thin)]
        return [(problem.id, 1.0, found[0]), (f"{problem.id}, one test", true, found[1])]

    for name, true, found in (one for pair in do_all(problems, do) for one in pair):
        is_weak, score = true <= params.weak_until, found.score
        figures.unknown += score is None
        is_called = score is not None and score <= params.weak_until
        figures.weak += is_weak
        figures.strong += not is_weak
        figures.called += is_weak and is_called
        if is_called and not is_weak:
            figures.false_alarms.append(f"{name}: {found.passing} pass, {found.killed} are killed")
        if is_weak and not is_called:
            figures.missed.append(f"{name}: {true:.2f}, {found}")
    return figures


if __name__ == "__main__":
    sys.exit(main())
