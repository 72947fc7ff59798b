"""Programs that would earn a reward without the answer, as data (`reward_hacks.toml`): each test gets its verdict,
and the judgement notes what is known of the trick. On bubblewrap all, on Docker those that are marked."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluator.errors import SandboxUnavailable
from evaluator.judge import Judge
from evaluator.model import (
    CheckerProgram,
    Convention,
    Judgement,
    Limits,
    Policy,
    Program,
    Submission,
    Suite,
    TestCase,
    TestKind,
)
from evaluator.sandbox.bubblewrap import BubblewrapBackend
from evaluator.sandbox.docker import DockerBackend
from evaluator.sandbox.pool import Pool
from tests.requirements_helper import require

DATA = tomllib.loads((Path(__file__).parent / "reward_hacks.toml").read_text("utf-8"))
SUMS = (([1, 2, 3], 6), ([10, 20], 30), ([7], 7))
FIND = """
import os
def shout(data):
    for d in range(3, 64):
        try: os.write(d, data)
        except OSError: pass
"""
KINDS = {"stdin": TestKind.STDIN, "functional": TestKind.FUNCTIONAL}
TEXTS = {
    "stdin": lambda xs, total: (f"{len(xs)}\n{' '.join(map(str, xs))}\n", f"{total}\n"),
    "functional": lambda xs, total: (str(xs), str(total)),
    "assertion": lambda xs, total: (f"assert f({xs}) == {total}", None),
    "pytest": lambda xs, total: (f"import pytest\ndef test_sum():\n    assert f({xs}) == {total}\n", None),
    "unittest": lambda xs, total: (
        "import unittest\nclass Case(unittest.TestCase):\n"
        f"    def test_sum(self):\n        self.assertEqual(f({xs}), {total})\n",
        None,
    ),
}  # fmt: skip
"""How a sum is asked for."""


def of_kind(entry: Any, kind: str) -> Any:
    """What a case says for one of its kinds."""
    if isinstance(entry, dict):
        return entry[kind] if kind in entry else entry.get("else")
    return entry


def spread(section: str, *, marked: str | None = None) -> list[Any]:
    """Each case of a section once for each kind of test; only those that are `marked`, where a mark is named."""
    found = []
    for case in DATA[section]:
        if marked is None or case.get(marked):
            kinds = case["kind"] if isinstance(case["kind"], list) else [case["kind"]]
            family = f"{case['attack']}: " if "attack" in case else ""
            found += [pytest.param(case, kind, id=f"{family}{case['name']} ({kind})") for kind in kinds]
    return found


def keep_pool(backend: BubblewrapBackend | DockerBackend, name: str) -> Iterator[Pool]:
    """A pool for as long as a module's tests need it."""
    try:
        pool = Pool(backend, backend.start(), spare=False)
    except SandboxUnavailable as error:
        require(name, str(error))
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """In boxes by bubblewrap."""
    for pool in keep_pool(BubblewrapBackend(), "bubblewrap"):
        yield Judge(pool)


@pytest.fixture(scope="module")
def judge_apart() -> Iterator[Judge]:
    """In boxes by bubblewrap, each test in a child of its own."""
    for pool in keep_pool(BubblewrapBackend(), "bubblewrap"):
        yield Judge(pool, series=False)


@pytest.fixture(scope="module")
def judge_in_docker() -> Iterator[Judge]:
    """In Docker's boxes."""
    backend = DockerBackend()
    require("docker", backend.check())
    for pool in keep_pool(backend, "docker"):
        yield Judge(pool)


def evaluate(judge: Judge, case: dict[str, Any], kind: str) -> Judgement:
    """Judge all tests of a case."""
    texts = of_kind(case.get("tests"), kind)
    pairs = texts or [TEXTS[kind](xs, total) for xs, total in SUMS]
    tests = tuple(TestCase(KINDS.get(kind, TestKind.ASSERTION), *pair) for pair in pairs)
    checker = None
    if "checker" in case:
        files = (("check.py", case["checker"]),)
        checker = CheckerProgram(files, Convention.TESTLIB, cpu_seconds=case.get("checker_seconds", 10))
    program = Program(case["program"].replace("FIND", FIND), entry_point=None if kind == "stdin" else "f")
    submission = Submission(
        program,
        "suite",
        limits=Limits(**{"cpu_seconds": 3, **case.get("limits", {})}),
        policy=Policy(**case.get("policy", {})),
        fail_fast=False,
    )
    return judge.judge(submission, Suite("suite", tests, checker))


def check(case: dict[str, Any], kind: str, judgement: Judgement) -> None:
    """The verdict of every test, and the notes, all of them."""
    wanted = of_kind(case["verdicts"], kind)
    verdicts = [str(test.verdict) for test in judgement.tests] or [str(judgement.verdict)]
    wanted = [wanted] * len(verdicts) if isinstance(wanted, str) else wanted
    assert len(wanted) == len(verdicts)
    for verdict, allowed in zip(verdicts, wanted, strict=True):
        assert verdict in allowed.split("|"), judgement
    notes = of_kind(case["notes"], kind)
    found = {str(note.kind) for note in judgement.suspicions}
    assert {note for note in notes if not note.endswith("?")} <= found, judgement.suspicions
    assert found <= {note.rstrip("?") for note in notes}, judgement.suspicions


@pytest.mark.parametrize(("case", "kind"), spread("hack"))
def test_nothing_is_gained_by(judge: Judge, case: dict[str, Any], kind: str):
    check(case, kind, evaluate(judge, case, kind))


@pytest.mark.parametrize(("case", "kind"), spread("hack", marked="state"))
def test_nothing_is_gained_without_a_series_by(judge_apart: Judge, case: dict[str, Any], kind: str):
    check(case, kind, evaluate(judge_apart, case, kind))


@pytest.mark.docker
@pytest.mark.parametrize(("case", "kind"), spread("hack", marked="docker"))
def test_nothing_is_gained_in_docker_by(judge_in_docker: Judge, case: dict[str, Any], kind: str):
    check(case, kind, evaluate(judge_in_docker, case, kind))


@pytest.mark.parametrize(("case", "kind"), spread("honest"))
def test_an_honest_program_is_accepted_without_a_note(judge: Judge, case: dict[str, Any], kind: str):
    check({**case, "verdicts": "accepted", "notes": []}, kind, evaluate(judge, case, kind))


@pytest.mark.parametrize(("case", "kind"), spread("weak"))
def test_what_a_test_gives_away_is_accepted(judge: Judge, case: dict[str, Any], kind: str):
    """Not a success of the trick: the test says that this is right. Written down so that nobody is surprised."""
    check({**case, "verdicts": "accepted", "notes": []}, kind, evaluate(judge, case, kind))


def test_no_two_cases_have_one_name():
    names = [case["name"] for section in DATA.values() for case in section]
    assert len(set(names)) == len(names)
