"""Submissions and judgements as they lie in Redis, and as they leave over HTTP.

A judgement is kept in two pieces: a short one, JSON ready to be sent, that lists only the tests worth reading; and all
its tests as a table, for those who ask. Text that UTF-8 can't hold (a program may print half a surrogate pair) is
replaced here, once.

Rules and runtimes are few and the same for thousands of submissions, so their text is made once.
"""

import json
import struct
import zlib
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

from evaluator.executions import Execution, Outputs
from evaluator.model import (
    Judgement,
    Limits,
    Match,
    Policy,
    Prelude,
    Program,
    Reason,
    RewardScheme,
    Runtime,
    Submission,
    TestOrder,
    TestResult,
    Verdict,
)
from evaluator.suspicions import describe

TESTS_LISTED = 20
"""Tests in the short piece."""
COMPRESSED_FROM = 1024
"""Bytes from which a piece is compressed: below, it costs more time than the bytes are worth."""
_RAW, _DEFLATED, _OUTPUTS = b"\0", b"\1", b"\2"
_LENGTH = struct.Struct("<Q")


_PROGRAM = tuple(field.name for field in fields(Program))
_values_of_program = attrgetter(*_PROGRAM)


_RULES = tuple(field.name for field in fields(Submission) if field.name not in ("program", "suite_id", "execution"))
_values_of_rules = attrgetter(*_RULES)


def dump_submission(submission: Submission) -> bytes:
    """As it waits in Redis: a line of rules, a line with the program."""
    program = submission.program and dict(zip(_PROGRAM, _values_of_program(submission.program), strict=True))
    execution = submission.execution and plain(submission.execution)
    text = json.dumps({"program": program, "suite_id": submission.suite_id, "execution": execution})
    return _squeeze(f"{_dump_rules(_values_of_rules(submission))}\n{text}".encode())


def dump_submissions(submissions: dict[bytes, Submission]) -> list[bytes]:
    """Each behind its fingerprint, which the scripts read."""
    return [mark + dump_submission(submission) for mark, submission in submissions.items()]


@lru_cache(1024)
def _dump_rules(values: tuple[Any, ...]) -> str:
    return json.dumps({name: plain(value) for name, value in zip(_RULES, values, strict=True)})


def load_submission(data: bytes) -> Submission:
    """As it was dumped."""
    rules, _, text = _expand(data).partition(b"\n")
    raw = json.loads(text)
    program = raw["program"]
    if program is not None:
        files = tuple((name, text) for name, text in program["files"])
        program = Program(**{**program, "prelude": Prelude(program["prelude"]), "files": files})
    return Submission(program, raw["suite_id"], execution=_load_execution(raw["execution"]), **_load_rules(rules))


def _load_execution(raw: Any) -> Execution | None:
    if raw is None:
        return None
    files = tuple((name, text) for name, text in raw["files"])
    return Execution(raw["input"], tuple(raw["arguments"]), files, tuple(raw["fetch"]))


@lru_cache(1024)
def _load_rules(data: bytes) -> dict[str, Any]:
    raw = json.loads(data)
    return {
        "limits": Limits(**raw["limits"]),
        "policy": Policy(**raw["policy"]),
        "fail_fast": raw["fail_fast"],
        "reward": RewardScheme(raw["reward"]),
        "test_order": TestOrder(raw["test_order"]),
        "keep_outputs": raw["keep_outputs"],
    }


_TEST, _MATCH = (tuple(field.name for field in fields(kind)) for kind in (TestResult, Match))
_row_of_test, _row_of_match = attrgetter(*_TEST), attrgetter(*_MATCH)
_MATCH_AT = _TEST.index("match")


def dump_judgement(judgement: Judgement) -> tuple[str, bytes]:
    """The short piece, and all the tests: a table whose first rows name its columns."""
    rows = [_row(test) for test in judgement.tests]
    shown = [
        _unfold(_TEST, _MATCH, row)
        for test, row in zip(judgement.tests, rows, strict=True)
        if test.verdict not in (Verdict.ACCEPTED, Verdict.SKIPPED) or test.output is not None
    ]
    document = {field.name: getattr(judgement, field.name) for field in fields(judgement)}
    document["tests"] = shown[:TESTS_LISTED]
    document["suspicion"] = describe(judgement.suspicions)
    document["suspicions"] = plain(judgement.suspicions)
    document["runtime"] = _dump_runtime(judgement.runtime)
    document["cached"] = False
    return _encode(document), _squeeze(_encode([_TEST, _MATCH, *rows]).encode())


def _row(test: TestResult) -> list[Any]:
    row = list(_row_of_test(test))
    if test.match is not None:
        row[_MATCH_AT] = _row_of_match(test.match)
    return row


def _unfold(test: Any, match: Any, row: list[Any]) -> dict[str, Any]:
    """A row as the wire has it."""
    shape = dict(zip(test, row, strict=True))
    if shape["match"] is not None:
        shape["match"] = dict(zip(match, shape["match"], strict=True))
    return shape


@cache
def _dump_runtime(runtime: Runtime | None) -> Any:
    return None if runtime is None else plain(runtime)


def show(short: bytes, tests: bytes | None, detail: str) -> str:
    """A judgement's JSON with as many tests as `detail` asks for."""
    if detail == "failures":
        return short.decode()
    document = json.loads(short)
    document["tests"] = []
    if detail == "full" and tests and not tests.startswith(_OUTPUTS):
        test, match, *rows = json.loads(_expand(tests))
        document["tests"] = [_unfold(test, match, row) for row in rows]
    return json.dumps(document)


def dump_outputs(outputs: Outputs) -> bytes:
    """What an execution wrote, in the place of its tests: bytes with their lengths, since it is soon taken away."""
    names = [name for name, _ in outputs.files]
    pieces = [json.dumps(names).encode(), outputs.stdout, outputs.stderr, *(data for _, data in outputs.files)]
    return _OUTPUTS + b"".join(part for piece in pieces for part in (_LENGTH.pack(len(piece)), piece))


def load_outputs(data: bytes) -> Outputs:
    """As they were dumped."""
    pieces, place = [], len(_OUTPUTS)
    while place < len(data):
        [size] = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size
        pieces.append(data[place : place + size])
        place += size
    names, stdout, stderr, *contents = pieces
    return Outputs(stdout, stderr, tuple(zip(json.loads(names), contents, strict=True)))


def dump_order(order: list[int]) -> str:
    """For each submission of a request, which of the different ones it is. Nothing, where all differ."""
    return "" if order == list(range(len(order))) else " ".join(map(str, order))


def load_order(data: bytes, total: int) -> list[bytes]:
    """As it was dumped, as the indexes are written in Redis."""
    return data.split() if data else [b"%d" % index for index in range(total)]


def dump_suites(ids: list[str]) -> str:
    """For each submission, which suite it is judged against: every suite once, then the places of each."""
    unique = list(dict.fromkeys(ids))
    places = {id: str(place) for place, id in enumerate(unique)}
    return " ".join(unique) + ("|" + " ".join(places[id] for id in ids) if len(unique) > 1 else "")


def load_suite(text: str, index: int) -> str:
    """The suite of the submission `index`, out of what `dump_suites` made."""
    names, _, places = text.partition("|")
    return names.split(" ")[int(places.split(" ")[index]) if places else 0]


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


def _squeeze(data: bytes) -> bytes:
    return _RAW + data if len(data) < COMPRESSED_FROM else _DEFLATED + zlib.compress(data, 1)


def _expand(data: bytes) -> bytes:
    return data[1:] if data[:1] == _RAW else zlib.decompress(data[1:])


def _encode(document: Any) -> str:
    """JSON in ASCII, without half surrogate pairs."""
    text = json.dumps(document)
    if "\\ud" not in text:
        return text
    return json.dumps(_mended(document))


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, (list, tuple)):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {name: _mended(item) for name, item in value.items()}
    return value


def first_rung(tests: tuple[TestResult, ...]) -> str | None:
    """The rung that accepted the first test that any rung accepted."""
    return next((test.match.rung for test in tests if test.match is not None and test.match.matched), None)


CANCELLED = unjudged(Verdict.CANCELLED, "The evaluation was cancelled before this submission was judged.")
"""The judgement of what was dropped."""
