"""Boxes behind a fence: the contract and the attacks, on real ones, as root and as an ordinary user.

What they can't stop is said by tests too.
"""

import contextlib
import errno
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.errors import BoxLost, SandboxUnavailable
from evaluator.model import Limits, Program
from evaluator.sandbox import channel, confined
from evaluator.sandbox import pool as pool_module
from evaluator.sandbox.base import Call, Limit, Run
from evaluator.sandbox.confined import ConfinedBackend, refuse_without_landlock, spread
from evaluator.sandbox.pool import open_pool
from evaluator.sandbox.probes import REMEDIES, find_failures
from evaluator.sandbox.runner.confine import ALLOW, ARCHITECTURES, ERRNO, build_denial
from evaluator.sandbox.runner.fence import ATTRIBUTES
from tests.boxes_helper import Room
from tests.confined_helper import find_confined_obstacle
from tests.declared_helper import IMAGE, find_obstacle
from tests.ordinary_user_helper import OrdinaryUser
from tests.requirements_helper import require
from tests.test_box_attacks import LITTER, SURVIVORS, attack
from tests.test_confine import interpret

ROOT = Path(__file__).parent.parent
RUNNERS = ("SETUID", "SETGID", "KILL")
HOSTILE = """
import os, signal
for pid in map(int, input().split()):
    for attempt in (
        lambda: os.kill(pid, 9), lambda: os.kill(pid, 0), lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 9),
        lambda: open(f"/proc/{pid}/environ").read(), lambda: open(f"/proc/{pid}/maps").read(),
        lambda: open(f"/proc/{pid}/mem", "rb").read(1), lambda: os.readlink(f"/proc/{pid}/cwd"),
        lambda: open(f"/proc/{pid}/oom_score_adj", "w").write("1"), lambda: open(f"/proc/{pid}/comm", "w").write("x"),
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 5), lambda: os.sched_setaffinity(pid, [0]),
        lambda: os.kill(-pid, 9) if pid > 1 else os.kill(1, 9),
    ):
        try:
            attempt()
            print("BREACH", pid, attempt.__code__.co_names, attempt.__code__.co_consts)
        except OSError:
            pass
"""
FILES = """
import os
for path in input().split():
    for attempt in (
        lambda: open(path).read(1), lambda: os.listdir(path), lambda: open(path, "a"), lambda: os.truncate(path, 0),
        lambda: os.chmod(path, 0o777), lambda: os.chown(path, os.getuid(), -1), lambda: os.utime(path),
        lambda: os.setxattr(path, "user.x", b"1"), lambda: os.unlink(path), lambda: os.rmdir(path),
        lambda: os.rename(path, "here"), lambda: os.link(path, "here"), lambda: os.mkdir(path + "/x"),
        lambda: os.symlink("x", path + "/x"), lambda: os.mkfifo(path + "/x"), lambda: os.chdir(path),
    ):
        try:
            attempt()
        except OSError:
            continue
        if "chdir" not in attempt.__code__.co_names:  # a folder may be stood in, and nothing seen from there
            print("BREACH", path, attempt.__code__.co_names)
        os.chdir(os.environ["HOME"])
"""


def find_descendants(pid: int) -> list[int]:
    """All that a process has started, and what that has started. A runner's own helpers come and go."""
    pids = [pid]
    for parent in pids:
        with contextlib.suppress(OSError):
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                pids += map(int, children.read_text().split())
    return pids[1:]


class ConfinedRoom(Room):
    """A room that shares its process namespace with everybody, and has its scratch elsewhere than in /w."""

    def repeat(self, source: str, calls, *arguments, **limits) -> list[Run]:
        """As ever, as if scratch were /w and the packages in /opt."""
        here = super().repeat("import os; print(os.getcwd(), end='')", [Call(b"")])[0].stdout.decode()
        source = source.replace("'/w'", repr(here))
        names = {here.encode(): b"/w", here.removesuffix("/w").encode() + b"/packages": b"/opt/packages"}
        pattern = re.compile(b"|".join(map(re.escape, names)))
        runs = super().repeat(source, calls, *arguments, **limits)
        return [replace(run, stdout=pattern.sub(lambda found: names[found[0]], run.stdout)) for run in runs]

    def processes(self) -> list[int]:
        """The runner, and all that descends from it."""
        runner = int(self.run("import os; print(os.getppid())").stdout)
        return [runner, *find_descendants(runner)]


@pytest.fixture(scope="module", params=["confined-root", "confined-user"])
def shared_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """One room of each kind."""
    with open_room(request.param) as room:
        yield room


@contextlib.contextmanager
def open_room(kind: str) -> Iterator[Room]:
    """A room of a kind; skips where the kind can't be had here."""
    require("confined", find_confined_obstacle())
    if kind == "confined-root":
        require("root", None if os.geteuid() == 0 else "needs to run as root")
    with contextlib.ExitStack() as stack:
        start, worker = ConfinedBackend().start, os.getpid()
        if kind == "confined-user" and os.geteuid() == 0:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.chmod(0o755)
            user = OrdinaryUser(folder, "confined")
            require("ordinary user", user.find_obstacle())
            stack.enter_context(user)
            start, worker = user.backend.start, user.process.pid
        room = ConfinedRoom(kind, start, worker)
        yield room
        room.close()


def is_alive(pid: int) -> bool:
    """Whether there is such a process, other than a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until(condition, seconds: float = 60) -> bool:
    """Whether `condition` came true in time."""
    deadline = time.monotonic() + seconds
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(true)


@pytest.fixture
def bystander(room: Room) -> Iterator[int]:
    """A process of the worker's user that has nothing to do with boxes."""
    user = os.stat(f"/proc/{room.worker}").st_uid
    with subprocess.Popen(["sleep", "600"], user=user, group=user, extra_groups=[], cwd="/") as process:
        yield process.pid
        assert process.poll() is None
        process.kill()


@pytest.mark.parametrize("what", SURVIVORS)
def test_no_process_survives_and_nobody_else_is_hit(room: Room, bystander: int, what: str):
    box = room.box
    room.run(SURVIVORS[what], cpu_seconds=1, wall_seconds=1)
    assert len(room.processes()) == 1
    assert is_alive(bystander) and is_alive(room.worker)
    assert room.box is box


@pytest.mark.parametrize("what", sorted(LITTER.keys() - {"a thousand levels"}))
def test_scratch_is_empty_behind_every_litter(room: Room, what: str):
    box = room.box
    room.run(LITTER[what], cpu_seconds=10, output_bytes=1 << 28)
    assert room.run("import os; print(os.listdir('.'), os.getcwd())").stdout == b"[] /w\n"
    assert room.box is box


def test_no_process_outside_can_be_harmed_or_read(room: Room, bystander: int):
    box = room.box
    runner = room.processes()[0]
    keeper = int(Path(f"/proc/{runner}/stat").read_text().rpartition(")")[2].split()[1])
    pids = f"{runner} {keeper} {room.worker} {bystander} 1\n"
    run = room.run(HOSTILE, pids)
    assert (run.stdout, run.exit_code) == (b"", 0), run.stderr
    assert room.run("import os\ntry: os.kill(-1, 9)\nexcept OSError: pass").signal is None
    assert all(map(is_alive, (runner, keeper, room.worker, bystander)))
    assert room.box is box


def test_no_file_outside_can_be_changed_or_read(room: Room, tmp_path: Path):
    """Not even what everybody may write to, or what belongs to the test's own user."""
    own = tmp_path / "own"
    own.mkdir()
    for path in (own / "file", own / "script.py"):
        path.write_text("x")
    ours = [own, *own.iterdir()]
    for path in ours:
        path.chmod(0o777)
        if room.kind == "confined-user":
            os.chown(path, *[os.stat(f"/proc/{room.worker}").st_uid] * 2)
    for part in own.parents:
        if str(part).startswith(tempfile.gettempdir() + "/"):
            part.chmod(0o755)
    paths = [*ours, ROOT, ROOT / "evaluator/judge.py", confined.__file__, "/etc/passwd", "/root", "/tmp", "/"]
    run = room.run(FILES, " ".join(map(str, paths)))
    breaches = [
        line for line in run.stdout.decode().splitlines() if room.kind == "confined-user" or "utime" not in line
    ]
    assert (breaches, run.exit_code) == ([], 0), run.stderr  # as root, times of what everybody may write to can be set
    assert {path.stat().st_mode & 0o777 for path in ours} == {0o777}
    assert {path.read_text() for path in own.iterdir()} == {"x"}


def test_no_socket_can_be_made(room: Room):
    said = attack(room, "network")
    assert [line for line in said if not line.startswith("BREACH: network interfaces")] == []


def test_what_a_confined_box_does_not_cover_is_what_its_self_test_leaves_out(room: Room):
    """The weaknesses, in full: who finds another here has found a hole."""
    failures = {failure.probe for failure in find_failures(room.box)}
    assert failures <= {"alone", "network", "scratch"} == ConfinedBackend.uncovered <= REMEDIES.keys()
    assert "alone" in failures
    line = f"/proc/{room.worker}/cmdline"
    assert room.run(f"print(len(open('{line}').read()) > 0)").stdout == b"True\n", "command lines are in sight"
    assert room.run(f"import os; print(os.path.exists({str(ROOT)!r}))").stdout == b"True\n", "names can be tried"


def test_much_scratch_is_a_limit(room: Room):
    source = "for i in range(40):\n  with open(str(i), 'wb') as f: f.write(bytes(4 << 20))\nimport time; time.sleep(20)"
    assert room.run(source, wall_seconds=15).limit is Limit.DISK


def test_nothing_is_left_of_a_closed_box_whatever_it_was_doing(room: Room):
    room.close()
    box = room.start()
    artifact = box.load(Program("import os; print(os.getppid(), os.getcwd())"), Limits())
    runner, scratch = box.run(artifact, Call(b""), Limits()).stdout.split()
    artifact.close()
    source = "import os, time\nfor _ in range(5):\n  if not os.fork(): os.setsid(); time.sleep(600)\n"
    artifact = box.load(Program(source + "print(1, flush=True); time.sleep(600)"), Limits())
    runs = box.run_all(artifact, [Call(b"")] * 2, Limits(wall_seconds=600))
    if room.kind == "confined-root":
        thread = threading.Thread(target=_lose, args=(runs,))
        thread.start()
        assert wait_until(lambda: len(find_descendants(int(runner))) == 6, 60)
        left = find_descendants(int(runner))
        os.kill(int(runner), signal.SIGKILL)  # the keeper ends what it leaves
        thread.join()
        assert wait_until(lambda: not any(map(is_alive, left)))
    artifact.close()
    box.close()
    assert not box.reset()
    assert not is_alive(int(runner))
    assert not os.path.exists(scratch)


def _lose(runs: Iterator[Run]) -> None:
    with contextlib.suppress(BoxLost):
        list(runs)


def test_the_box_ends_with_its_worker_and_so_does_all_in_it():
    require("confined", find_confined_obstacle())
    source = """
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call
from evaluator.sandbox.confined import ConfinedBackend
box = ConfinedBackend().start()
artifact = box.load(Program("import os; print(os.getppid())"), Limits())
print(int(box.run(artifact, Call(b""), Limits()).stdout), flush=True)
artifact = box.load(Program("import os, time; os.fork() or os.setsid(); time.sleep(50)"), Limits())
for _ in box.run_all(artifact, [Call(b"")] * 3, Limits(wall_seconds=60)): pass
"""
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, cwd=ROOT) as worker:
        runner = int(worker.stdout.readline())
        assert wait_until(lambda: len(find_descendants(runner)) == 2, 60)
        left = [runner, *find_descendants(runner)]
        worker.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not any(map(is_alive, left)))


IN_A_POD = """
from evaluator.sandbox.confined import ConfinedBackend
from evaluator.sandbox.probes import check_box
backend = ConfinedBackend()
box = backend.start()
check_box(box, backend.uncovered)
print("tight", box.reset())
box.close()
"""


@pytest.mark.docker
@pytest.mark.parametrize("options", [["--user=10001:10001"], ["--user=0:0", *(f"--cap-add={n}" for n in RUNNERS)]])
def test_a_container_that_may_do_nothing_has_confined_boxes(options: list[str], tmp_path: Path):
    """As a pod of the profile `restricted`, and as one whose root has three capabilities."""
    require("confined", find_confined_obstacle())
    require("docker", find_obstacle())
    shutil.copytree(ROOT / "evaluator", tmp_path / "evaluator", ignore=shutil.ignore_patterns("__pycache__"))
    for part in (tmp_path, *tmp_path.parents):
        if str(part).startswith(tempfile.gettempdir() + "/"):
            part.chmod(0o755)
    command = [
        "docker", "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL",
        "--security-opt=no-new-privileges:true", "--tmpfs=/tmp:rw,exec,mode=1777", f"--volume={tmp_path}:/source:ro",
        "--env=PYTHONPATH=/source", "--env=PYTHONDONTWRITEBYTECODE=1", *options, IMAGE, "python3", "-P", "-c", IN_A_POD,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "tight True\n", done.stderr


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((-1, errno.ENOSYS), "this kernel has no Landlock: run Linux 6.12 or newer"),
        ((-1, errno.EOPNOTSUPP), "Landlock is switched off: add landlock to lsm="),
        ((-1, errno.EPERM), "the container's seccomp profile forbids Landlock"),
        ((5, 0), "this kernel's Landlock is version 5, 6 is needed: run Linux 6.12 or newer"),
    ],
)
def test_a_kernel_without_the_fence_is_refused_with_a_sentence(answer, said, monkeypatch):
    monkeypatch.setattr(confined, "ask_landlock", lambda: answer)
    with pytest.raises(SandboxUnavailable, match=re.escape(said)):
        open_pool("confined")
    refuse_without_landlock((6, 0))
    refuse_without_landlock((7, 0))


def test_signals_that_are_not_held_back_are_noticed_before_anything_is_killed(monkeypatch):
    """As on a kernel whose Landlock takes the rules and doesn't know of signals."""
    require("confined", find_confined_obstacle())
    bundle = channel.bundle_runner().decode()
    assert bundle.count("NO_TCP, NO_SIGNALS = 3, 3") == 1
    broken = bundle.replace("NO_TCP, NO_SIGNALS = 3, 3", "NO_TCP, NO_SIGNALS = 3, 1")
    monkeypatch.setattr(channel, "bundle_runner", broken.encode)
    with pytest.raises(SandboxUnavailable, match="Landlock doesn't hold signals back"):
        ConfinedBackend().start()


def test_it_is_never_chosen_unless_asked_for(monkeypatch):
    for name in ("docker", "bubblewrap"):
        monkeypatch.setitem(pool_module.BACKENDS, name, "tests.test_pool:Refusing")
    with pytest.raises(SandboxUnavailable, match="never here") as refusal:
        open_pool("auto")
    assert "confined" not in str(refusal.value)


def test_installed_packages_are_left_out_of_what_can_be_read(tmp_path):
    for name in ("python3.11/site-packages/ours", "python3.11/json", "python3/dist-packages/ours", "gcc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "python3.11/os.py").touch()
    read, listed = spread([tmp_path])
    assert sorted(path.removeprefix(str(tmp_path)) for path in read) == [
        "/gcc",
        "/python3.11/json",
        "/python3.11/os.py",
    ]
    assert sorted(path.removeprefix(str(tmp_path)) for path in listed) == ["", "/python3", "/python3.11"]


def test_an_interpreter_that_tests_could_not_read_is_refused(tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("as an ordinary user tests have the worker's uid")
    tmp_path.chmod(0o700)
    library = tmp_path / "lib/python3.11"
    library.mkdir(parents=True)
    with pytest.raises(SandboxUnavailable, match="MICROCODER_CONFINED_PYTHON, such as /usr/bin/python3"):
        confined.refuse_unreadable(library)


def test_what_a_killed_worker_left_is_removed_and_the_livings_is_not(tmp_path, monkeypatch):
    require("confined", find_confined_obstacle())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(confined, "YOUNG_SECONDS", -1.0)
    source = "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]; "
    source += "from evaluator.sandbox.confined import ConfinedBackend; ConfinedBackend().start(); os._exit(0)"
    subprocess.run([sys.executable, "-c", source, str(tmp_path)], check=True, cwd=ROOT)
    [left] = tmp_path.iterdir()
    with contextlib.closing(ConfinedBackend().start()):
        [living] = tmp_path.iterdir()
        assert living != left
        confined.sweep_folders(tmp_path)
        assert list(tmp_path.iterdir()) == [living]
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_box_that_could_not_be_made(tmp_path, monkeypatch):
    require("confined", find_confined_obstacle())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("evaluator.sandbox.channel.bundle_runner", lambda: b"{")
    with pytest.raises(SandboxUnavailable, match="A confined box can't be made here"):
        ConfinedBackend().start()
    assert list(tmp_path.iterdir()) == []


def test_the_second_filter_denies_attributes_and_nothing_else():
    code = build_denial(ATTRIBUTES)
    column, audit = ARCHITECTURES[platform.machine()]
    for name, numbers in ATTRIBUTES.items():
        if numbers[column] is not None:
            assert interpret(code, numbers[column], audit) == ERRNO | errno.EPERM, name
    assert interpret(code, 0, audit) == ALLOW
