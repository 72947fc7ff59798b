"""The contract of a box, held by every backend: a program runs as under `python program.py`, and its limits hold.

What a hostile program may try is in `test_box_attacks.py`, calls of functions and assertion tests are in
`test_box_calls.py`, the kinds of boxes in `boxes_helper.py`.
"""

import hashlib
import os
import signal
import subprocess
import sys
import time

import pytest

from evaluator.errors import BoxLost
from evaluator.model import Limits, Program, Verdict
from evaluator.sandbox.base import Call, CompileFailure, Launcher, Limit
from tests.boxes_helper import Room, find_processes

MEBIBYTE = 1 << 20
LAUNCHERS = pytest.mark.parametrize("launcher", list(Launcher))


# --- a program's life ---------------------------------------------------------------------------------------------


@LAUNCHERS
def test_a_program_reads_its_input_and_its_output_comes_back(room: Room, launcher: Launcher):
    run = room.run("a, b = map(int, input().split())\nprint(a * b)", "6 7\n", launcher=launcher)
    assert (run.stdout, run.stderr, run.exit_code, run.signal, run.limit) == (b"42\n", b"", 0, None, None)
    assert not run.truncated


@LAUNCHERS
def test_exit_codes_arrive_as_they_are(room: Room, launcher: Launcher):
    source = "import os, sys\nn = int(input())\n(os._exit if n % 2 else sys.exit)(n)"
    codes = [0, 1, 2, 3, 42, 100, 119, 120, 124, 125, 126, 127, 128, 130, 137, 139, 143, 254, 255]
    runs = room.repeat(source, [Call(b"%d\n" % code) for code in codes], launcher)
    assert [run.exit_code for run in runs] == codes


@LAUNCHERS
def test_signals_arrive_as_they_are(room: Room, launcher: Launcher):
    source = "import os\nn = int(input())\nimport signal; signal.signal(n, 0) if n != 9 else 0\nos.kill(os.getpid(), n)"
    names = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM", "SIGFPE", "SIGILL", "SIGBUS", "SIGPIPE", "SIGINT", "SIGXCPU")
    numbers = [int(getattr(signal, name)) for name in names]
    runs = room.repeat(source, [Call(b"%d\n" % number) for number in numbers], launcher)
    assert [(run.signal, run.exit_code) for run in runs] == [(number, None) for number in numbers]


def test_a_crash_of_the_interpreter_is_a_signal(room: Room):
    assert room.run("import ctypes; ctypes.string_at(0)").signal == signal.SIGSEGV


def test_a_syntax_error_is_the_programs_own(room: Room):
    failure = room.box.load(Program("x = 1\nif x:\nprint(x)\n"), Limits())
    assert isinstance(failure, CompileFailure)
    assert failure.message.rstrip().endswith(
        "IndentationError: expected an indented block after 'if' statement on line 2"
    )


@pytest.mark.parametrize(
    "source", ["x = '\0'", "(" * 5000 + ")" * 5000, "x = " + "-" * 200_000 + "1", "\ud800", "é = 1\n" * 3]
)
def test_strange_sources_do_no_harm(room: Room, source: str):
    room.box.load(Program(source), Limits())
    assert room.run("print(1)").stdout == b"1\n"


def test_a_source_that_is_too_hard_to_compile_ends_by_its_limit(room: Room):
    failure = room.box.load(Program("x = 10 ** 10 ** 8 * 3\n" + "y = (2,) * 100_000_000\n" * 3), Limits(cpu_seconds=1))
    assert not isinstance(failure, CompileFailure) or failure.message


INPUTS = {
    "input() until the end": "try:\n  while True: print(input())\nexcept EOFError: pass",
    "sys.stdin": "import sys\nfor line in sys.stdin: print(line, end='')",
    "sys.stdin.read": "import sys; print(sys.stdin.read(), end='')",
    "sys.stdin.buffer": "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())",
    "os.read": "import os\nwhile part := os.read(0, 3): os.write(1, part)",
    "open(0)": "print(open(0).read(), end='')",
    "/dev/stdin": "print(open('/dev/stdin').read(), end='')",
    "/proc/self/fd/0": "print(open('/proc/self/fd/0').read(), end='')",
    "input() then read()": "import sys; print(input()); print(sys.stdin.read(), end='')",
    "readline then readlines": "import sys; print(sys.stdin.readline() + ''.join(sys.stdin.readlines()), end='')",
    "fileinput": "import fileinput\nfor line in fileinput.input(): print(line, end='')",
    "seek": "import sys; sys.stdin.read(); sys.stdin.seek(0); print(sys.stdin.read(), end='')",
    "mmap": "import mmap, os; os.write(1, mmap.mmap(0, 0, prot=mmap.PROT_READ)[:])",
    "a child": "import subprocess; subprocess.run(['cat'], check=True)",
    "io.open with newline": "import io; print(io.open(0, newline='\\n').read(), end='')",
    "BytesIO": "import io, os, sys; s = io.BytesIO(os.read(0, os.fstat(0).st_size)); print(s.read().decode(), end='')",
}


@pytest.mark.parametrize("way", INPUTS)
def test_every_way_of_reading_gives_the_whole_input(room: Room, way: str):
    text = "first line\n2 3 4\n\n  täil Ω\n"
    run = room.run(INPUTS[way], text)
    assert run.stdout.decode() == text, run.stderr.decode()


OUTPUTS = {
    "exit()": ("print('a'); exit()", b"a\n", 0),
    "quit()": ("print('a'); quit(3)", b"a\n", 3),
    "sys.exit with a text": ("import sys; print('a'); sys.exit('bad')", b"a\n", 1),
    "atexit": ("import atexit; atexit.register(print, 'late'); print('soon')", b"soon\nlate\n", 0),
    "atexit after an error": ("import atexit; atexit.register(print, 'late'); 1/0", b"late\n", 1),
    "threads that nobody joins": (
        "import threading, time\ndef late(): time.sleep(.1); print('late')\n"
        "threading.Thread(target=late).start(); print('soon')", b"soon\nlate\n", 0),
    "a daemon thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "print('a')", b"a\n", 0),
    "sys.stdout.write": ("import sys; sys.stdout.write('a')", b"a", 0),
    "sys.stdout.buffer": ("import sys; sys.stdout.buffer.write(b'\\xff\\x00\\n')", b"\xff\x00\n", 0),
    "os.write": ("import os; os.write(1, b'\\xfe')", b"\xfe", 0),
    "text and bytes": ("import sys; print('a', flush=True); sys.stdout.buffer.write(b'b\\n')", b"a\nb\n", 0),
    "lone surrogates": ("print('\\udcff')", b"\xff\n", 0),
    "print to /dev/stdout": ("open('/dev/stdout', 'w').write('a')", b"a", 0),
    "a child's output": ("import subprocess; print('a', flush=True); subprocess.run(['echo', 'b'])", b"a\nb\n", 0),
    "os.fork": ("import os\nif os.fork(): os.wait(); print('parent')\nelse: print('child')", b"child\nparent\n", 0),
    "output before a crash": ("print('a', flush=True); import os; os.abort()", b"a\n", None),
    "output that was not flushed before os._exit": ("print('a'); import os; os._exit(0)", b"", 0),
}  # fmt: skip


@pytest.mark.parametrize("way", OUTPUTS)
def test_output_comes_back_however_the_program_ends(room: Room, way: str):
    source, stdout, exit_code = OUTPUTS[way]
    run = room.run(source)
    assert (run.stdout, run.exit_code) == (stdout, exit_code), run.stderr.decode()


WORKS = {
    "__name__": "assert __name__ == '__main__'",
    "__main__": "import __main__; x = 5; assert __main__.x == 5",
    "sys.argv": "import sys; assert sys.argv == ['program.py'], sys.argv",
    "big integers": "assert len(str(3 ** 8000)) == 3817",
    "integers of any length": "assert len(str(10 ** 5000)) == 5001",
    "long recursion": "import sys; sys.setrecursionlimit(10 ** 6)\n"
        "def f(n): return n and 1 + f(n - 1)\nassert f(300_000) == 300_000",
    "recursion under a cache": "import sys, functools; sys.setrecursionlimit(10 ** 6)\n@functools.lru_cache(None)\n"
        "def f(n): return n and 1 + f(n - 1)\nassert f(15_000 if sys.version_info >= (3, 12) else 100_000)",
    "recursion in a thread": "import sys, threading; sys.setrecursionlimit(10 ** 6); threading.stack_size(256 << 20)\n"
        "def f(n): return n and 1 + f(n - 1)\nout = []\nt = threading.Thread(target=lambda: out.append(f(50_000)))\n"
        "t.start(); t.join(); assert out == [50_000]",
    "the recursion limit": "def f(): f()\ntry: f()\nexcept RecursionError: pass\n"
        "import sys; assert sys.getrecursionlimit() == 1000",
    "subprocess": "import subprocess, sys\n"
        "assert subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout == b'1\\n'",
    "threads": "from concurrent.futures import ThreadPoolExecutor as T\n"
        "with T(8) as pool: assert list(pool.map(abs, [-1] * 50)) == [1] * 50",
    "asyncio": "import asyncio\nasync def f(): await asyncio.sleep(.01); return 7\nassert asyncio.run(f()) == 7",
    "numpy": "import numpy as np; assert (np.arange(9).reshape(3, 3) @ np.eye(3)).sum() == 36",
    "random begins alike in every run": "import random; print(random.getrandbits(64))",
    "files in scratch": "open('a', 'w').write('x'); import os; "
        "assert os.listdir() == ['a'] and open('a').read() == 'x'",
    "tempfile": "import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'1')",
    "signal handlers": "import signal, os; got = []\nsignal.signal(signal.SIGUSR1, lambda *_: got.append(1))\n"
        "os.kill(os.getpid(), signal.SIGUSR1); assert got == [1]",
    "alarm": "import signal\ndef f(*_): raise SystemExit(0)\nsignal.signal(signal.SIGALRM, f); signal.alarm(1)\n"
        "while 1: pass",
    "time zone": "import time; assert time.tzname == ('UTC', 'UTC') and time.localtime(0).tm_hour == 0",
    "the text encoding": "import sys, locale; assert sys.stdout.encoding == 'utf-8' == sys.getfilesystemencoding()",
    "hashes are the same in every run": "print(hash('a'))",
    "no module of ours": "import sys; assert not [m for m in sys.modules if 'microcoder' in m or 'evaluator' in m]",
    "modules of scratch": "open('mine.py', 'w').write('x = 1'); import sys; sys.path.insert(0, '.'); import mine; "
        "assert mine.x == 1",
    "dataclasses and pickle": "import dataclasses, pickle\n@dataclasses.dataclass\nclass A: x: int\n"
        "assert pickle.loads(pickle.dumps(A(1))) == A(1)",
}  # fmt: skip


@pytest.mark.parametrize("what", WORKS)
def test_what_programs_rely_on_works(room: Room, what: str):
    run = room.run(WORKS[what], cpu_seconds=20)
    assert (run.exit_code, run.stderr, run.limit) == (0, b"", None)


def test_chance_and_hashes_are_the_same_in_every_run(room: Room):
    """So that a program has one verdict, whenever and wherever it is judged; who seeds `random` gets what they seed."""
    for name in ("random begins alike in every run", "hashes are the same in every run"):
        assert len({run.stdout for run in room.repeat(WORKS[name], [Call(b"")] * 3)}) == 1


def test_a_traceback_shows_the_programs_lines_and_none_of_ours(room: Room):
    run = room.run("def f(x):\n    return 1 // x\n\nprint(f(0))\n")
    lines = run.stderr.decode().splitlines()
    assert run.exit_code == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == '  File "/w/program.py", line 4, in <module>'
    assert lines[2] == "    print(f(0))"
    assert lines[-1].startswith("ZeroDivisionError: ")
    assert sum(line.startswith("  File") for line in lines) == 2


def test_the_environment_is_exactly_the_documented_one(room: Room):
    expected = {
        "HOME": "/w", "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1",
        **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")},
    }  # fmt: skip
    run = room.run("import os, json; print(json.dumps(dict(os.environ)))")
    found = __import__("json").loads(run.stdout)
    assert found.pop("PATH").endswith("/usr/local/bin:/usr/bin:/bin")
    assert found.pop("PYTHONPATH", "/opt/packages") == "/opt/packages"
    found.pop("PWD", None)
    assert found == expected


# --- amounts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [MEBIBYTE, 10 * MEBIBYTE])
def test_large_outputs_come_back_intact(room: Room, size: int):
    run = room.run(f"import sys\nsys.stdout.write('0123456789abcde\\n' * ({size} // 16))")
    assert run.stdout == b"0123456789abcde\n" * (size // 16)
    assert not run.truncated


def test_fifty_megabytes_of_input_arrive(room: Room):
    data = os.urandom(MEBIBYTE) * 50
    run = room.run(
        "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", data, cpu_seconds=20
    )
    assert run.stdout.decode().strip() == hashlib.sha256(data).hexdigest()


def test_a_program_need_not_read_its_input(room: Room):
    assert room.run("print(1)", b"x" * (5 * MEBIBYTE)).stdout == b"1\n"


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [
    "while True: pass",
    "import os\nfor _ in range(3): os.fork()\nwhile True: pass",
    "import threading\ndef spin():\n  while True: pass\nfor _ in range(3): threading.Thread(target=spin).start()",
    "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
    "import os\nwhile True:\n  if os.fork(): os.wait()\n  else:\n    x = sum(range(10**5)); os._exit(0)",
    "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
    "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
])  # fmt: skip
def test_the_cpu_limit_holds(room: Room, source: str):
    start = time.monotonic()
    run = room.run(source, cpu_seconds=0.5)
    assert run.limit is Limit.CPU
    assert 0.4 < run.cpu_seconds < 1.5
    assert time.monotonic() - start < 8


def test_the_wall_limit_holds_for_sleepers(room: Room):
    start = time.monotonic()
    run = room.run("import time; time.sleep(60)", wall_seconds=0.5)
    assert run.limit is Limit.WALL
    assert run.wall_seconds > 0.4 and time.monotonic() - start < 8
    assert run.cpu_seconds < 0.4


def test_a_thread_that_waits_for_a_processor_isnt_out_of_time(room: Room):
    """The main thread only waits for the other: the time that counts is the other's."""
    source = """
import threading, time
def work():
    while time.thread_time() < 0.8: pass
    print("done")
threading.Thread(target=work).start()
"""
    burn = [sys.executable, "-c", "while True: pass"]
    each = range(4 * (os.cpu_count() or 1))
    burners = [subprocess.Popen(burn, start_new_session=True) for _ in each]  # the kernel shares between sessions
    try:
        run = room.run(source, wall_seconds=2.0)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert run.wall_seconds > 2.0, "it had to wait"
    assert (run.limit, run.stdout) == (None, b"done\n")


@pytest.mark.parametrize("source", [
    "x = []\nwhile True: x.append(b'x' * 2**20)",
    "x = b'x' * (300 << 20)",
    "x = [0] * 10**12",
    "x = bytearray(1 << 36)",
    "import numpy\nx = numpy.ones(10**8)",
    "import numpy\nx = numpy.zeros(10**13)",
    "import os, time\nfor _ in range(4):\n  if not os.fork():\n    x = b'x' * (60 << 20); time.sleep(20)\n"
        "time.sleep(20)",
    "x = 'a'\nwhile True: x += x",
    "import sys; sys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1) + 1\nf(0)",
    "def f():\n  try:\n    x = []\n    while True: x.append(' ' * 10**6 + str(len(x)))\n  except MemoryError: f()\nf()",
])  # fmt: skip
def test_the_memory_limit_is_reported_as_such(room: Room, source: str):
    assert room.judge(source, memory_bytes=128 * MEBIBYTE) is Verdict.MEMORY_LIMIT


def test_memory_is_the_programs_own(room: Room):
    small, large = room.run("print(1)").memory_bytes, room.run("x = b'x' * (100 << 20)").memory_bytes
    assert 0 <= small < 20 * MEBIBYTE
    assert 95 * MEBIBYTE < large < 130 * MEBIBYTE


@pytest.mark.parametrize("source", [
    "while True: print('x' * 1000)",
    "import os\nwhile True: os.write(1, b'x' * 10000)",
    "try:\n  while True: print('x' * 1000, flush=True)\nexcept OSError: pass",
    "import os\ntry:\n  while True: os.write(1, b'x' * 10000)\nexcept OSError: os._exit(0)",
    "import os\nos.ftruncate(1, 1 << 40)",
    "import os\nos.lseek(1, 2 * 10**6, 0)\nos.write(1, b'x')",
    "import sys\nwhile True: sys.stderr.write('x' * 1000)",
])  # fmt: skip
def test_the_output_limit_holds(room: Room, source: str):
    run = room.run(source, output_bytes=10**6, cpu_seconds=3)
    refused = b"File too large" in run.stderr
    assert run.truncated or run.limit is Limit.OUTPUT or refused
    assert len(run.stdout) <= 10**6 and len(run.stderr) <= 64 * 1024


def test_output_of_exactly_the_limit_is_whole(room: Room):
    run = room.run("print('x' * 999)", output_bytes=1000)
    assert (len(run.stdout), run.truncated, run.limit, run.exit_code) == (1000, False, None, 0)


def test_scratch_is_limited(room: Room):
    for source in (
        "f = open('f', 'wb')\nwhile True: f.write(b'x' * 2**20)",
        "i = 0\nwhile True: open(str(i), 'w').close(); i += 1",
    ):
        run = room.run(source, cpu_seconds=10, output_bytes=1 << 29)
        assert run.limit is Limit.DISK or run.exit_code == 1 or run.limit is Limit.OUTPUT, run


# --- boxes --------------------------------------------------------------------------------------------------------


def test_many_runs_come_back_in_order(room: Room):
    runs = room.repeat("print(input())", [Call(b"%d\n" % number) for number in range(50)])
    assert [run.stdout for run in runs] == [b"%d\n" % number for number in range(50)]


@pytest.mark.parametrize("source", ["print(input())", "import time; time.sleep(30)", "while True: pass"])
def test_closing_the_iterator_early_cancels_promptly(room: Room, source: str):
    box = room.box
    artifact = box.load(
        Program("if input() != '0':\n  " + source.replace("\n", "\n  ") + "\nelse: print('first')"), Limits()
    )
    runs = box.run_all(artifact, [Call(b"%d\n" % number) for number in range(10)], Limits(cpu_seconds=30))
    start = time.monotonic()
    assert next(runs).stdout == b"first\n"
    runs.close()
    assert time.monotonic() - start < 5
    artifact.close()
    assert room.box is box  # it can still be used
    assert room.run("print(2)").stdout == b"2\n"


def test_a_loaded_program_runs_in_another_box(room: Room):
    other = room.start()
    artifact = room.box.load(Program("print(1)"), Limits())
    assert other.run(artifact, Call(b""), Limits()).stdout == b"1\n"
    artifact.close()
    artifact.close()
    other.close()


def test_a_closed_box_leaves_no_process(room: Room):
    box = room.start()
    namespace = find_namespace(box)
    assert box.reset()
    assert len(find_processes(namespace)) == 1
    box.close()
    box.close()
    assert not box.reset()
    assert wait_for_end(namespace)


def test_a_dead_box_raises_box_lost(room: Room):
    box = room.start()
    artifact = box.load(Program("import time; print(1); time.sleep(20)"), Limits())
    namespace = find_namespace(box)
    runs = box.run_all(artifact, [Call(b"")] * 3, Limits())
    import threading

    threading.Timer(0.5, os.kill, (find_processes(namespace)[0], signal.SIGKILL)).start()
    with pytest.raises(BoxLost):
        next(runs)
    assert not box.reset()
    with pytest.raises(BoxLost):
        box.load(Program("print(1)"), Limits())
    box.close()
    assert wait_for_end(namespace)


def find_namespace(box) -> int:
    """The process namespace of a box, as a program in it sees it."""
    artifact = box.load(Program("import os; print(os.stat('/proc/self/ns/pid').st_ino)"), Limits())
    namespace = int(box.run(artifact, Call(b""), Limits()).stdout)
    artifact.close()
    return namespace


def wait_for_end(namespace: int, seconds: float = 15) -> bool:
    """Whether the namespace was empty in time."""
    deadline = time.monotonic() + seconds
    while find_processes(namespace) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not find_processes(namespace)
