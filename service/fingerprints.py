"""What makes two submissions the same, and two places that judge: every field that a verdict depends on, as SHA-256.

Each field goes in with its length before it, and each list with its number, so that no two different submissions make
the same bytes.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import astuple
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import evaluator
from evaluator.model import Limits, Policy, Runtime, Submission

FINGERPRINT_BYTES = 32


def fingerprint(submission: Submission) -> bytes:
    """Equal for submissions that ask for the same judgement: program, suite, limits, policy and what is made of it."""
    program = submission.program
    pieces = [submission.suite_id]
    if program is not None:
        pieces += [program.source, program.language, repr(program.entry_point), program.prelude, program.name]
        pieces.append(str(len(program.files)))  # or a file would be what follows
        for name, text in program.files:
            pieces += [name, text]
    if submission.execution is not None:
        pieces += ["execution", json.dumps(astuple(submission.execution))]
    rules = (submission.fail_fast, submission.reward, submission.test_order, submission.keep_outputs)
    return _hash(
        [
            _of_rules(submission.limits, submission.policy, rules),
            *(piece.encode("utf-8", "surrogatepass") for piece in pieces),
        ]
    )


@lru_cache(1024)
def _of_rules(limits: Limits, policy: Policy, others: tuple[Any, ...]) -> bytes:
    return _hash_values((*astuple(limits), *astuple(policy), *others))


@cache
def fingerprint_of_place(runtime: Runtime) -> bytes:
    """Equal for places that judge alike: kind of box, image, Python, numpy, and the evaluator's own code."""
    return _hash([_of_code(), _hash_values(astuple(runtime))])


@cache
def _of_code() -> bytes:
    """Of every module of the evaluator: a verdict is only as old as the code that made it."""
    pieces: list[bytes] = []

    def gather(folder: Any) -> None:
        for entry in sorted(folder.iterdir(), key=lambda entry: str(entry.name)):
            if entry.is_dir():
                gather(entry)
            elif entry.name.endswith(".py"):
                pieces.extend((entry.name.encode(), entry.read_bytes()))

    gather(resources.files(evaluator))
    return _hash(pieces)


def _hash_values(values: Iterable[Any]) -> bytes:
    return _hash([_text(value).encode() for value in values])


def _text(value: Any) -> str:
    """A number's text doesn't depend on how it is kept: equal ones share a place in the cache above."""
    return float(value).hex() if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)


def _hash(pieces: list[bytes]) -> bytes:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(b"%d:" % len(piece))
        digest.update(piece)
    return digest.digest()
