"""What `compare` lets evaluators judge: a reward batch as a step of GRPO makes it, and small workloads of one kind.

**The reward batch**: 64 problems with 8 programs each, 512 in all, under a limit of 6 s and up to the first failure.
All of it is real, and a seed decides everything that is drawn.

- *Problems* are contest problems, as trainers use them, of four labelled sets: those with a full list of tests (five or
  more: fewer are the statement's samples), three or more programs that end, and answers that can be compared without a
  checker. So no evaluator is at a loss, and none is measured on sample tests, which take no time to run.
- *Shares.* As many accepted, wrong, crashing and looping programs as among the 3 440 LiveCodeBench generations of four
  models that hold a program (`lcb_model_generations.jsonl`), rounded by the largest remainder: of 512, 245 accepted,
  226 wrong, 32 that crash and 9 that loop.
- *Groups.* A group takes eight programs of its problem with repetition, and a repeated one gets a comment with its
  number as its last line: it does what the first does, and its text is its own, so that nothing that looks for equal
  texts is helped.
- *Duplicates.* Of the generations, 1.1 % are word for word another one of their problem, although from another model.
  So many of the repetitions stay without the comment. Samples of one model repeat each other more often: this errs on
  the side against whoever judges duplicates once.

`salt` gives every program a text that no earlier run had, so that no cache helps from one run to the next.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.labelled import BadInput, Labelled, Problem, read_problems
from evaluator.model import Checker, CheckerName, Limits, NamedChecker, Prelude, TestCase, TestKind, Verdict

GENERATIONS = "lcb_model_generations.jsonl"
SEED = 20_261_130
GROUPS = 64
GROUP_SIZE = 8
CPU_SECONDS = 6.0
SOURCES = (GENERATIONS, "apps_stdin.jsonl", "kattis_icpc.jsonl", "leetcode_debugbench.jsonl")
VARIETY = 3
"""Programs that end, of which a problem must have so many to be drawn: a group isn't one program eight times."""
FULL_LIST = 5
"""Tests that a problem must have to be drawn."""
LEAST_LIMIT = 5.0
"""A program that was found to loop under less isn't taken for one that loops."""
ATTEMPTS = 1_000
"""Draws of problems until one has programs of every kind in it."""
LOOPING = str(Verdict.TIME_LIMIT)
TOKENS = NamedChecker(CheckerName.TOKENS)
LOOP_LIMITS = Limits(cpu_seconds=1.0)


@dataclass(frozen=True, slots=True)
class Entry:
    """One program with the tests and the rules to judge it by. The problem's own programs don't matter here."""

    problem: Problem
    program: Labelled

    @property
    def is_right(self) -> bool:
        """Whether it should be accepted."""
        return self.program.label == Verdict.ACCEPTED


@dataclass(frozen=True, slots=True)
class Batch:
    """Programs that are judged together, those of a problem side by side."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def shares(self) -> dict[str, int]:
        """How many programs have which label."""
        return dict(Counter(entry.program.label for entry in self.entries))

    @property
    def tests(self) -> int:
        """Tests of all programs, if none ended early."""
        return sum(len(entry.problem.tests) for entry in self.entries)

    @property
    def duplicates(self) -> int:
        """Programs whose very text came before in their group."""
        texts = {(entry.problem.id, entry.program.text) for entry in self.entries}
        return len(self.entries) - len(texts)

    @property
    def record(self) -> dict[str, object]:
        """As `compare --json` writes it."""
        problems = len({entry.problem.id for entry in self.entries})
        return {
            "problems": problems, "programs": len(self.entries), "tests": self.tests,
            "labels": self.shares, "duplicates": self.duplicates,
        }  # fmt: skip


# The reward batch


def draw_reward_batch(folder: Path, groups: int = GROUPS, seed: int = SEED) -> Batch:
    """The reward batch.

    Raises:
        BadInput: the labelled sets aren't there, or can't be read.
    """
    generations = [with_programs(problem) for problem in read_problems(folder / GENERATIONS)]
    labels = Counter(item.label for problem in generations for item in problem.submissions)
    problems = [with_programs(problem) for name in SOURCES for problem in read_problems(folder / name)]
    problems = [problem for problem in problems if is_fit(problem)]
    if len(problems) < groups:
        raise BadInput(f"{folder}: holds {len(problems)} fit problems, and {groups} are to be drawn; ask for fewer.")
    quotas = share_out(labels, groups * GROUP_SIZE)
    repeats = count_repeats(generations) / labels.total()
    draw = random.Random(seed)
    for _ in range(ATTEMPTS):
        chosen = draw.sample(problems, groups)
        groups_of_programs = deal(chosen, quotas, draw)
        if groups_of_programs is not None:
            break
    else:
        raise BadInput(f"{folder}: no draw of {groups} problems has programs of every kind; ask for more.")
    entries = [
        Entry(bound(problem), program)
        for problem, programs in zip(chosen, groups_of_programs, strict=True)
        for program in tell_apart(programs)
    ]
    return Batch("reward_batch", repeat_some(entries, round(repeats * len(entries)), draw))


def with_programs(problem: Problem) -> Problem:
    """The problem without answers that hold no program, and without programs of which it isn't known that they loop."""
    loops_for_sure = problem.limits.cpu_seconds >= LEAST_LIMIT
    items = (item for item in problem.submissions if not item.is_answer)
    kept = tuple(item for item in items if item.label != LOOPING or loops_for_sure)
    return replace(problem, submissions=kept)


def is_fit(problem: Problem) -> bool:
    """Whether a problem may be drawn."""
    plain = problem.skip is None and problem.checker in (None, TOKENS)
    return plain and len(problem.tests) >= FULL_LIST and len(list_ending(problem)) >= VARIETY


def list_ending(problem: Problem) -> list[Labelled]:
    """Its programs that don't loop."""
    return [item for item in problem.submissions if item.label != LOOPING]


def share_out(weights: Counter[str], places: int) -> dict[str, int]:
    """Whole numbers in the proportion of the weights: by the largest remainder."""
    exact = {name: places * weight / weights.total() for name, weight in weights.items()}
    whole = {name: int(share) for name, share in exact.items()}
    for name in sorted(exact, key=lambda name: whole[name] - exact[name])[: places - sum(whole.values())]:
        whole[name] += 1
    return whole


def count_repeats(problems: Iterable[Problem]) -> int:
    """Programs whose text another program of the same problem has."""
    return sum(len(problem.submissions) - len({item.text for item in problem.submissions}) for problem in problems)


def deal(problems: list[Problem], quotas: dict[str, int], draw: random.Random) -> list[list[Labelled]] | None:
    """A group of programs for each problem, so that every label gets its quota. None: these problems can't give it.

    First each place gets any program of its problem that ends. Then places change, chosen at random, from labels that
    are above their quota to labels that are below.
    """
    ending = {problem.id: list_ending(problem) for problem in problems}
    places = [(problem, draw.choice(ending[problem.id])) for problem in problems for _ in range(GROUP_SIZE)]
    missing = Counter(quotas)
    missing.subtract(program.label for _, program in places)
    for label in sorted(quotas, key=quotas.__getitem__):
        for number in draw.sample(range(len(places)), len(places)):
            problem, program = places[number]
            others = [item for item in problem.submissions if item.label == label]
            if missing[label] > 0 and missing[program.label] < 0 and others:
                places[number] = problem, draw.choice(others)
                missing[label] -= 1
                missing[program.label] += 1
    if any(missing.values()):
        return None
    programs = [program for _, program in places]
    return [programs[start : start + GROUP_SIZE] for start in range(0, len(programs), GROUP_SIZE)]


def bound(problem: Problem) -> Problem:
    """The problem under the limit of the batch, without its own programs."""
    return replace(problem, submissions=(), limits=Limits(cpu_seconds=CPU_SECONDS))


def tell_apart(programs: list[Labelled]) -> list[Labelled]:
    """The same programs, no two with one text: later ones get a comment."""
    seen: Counter[str] = Counter()
    apart = []
    for place, program in enumerate(programs):
        seen[program.text] += 1
        text = program.text if seen[program.text] == 1 else f"{program.text}\n# sample {place}"
        apart.append(replace(program, id=f"{program.id}/{place}", text=text))
    return apart


def repeat_some(entries: list[Entry], count: int, draw: random.Random) -> tuple[Entry, ...]:
    """Make `count` programs word for word what the first of their group with the same origin is."""
    origins: dict[str, Labelled] = {}
    later = []
    for place, entry in enumerate(entries):
        origin = entry.program.id.rpartition("/")[0]
        if origin in origins:
            later.append(place)
        else:
            origins[origin] = entry.program
    repeated = list(entries)
    for place in draw.sample(later, min(count, len(later))):
        entry = entries[place]
        first = origins[entry.program.id.rpartition("/")[0]]
        repeated[place] = replace(entry, program=replace(entry.program, text=first.text))
    return tuple(repeated)


def without_loops(batch: Batch) -> Batch:
    """The same batch, without the programs that run into their time limit."""
    entries = tuple(entry for entry in batch.entries if entry.program.label != LOOPING)
    return Batch(f"{batch.name}_without_loops", entries)


def salt(batch: Batch, number: int) -> Batch:
    """The same programs under texts that no earlier run had. Duplicates stay duplicates."""
    entries = (
        replace(entry, program=replace(entry.program, text=f"{entry.program.text}\n# run {number}"))
        for entry in batch.entries
    )
    return Batch(batch.name, tuple(entries))


# Small workloads


def make_batch(
    name: str, source: str, tests: Iterable[tuple[str, str]], copies: int, *, label: str = "accepted",
    entry_point: str | None = None, limits: Limits | None = None,
) -> Batch:  # fmt: skip
    """One program many times, each under a text of its own."""
    kind = TestKind.STDIN if entry_point is None else TestKind.FUNCTIONAL
    checker: Checker | None = TOKENS if kind is TestKind.STDIN else None
    problem = Problem(
        name, tuple(TestCase(kind, given, expected) for given, expected in tests), (), entry_point,
        Prelude.NONE, limits or Limits(cpu_seconds=CPU_SECONDS), checker=checker,
    )  # fmt: skip
    entries = [Entry(problem, Labelled(f"{name}#{n}", label, f"{source}# copy {n}\n")) for n in range(copies)]
    return Batch(name, tuple(entries))


def make_trivial(copies: int, tests: int = 15) -> Batch:
    """Programs that read a number and print the next."""
    cases = [(f"{n}\n", f"{n + 1}\n") for n in range(tests)]
    return make_batch("trivial_stdin", "print(int(input()) + 1)\n", cases, copies)


def make_numpy(copies: int, tests: int = 15) -> Batch:
    """Programs that need numpy for what the trivial ones do."""
    cases = [(f"{n}\n", f"{n + 1}\n") for n in range(tests)]
    source = "import numpy as np\nprint(int(np.array([int(input()), 1]).sum()))\n"
    return make_batch("numpy", source, cases, copies)


def make_small_workloads(copies: int) -> tuple[Batch, ...]:
    """One workload for each thing that costs something of its own."""
    pairs = [(f"{n}\n{n + 1}", f"{2 * n + 1}") for n in range(10)]
    numbers = " ".join(str(n % 1000) for n in range(270_000))[: 1 << 20].rpartition(" ")[0]
    total = sum(map(int, numbers.split()))
    many = [(f"{n}\n", f"{n + 1}\n") for n in range(200)]
    return (
        replace(make_trivial(copies, 10), name="trivial_stdin"),
        make_batch("trivial_functional", "def add(a, b):\n    return a + b\n", pairs, copies, entry_point="add"),
        make_batch("large_input", "print(sum(map(int, input().split())))\n", [(f"{numbers}\n", f"{total}\n")], copies),
        make_numpy(copies, 10),
        make_batch("compile_error", "print(1\n", [("", "1\n")], copies, label="compile_error"),
        make_batch("loop", "while True:\n    pass\n", [("", "1\n")], copies, label=LOOPING, limits=LOOP_LIMITS),
        make_batch("suite_of_200", "print(int(input()) + 1)\n", many, copies),
    )
