"""What `soak` sends: ordinary programs of every kind, and hostile ones among them, each with the verdicts it may get.

Every program's text is its own (`salt`), so that nothing but what is meant to be comes out of the cache of results.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from microcoder_client import Submission, Suite
from microcoder_client.cases import assertion_test, functional_test, stdin_test

ATTACKS = Path(__file__).resolve().parents[1] / "tests" / "attacks"
TESTS = 24
"""In an ordinary suite."""
ORDINARY, HOSTILE = 20, 4
"""Programs in an evaluation."""
LIMITS: dict[str, Any] = {"cpu_seconds": 1, "wall_seconds": 3, "memory_bytes": 192 << 20, "output_bytes": 4 << 20}
REJECTED = frozenset({"wrong_answer", "runtime_error", "time_limit", "memory_limit", "output_limit"})


@dataclass(frozen=True, slots=True)
class Sent:
    """A submission, and what may come of it."""

    submission: Submission
    allowed: frozenset[str]
    tests: int


SUM = "a, b = map(int, input().split())\nprint(a + b)\n"
WRONG = "a, b = map(int, input().split())\nprint(a + b if a < 17 else a)\n"
FILES = "import os\na, b = map(int, input().split())\nopen('left', 'w').write('x' * 9999)\nprint(a + b)\n"
THREADS = (
    "import threading\na, b = map(int, input().split())\n"
    "done = []\nthreads = [threading.Thread(target=done.append, args=(i,)) for i in range(4)]\n"
    "[t.start() for t in threads]\n[t.join() for t in threads]\nprint(a + b)\n"
)
FUNCTION = "def add(a, b):\n    return a + b\n"

HOSTILE_PROGRAMS = {
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n",
    "thread bomb": (
        "import threading, time\n"
        "while True:\n    try: threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
        "    except RuntimeError: raise SystemExit(3)\n"
    ),
    "memory hog": "held = []\nwhile True: held.append(bytearray(1 << 20))\n",
    "memory in children": (
        "import os, time\nfor _ in range(16):\n"
        "    if os.fork() == 0:\n        held = bytearray(64 << 20)\n        time.sleep(2)\n        os._exit(0)\n"
        "time.sleep(2)\nraise SystemExit(3)\n"
    ),
    "daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.closerange(0, 3)\n        time.sleep(60)\n    os._exit(0)\nprint('wrong')\n"
    ),
    "daemon that holds the output": "import os, time\nif os.fork() == 0:\n    time.sleep(60)\nprint('wrong')\n",
    "scratch filler": (
        "try:\n    with open('fill', 'wb') as file:\n        while True: file.write(bytes(1 << 20))\n"
        "except OSError: raise SystemExit(4)\n"
    ),
    "inode filler": (
        "try:\n    for i in range(10**6): open(f'f{i}', 'w').close()\nexcept OSError: raise SystemExit(4)\n"
    ),
    "deep folders": (
        "import os\nfor _ in range(500):\n    os.mkdir('d' * 50)\n    os.chdir('d' * 50)\n    open('f', 'w').close()\n"
        "os.chmod('.', 0)\nprint('wrong')\n"
    ),
    "output flood": "while True: print('x' * 65536)\n",
    "error flood": "import sys\nwhile True: sys.stderr.write('x' * 65536)\n",
    "zombies": "import os\nfor _ in range(40):\n    if os.fork() == 0: os._exit(0)\nprint('wrong')\n",
    "special files": "import os\nos.mkfifo('f')\nos.symlink('/proc/self/mem', 'm')\nprint('wrong')\n",
    "kill everyone": "import os, signal\nos.kill(1, 9)\nos.kill(-1, signal.SIGKILL)\n",
    "stop": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n",
    "crash": "import ctypes\nctypes.string_at(0)\n",
    "descriptors": "import os\nheld = []\nwhile True: held.append(os.open('/dev/null', 0))\n",
}


def read_attacks() -> dict[str, str]:
    """Programs of the attack tests that need no input of their own."""
    found = {name: ATTACKS / f"{name}.py" for name in ("network", "runner", "writable")}
    return {name: path.read_text("utf-8") for name, path in found.items() if path.exists()}


class Traffic:
    """Evaluations, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        """Start at the first."""
        self._chance = random.Random(seed)
        self._number = 0
        self._hostile = list((HOSTILE_PROGRAMS | read_attacks()).items())

    def evaluation(self) -> list[Sent]:
        """The next: its programs are judged in this order."""
        self._number += 1
        suites = self._suites()
        sent = [self._ordinary(at, suites) for at in range(ORDINARY)]
        sent += [self._bad(self._number * HOSTILE + at) for at in range(HOSTILE)]
        self._chance.shuffle(sent)
        return sent

    def _suites(self) -> dict[str, Suite]:
        """Every third evaluation has suites of its own, with much that can't be compressed: they push older ones out of
        every store. Others share theirs."""
        own = self._number % 3 == 0
        shift = self._number if own else self._number % 2
        pairs = [(at, at * 7 + shift) for at in range(TESTS)]
        noise = [self._chance.randbytes(2000).hex() if own else "" for _ in pairs]
        stdin = [stdin_test(f"{a} {b}\n{more}\n", f"{a + b}\n") for (a, b), more in zip(pairs, noise, strict=True)]
        asserted = [f"assert add({a}, {b}) == {a + b}  # {more}" for (a, b), more in zip(pairs, noise, strict=True)]
        return {
            "stdin": Suite.of(stdin),
            "functional": Suite.of([functional_test([a, b], a + b) for a, b in pairs]),
            "assertion": Suite.of(list(map(assertion_test, asserted))),
        }

    def _ordinary(self, at: int, suites: dict[str, Suite]) -> Sent:
        """Nine of ten with a text of their own: the tenth is known, and comes out of the cache."""
        salt = f"# {self._number}.{at}\n" if at % 10 else ""
        right, wrong = frozenset({"accepted"}), frozenset({"wrong_answer"})
        match at % 7:
            case 0 | 1:
                return Sent(Submission(source=SUM + salt, suite=suites["stdin"], limits=LIMITS), right, TESTS)
            case 2:
                return Sent(Submission(source=WRONG + salt, suite=suites["stdin"], limits=LIMITS), wrong, 18)
            case 3:
                return Sent(Submission(source=FILES + salt, suite=suites["stdin"], limits=LIMITS), right, TESTS)
            case 4:
                return Sent(Submission(source=THREADS + salt, suite=suites["stdin"], limits=LIMITS), right, TESTS)
            case 5:
                called = Submission(
                    source=FUNCTION + salt, suite=suites["functional"], limits=LIMITS, entry_point="add"
                )
                return Sent(called, right, TESTS)
        asserted = Submission(source=FUNCTION + salt, suite=suites["assertion"], limits=LIMITS)
        return Sent(asserted, right, TESTS)

    def _bad(self, number: int) -> Sent:
        name, source = self._hostile[number % len(self._hostile)]
        text = f"{source}# {name} {number}\n"
        return Sent(Submission(source=text, suite=_expecting_much(), limits=LIMITS), REJECTED, 1)


def _expecting_much() -> Suite:
    """Nothing that a hostile program prints is right."""
    return Suite.of([stdin_test("1 2\n", "what no program prints\n")])
