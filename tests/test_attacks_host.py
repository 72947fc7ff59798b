"""Attacks whose failure is seen from the host: file trees, processes, descriptors, mounts, sockets, cgroups, limits.

Nothing here believes what a program says. Numbers are those of `attacks/catalogue.toml`.
"""

import os
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.executions import Execution
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call, Launcher, Limit, Run
from evaluator.sandbox.commands import read_fetched, spell_execution
from tests.boxes_helper import Room, find_processes
from tests.hosts_helper import (
    NAMESPACES,
    count_sockets,
    describe_tree,
    eventually,
    find_cgroup,
    find_runner,
    leave_to_make_attacks,
    list_children,
    list_descriptors,
    list_mounts,
    read_attack,
    read_status,
    running,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a box from outside")
WAITS = "import os, time\nprint('ready', flush=True)\ntime.sleep(60)\n"
MEBIBYTE = 1 << 20


@pytest.fixture
def victims(tmp_path: Path) -> Iterator[list[Path]]:
    """Files of the host that a link could lead to, in a folder that everybody may enter."""
    tmp_path.chmod(0o777)
    found = []
    for number in range(3):
        path = tmp_path / f"victim-{number}"
        path.write_text(f"the host's own {number}")
        path.chmod(0o666)
        found.append(path)
    yield found


def scratch_of(room: Room) -> Path:
    """The box's scratch folder, as the host reaches it."""
    return find_runner(room) / "root" / "w"


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("launcher", list(Launcher))
def test_links_lead_nowhere(room: Room, victims: list[Path], launcher: Launcher):
    """4 and 6: nobody writes, owns, opens or removes what a program's links point to."""
    inside = ["/usr/bin/env", "/etc/ld.so.cache", "/proc/1/status"]
    before = describe_tree(victims[0].parent)
    system = os.lstat(find_runner(room) / "root/usr/bin/env")
    text = "\n".join([*map(str, victims), *inside])

    for _ in range(2):
        assert room.run(read_attack("004_names_of_ours"), text).stdout.startswith(b"links: ")
        assert room.run("print(1)", launcher=launcher).stdout == b"1\n"
        assert os.listdir(scratch_of(room)) == []

    assert describe_tree(victims[0].parent) == before
    assert [path.read_text() for path in victims] == [f"the host's own {number}" for number in range(3)]
    assert os.lstat(find_runner(room) / "root/usr/bin/env") == system


def test_no_path_of_the_host_is_there(room: Room, victims: list[Path]):
    """3: expected outputs and our source, asked for by their own paths, and looked for by name everywhere."""
    secret = victims[0].parent / "expected-output-of-test-7.json"
    secret.write_text("[42]")
    source = (
        "import os, sys\nfor path in sys.stdin.read().split():\n  try: open(path).read(); print('read', path)\n"
        "  except OSError as e: print(type(e).__name__)\n"
        "print(sum('expected-output' in name for _, _, names in os.walk('/') for name in names))"
    )
    paths = [secret, *victims, Path(__file__).resolve(), Path("evaluator/judge.py").resolve()]
    lines = room.run(source, "\n".join(map(str, paths)), cpu_seconds=30).stdout.decode().split("\n")
    assert set(lines[: len(paths)]) <= {"FileNotFoundError", "PermissionError"} and lines[len(paths)] == "0", lines
    root = find_runner(room) / "root"
    assert not any(os.path.lexists(f"{root}{path}") for path in paths if not str(path).startswith("/proc"))


def test_scratch_has_a_size_of_its_own(room: Room):
    """9: what is full is a file system of 64 MiB that only the box has, and it is empty afterwards."""
    place = scratch_of(room)
    empty = os.statvfs(place)
    assert list_mounts(find_runner(room))["/w"][1] == "tmpfs"
    assert empty.f_blocks * empty.f_frsize <= 64 * MEBIBYTE
    assert os.stat(place).st_dev not in {os.stat(path).st_dev for path in ("/", "/tmp", "/dev/shm")}
    with running(room, read_attack("009_full_scratch") + WAITS, output_bytes=1 << 28) as (program, end):
        while b"ready" not in (program / "fd/1").read_bytes():
            pass
        full = os.statvfs(program / "root/w")
        assert full.f_bavail == 0 and full.f_blocks == empty.f_blocks
        end()
    left = os.statvfs(place)
    assert (left.f_bavail, left.f_ffree) == (empty.f_bavail, empty.f_ffree)


@pytest.mark.parametrize("name", ["010_inodes", "011_depth", "012_unremovable", "014_nodes", "015_sparse", "032_tmpfs"])
def test_scratch_is_empty_as_the_host_sees_it(room: Room, name: str):
    """10, 11, 12, 14, 15: whatever resists, the same box goes on with an empty scratch."""
    box = room.box
    free = os.statvfs(scratch_of(room)).f_ffree
    room.run(read_attack(name), cpu_seconds=10)
    assert os.listdir(scratch_of(room)) == []
    assert os.statvfs(scratch_of(room)).f_ffree == free
    assert room.box is box and os.listxattr(scratch_of(room)) == []


def test_what_is_fetched_lies_beneath_the_working_directory(room: Room):
    """5: links to the system's files, to devices, to /proc; a pipe, whose opening would wait for ever."""
    source = """
import os
paths = ("/etc/ld.so.cache", "/dev/urandom", "/proc/self/mem", "/proc/1/environ", "/proc/self/environ",
         "../../usr/bin/env", "/w/mine", "/proc/self/fd/4")
for name, path in enumerate(paths):
    os.symlink(path, str(name))
os.symlink("/usr/bin", "bin")
os.mkfifo("pipe")
open("mine", "w").write("mine")
os.symlink("mine", "link")
try:
    os.link("/usr/bin/env", "hard")
except OSError:
    pass
"""
    names = (*map(str, range(8)), "bin/env", "pipe", "mine", "link", "hard", "nothing")
    run = execute(room, source, names)
    assert run.exit_code == 0 and run.stderr == b""
    assert read_fetched(names, run.value or b"") == (("mine", b"mine"), ("link", b"mine"))


def test_a_folder_that_is_swapped_while_it_is_fetched(room: Room):
    """8: a daemon goes on exchanging a folder for a link to /usr/bin, as fast as it can, while files are copied out."""
    source = (
        "import os\nos.mkdir('a'); open('a/env', 'w').write('mine'); os.symlink('/usr/bin', 'b')\n"
        "reader, writer = os.pipe()\nif not os.fork():\n  os.setsid(); os.write(writer, b'x')\n  while True:\n"
        "    os.rename('a', 'c'); os.rename('b', 'a'); os.rename('a', 'b'); os.rename('c', 'a')\nos.read(reader, 1)"
    )
    names = ("a/env",) * 400
    for _ in range(3):
        run = execute(room, source, names)
        fetched = read_fetched(names, run.value or b"")
        assert {data for _, data in fetched} <= {b"mine"} and run.limit is None


def execute(room: Room, source: str, names: tuple[str, ...]) -> Run:
    """Run a program for its own sake, and fetch files."""
    order = spell_execution(Execution(fetch=names))
    artifact = room.box.load(Program(source), Limits(), Launcher.COMMAND)
    try:
        return room.box.run(artifact, Call(b"", is_execution=True, files=(order,)), Limits())
    finally:
        artifact.close()


# --- what a process is given ---------------------------------------------------------------------------------------


def test_a_program_as_the_host_sees_it(room: Room):
    """18, 34, 48, 49, 50, 52, 53, 54, 55: identity, descriptors, namespaces, sockets, mounts, limits, environment."""
    room.run("pass")
    idle = count_sockets(find_runner(room))
    with running(room, WAITS) as (program, end):
        status = read_status(program)
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        assert [int(status[name], 16) for name in ("CapPrm", "CapEff", "CapAmb")] == [0] * 3
        uids = set(map(int, status["Uid"].split()))
        assert len(uids) == 1 and 0 not in uids and (room.kind == "bubblewrap-user" or min(uids) >= 20_000)
        assert [path.partition(" ")[0] for _, path in sorted(list_descriptors(program).items())] == [
            "/memfd:input", "/memfd:stdout", "/memfd:stderr",
        ]  # fmt: skip
        for name in NAMESPACES:
            assert os.readlink(program / "ns" / name) != os.readlink(f"/proc/self/ns/{name}"), name
        assert count_sockets(program) == idle
        assert (program / "stat").read_text().rpartition(")")[2].split()[4] == "0", "a terminal"
        limits = (program / "limits").read_text()
        core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
        assert core.split()[4:6] in (["1", "1"], ["0", "0"])
        assert room.kind != "bubblewrap-root" or (program / "oom_score_adj").read_text() == "1000\n"
        names = {part.partition(b"=")[0] for part in (program / "environ").read_bytes().split(b"\0")}
        assert not any(
            word in name for name in names for word in (b"MICROCODER", b"REDIS", b"KEY", b"TOKEN", b"PYTEST")
        )
        assert end().signal == 9


def test_mounts_as_the_host_sees_them(room: Room):
    """2, 18, 19, 54: one place to write to; no set-uid program gains anything; nothing of the host's but programs."""
    mounts = list_mounts(find_runner(room))
    root = find_runner(room) / "root"
    open_to_all = {
        place for place, (options, _) in mounts.items()
        if "rw" in options and stat.S_ISDIR(mode := os.stat(f"{root}{place}").st_mode) and mode & 0o002
    }  # fmt: skip
    assert open_to_all == {"/w"}
    system = [place for place in mounts if place != "/w" and not place.startswith(("/proc", "/sys", "/dev"))]
    assert "/" in system and all("ro" in mounts[place][0] for place in system)
    assert "nosuid" in mounts["/w"][0] and "nodev" in mounts["/w"][0]
    if room.kind != "docker":  # there, no-new-privileges stands for it
        assert all("nosuid" in options for place, (options, _) in mounts.items() if place != "/proc/sys")
    engines = ("run/docker.sock", "run/containerd", "run/podman", "var/lib/docker/containers", "var/lib/containerd")
    assert not any(os.path.lexists(root / path) for path in engines)
    nodes = [
        entry.name for entry in os.scandir(root / "dev") if stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode)
    ]
    assert nodes == []


# --- network --------------------------------------------------------------------------------------------------------


def test_no_listener_of_the_host_is_reached(room: Room, tmp_path: Path):
    """20, 21, 23: a port, a Unix socket that everybody may use, an abstract one: nobody ever knocks."""
    tmp_path.chmod(0o777)
    path = str(tmp_path / "socket")
    listeners = []
    for family, address in (
        (socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, path), (socket.AF_UNIX, "\0microcoder-attacked"),
    ):  # fmt: skip
        listener = socket.socket(family)
        listener.bind(address)
        listener.listen()
        listener.setblocking(False)
        listeners.append(listener)
    os.chmod(path, 0o777)
    try:
        port = listeners[0].getsockname()[1]
        run = room.run(read_attack("021_services"), f"tcp {port}\npath {path}\nabstract microcoder-attacked\n")
        lines = dict(line.split(": ") for line in run.stdout.decode().splitlines())
        assert [lines[name] for name in ("0 tcp", "1 path", "2 abstract", "1 stat")] == ["EPERM"] * 3 + ["ENOENT"]
        assert {lines[name] for name in ("redis", "api", "worker", "localhost")} <= {"gaierror", "EPERM"}
        for listener in listeners:
            with pytest.raises(BlockingIOError):
                listener.accept()
    finally:
        for listener in listeners:
            listener.close()
    assert "microcoder-attacked" not in (find_runner(room) / "net/unix").read_text()


def test_no_socket_is_left(room: Room):
    """24, 25: after a program that tried to listen, its namespace has no socket."""
    room.run("pass")
    idle = count_sockets(find_runner(room))
    assert idle["tcp"] == idle["udp"] == idle["packet"] == 0
    room.run(read_attack("024_listen"))
    assert count_sockets(find_runner(room)) == idle


# --- processes ------------------------------------------------------------------------------------------------------

CROWDS = {
    "027_fork_bomb": {"cpu_seconds": 0.5, "wall_seconds": 2.0},
    "027_shell_bomb": {"cpu_seconds": 0.5, "wall_seconds": 2.0},
    "028_thread_bomb": {"cpu_seconds": 0.5, "wall_seconds": 1.0},
    "029_daemon": {},
    "030_daemon_with_stdout": {},
    "031_clone_parent": {},
    "039_unwaited": {"cpu_seconds": 0.5, "wall_seconds": 60.0},
    "040_stopped": {"wall_seconds": 0.3},
    "043_late_output": {},
    "044_zombies": {},
    "045_kill_all": {},
}


@pytest.mark.parametrize("name", CROWDS)
def test_nothing_lives_on(room: Room, name: str):
    """27 to 31, 39, 40, 43 to 45: the runner alone, without a zombie; in a container its cgroup says so too."""
    if "cpu_seconds" in CROWDS[name]:
        leave_to_make_attacks(room)
    box, runner = room.box, find_runner(room)
    room.run(read_attack(name), **CROWDS[name])
    assert find_runner(room) == runner and len(room.processes()) == 1
    assert list_children(runner) == []
    if room.kind == "docker":
        group = find_cgroup(runner, "pids")
        assert group is not None
        assert (group / "cgroup.procs").read_text().split() == [runner.name]
        assert (group / "pids.current").read_text() == "1\n"
    assert subprocess.run(["true"]).returncode == 0, "the host can still start a process"
    assert room.box is box


def test_a_bomb_is_bounded_while_it_goes_off(room: Room):
    """27: with root, never more than the limit; without, what can come up between two looks."""
    leave_to_make_attacks(room)
    with running(room, "print('ready', flush=True)\n" + read_attack("027_fork_bomb"), wall_seconds=1.0) as (_, end):
        most = 0
        while (now := len(find_processes(room.namespace))) > 1:
            most = max(most, now)
        run = end()
    assert run.limit in (Limit.WALL, Limit.CPU, Limit.PROCESSES)
    assert most <= (64 + 1 if room.kind != "bubblewrap-user" else 4160)


def test_a_neighbour_works_on_while_one_takes_all_memory(room: Room):
    """32: the box that is out of memory is the only one that notices; the worker stays small."""
    leave_to_make_attacks(room)
    other = room.start()
    try:
        before = int(read_status(Path("/proc/self"))["VmRSS"].split()[0])
        hungry = room.box.load(Program(read_attack("032_many_below")), Limits())
        modest = other.load(Program("print(sum(range(10**5)))"), Limits())
        runs = room.box.run_all(hungry, [Call(b"")] * 2, Limits(memory_bytes=128 * MEBIBYTE))
        for run in runs:
            assert run.limit is Limit.MEMORY and run.memory_bytes > 128 * MEBIBYTE
            assert other.run(modest, Call(b""), Limits()).stdout == b"4999950000\n"
        assert int(read_status(Path("/proc/self"))["VmRSS"].split()[0]) - before < 50_000
        hungry.close()
        modest.close()
    finally:
        other.close()


def test_no_core_is_dumped(room: Room, tmp_path: Path):
    """48: a crash with much memory in hand. The limit of 1 also keeps a program of the host's from being started."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    before = set(os.listdir("."))
    source = read_attack("048_core").replace("ctypes.string_at(0)", WAITS.replace("import os, time", "import time"))
    with running(room, source) as (program, end):
        limits = (program / "limits").read_text()
        assert limits.partition("Max core file size")[2].split()[:2] == ["1", "1"]
        end()
    crash = "import os, sys\nif not (pid := os.fork()):\n" + "  import ctypes; ctypes.string_at(0)\n"
    crash += "status = os.waitpid(pid, 0)[1]\nprint(os.WTERMSIG(status), os.WCOREDUMP(status), os.listdir('/w'))"
    assert room.run(crash).stdout == b"11 False []\n"
    assert room.run(read_attack("048_core")).signal == 11
    assert set(os.listdir(".")) == before and Path("/proc/sys/kernel/core_pattern").read_text() == pattern


def test_the_box_keeps_the_machines_swap_out(room: Room):
    """34: a container's swap is none. Elsewhere nothing is charged: there the address space is the bound."""
    runner = find_runner(room)
    if room.kind == "docker":
        group = find_cgroup(runner, "memory")
        assert group is not None
        files = [group / name for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes")]
        if files[0].exists():
            assert files[0].read_text() == files[1].read_text()
        else:
            assert not (group / "memory.swap.max").exists() or (group / "memory.swap.max").read_text() == "0\n"
    else:
        with running(room, WAITS, memory_bytes=128 * MEBIBYTE) as (program, end):
            room_left = int((program / "limits").read_text().partition("Max address space")[2].split()[0])
            assert room_left < 2048 * MEBIBYTE
            end()


def test_a_box_leaves_nothing_open(room: Room):
    """94, the short way: what three hundred tests cost the worker and the box."""
    artifact = room.box.load(Program("print(input())"), Limits())
    worker, runner = Path(f"/proc/{room.worker}"), find_runner(room)

    def count() -> tuple[int, int, int, list[int]]:
        mounts = len((runner / "mountinfo").read_text().splitlines())
        return len(list_descriptors(worker)), len(list_descriptors(runner)), mounts, list_children(runner)

    assert room.box.run(artifact, Call(b"x\n"), Limits()).stdout == b"x\n"
    time.sleep(0.2)  # the runner closes what it was given after it has answered
    before = count()
    for run in room.box.run_all(artifact, [Call(b"x\n")] * 300, Limits()):
        assert run.stdout == b"x\n"
    assert eventually(lambda: count() == before), (count(), before)
    artifact.close()
