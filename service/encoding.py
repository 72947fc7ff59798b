"""Submissions and judgements as they lie in Redis, and as they leave over HTTP.

A judgement is kept in two pieces: a short one, JSON ready to be sent, that lists only the tests worth reading; and all
its tests, compressed, for those who ask. Text that UTF-8 can't hold (a program may print half a surrogate pair) is
replaced here, once.
"""

import json
import zlib
from dataclasses import fields, is_dataclass
from typing import Any

from evaluator.model import (
    Judgement,
    Limits,
    Policy,
    Prelude,
    Program,
    Reason,
    RewardScheme,
    Submission,
    TestResult,
    Verdict,
)

TESTS_LISTED = 20
"""Tests in the short piece."""


def dump_submission(submission: Submission) -> bytes:
    """As it waits in Redis."""
    return zlib.compress(json.dumps(plain(submission), sort_keys=True).encode(), 1)


def load_submission(data: bytes) -> Submission:
    """As it was dumped."""
    raw = json.loads(zlib.decompress(data))
    program = raw["program"]
    if program is not None:
        program = Program(**{**program, "prelude": Prelude(program["prelude"])})
    return Submission(
        program=program,
        suite_id=raw["suite_id"],
        limits=Limits(**raw["limits"]),
        policy=Policy(**raw["policy"]),
        fail_fast=raw["fail_fast"],
        reward=RewardScheme(raw["reward"]),
    )


def dump_judgement(judgement: Judgement) -> tuple[str, bytes]:
    """The short piece, and all the tests."""
    document = plain(judgement)
    tests = document["tests"]
    shown = [
        shape
        for test, shape in zip(judgement.tests, tests, strict=True)
        if test.verdict not in (Verdict.ACCEPTED, Verdict.SKIPPED) or test.output is not None
    ]
    document["tests"] = shown[:TESTS_LISTED]
    return _encode(document), zlib.compress(_encode(tests).encode(), 1)


def show(short: bytes, tests: bytes | None, detail: str) -> str:
    """A judgement's JSON with as many tests as `detail` asks for."""
    if detail == "failures":
        return short.decode()
    document = json.loads(short)
    document["tests"] = json.loads(zlib.decompress(tests)) if detail == "full" and tests else []
    return json.dumps(document)


def unjudged(verdict: Verdict, detail: str, reason: Reason | None = None) -> str:
    """The short piece of a submission that never got to its end. Its reward is null."""
    return dump_judgement(Judgement(verdict, None, detail=detail, reason=reason))[0]


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries, tuples as lists, all the way down."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


def _encode(document: Any) -> str:
    """JSON in ASCII, without half surrogate pairs."""
    text = json.dumps(document)
    if "\\ud" not in text:
        return text
    return json.dumps(_mended(document))


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {name: _mended(item) for name, item in value.items()}
    return value


def first_rung(tests: tuple[TestResult, ...]) -> str | None:
    """The rung that accepted the first test that any rung accepted."""
    return next((test.match.rung for test in tests if test.match is not None and test.match.matched), None)


CANCELLED = unjudged(Verdict.CANCELLED, "The evaluation was cancelled before this submission was judged.")
"""The judgement of what was dropped."""
