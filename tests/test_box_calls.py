"""Calls of a program's functions, and assertion tests, in every kind of box: only plain data comes out of a program."""

import json

import pytest

from evaluator.sandbox.base import Call, Limit, Run
from evaluator.sandbox.runner.values import Opaque, decode
from tests.boxes_helper import Room


def value_of(run: Run):
    """What a call returned."""
    assert run.value is not None, run.stderr.decode()
    return decode(run.value.partition(b"\n")[0])


# --- calls --------------------------------------------------------------------------------------------------------

VALUES = {
    "nested": ("return {'a': [1, (2.5, None)], 3: {True, False}}", {"a": [1, (2.5, None)], 3: {True, False}}),
    "a huge integer": ("return 7 ** 20000", 7**20000),
    "text": ("return 'ä\\0\\ud800\\n'", "ä\0\ud800\n"),
    "bytes": ("return b'\\xff'", b"\xff"),
    "a complex number": ("return 1 + 2j", 1 + 2j),
    "infinity": ("return [float('inf'), float('-inf')]", [float("inf"), float("-inf")]),
    "a generator": ("return (i for i in range(3))", [0, 1, 2]),
    "numpy": ("import numpy as np; return [np.int64(3), np.array([[1, 2]]), np.float64(.5)]", [3, [[1, 2]], 0.5]),
    "a frozen set": ("return frozenset({1})", frozenset({1})),
    "a namedtuple": ("from collections import namedtuple; return namedtuple('P', 'x y')(1, 2)", (1, 2)),
    "a default dict": ("d = collections.defaultdict(int); d[1] += 2; return d", {1: 2}),
    "a deque": ("return deque([1])", [1]),
    "an enumeration's integer": ("import enum; return enum.IntEnum('E', 'A').A", 1),
}  # fmt: skip


@pytest.mark.parametrize("what", VALUES)
def test_values_come_back_as_plain_data(room: Room, what: str):
    body, expected = VALUES[what]
    value = value_of(room.call(f"def f():\n    {body}", "f"))
    assert value == expected
    assert type(value) is type(expected)


def test_arguments_are_json_values_one_a_line(room: Room):
    run = room.call("def f(*args): return list(args)", "f", "[1, 2]", '"a"', "null", '{"k": [true, 1.5]}', str(10**50))
    assert value_of(run) == [[1, 2], "a", None, {"k": [True, 1.5]}, 10**50]


@pytest.mark.parametrize("source", [
    "def f(x): return x + 1",
    "class Solution:\n    def f(self, x): return x + 1",
    "class Solution:\n    def __init__(self): self.y = 1\n    def f(self, x: int) -> int: return x + self.y",
    "f = lambda x: x + 1",
    "import functools\n@functools.cache\ndef f(x): return x + 1",
])  # fmt: skip
def test_the_entry_point_is_found(room: Room, source: str):
    assert value_of(room.call(source, "f", "1")) == 2


def test_a_method_may_be_named_with_its_class(room: Room):
    assert value_of(room.call("class A:\n    def f(self, x): return -x", "A.f", "1")) == -1


def test_functions_find_the_names_of_contest_sites(room: Room):
    source = "def f(x: List[int]) -> Optional[int]:\n    return sum(accumulate(x)) + gcd(4, 6) + bisect_left(x, 2)"
    assert value_of(room.call(source, "f", "[1, 2]")) == 4 + 2 + 1


def test_arguments_changed_in_place_come_back_beside_none(room: Room):
    run = room.call("def f(x):\n    x.append(x.pop(0))", "f", "[1, 2, 3]")
    assert [decode(line) for line in run.value.split(b"\n")] == [None, [[2, 3, 1]]]


@pytest.mark.parametrize("body", [
    "raise ValueError('no')",
    "import sys; sys.exit(0)",
    "import os; os._exit(0)",
    "exit()",
    "return undefined",
    "import os, signal; os.kill(os.getpid(), 9)",
    "x = []; x.append(x); return x",
    "class I:\n        def __iter__(self): return self\n        def __next__(self): return 1\n    return map(int, I())",
    "class L(list):\n        def __getattribute__(self, n): raise SystemExit\n    return iter(L([1]).__iter__())",
])  # fmt: skip
def test_a_call_that_does_not_return_a_value_gives_none(room: Room, body: str):
    run = room.call(f"def f(x):\n    {body}", "f", "1", cpu_seconds=1)
    assert run.value is None
    assert run.exit_code != 0 or "exit" in body


def test_a_missing_function_says_so(room: Room):
    run = room.call("def g(): pass", "f", "1")
    assert run.value is None
    assert run.stderr.rstrip().endswith(b"NameError: the program defines no function 'f'")


def test_what_the_program_prints_is_kept_apart(room: Room):
    run = room.call("print('top')\ndef f(): print('in f'); return 5", "f")
    assert (value_of(run), run.stdout) == (5, b"top\nin f\n")


def test_objects_that_lie_arrive_as_what_they_are(room: Room):
    source = """
class Liar(list):
    def __eq__(self, other): return True
    def __iter__(self): return iter([9, 9, 9])
    def __len__(self): return 99
    def __getitem__(self, i): return 9
    __class__ = int
class Number(int):
    def __eq__(self, other): return True
    def __add__(self, other): return 9
    def __int__(self): return 9
class Text(str):
    def __str__(self): return 'expected'
class Any:
    def __eq__(self, other): return True
def f(): return [Liar([1]), Number(2), Text('x'), Any()]
"""
    value = value_of(room.call(source, "f"))
    assert value[:3] == [[1], 2, "x"]
    assert [type(item) for item in value] == [list, int, str, Opaque]
    assert value[3] != 1


def test_patched_encoders_do_not_change_what_arrives(room: Room):
    source = (
        "import json, builtins\njson.dumps = lambda *a, **k: '[1]'\n"
        "builtins.type = builtins.isinstance = lambda *a: True\n"
        "def f(): return 2"
    )
    assert room.call(source, "f").value in (None, b"2")


def test_a_forged_value_is_still_only_data(room: Room):
    source = 'import os\nfor d in range(3, 64):\n    try: os.write(d, b\'{"$":"evil"}\')\n    except OSError: pass\n'
    source += "def f(): return 1"
    run = room.call(source, "f")
    if run.value not in (None, b"1"):
        with pytest.raises(ValueError, match=r"tag|encoded|Extra"):
            decode(run.value.partition(b"\n")[0])


def test_limits_hold_for_calls(room: Room):
    assert room.call("def f():\n    while True: pass", "f", cpu_seconds=0.3).limit is Limit.CPU
    run = room.call("def f(): return 'x' * 10**7", "f", output_bytes=10**6)
    assert run.truncated or run.limit is Limit.OUTPUT or run.value is None


def test_each_call_starts_anew(room: Room):
    runs = room.repeat("seen = []\ndef f(x):\n    seen.append(x)\n    return seen", [Call(b"1", "f"), Call(b"2", "f")])
    assert [value_of(run) for run in runs] == [[1], [2]]


# --- assertion tests ----------------------------------------------------------------------------------------------

ADD = "def f(a, b=0): return a + b"
CHECKS = {
    "passes": (ADD, "assert f(1, 2) == 3\nassert f(b=1, a=1) == 2", None),
    "fails": (ADD, "assert f(1, 2) == 4", "assertion"),
    "an error in the program": ("def f(x): return 1 // x", "assert f(0) == 0", "error"),
    "an error in the test": (ADD, "assert undefined_name", "error"),
    "an expected error": ("def f(x): raise ValueError('bad')",
        "try: f(1)\nexcept ValueError as e: assert str(e) == 'bad'\nelse: assert False", None),
    "HumanEval's form": (ADD, "def check(candidate):\n    assert candidate(1, 2) == 3\ncheck(f)", None),
    "values of every kind": ("def f(x): return x", "for v in (1, 'a', None, [1, (2,)], {'k': {1}}, 2 ** 300, b'x'):\n"
        "    assert f(v) == v and type(f(v)) is type(v)", None),
    "arguments changed in place": ("def f(x): x.sort()", "l = [2, 1]\nassert f(l) is None\nassert l == [1, 2]", None),
    "functions as arguments": ("def f(g, x): return g(x) + 1", "assert f(lambda n: n * 2, 4) == 9", None),
    "objects of the program": ("class A:\n    def __init__(self, x): self.x = x\n    def get(self): return self.x",
        "a = A(3)\nassert a.get() == 3 and a.x == 3", None),
    "imports of the program": ("import math\ndef f(x): return math.floor(x)", "assert f(2.5) == math.floor(2.7)", None),
    "tolerances": ("def f(): return 0.1 + 0.2", "assert abs(f() - 0.3) < 1e-9", None),
    "a wrong tolerance": ("def f(): return 0.5", "assert abs(f() - 0.3) < 1e-9", "assertion"),
    "the program exits early": ("import sys\ndef f(x): sys.exit(0)", "assert f(1) == 1", "ended"),
    "the program exits at once": ("import os; os._exit(0)", "assert f(1) == 1", "ended"),
    "exit before the names are asked for": ("raise SystemExit(0)", "pass", "ended"),
    "the test calls exit": (ADD, "raise SystemExit(0)\nassert False", "error"),
    "its own abs": ("def abs(x): return -1\ndef f(): return 5", "assert abs(f() - 1) < 0.5", "assertion"),
    "its own isinstance": ("def isinstance(*a): return True\n"
        "def f(): return 'x'", "assert isinstance(f(), int)", "assertion"),
    "its own AssertionError": ("class AssertionError(BaseException): pass\nimport builtins\n"
        "builtins.AssertionError = AssertionError\ndef f(): return 1", "assert f() == 2", "assertion"),
    "it raises AssertionError": ("def f(): raise AssertionError", "assert f() == 2", "error"),
    "the test prints": (ADD, "print('x' * 100_000, flush=True)\nassert f(1) == 1", None),
    "no length": ("class E:\n    def __iter__(s): return iter([3])\n"
        "def f(): return E()", "assert list(f()) == [3]", None),
    "replaced builtins": ("import builtins\nbuiltins.abs = builtins.all = lambda *a: True\n"
        "builtins.len = lambda x: 3\ndef f(): return [1]", "assert len(f()) == 3", ("assertion", "ended")),
    "always equal": ("class E:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n"
        "def f(): return E()",
        "assert f() == 1", "assertion"),
    "always equal, mirrored": ("class E(int):\n    def __eq__(s, o): return True\ndef f(): return E(5)",
        "assert 1 == f()", "assertion"),
    "always contained": ("class E:\n    def __contains__(s, o): return True\n    def __iter__(s): return iter([])\n"
        "def f(): return E()", "assert 3 in f()", "assertion"),
    "always larger": ("class E:\n    def __gt__(s, o): return True\n    def __lt__(s, o): return True\n"
        "def f(): return E()",
        "assert f() > 3", "error"),
    "always true": ("class E:\n    def __bool__(s): return True\n    def __eq__(s, o): return s\ndef f(): return E()",
        "assert f() == 1", "assertion"),
    "kills its parent": ("import os\ndef f(x):\n"
        "    os.kill(os.getppid(), 9); return x", "assert f(1) == 2", ("assertion", "error")),
    "kills everyone": ("import os, signal\ndef f(x):\n    try: os.kill(-1, signal.SIGKILL)\n    except OSError: pass\n"
        "    return x", "assert f(1) == 2", ("assertion", "ended")),
    "ends in a loop of forks": ("import os\nos.fork()\n"
        "def f(x): return x", "assert f(1) == 2", ("assertion", "ended", "error")),
    "patches the test's modules": ("import math\nmath.isclose = lambda *a, **k: True\ndef f(): return 1",
        "import math\nassert math.isclose(f(), 2)", "assertion"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHECKS)
def test_assertions_say_what_is_so(room: Room, what: str):
    program, test_code, failure = CHECKS[what]
    run = room.check(program, test_code, cpu_seconds=5, wall_seconds=3)
    assert run.failure in (failure if isinstance(failure, tuple) else (failure,)), run
    assert run.limit is None or "forks" in what


FORGERIES = {
    "writes to every descriptor": "import os\nfor d in range(256):\n"
        "    for t in (b'[\"passed\",\"\"]', b'\\x0f' + b'\\0' * 7 + b'[\"value\",3,null]'):\n"
        "        try: os.write(d, t)\n        except OSError: pass",
    "writes through /proc": "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit():\n"
        "        for d in range(10):\n"
        "            try: open(f'/proc/{p}/fd/{d}', 'wb').write(b'[\"passed\",\"\"]')\n"
        "            except OSError: pass",
    "truncates everything": "import os\nfor d in range(256):\n"
        "    try: os.ftruncate(d, 0); os.pwrite(d, b'[\"passed\",\"\"]', 0)\n"
        "    except OSError: pass",
    "answers by itself": "import sys\nline = None\nimport gc, struct, os\n"
        "for d in range(3, 20):\n    try: os.write(d, struct.pack('<Q', 16) + b'[\"value\",7,null]')\n"
        "    except OSError: pass",
    "finds the conversation's object": "import gc\nfor o in gc.get_objects():\n"
        "    if type(o).__name__ in ('Servant', 'Line'):\n"
        "        o.__class__.send = lambda *a: None",
    "ends with a nice exit": "import os, atexit\natexit.register(os._exit, 0)",
}  # fmt: skip


@pytest.mark.parametrize("what", FORGERIES)
def test_a_report_cannot_be_forged(room: Room, what: str):
    run = room.check(f"{FORGERIES[what]}\ndef f(x): return 0", "assert f(1) == 1", cpu_seconds=3, wall_seconds=3)
    assert run.failure is not None or run.limit is not None


def test_a_forged_answer_may_be_any_value_but_only_a_value(room: Room):
    # The program decides what its function returns, by whatever means; it can't decide what the test says of it.
    run = room.check("import os\ndef f(x): return 7", "x = f(1)\nassert x == 7\nassert type(x) is int")
    assert run.failure is None


def test_the_program_cannot_find_the_test_code(room: Room):
    source = """
import os
def look():
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for name in ('mem', 'cmdline', 'environ', 'maps', 'fd', 'cwd', 'root', 'exe'):
            path = f'/proc/{pid}/{name}'
            try:
                if name == 'mem':
                    if pid == str(os.getpid()): continue
                    for line in open(f'/proc/{pid}/maps'):
                        start = int(line.split('-')[0], 16)
                        with open(path, 'rb', 0) as file:
                            file.seek(start); file.read(4096); found.append(path)
                        break
                elif name in ('cwd', 'root', 'exe'):
                    if pid != str(os.getpid()): os.readlink(path); found.append(path)
                elif name == 'fd':
                    if pid != str(os.getpid()): os.listdir(path); found.append(path)
                elif b'cinnabar' in open(path, 'rb').read(): found.append(path)
            except OSError: pass
    for fd in os.listdir('/proc/self/fd'):
        try:
            if int(fd) > 2 and b'cinnabar' in os.pread(int(fd), 10000, 0): found.append(fd)
        except OSError: pass
    return found
seen = look()
def f(): return seen + look()
"""
    run = room.check(source, "'cinnabar'\nassert f() == [], f()")
    assert run.failure is None, run.stderr.decode()


def test_the_failing_line_is_shown(room: Room):
    run = room.check(ADD, "assert f(1) == 1\nassert f(2) == 3, 'two'\n")
    assert run.stderr.decode() == "line 2 of the test: assert f(2) == 3, 'two'\nAssertionError: two\n"


def test_limits_hold_for_both_processes(room: Room):
    assert room.check("def f():\n    while True: pass", "f()", cpu_seconds=0.3).limit is Limit.CPU
    assert room.check(ADD, "while True: pass", cpu_seconds=0.3).limit is Limit.CPU
    run = room.check("import time\ndef f(): time.sleep(60)", "f()", wall_seconds=0.4)
    assert run.limit is Limit.WALL
    run = room.check("def f():\n    x = []\n    while True: x.append(b'x' * 2**20)", "f()", memory_bytes=128 << 20)
    assert run.limit is Limit.MEMORY or b"MemoryError" in run.stderr


def test_many_assertion_tests_run_in_order(room: Room):
    calls = [Call(b"", "f", f"assert f(1, {n}) == {n + 1 + (n == 3)}".encode()) for n in range(5)]
    runs = room.repeat(ADD, calls)
    assert [run.failure for run in runs] == [None, None, None, "assertion", None]
    assert json.dumps([run.exit_code for run in runs]) == "[0, 0, 0, 0, 0]"
