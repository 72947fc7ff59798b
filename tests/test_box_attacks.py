"""What hostile programs try, and what comes of it in every kind of box: nothing.

The programs in `attacks/` print a line with BREACH for whatever succeeds that shouldn't.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evaluator.errors import BoxLost
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call, Limit
from evaluator.sandbox.bubblewrap import find_python
from tests.boxes_helper import Room, find_processes

ATTACKS = Path(__file__).parent / "attacks"
ROOT = Path(__file__).parent.parent
MEBIBYTE = 1 << 20


def attack(room: Room, name: str, stdin: str = "") -> list[str]:
    """What a program of `attacks/` achieved."""
    run = room.run((ATTACKS / f"{name}.py").read_text(), stdin, cpu_seconds=30)
    assert run.limit is None and run.exit_code in (0, None), run
    return run.stdout.decode().splitlines()


# --- what is out of reach -----------------------------------------------------------------------------------------


def test_there_is_no_network_and_no_socket(room: Room):
    assert attack(room, "network") == []


def test_no_file_of_ours_can_be_read(room: Room):
    paths = [
        ROOT, ROOT / "evaluator", ROOT / "evaluator" / "judge.py", __file__, sys.prefix, sys.executable, Path.home(),
        *(f"/proc/{room.worker}/{name}" for name in ("environ", "maps", "cmdline", "fd", "cwd", "root")),
        "/root", "/home", "/etc/shadow", "/var/run/docker.sock", "/run/microcoder", "/var/lib/docker", "/dev/sda",
        "/dev/mem", "/dev/kmsg", "/proc/kcore", "/proc/kmsg", "/sys/kernel/debug", "/proc/1/root",
    ]  # fmt: skip
    found = attack(room, "files", "\n".join(map(str, paths)))
    if room.kind == "docker":  # empty folders, and boot.py, which holds no secret
        harmless = {"/opt/microcoder is in sight", "/run/microcoder is in sight"}
        found = [line for line in found if not line.endswith(": []") and line.removeprefix("BREACH: ") not in harmless]
    # The way to the interpreter, with nothing else on it.
    way = {f"BREACH: {path} can be listed: " for path in Path(find_python()).parents}
    assert [line for line in found if line.partition("[")[0] not in way or "," in line] == []


def test_nothing_can_be_written_but_scratch(room: Room):
    assert attack(room, "writable") == []


def test_the_runner_can_be_neither_harmed_nor_read(room: Room):
    box = room.box
    assert attack(room, "runner") == []
    assert room.box is box
    assert room.run("print(1)").stdout == b"1\n"


def test_a_program_has_three_descriptors_and_cannot_write_to_its_input(room: Room):
    assert attack(room, "descriptors", "the input of this test\n") == []


def test_no_uid_is_0_and_no_capability_is_left(room: Room):
    source = (
        "import os\nassert 0 not in (*os.getresuid(), *os.getresgid(), *os.getgroups()), os.getresuid()\n"
        "status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines())\n"
        "for name in ('CapPrm', 'CapEff', 'CapAmb'): assert int(status[name], 16) == 0, status\n"
        "assert status['NoNewPrivs'] == '1' and status['Seccomp'] == '2'"
    )
    run = room.run(source)
    assert (run.exit_code, run.stderr) == (0, b"")


def test_memory_holds_nothing_of_earlier_tests(room: Room):
    words = ("alabaster", "bergamot", "chicory")
    source = f"secret = '{words[0]}{words[0]}'\nassert f(1) == '{words[1]}'"
    room.check("def f(x): return x", source)
    room.run(f"print(input(), '{words[0]}')", f"{words[1]} {words[2]}\n")
    room.call(f"def f(x): return x + '{words[2]}'", "f", f'"{words[1]}"')
    assert attack(room, "memory", " ".join(word[::-1] for word in words)) == ["searched"]


# --- what is left behind ------------------------------------------------------------------------------------------

LITTER = {
    "nested folders that nobody may enter": "import os\nfor i in range(20): os.mkdir('a'); os.chdir('a')\n"
        "for i in range(20): os.chdir('..'); os.chmod('a', 0)",
    "a thousand levels": "import os\nfor i in range(1000): os.mkdir('x' * 200); os.chdir('x' * 200)",
    "many files": "for i in range(1500): open(f'{i}', 'w').close()",
    "strange names": "import os\n"
        "for name in (b'\\xff\\xfe', b'a\\nb', b'-rf', b' ', b'*', b'...'): os.mkdir(name); open(name + b'/x', 'w')",
    "links and pipes": "import os\nos.symlink('/', 'root'); os.symlink('.', 'self'); os.symlink('/etc/passwd', 'p')\n"
        "os.mkfifo('fifo'); open('f', 'w').write('x'); os.link('f', 'g'); os.chmod('f', 0)",
    "a scratch without permissions": "import os\nopen('f', 'w').close()\ntry: os.chmod('/w', 0)\nexcept OSError: pass",
    "a full scratch": "f = open('f', 'wb')\ntry:\n  while True: f.write(b'x' * 2**20)\nexcept OSError: pass",
    "a file held open": "import os\nf = open('f', 'wb'); f.write(b'x' * 10**7); f.flush(); os.unlink('f')",
}  # fmt: skip


@pytest.mark.parametrize("what", LITTER)
def test_scratch_is_empty_for_the_next_test(room: Room, what: str):
    box = room.box
    room.run(LITTER[what], cpu_seconds=10, output_bytes=1 << 28)
    probe = (
        "import os\nprint(os.listdir('/w'), os.getcwd()); open('mine', 'w').write('x' * 10**6); s = os.statvfs('/w')\n"
    )
    probe += "print(s.f_bavail * s.f_bsize > 60 << 20, s.f_files - s.f_ffree < 5)"
    assert room.run(probe).stdout == b"[] /w\nTrue True\n"
    assert room.box is box, "the box had to be thrown away"


SURVIVORS = {
    "a daemon": "import os, time\nif not os.fork():\n  os.setsid()\n  if not os.fork(): time.sleep(100)\n  os._exit(0)",
    "a daemon that ignores signals": "import os, time, signal\nfor s in signal.valid_signals():\n"
        "  try: signal.signal(s, signal.SIG_IGN)\n  except OSError: pass\nif not os.fork(): time.sleep(100)",
    "stopped children": "import os, time, signal\nfor _ in range(5):\n"
        "  if not os.fork(): os.kill(os.getpid(), signal.SIGSTOP)",
    "a fork bomb": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "a fork bomb that ends at once": "import os\nfor _ in range(5): os.fork()\nos._exit(0)",
    "a storm": "import os\nif os.fork(): os._exit(0)\nwhile True:\n  try:\n    if os.fork(): os._exit(0)\n"
        "  except OSError: pass",
    "writers to scratch": "import os, itertools\nif not os.fork():\n"
        "  for i in itertools.count(): open(str(i % 50), 'w').write('x')",
    "a stopped self": "import os, signal, time\nif not os.fork():\n  time.sleep(.05)\n"
        "  os.kill(os.getppid(), signal.SIGCONT); os._exit(0)\nos.kill(os.getpid(), signal.SIGSTOP)",
    "threads": "import threading, time\n"
        "for _ in range(20): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()",
    "many zombies": "import os\nfor _ in range(40):\n  if not os.fork(): os._exit(0)",
}  # fmt: skip


@pytest.mark.parametrize("what", SURVIVORS)
def test_no_process_survives(room: Room, what: str):
    box = room.box
    room.run(SURVIVORS[what], cpu_seconds=1, wall_seconds=1)
    assert len(room.processes()) == 1
    assert room.run("import os; print([n for n in os.listdir('/proc') if n.isdigit()].__len__())").stdout == b"2\n"
    assert room.box is box


def test_a_stopped_program_ends_by_its_wall_limit(room: Room):
    run = room.run("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", wall_seconds=0.5)
    assert run.limit is Limit.WALL


def test_too_many_processes_are_a_limit_or_an_error(room: Room):
    source = "import os, time\nfor _ in range(100):\n  if not os.fork(): time.sleep(20)\ntime.sleep(20)"
    run = room.run(source, processes=10, wall_seconds=5)
    assert run.limit is Limit.PROCESSES or b"BlockingIOError" in run.stderr


PATCHES = (
    "import builtins; builtins.print = builtins.sum = None",
    "import json, sys, math; json.dumps = json.loads = None; sys.stdout = None; math.pi = 3; "
    "sys.modules['heapq'] = None",
    "import sys; sys.setrecursionlimit(50); sys.path[:] = []; sys.argv.append('x')",
    "import os; os.environ['HOME'] = 'x'; os.chdir('/'); os.umask(0o777); os._exit(0)",
    "import signal, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)); signal.alarm(1)",
    "import gc, os\nfor o in gc.get_objects():\n  if type(o) is dict: o.clear()",
)


@pytest.mark.parametrize("patch", PATCHES)
def test_what_one_test_patches_the_next_does_not_see(room: Room, patch: str):
    room.run(patch)
    probe = (
        "import json, math, heapq, sys, os, resource\nprint(json.dumps(sum([1])), math.pi > 3.1,"
        " sys.getrecursionlimit(), os.environ['HOME'], os.getcwd(), len(sys.argv),"
        " resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    assert room.run(probe).stdout == b"1 True 1000 /w /w 1 512\n"


# --- the worker's side --------------------------------------------------------------------------------------------


def test_strange_output_files_do_the_worker_no_harm(room: Room):
    for source in (
        "import os; os.ftruncate(1, 900_000)",
        "import os; os.ftruncate(1, 0); os.ftruncate(2, 0); os.close(1); os.close(2); os.close(0)",
        "import os, fcntl; fcntl.fcntl(1, 1033, 0xf)",
        "import os; os.fchmod(1, 0); os.fchmod(2, 0)",
        "import fcntl, os; fcntl.flock(1, fcntl.LOCK_EX); fcntl.lockf(1, fcntl.LOCK_EX)",
        'import os\nfor d in range(3, 400):\n  try: os.write(d, b\'["passed",""]\')\n  except OSError: pass',
    ):
        run = room.run(source, output_bytes=MEBIBYTE)
        assert len(run.stdout) <= MEBIBYTE
    assert room.run("print(1)").stdout == b"1\n"


def test_the_box_ends_with_its_worker(room: Room):
    if room.kind == "bubblewrap-user" and os.geteuid() == 0:
        pytest.skip("the worker is the process that serves all tests; as an ordinary user this runs")
    module = "docker:DockerBackend" if room.kind == "docker" else "bubblewrap:BubblewrapBackend"
    module, _, name = module.partition(":")
    source = f"""
import time
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call
from evaluator.sandbox.{module} import {name}
box = {name}().start()
artifact = box.load(Program("import os, time; print(os.stat('/proc/self/ns/pid').st_ino)"), Limits())
print(int(box.run(artifact, Call(b""), Limits()).stdout), flush=True)
artifact = box.load(Program("import time; time.sleep(50)"), Limits())
for _ in box.run_all(artifact, [Call(b"")] * 3, Limits(wall_seconds=60)): pass
"""
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, cwd=ROOT) as worker:
        namespace = int(worker.stdout.readline())
        time.sleep(0.5)  # by now a test runs and another waits
        assert len(find_processes(namespace)) >= 2
        worker.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 15
    while find_processes(namespace) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert find_processes(namespace) == []


def test_two_boxes_share_no_identity(room: Room):
    other = room.start()
    try:
        artifact = other.load(Program("import os; print(os.getuid(), os.stat('/proc/self/ns/pid').st_ino)"), Limits())
        theirs = other.run(artifact, Call(b""), Limits()).stdout.split()
    finally:
        other.close()
    ours = room.run("import os; print(os.getuid(), os.stat('/proc/self/ns/pid').st_ino)").stdout.split()
    assert ours[1] != theirs[1]
    assert ours[0] != theirs[0] or room.kind == "bubblewrap-user"


def test_a_closed_box_raises_box_lost(room: Room):
    box = room.start()
    box.close()
    with pytest.raises(BoxLost):
        box.load(Program("1"), Limits())
