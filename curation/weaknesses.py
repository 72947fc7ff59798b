"""How weak a suite is, by mutants of its reference, and which made inputs would make it stronger.

Of one problem, in these steps:

1. Mutants of the first trusted reference are judged by the suite. What it accepts survives.
2. Inputs are made from the suite's own. The trusted references, run without an expected output, answer them. An input
   stays where each of them ends normally and all agree, by the problem's own comparison.
3. Survivors answer these inputs. One that answers all as the reference does is *probably equivalent* to it; the others
   are *told apart*, so the suite is weaker than it could be. The score is killed / (killed + told apart). Where too few
   inputs were made, survivors count as told apart: nobody knows better. So do those beyond a quarter of all mutants.
4. A few inputs are chosen: greedily by the survivors that each kills, then by new answers of another size.
5. They become tests, and every reference must pass each, twice, in series and in processes of their own.

A reference that draws or reads the clock isn't trusted: its own answers would be expected of others.
"""

import ast
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from pydantic import Field

from curation.dialects import MAXIMUM_TEXT, Dialect, Given, Streams, open_dialect
from curation.judging import Answer, Judging, Order
from curation.mutants import Mutant, make_mutants
from curation.problem import Problem, make_suite
from curation.shapes import Shape
from curation.stage import Params
from curation.variations import Changes, Words, iterate_variations
from evaluator.errors import InvalidSuite
from evaluator.model import TestCase, TestKind, Verdict
from evaluator.suites import read_arguments

OURS = (Verdict.INTERNAL_ERROR, Verdict.CANCELLED)
UNSTEADY_MODULES = frozenset({"random", "secrets", "time", "uuid", "threading", "multiprocessing", "asyncio"})
UNSTEADY_CALLS = frozenset({"id", "hash", "now", "today", "utcnow", "urandom", "getpid", "getenv"})
LEAST_INPUTS = 20
"""Fewer made inputs say nothing about mutants that survive."""
MOST_EQUIVALENT = 0.25
"""Of the mutants: more are hardly equivalent, whatever the made inputs say. Measured on HumanEval: 0.06."""
ROOM = 4
"""A reference answers a made input within this part of its limit, or the input is left."""


class StrengthenParams(Params):
    """Settings of `strengthen`."""

    act: Literal["note", "strengthen", "drop"] = "note"
    """Note how weak suites are; also add tests to weak ones; or drop problems whose suites are weak."""
    mutants: int = Field(30, ge=1, le=1000)
    """Of a reference, at most."""
    least_mutants: int = Field(5, ge=1)
    """Fewer say nothing."""
    weak_until: float = Field(0.9, ge=0, le=1)
    """A suite is weak that kills at most this part of the mutants that can be told from the reference; 1: all are."""
    inputs: int = Field(100, ge=1, le=10_000)
    """Made for a suite that doesn't kill all mutants."""
    reach: Literal["seen", "near"] = "seen"
    """Inputs keep everything that all of the suite's have in common (`shapes.py`), or go a step beyond."""
    most_added: int = Field(10, ge=1)
    """Tests added to a weak suite, at most."""
    diverse: int = Field(5, ge=0)
    """Of them, tests that kill no survivor of their own, chosen for their differing answers."""
    agreeing: int = Field(1, ge=1)
    """References that must answer alike before an input is used."""
    seconds: float = Field(0.5, gt=0)
    """Of processor time for a mutant, a test; more, by doubling, where the reference needs a quarter of it."""


@dataclass(frozen=True)
class Weakness:
    """What is known of a suite. `unable` says why nothing more is."""

    mutants: int = 0
    killed: int = 0
    told_apart: int = 0
    """Survivors that answer a made input otherwise than the references."""
    killed_after: int = 0
    """Survivors that the chosen tests kill."""
    wrong_passing: int = 0
    """Programs known to be wrong that the suite accepts."""
    wrong_killed: int = 0
    inputs: int = 0
    """Made inputs on which the references end normally and agree."""
    tests: tuple[TestCase, ...] = ()
    """The chosen ones."""
    unable: str = ""

    @property
    def passing(self) -> int:
        """Survivors that aren't believed to be equivalent: those told apart, or all where too few inputs were made."""
        survivors = self.mutants - self.killed
        if self.inputs < LEAST_INPUTS:
            return survivors
        return max(self.told_apart, survivors - int(MOST_EQUIVALENT * self.mutants))

    @property
    def score(self) -> float | None:
        """Killed of the mutants that aren't equivalent; at least so much, where nobody has looked for equivalent ones.

        None where nothing is known.
        """
        able = self.killed + self.passing
        return self.killed / able if able and not self.unable else None

    @property
    def score_after(self) -> float | None:
        """The same with the chosen tests."""
        able = self.killed + self.passing
        return (self.killed + self.killed_after) / able if able and not self.unable else None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "tests": [asdict(test) for test in self.tests]}


def read_weakness(record: dict[str, Any]) -> Weakness:
    """What `document` wrote."""
    tests = tuple(TestCase(**{**test, "kind": TestKind(test["kind"])}) for test in record["tests"])
    return Weakness(**{**record, "tests": tests})


class Unjudged(Exception):
    """Something wasn't judged, by our own failure."""


class Examination:
    """Of one problem."""

    def __init__(self, params: StrengthenParams, judging: Judging, problem: Problem, seed: str) -> None:
        """Draw by `seed` and the problem's id."""
        self._params = params
        self._judging = judging
        self._seed = f"{seed} {problem.id}"
        self._problem = problem
        self._trusted = [source for source in problem.references if is_steady(source)]
        self._limited = replace(problem, cpu_seconds=self._limit())

    def _limit(self) -> float:
        """Seconds for a mutant: in steps, so that what a reference needed by the clock seldom changes it."""
        margins = self._problem.notes.get("margins")
        needed = margins["cpu_seconds"] if isinstance(margins, dict) else 0.0
        seconds = self._params.seconds
        while seconds < 4 * needed:
            seconds *= 2
        return min(seconds, self._problem.limits().cpu_seconds)

    def examine(self) -> Weakness:
        """All that can be found out.

        Raises:
            Unjudged: a judgement is missing.
        """
        if len(self._trusted) < self._params.agreeing:
            return Weakness(unable="too few reference programs that neither draw nor read the clock")
        mutants = make_mutants(self._trusted[0], self._params.mutants, self._seed)
        survivors, wrong = self._find_survivors(mutants)
        found = Weakness(len(mutants), len(mutants) - len(survivors), wrong_passing=len(wrong))
        if len(mutants) < self._params.least_mutants:
            return replace(found, unable="too few mutants")
        if found.killed > self._params.weak_until * len(mutants) and not wrong:
            return found
        dialect = open_dialect(self._problem)
        if dialect is None:
            return replace(found, unable="its tests' inputs can't be read")
        return self._look_further(found, dialect, survivors, wrong)

    def _find_survivors(self, mutants: Sequence[Mutant]) -> tuple[list[str], list[str]]:
        """Mutants, and programs known to be wrong, that the suite accepts."""
        passed = self._pass(self._limited, [mutant.source for mutant in mutants]) if mutants else []
        verified = self._problem.notes.get("verified")
        all_fail = isinstance(verified, dict) and not verified.get("wrong_passing")
        wrong = self._pass(self._problem, self._problem.wrong) if self._problem.wrong and not all_fail else []
        return passed, wrong

    def _pass(self, problem: Problem, sources: Sequence[str]) -> list[str]:
        """Those programs that pass all tests."""
        outcomes = self._judging.judge(problem, [Order(source, fail_fast=True) for source in sources])
        if any(one.verdict in OURS for one in outcomes):
            raise Unjudged
        return [source for source, one in zip(sources, outcomes, strict=True) if one.verdict == Verdict.ACCEPTED]

    def _look_further(self, found: Weakness, dialect: Dialect, survivors: list[str], wrong: list[str]) -> Weakness:
        tried = self._answer(dialect, self._make_inputs(dialect))
        found = replace(found, inputs=len(tried))
        if not tried:
            return found
        rows = self._collect(dialect, [given for given, _, _ in tried], [*survivors, *wrong])
        kills = [find_differences(row, [output for _, output, _ in tried]) for row in rows]
        sizes = [(len(test.input), number) for number, (_, _, test) in enumerate(tried)]
        killing = choose_tests(kills, sizes, self._params.most_added)
        room = min(self._params.diverse, self._params.most_added - len(killing))
        more = choose_diverse([output for _, output, _ in tried], [given for given, _, _ in tried], killing, room)
        chosen = {*killing, *more}
        tests = self._confirm([tried[number][2] for number in sorted(chosen)])
        left, wrong_left = survivors, wrong
        if tests:
            added = replace(self._limited, suite=make_suite(tests, self._problem.suite.checker))
            left = self._pass(added, survivors) if survivors else []
            wrong_left = self._pass(replace(added, cpu_seconds=self._problem.cpu_seconds), wrong) if wrong else []
        # What differs as text only, on a chosen input, the comparison has just called equal.
        also = sum(
            source in left and bool(row) and not row & chosen for source, row in zip(survivors, kills, strict=False)
        )
        return replace(
            found,
            told_apart=len(survivors) - len(left) + also,
            killed_after=len(survivors) - len(left),
            wrong_killed=len(wrong) - len(wrong_left),
            tests=tuple(tests),
        )

    def _make_inputs(self, dialect: Dialect) -> list[Given]:
        """The problem's own inputs that its suite doesn't use, where it has some, and made ones."""
        draw = random.Random(self._seed)
        shape = Shape([one.values for one in dialect.inputs], strict=self._params.reach == "seen")
        is_text = isinstance(dialect, Streams)
        change = Words(dialect.inputs, draw) if is_text else Changes(dialect.inputs, shape, draw)
        own = [] if is_text else read_own_inputs(self._problem, dialect)
        made = own[: self._params.inputs]
        for given in iterate_variations(dialect.inputs, None if is_text else shape, draw, change):
            if len(made) >= self._params.inputs:
                break
            probe = dialect.probe(given)
            if probe is not None and len(probe.input) <= MAXIMUM_TEXT:
                made.append(given)
        return made

    def _answer(self, dialect: Dialect, inputs: list[Given]) -> list[tuple[Given, str, TestCase]]:
        """Inputs with the answer of the references, and the test that they make."""
        if not inputs:
            return []
        guards = [str(source) for source in self._problem.notes.get("guards", [])]
        first, *others = self._collect(dialect, inputs, [self._trusted[0], *guards], whole=True)
        most = self._limited.limits().cpu_seconds / ROOM
        tried = []
        for place, (given, answer) in enumerate(zip(inputs, first, strict=True)):
            output = answer.output
            if output is None or answer.cpu_seconds > most or any(row[place].output is None for row in others):
                continue
            test = dialect.write(given, output) if len(output) <= MAXIMUM_TEXT else None
            if test is not None and is_test(test):
                tried.append((given, output, test))
        for source in self._trusted[1:]:
            if tried:
                agreeing = self._confirm_one([test for _, _, test in tried], Order(source))
                tried = [one for one, agrees in zip(tried, agreeing, strict=True) if agrees]
        return tried

    def _collect(
        self, dialect: Dialect, inputs: Sequence[Given], sources: Sequence[str], *, whole: bool = False
    ) -> list[tuple[Answer, ...]]:
        """Answers of each program, up to the first without one; `whole`: beyond it, too."""
        if not sources:
            return []
        probes = [probe for given in inputs if (probe := dialect.probe(given)) is not None]
        asked = replace(self._limited, suite=make_suite(probes), entry_point=dialect.entry_point)
        orders = [Order(dialect.prepare(source), fail_fast=not whole) for source in sources]
        rows = self._judging.collect(asked, orders)
        if any(not row or any(one.verdict in OURS for one in row) for row in rows):
            raise Unjudged
        return rows

    def _confirm(self, tests: list[TestCase]) -> list[TestCase]:
        """Those tests that all references pass, twice."""
        for source in self._problem.references:
            for run in range(2):
                if tests:
                    passed = self._confirm_one(tests, Order(source, run))
                    tests = [test for test, accepted in zip(tests, passed, strict=True) if accepted]
        return tests

    def _confirm_one(self, tests: Sequence[TestCase], order: Order) -> list[bool]:
        suite = make_suite(tests, self._problem.suite.checker)
        [outcome] = self._judging.judge(replace(self._limited, suite=suite), [order])
        if outcome.verdict in OURS:
            raise Unjudged
        verdicts = outcome.tests or ("",) * len(tests)
        return [verdict == Verdict.ACCEPTED for verdict in verdicts]


def read_own_inputs(problem: Problem, dialect: Dialect) -> list[Given]:
    """Inputs that the source gives beside the tests (the note `inputs`): arguments as JSON, one a line."""
    known = {repr(one.values) for one in dialect.inputs}
    found = []
    for text in problem.notes.get("inputs", []):
        given = Given(tuple(read_arguments(text)), dialect.inputs[0].form)
        probe = dialect.probe(given)
        if repr(given.values) not in known and probe is not None and len(probe.input) <= MAXIMUM_TEXT:
            found.append(given)
    return found


def is_test(test: TestCase) -> bool:
    """Whether the evaluator takes it."""
    try:
        make_suite([test])
    except InvalidSuite:
        return False
    return True


def is_steady(source: str) -> bool:
    """Whether nothing in a program's names tells that it draws, reads the clock, or depends on where it runs."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in UNSTEADY_CALLS:
            return False
    return not names & UNSTEADY_MODULES


def find_differences(row: Sequence[Answer], outputs: Sequence[str]) -> set[int]:
    """On which inputs a program answers otherwise. After the first that it doesn't end normally on nothing is known."""
    found = set()
    for number, (answer, output) in enumerate(zip(row, outputs, strict=True)):
        if answer.verdict == Verdict.SKIPPED:
            break
        if answer.output != output:
            found.add(number)
    return found


def choose_tests(kills: Sequence[set[int]], sizes: Sequence[tuple[int, int]], most: int) -> list[int]:
    """Greedily, those tests that kill most of what is left; of equal ones the smallest."""
    left = [killing for killing in kills if killing]
    chosen: list[int] = []
    while left and len(chosen) < most:
        counts: dict[int, int] = {}
        for killing in left:
            for number in killing:
                counts[number] = counts.get(number, 0) + 1
        best = min(counts, key=lambda number: (-counts[number], sizes[number]))
        chosen.append(best)
        left = [killing for killing in left if best not in killing]
    return chosen


def choose_diverse(outputs: Sequence[str], inputs: Sequence[Given], chosen: Iterable[int], most: int) -> list[int]:
    """Inputs, in their order, whose answer no chosen one gives, or whose sizes none has."""
    taken = set(chosen)
    answers = {outputs[number] for number in taken}
    sizes = {describe_sizes(inputs[number]) for number in taken}
    found: list[int] = []
    for needed in (2, 1):
        for number, given in enumerate(inputs):
            size = describe_sizes(given)
            news = (outputs[number] not in answers) + (size not in sizes)
            if len(found) < most and number not in taken and news >= needed:
                found.append(number)
                taken.add(number)
                answers.add(outputs[number])
                sizes.add(size)
    return found


def describe_sizes(given: Given) -> tuple[Any, ...]:
    """Lengths, and signs of numbers: what tells two inputs apart roughly."""
    return tuple(
        len(value)
        if hasattr(value, "__len__")
        else (value > 0) - (value < 0)
        if isinstance(value, (int, float))
        else value
        for value in given.values
    )
