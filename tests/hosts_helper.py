"""What the host sees of a box: processes, descriptors, mounts, sockets, cgroups, files. Never what a program says."""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call, Run
from tests.boxes_helper import Room, find_processes

ROOT = Path(__file__).parent.parent
ATTACKS = Path(__file__).parent / "attacks"
NAMESPACES = ("pid", "net", "ipc", "mnt", "uts")


def leave_to_make_attacks(room: Room) -> None:
    """What takes long is tried in one kind of box by the ordinary tests, and in all of them by `make attacks`."""
    if not os.environ.get("MICROCODER_ATTACKS"):
        usual = "bubblewrap-root" if os.geteuid() == 0 else "bubblewrap-user"
        if room.kind != usual:
            pytest.skip("takes long: in this kind of box by `make attacks`")


def read_attack(name: str) -> str:
    """The source of a numbered program, with what it begins with."""
    return (ATTACKS / "attempt.py").read_text() + (ATTACKS / f"{name}.py").read_text()


def find_runner(room: Room) -> Path:
    """The host's folder of the shared box's process 1."""
    assert room.box is not None  # made now, if there was none
    return Path(f"/proc/{room.processes()[0]}")


def list_children(process: Path) -> list[int]:
    """All children that a process has, zombies among them."""
    found: list[int] = []
    for thread in (process / "task").iterdir():
        found += map(int, (thread / "children").read_text().split())
    return found


def read_status(process: Path) -> dict[str, str]:
    """/proc/<pid>/status as a dictionary."""
    return dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())


def list_mounts(process: Path) -> dict[str, tuple[set[str], str]]:
    """Mount point -> (its options, its type of file system)."""
    found = {}
    for line in (process / "mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        parts = fields.split()
        found[parts[4]] = (set(parts[5].split(",")), rest.split()[0])
    return found


def list_descriptors(process: Path) -> dict[int, str]:
    """Number -> what it is open to."""
    found = {}
    for name in os.listdir(process / "fd"):
        with suppress(FileNotFoundError):  # what listed them, where the process is this one
            found[int(name)] = os.readlink(process / "fd" / name)
    return found


def eventually(is_so: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether something is so, or comes to be: a runner answers before it has closed what it was given."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def count_sockets(process: Path) -> dict[str, int]:
    """How many sockets of each family its network namespace has: the kernel's own and the runner's are among them."""
    tables = {"tcp": 1, "tcp6": 1, "udp": 1, "udp6": 1, "raw": 1, "raw6": 1, "unix": 1, "packet": 1, "netlink": 1}
    found = {}
    for name, heading in tables.items():
        path = process / "net" / name
        if path.exists():
            found[name] = len(path.read_text().splitlines()) - heading
    return found


def find_cgroup(process: Path, controller: str) -> Path | None:
    """The folder of a process's cgroup, version 1 or 2; None for the root's, which is nobody's own."""
    for line in (process / "cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if path != "/" and controller in names.split(","):
            return Path("/sys/fs/cgroup") / controller / path.lstrip("/")
        if path != "/" and not names:
            unified = Path("/sys/fs/cgroup") / path.lstrip("/")
            if (unified / "cgroup.procs").exists():
                return unified
    return None


def describe_tree(folder: Path, leave_out: frozenset[str] = frozenset()) -> dict[str, tuple[int, ...]]:
    """Path -> what a change of its content, its owner or its rights would change, for all below a folder."""
    found: dict[str, tuple[int, ...]] = {}
    pending = [str(folder)]
    while pending:
        place = pending.pop()
        for entry in os.scandir(place):
            path = entry.path
            if path in leave_out:
                continue
            facts = entry.stat(follow_symlinks=False)
            found[path] = (facts.st_ino, facts.st_mode, facts.st_uid, facts.st_gid, facts.st_size, facts.st_ctime_ns)
            if stat.S_ISDIR(facts.st_mode):
                pending.append(path)
    return found


@contextmanager
def running(room: Room, source: str, stdin: bytes = b"", **limits) -> Iterator[tuple[Path, Callable[[], Run]]]:
    """A program that has been started, and waits: its folder in the host's /proc, and a function that ends it.

    The program is to print a line when it is ready. Until the function returns, nothing else may be asked of the room.
    """
    box = room.box
    known = set(room.processes())
    artifact = box.load(Program(source), Limits())
    outcome: Future[Run] = Future()

    def work() -> None:
        try:
            outcome.set_result(box.run(artifact, Call(stdin), Limits(**limits)))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, daemon=True).start()

    def end() -> Run:
        for pid in set(find_processes(room.namespace)) - known:
            with suppress(ProcessLookupError):  # it had ended by itself
                os.kill(pid, 9)
        return outcome.result(120)

    try:
        yield wait_for_program(room, known), end
    finally:
        with suppress(Exception):  # the test's own failure matters more
            end()
        artifact.close()


def wait_for_program(room: Room, known: set[int]) -> Path:
    """The folder of the program's first process, once it has printed something."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for pid in sorted(set(find_processes(room.namespace)) - known):
            try:
                if os.stat(f"/proc/{pid}/fd/1").st_size > 0:
                    return Path(f"/proc/{pid}")
            except OSError:
                pass  # it isn't there any more, or has no output yet
        time.sleep(0.01)
    raise AssertionError("the program has printed nothing for 30 seconds")
