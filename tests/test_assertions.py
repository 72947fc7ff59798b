"""Test code against programs, each a judgement in a real box: what test texts may do, and what a program gains by not
playing along. The cases are data, in `assertions.toml` and `assertion_attacks.toml`."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.errors import SandboxUnavailable
from evaluator.judge import Judge
from evaluator.model import Judgement, Limits, Program, Submission, Suite, TestCase, TestKind, Verdict
from evaluator.sandbox.bubblewrap import BubblewrapBackend
from evaluator.sandbox.pool import Pool
from tests.requirements_helper import require

HERE = Path(__file__).parent
CASES = tomllib.loads((HERE / "assertions.toml").read_text("utf-8"))["case"]
ATTACKS = tomllib.loads((HERE / "assertion_attacks.toml").read_text("utf-8"))["attack"]
FORGE = """
import os, stat, struct
line = next(d for d in (3, 4, 5) if os.path.exists(f"/proc/self/fd/{d}") and stat.S_ISSOCK(os.stat(d).st_mode))
def say(data): os.write(line, struct.pack("<Q", len(data)) + data)
"""
"""For attacks: finds the program's end of the conversation and speaks on it."""


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """One pool for all tests."""
    backend = BubblewrapBackend()
    try:
        pool = Pool(backend, backend.start(), spare=False)
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))
    yield pool
    pool.close()


def judge(pool: Pool, program: str, test: str, entry: str | None = None, **limits) -> Judgement:
    """A judgement of a program on one test text."""
    submission = Submission(Program(program, entry_point=entry), "suite", limits=Limits(**limits))
    return Judge(pool).judge(submission, Suite("suite", (TestCase(TestKind.ASSERTION, test),)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_text_says_what_is_so(pool: Pool, case: dict[str, str]):
    found = judge(pool, case["program"], case["test"], case.get("entry"))
    assert found.verdict == case.get("verdict", Verdict.ACCEPTED), found.detail
    if "wrong" in case:
        found = judge(pool, case["wrong"], case["test"], case.get("entry"))
        assert found.verdict == case.get("wrong_verdict", Verdict.WRONG_ANSWER), found.detail


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
def test_nothing_is_gained_by(pool: Pool, attack: dict[str, str]):
    program = attack["program"].replace("FORGE", FORGE)
    found = judge(pool, program, attack["test"], cpu_seconds=1, wall_seconds=2, memory_bytes=256 << 20)
    assert found.verdict in attack["verdicts"], found.detail
    assert found.reward == 0.0


def test_a_forged_answer_is_an_answer_and_no_more(pool: Pool):
    """The program decides what its function returns, by whatever means. So the attacks above do reach the tester."""
    program = FORGE + """def f(x): say(b'["value",%d,[],false,""]' % x)"""
    assert judge(pool, program, "assert f(1) == 1").verdict is Verdict.ACCEPTED
    assert judge(pool, program, "assert f(1) == 2").verdict is Verdict.WRONG_ANSWER
