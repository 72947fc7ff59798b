"""Programs that are run for all that they write: in boxes of every kind, by the judge, and through Redis."""

import base64
import json
from collections.abc import Iterator

import pytest

from evaluator.errors import SandboxUnavailable
from evaluator.executions import Execution, Outputs
from evaluator.judge import Judge
from evaluator.model import Judgement, Limits, Program, Submission, Verdict
from evaluator.sandbox.base import Call, Launcher, Run
from evaluator.sandbox.bubblewrap import BubblewrapBackend
from evaluator.sandbox.commands import read_fetched, spell_execution
from evaluator.sandbox.pool import Pool
from evaluator.sandbox.runner.wire import FETCHED
from service.encoding import dump_judgement, dump_outputs, dump_submission, load_outputs, load_submission, show
from tests.boxes_helper import Room
from tests.requirements_helper import require

PLAIN = Execution()


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def execute(room: Room, source: str, execution: Execution = PLAIN, **limits) -> Run:
    """One run from source in a box."""
    artifact = room.box.load(Program(source), Limits(), Launcher.COMMAND)
    call = Call(execution.input.encode(), files=(spell_execution(execution),), is_execution=True)
    try:
        return room.box.run(artifact, call, Limits(**limits))
    finally:
        artifact.close()


def test_input_arguments_and_both_streams(room: Room) -> None:
    source = "import sys; print(input(), sys.argv); print('said', file=sys.stderr); sys.exit(3)"

    run = execute(room, source, Execution("given\n", arguments=("a", "b c", "é")))

    assert run.stdout.decode() == "given ['program.py', 'a', 'b c', 'é']\n"
    assert (run.stderr, run.exit_code, run.failure) == (b"said\n", 3, None)


def test_files_are_there_and_can_be_imported_and_fetched(room: Room) -> None:
    source = """
import helper, os
data = open("deep/er/data.bin", "rb").read()
open("deep/answer.bin", "wb").write(data[::-1] * helper.TIMES)
os.mkdir("folder"); os.symlink("/dev/zero", "zeros"); os.mkfifo("pipe"); os.symlink("deep/answer.bin", "link")
"""
    files = (("deep/er/data.bin", encode(b"\0\xffa")), ("helper.py", encode(b"TIMES = 2")))
    names = ("nothing", "deep/answer.bin", "folder", "zeros", "pipe", "link", "helper.py")

    run = execute(room, source, Execution(files=files, fetch=names))

    assert run.exit_code == 0, run.stderr
    assert dict(read_fetched(names, run.value)) == {
        "deep/answer.bin": b"a\xff\0a\xff\0",
        "link": b"a\xff\0a\xff\0",
        "helper.py": b"TIMES = 2",
    }
    assert execute(room, "import os; print(os.listdir())").stdout == b"[]\n", "nothing is left for the next run"


@pytest.mark.parametrize("fetch", [(), ("x",)])
def test_a_source_that_cant_be_compiled_is_told_from_a_program_that_failed(room: Room, fetch: tuple[str, ...]) -> None:
    broken = execute(room, "print(", Execution(fetch=fetch))
    failed = execute(room, "raise SyntaxError('of its own')", Execution(fetch=fetch))

    assert (broken.failure, broken.exit_code, failed.failure, failed.exit_code) == ("compile", 1, None, 1)
    assert b'File "/w/program.py", line 1' in broken.stderr and b"was never closed" in broken.stderr


def test_a_program_cant_pass_for_one_that_wasnt_compiled(room: Room) -> None:
    source = """
import os
for number in range(3, 64):
    try: os.write(number, b"C")
    except OSError: pass
os._exit(1)
"""
    assert execute(room, source).failure is None


def test_outputs_come_back_whole(room: Room) -> None:
    source = "import sys; sys.stdout.write('o' * 3_000_000); sys.stderr.write('e' * 2_000_000)"

    run = execute(room, source)

    assert (run.stdout, run.stderr, run.truncated) == (b"o" * 3_000_000, b"e" * 2_000_000, False)


def test_a_traceback_and_the_depth_of_recursion_are_those_of_a_program_of_its_own(room: Room) -> None:
    source = "def f(n):\n  return 0 if n == 0 else 1 + f(n - 1)\nprint(f(950))\n1 / 0\n"

    run = execute(room, source)

    assert run.stdout == b"950\n"
    assert run.stderr.startswith(b'Traceback (most recent call last):\n  File "/w/program.py", line 4, in <module>\n')


def test_what_is_no_answer_to_the_names_ends_the_list() -> None:
    right = FETCHED.pack(1) + b"a"

    assert read_fetched(("x", "y"), right + FETCHED.pack(1 << 40) + b"b") == (("x", b"a"),)
    assert read_fetched(("x", "y"), right + b"abc") == (("x", b"a"),)
    assert read_fetched(("x", "y"), FETCHED.pack(-5) + right) == (("y", b"a"),)
    assert read_fetched((), right) == ()


# --- the judge ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    backend = BubblewrapBackend()
    try:
        pool = Pool(backend, backend.start(), spare=False)
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))
    yield pool
    pool.close()


def judge(pool: Pool, source: str, execution: Execution = PLAIN, **limits) -> tuple[Judgement, Outputs | None]:
    return Judge(pool).execute(Submission(Program(source), "", Limits(**limits), execution=execution))


@pytest.mark.parametrize(
    ("source", "limits", "verdict"),
    [
        ("print(1)", {}, Verdict.ACCEPTED),
        ("import numpy; print(numpy.arange(3).sum())", {}, Verdict.ACCEPTED),
        ("1 / 0", {}, Verdict.RUNTIME_ERROR),
        ("import os; os.abort()", {}, Verdict.RUNTIME_ERROR),
        ("print(", {}, Verdict.COMPILE_ERROR),
        ("while True: pass", {"cpu_seconds": 0.3}, Verdict.TIME_LIMIT),
        ("import time; time.sleep(60)", {"wall_seconds": 0.3}, Verdict.TIME_LIMIT),
        ("x = bytearray(1 << 30)", {"memory_bytes": 64 << 20}, Verdict.MEMORY_LIMIT),
        ("print('x' * 9000)", {"output_bytes": 5000}, Verdict.OUTPUT_LIMIT),
    ],
)
def test_the_verdict_says_how_a_run_ended(pool: Pool, source: str, limits: dict, verdict: Verdict) -> None:
    judgement, outputs = judge(pool, source, **limits)

    assert judgement.verdict is verdict
    assert outputs is not None
    assert len(judgement.tests) == 1 and judgement.tests[0].output is None


def test_what_was_written_before_a_limit_comes_back(pool: Pool) -> None:
    judgement, outputs = judge(pool, "print('so far', flush=True)\nwhile True: pass", cpu_seconds=0.3)

    assert (judgement.verdict, outputs.stdout) == (Verdict.TIME_LIMIT, b"so far\n")


def test_of_too_much_output_the_beginning_comes_back(pool: Pool) -> None:
    source = "import sys\nwhile True: sys.stdout.write('x' * 100_000)"

    judgement, outputs = judge(pool, source, output_bytes=4 << 20)

    assert (judgement.verdict, len(outputs.stdout)) == (Verdict.OUTPUT_LIMIT, 1 << 20)


# --- as they lie in Redis -----------------------------------------------------------------------------------------


def test_an_execution_survives_being_dumped() -> None:
    execution = Execution("in\n", ("a", "b"), (("n", "YQ=="),), ("x", "y"))
    submission = Submission(Program("print('é')"), "", execution=execution)

    assert load_submission(dump_submission(submission)) == submission


def test_outputs_survive_being_dumped_and_are_no_tests(pool: Pool) -> None:
    outputs = Outputs(b"\0\xff\n" * 1000, b"", (("é", b"\n\n"), ("empty", b"")))
    judgement, _ = judge(pool, "print(1)")
    short, _ = dump_judgement(judgement)

    assert load_outputs(dump_outputs(outputs)) == outputs
    assert json.loads(show(short.encode(), dump_outputs(outputs), "full"))["tests"] == []
