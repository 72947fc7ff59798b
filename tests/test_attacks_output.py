"""Attacks by what a program writes and how it ends: floods, imitations, bytes that are no text, every way to end.

Numbers are those of `attacks/catalogue.toml`.
"""

import json
import os
import resource
import signal
from pathlib import Path

import pytest

from evaluator.judge import Rules, judge_run
from evaluator.model import Limits, Policy, TestCase, TestKind, TestResult, Verdict
from evaluator.sandbox.base import Limit, Run
from tests.boxes_helper import Room
from tests.hosts_helper import read_attack, read_status

MEBIBYTE = 1 << 20


def judge(run: Run, expected: str | None, **limits) -> TestResult:
    """What the judge says of a run."""
    return judge_run(0, TestCase(TestKind.STDIN, "", expected), run, Rules(Limits(**limits), Policy()))


@pytest.mark.parametrize("name", ["059_flood", "061_stderr_flood", "061_endless_line"])
def test_a_flood_ends_near_its_limit_and_costs_the_worker_nothing(room: Room, name: str):
    """59, 61: the worker reads no more than the limit; its memory is seen from outside."""
    worker = Path(f"/proc/{room.worker}")
    before = int(read_status(worker)["VmRSS"].split()[0])
    run = room.run(read_attack(name), output_bytes=MEBIBYTE)
    assert judge(run, "y", output_bytes=MEBIBYTE).verdict is Verdict.OUTPUT_LIMIT
    assert len(run.stdout) <= MEBIBYTE and len(run.stderr) <= 64 * 1024
    assert int(read_status(worker)["VmRSS"].split()[0]) - before < 30_000


@pytest.mark.parametrize("size", [1, 10])
def test_large_legal_outputs_are_accepted(room: Room, size: int):
    """60."""
    expected = "0123456789abcde\n" * (size << 16)
    run = room.run(read_attack("060_large_legal"), f"{size}\n")
    assert judge(run, expected).verdict is Verdict.ACCEPTED
    assert judge(run, expected[:-2] + "f\n").verdict is Verdict.WRONG_ANSWER


def test_bytes_that_are_no_text_come_back_as_they_are(room: Room):
    """63: and what a result says of them can be spelled as JSON."""
    run = room.run(read_attack("063_bytes"))
    assert run.stdout == bytes(range(256)) + b"\xff\xfe\xed\xa0\x80\x00\x1b[2J\x1b]0;x\x07\r\n\xff"
    result = judge(run, None)
    assert result.verdict is Verdict.ACCEPTED
    assert json.loads(json.dumps(result.output)) == result.output and len(result.output or "") > 250
    assert judge(run, "\x1b[2J").verdict is Verdict.WRONG_ANSWER


def test_an_imitation_of_our_channels_is_only_output(room: Room):
    """64: on stdout and stderr alike; as a script and as a function."""
    run = room.run(read_attack("064_imitation"))
    assert (run.exit_code, run.limit, run.value, run.failure) == (0, None, None, None)
    assert b'["passed", ""]\n' in run.stdout and b"MemoryError\n" in run.stdout
    assert judge(run, "42").verdict is Verdict.WRONG_ANSWER
    source = read_attack("064_imitation") + "\ndef f(x):\n    raise ValueError\n"
    assert room.call(source, "f", "1").value is None
    assert room.check(source, "assert f(1) == 1").failure == "error"


def test_a_report_to_a_guessed_descriptor_reaches_nobody(room: Room):
    """65: of a script, of a function, of a program under test code."""
    source = read_attack("065_descriptors_guessed")
    run = room.run(source)
    assert (run.stdout, run.limit, run.failure) == (b"written to: 0\n", None, None)
    body = "\n".join("    " + line for line in source.splitlines())
    wrapped = f"def f(x):\n{body}\n    return 7\n"
    forged = room.check(wrapped, "assert f(1) == 1")
    assert forged.failure in ("assertion", "error", "ended"), forged
    assert judge(room.call(wrapped, "f", "1"), "1").verdict is not Verdict.ACCEPTED


def test_an_input_of_fifty_megabytes_that_nobody_reads(room: Room):
    """66."""
    run = room.run(read_attack("066_unread"), b"x" * (50 * MEBIBYTE))
    assert (run.stdout, run.exit_code, run.limit) == (b"done\n", 0, None)


ENDS = [
    *((f"exit {code}", code, None) for code in (0, 1, 2, 70, 120, 125, 126, 127, 128, 137, 255)),
    *((f"_exit {code}", code, None) for code in (0, 1, 125, 255)),
    *((f"signal {int(number)}", None, int(number)) for number in (
        signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT, signal.SIGPIPE, signal.SIGALRM, signal.SIGUSR1,
    )),
    ("abort", None, int(signal.SIGABRT)), ("atexit 5", 5, None), ("exec 9", 9, None), ("raise 3", 1, None),
]  # fmt: skip


@pytest.mark.parametrize(("how", "code", "number"), ENDS, ids=[how for how, *_ in ENDS])
def test_every_end_is_mapped_and_only_a_good_one_is_accepted(
    room: Room, how: str, code: int | None, number: int | None
):
    """67: the output is right each time."""
    run = room.run(read_attack("067_ends"), how + "\n")
    assert (run.exit_code, run.signal, run.stdout) == (code, number, b"right\n")
    accepted = code == 0
    assert judge(run, "right").verdict is (Verdict.ACCEPTED if accepted else Verdict.RUNTIME_ERROR)


@pytest.mark.parametrize("how", ["exit", "_exit", "exec", "thread"])
def test_a_good_end_doesnt_make_an_output_right(room: Room, how: str):
    """67, 68: nobody is accepted without a comparison."""
    run = room.run(read_attack("067_wrong"), how + "\n")
    assert (run.exit_code, run.stdout) == (0, b"wrong\n")
    assert judge(run, "right").verdict is Verdict.WRONG_ANSWER


def test_the_workers_own_limits_are_not_the_programs(room: Room):
    """41, 47: what a program does to its limits and arguments, its worker doesn't feel."""
    before = [resource.getrlimit(kind) for kind in range(16)]
    assert room.run(read_attack("041_own_limits")).exit_code == 0
    assert room.run(read_attack("047_large_arguments")).limit is None
    assert [resource.getrlimit(kind) for kind in range(16)] == before
    assert os.getpriority(os.PRIO_PROCESS, room.worker) == os.getpriority(os.PRIO_PROCESS, 0)


def test_a_caught_shortage_of_memory_is_no_verdict(room: Room):
    """33: who asked for too much and went on is judged by the answer; who ended with the error, by the error."""
    run = room.run(read_attack("033_caught"))
    assert judge(run, "caught").verdict is Verdict.ACCEPTED
    uncaught = room.run("print('caught')\nblock = bytearray(1 << 40)")
    assert judge(uncaught, "caught").verdict is Verdict.MEMORY_LIMIT
    grown = room.run("try:\n  x = []\n  while True: x.append(bytearray(1 << 22))\nexcept MemoryError: print('caught')",
                     memory_bytes=64 * MEBIBYTE)  # fmt: skip
    assert grown.limit is Limit.MEMORY
