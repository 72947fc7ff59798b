"""The self-test of a box: harmless programs that try what a hostile one would, before any of those comes.

A box is only as tight as the machine makes it: a daemon may ignore an option, a runtime may lack a filter, a manifest
may have lost a line. So a worker tries its first box before it serves, and refuses where a probe succeeds that must
not. It takes some 0.4 seconds. What a kind of box doesn't promise (`Backend.uncovered`) isn't asked of it.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.errors import SandboxError, SandboxUnavailable
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Box, Call, CompileFailure, Limit, Run

SCRATCH_BOUND = 1 << 30
"""Bytes. A scratch of more isn't one of ours, but a disk."""
HIDDEN = (
    str(Path(__file__).resolve().parent), "/var/run/docker.sock", "/run/docker.sock",
    "/run/containerd/containerd.sock", "/var/run/secrets/kubernetes.io", "/var/lib/docker", "/etc/shadow",
    "/opt/microcoder/boot.py", "/run/microcoder/dial-in", "/dev/mem", "/dev/kmsg", "/dev/sda", "/proc/kcore",
    "/proc/1/environ",
)  # fmt: skip
"""What no program may read: our own files, doors to the host, process 1."""
REMEDIES = {
    "uid": "Let the runner be root with SETUID, SETGID and KILL, or start it as an ordinary user.",
    "capabilities": "Drop all capabilities of the box but SETUID, SETGID and KILL.",
    "privileges": "Start the box with no-new-privileges.",
    "system calls": "The runner's filter isn't in force: use a kernel and a runtime with seccomp filters.",
    "network": "Start the box without a network (network_mode: none).",
    "descriptors": "Something hands descriptors down into the box: start it through nothing but its runtime.",
    "read-only": "Start the box with a read-only root, and with no writable mount but its scratch.",
    "out of sight": "Mount nothing of the host into the box.",
    "alone": "Give the box a process namespace of its own (no pid: host, no shareProcessNamespace).",
    "scratch": "Give the scratch a size: a tmpfs with size=64m.",
    "sweep": "The kernel or the runtime doesn't let the runner end what a test leaves behind: use another.",
    "processor time": "The runner can't read the time that a test takes: look at how /proc is mounted in the box.",
    "wall time": "The runner can't end a test: give the box KILL, or use another runtime.",
    "memory": "The runner can't see what a test takes: look at how /proc is mounted in the box.",
    "processes": "The runner can't count a test's processes: look at how /proc is mounted in the box.",
    "output": "The file size limit isn't in force: use another runtime.",
}
"""Every probe, with what to do when it fails."""

LEAVE_BEHIND = """
import os, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("left behind", "w").close()
        os.write(writer, b"%d" % os.getpid())
        time.sleep(600)
    os._exit(0)
print(os.read(reader, 20).decode())
"""
LOOK_AROUND = """
import ctypes, errno, json, os, socket, stat, sys

asked = json.load(sys.stdin)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
scratch = os.getcwd()
libc = ctypes.CDLL(None, use_errno=True)


def name_of(call):
    try:
        result = call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return errno.errorcode.get(ctypes.get_errno(), "?") if result == -1 else ""


def may_read(path):
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def may_write(path):
    try:
        kind = os.stat(path).st_mode
        if stat.S_ISDIR(kind):
            os.mkdir(path + "/probe")
            os.rmdir(path + "/probe")
        elif stat.S_ISREG(kind):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        return stat.S_ISDIR(kind) or stat.S_ISREG(kind)
    except OSError:
        return False


def count_processes():
    try:
        return len([name for name in os.listdir("/proc") if name.isdigit()])
    except OSError:
        return 0


def find_routes():
    found = set()
    for path, field, headings in (("/proc/net/route", 0, 1), ("/proc/net/ipv6_route", -1, 0)):
        try:
            with open(path) as file:
                found.update(line.split()[field] for line in list(file)[headings:])
        except OSError:
            pass
    return sorted(found - {"lo"})


places = {"/", "/tmp", "/var/tmp", "/var", "/run", "/run/lock", "/dev", "/dev/shm", "/dev/mqueue", "/etc", "/home",
          "/opt", "/root", "/srv", "/mnt", "/usr", "/usr/lib", "/sys/fs/cgroup", "/proc/sys/kernel/core_pattern",
          "/proc/sysrq-trigger"}
places.update(line.split()[1] for line in open("/proc/self/mounts"))
space = os.statvfs(scratch)
left = os.listdir(scratch)
print(json.dumps({
    "ids": [*os.getresuid(), *os.getresgid(), *os.getgroups()],
    "capabilities": [name for name in ("CapPrm", "CapEff", "CapAmb") if int(status[name], 16)],
    "privileges": int(status["NoNewPrivs"]),
    "calls": {
        "socket": name_of(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)),
        "memfd_create": name_of(lambda: os.memfd_create("probe")),
        "ptrace": name_of(lambda: libc.ptrace(0, 0, 0, 0)),
        "unshare": name_of(lambda: libc.unshare(0x10000000)),
        "mount": name_of(lambda: libc.mount(b"none", b"/", None, 0, None)),
    },
    "routes": find_routes(),
    "descriptors": [number for number in range(3, 512) if os.path.exists(f"/proc/self/fd/{number}")],
    "writable": sorted(path for path in places if not os.path.realpath(path).startswith(scratch) and may_write(path)),
    "seen": [path for path in asked["hidden"] if may_read(path)],
    "processes": count_processes(),
    "scratch": space.f_blocks * space.f_frsize,
    "left": [*left, *([f"process {asked['daemon']}"] if os.path.exists(f"/proc/{asked['daemon']}") else [])],
}))
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """A probe that found what must not be."""

    probe: str
    """One of `REMEDIES`."""
    found: str
    """A clause: what the box does."""

    def describe(self) -> str:
        """A sentence, and another that says what to do."""
        return f"{self.probe!r}: {self.found}. {REMEDIES[self.probe]}"


@dataclass(frozen=True, slots=True)
class Trial:
    """A program that oversteps one limit, and the answer that is right."""

    probe: str
    source: str
    limits: Limits
    limit: Limit
    refused: bytes = b""
    """What the program prints when the kernel itself has refused."""

    def holds(self, run: Run) -> bool:
        """Whether the limit was held."""
        return run.limit is self.limit or (bool(self.refused) and self.refused in run.stdout + run.stderr)


PATIENT = 60.0
"""Wall seconds of the trials that aren't about them: a busy machine fails no self-test."""
TRIALS = (
    Trial("processor time", "while True: pass", Limits(cpu_seconds=0.05, wall_seconds=PATIENT), Limit.CPU),
    Trial("wall time", "import time; time.sleep(600)", Limits(wall_seconds=0.05), Limit.WALL),
    Trial(
        "memory",
        "import time; x = b'x' * (64 << 20); time.sleep(600)",
        Limits(memory_bytes=32 << 20, wall_seconds=PATIENT),
        Limit.MEMORY,
    ),
    Trial(
        "processes",
        "import os, time\ntry:\n  for _ in range(16):\n    if os.fork() == 0: time.sleep(600)\n"
        "except OSError: print('refused')\nelse: time.sleep(600)",
        Limits(processes=8, wall_seconds=PATIENT),
        Limit.PROCESSES,
        b"refused",
    ),
    Trial(
        "output",
        "import os\nwhile True: os.write(1, b'x' * 4096)",
        Limits(output_bytes=1 << 16, wall_seconds=PATIENT),
        Limit.OUTPUT,
        b"File too large",
    ),
)


def check_box(box: Box, uncovered: frozenset[str] = frozenset()) -> None:
    """Try a fresh box; it stays usable.

    Raises:
        SandboxUnavailable: a probe found what must not be, or the box broke; the message names probe and remedy.
    """
    kind = box.runtime.sandbox
    try:
        failures = list(find_failures(box, uncovered))
    except SandboxError as error:
        raise SandboxUnavailable(f"The self-test of a {kind} box couldn't be made: {error}") from error
    if failures:
        more = f" (And {len(failures) - 1} more: microcoder doctor.)" if len(failures) > 1 else ""
        raise SandboxUnavailable(f"The self-test of a {kind} box failed at {failures[0].describe()}{more}")


def find_failures(box: Box, uncovered: frozenset[str] = frozenset()) -> Iterator[Failure]:
    """Every probe that found what must not be. Raises BoxLost when the box breaks under them."""
    failures = [*_look_around(box), *_try_limits(box)]
    yield from (failure for failure in failures if failure.probe not in uncovered)


def _look_around(box: Box) -> Iterator[Failure]:
    daemon = _run(box, LEAVE_BEHIND, b"", Limits(wall_seconds=PATIENT)).stdout.decode().strip()
    if not daemon.isdigit():
        yield Failure("sweep", "a program that starts another could not be run")
        return
    asked = json.dumps({"hidden": HIDDEN, "daemon": int(daemon)}).encode()
    run = _run(box, LOOK_AROUND, asked, Limits(cpu_seconds=20, wall_seconds=PATIENT))
    try:
        found: dict[str, Any] = json.loads(run.stdout)
    except ValueError:
        last = run.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        yield Failure("system calls", f"a program that looks around ended by itself ({last or run.limit})")
        return
    yield from _judge(found)


def _judge(found: dict[str, Any]) -> Iterator[Failure]:
    """What a look around says of the box."""
    if 0 in found["ids"]:
        yield Failure("uid", "a program has user or group 0")
    if found["capabilities"]:
        yield Failure("capabilities", f"a program has some ({', '.join(found['capabilities'])})")
    if not found["privileges"]:
        yield Failure("privileges", "a program may gain some by executing a file")
    allowed = [f"{name} ({answer or 'allowed'})" for name, answer in found["calls"].items() if answer != "EPERM"]
    if allowed:
        yield Failure("system calls", f"calls aren't answered with EPERM: {', '.join(allowed)}")
    if found["routes"]:
        yield Failure("network", f"the box has a network ({', '.join(found['routes'])})")
    if found["descriptors"]:
        yield Failure("descriptors", f"a program has more than its three ({found['descriptors'][:5]})")
    if found["writable"]:
        yield Failure("read-only", f"a program can write to {', '.join(found['writable'][:5])}")
    if found["seen"]:
        yield Failure("out of sight", f"a program can read {', '.join(found['seen'][:5])}")
    if found["processes"] > 3:  # the runner, the one that looks, and perhaps the runner's keeper
        yield Failure("alone", f"a program sees {found['processes']} processes")
    if found["scratch"] > SCRATCH_BOUND:
        yield Failure("scratch", f"it has {found['scratch'] >> 20} MiB")
    if found["left"]:
        yield Failure("sweep", f"of one program the next finds {', '.join(found['left'][:5])}")


def _try_limits(box: Box) -> Iterator[Failure]:
    for trial in TRIALS:
        run = _run(box, trial.source, b"", trial.limits)
        if not trial.holds(run):
            end = f"limit {run.limit}" if run.limit else f"exit status {run.exit_code}"
            yield Failure(trial.probe, f"a program that oversteps the limit isn't ended by it ({end})")


def _run(box: Box, source: str, stdin: bytes, limits: Limits) -> Run:
    artifact = box.load(Program(source), Limits(wall_seconds=PATIENT))
    if isinstance(artifact, CompileFailure):
        raise SandboxUnavailable(f"A harmless program can't be compiled: {artifact.message}")
    with closing(artifact):
        return box.run(artifact, Call(stdin), limits)
