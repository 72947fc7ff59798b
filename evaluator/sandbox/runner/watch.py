"""Limits that the kernel doesn't hold for us, and the sweep that proves the box empty.

The runner is pid 1 of its own process namespace, or alone in it with its keeper (`boot.py --dial`): every other process
in it belongs to the running test, and what it leaves behind becomes the runner's child. CPU time is that of all of
them; resident memory is their sum, without pages that a forked child still shares with its parent. Time that the
program waits for a processor doesn't count as wall time, so a busy machine fails nobody.
"""

import _socket
import array
import collections
import marshal
import os
import resource
import select
import signal
import socket
import time
from typing import Any

from .confine import Slot, adopt_orphans

TICK = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGESIZE")
INTERVAL = 0.02  # seconds between looks at a test that takes longer than that
ROOM = socket.CMSG_LEN(8 * array.array("i").itemsize)  # for descriptors beside an order
PATIENCE = 5  # times the wall limit: the hard end, however long the program had to wait for a processor
MAX_FILES, MAX_BYTES = 2000, 64 << 20  # in scratch
STOOD_STILL = 1.0  # seconds between two looks after which nobody here has run: the box was frozen, or the machine
LAST_MOMENTS = 0.2  # seconds for a process that has closed its end of the line already
SOCKET, FREE_SOCKETS = 208 << 10, 32  # what the kernel lets a socket hold, in bytes; how many of them aren't counted


def claim_namespace() -> None:
    """Refuse to run where other processes than a test's would be killed."""
    if os.getpid() == 1:
        return
    others = {name for name in os.listdir("/proc") if name.isdigit()} - {"1", str(os.getpid())}
    if os.getppid() != 1 or others:
        raise SystemExit("the runner must be pid 1 of its own process namespace, or alone in it with its parent, pid 1")
    adopt_orphans()


class Facts:
    """What one test did."""

    __slots__ = ("cancelled", "children", "cpu", "left", "limit", "memory", "statuses", "wall")

    def __init__(self) -> None:
        self.limit: str | None = None
        self.cancelled = False
        self.cpu = 0.0
        self.wall = 0.0
        self.memory = 0
        self.children: list[int] = []
        self.left: list[int] = []  # who had to be ended when the main process had ended
        self.statuses: dict[int, int] = {}  # pid -> wait status, of the processes that the runner forked itself

    def count(self, usage: resource.struct_rusage) -> None:
        self.cpu += usage.ru_utime + usage.ru_stime


def read(path: str) -> bytes:
    """A small file of /proc, or nothing when the process is gone."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(4096)
    except OSError:
        return b""


class Orders:
    """What the worker sends. It is taken in even while a test runs, so that a `cancel` or the worker's end is seen at
    once, whatever was ordered before it."""

    def __init__(self, control: _socket.socket) -> None:
        self.control = control
        self.waiting: collections.deque[tuple[dict[str, Any], list[int]]] = collections.deque()
        self.alone = select.poll()  # for the child of an order, and nothing else

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """The next order and its descriptors."""
        return self.waiting.popleft() if self.waiting else self.read()

    def read(self) -> tuple[dict[str, Any], list[int]]:
        message, others, _, _ = self.control.recvmsg(65536, ROOM)
        if not message:
            os._exit(0)  # the worker is gone: so is the box
        descriptors = array.array("i")
        for _, _, data in others:
            descriptors.frombytes(data)
        return marshal.loads(message), list(descriptors)

    def look_ahead(self) -> bool:
        """Take in what came during a test. True: it, and all that waits behind it, is cancelled."""
        order, descriptors = self.read()
        if order["op"] != "cancel":
            self.waiting.append((order, descriptors))
            return False
        for waiting, _ in self.waiting:
            waiting["op"] = "cancelled"
        return True


class Watch:
    """Looks after one test: its main process `pid`, the descriptors it writes to, its limits."""

    __slots__ = (
        "delays", "due", "facts", "gone", "late", "limits", "orders", "outputs", "seen", "shared", "slot", "start",
    )  # fmt: skip

    def __init__(self, slot: Slot, orders: Orders, limits: dict[str, Any], outputs: list[int]) -> None:
        self.slot = slot
        self.orders = orders
        self.limits = limits
        self.outputs = outputs
        self.facts = Facts()
        self.shared: dict[int, int] = {}  # pid -> resident pages when first seen, shared with its parent
        self.seen: dict[int, float] = {}  # pid -> its own CPU seconds at the last look
        self.gone = 0.0  # those of processes that were seen and have ended
        self.delays: dict[str, int] = {}  # thread -> nanoseconds that it waited for a processor
        self.start = time.monotonic()
        self.due = self.start + min(INTERVAL, limits["cpu"])  # when the next look should come
        self.late = 0.0  # seconds by which looks came later than that, all together

    def wait(self, pid: int, ends: tuple[int, ...]) -> None:
        """Until the main process ends, by itself or by a limit. Everything else in the box ends with it.

        `ends` are closed: the children have theirs. Most tests are short, so little is done before the first look, not
        even taking in the next order: what this process touches while a child lives has to be copied for it.
        """
        for end in ends:
            os.close(end)  # or the tester would never learn that the program has ended
        handle = os.pidfd_open(pid)
        pause = self.due - self.start
        alone = self.orders.alone
        alone.register(handle, select.POLLIN)
        try:
            ended = bool(alone.poll(pause * 1000))
            while not ended and (pause := self.look(pid)) is not None:
                ended = self.listen(handle, pause)
        finally:
            alone.unregister(handle)
            os.close(handle)
        self.facts.wall = time.monotonic() - self.start

    def listen(self, handle: int, pause: float) -> bool:
        """Poll the process and the worker. Returns whether the process has ended."""
        control = self.orders.control.fileno()
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(control, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(max(1, pause * 1000))]
        if control in ready and self.orders.look_ahead():
            self.facts.cancelled = True
            self.kill()
        return handle in ready

    def look(self, main: int) -> float | None:
        """Compare use with limits. Returns the seconds until the next look, or None after a kill."""
        self.reap_strays(main)
        now = time.monotonic()
        if now - self.due > STOOD_STILL:
            self.start += now - self.due  # not the program's time
        else:
            self.late += max(0.0, now - self.due)
        wall = now - self.start
        cpu, memory, processes = self.measure(main)
        if not self.slot.networked:
            memory += count_sockets() * SOCKET
        # What a thread waited just before it ended nobody has seen; but where processors are short, looks are late too.
        delay = max(sum(self.delays.values()) / 1e9, self.late)
        self.facts.memory = max(self.facts.memory, memory)
        self.facts.limit = self.exceeded(cpu, wall, delay, memory, processes)
        if self.facts.limit is not None:
            self.kill()
            return None
        rest: float = (self.limits["cpu"] - cpu) / (1 if processes == 1 else os.cpu_count() or 1)
        left: float = self.limits["wall"] - (wall - delay)
        pause = max(0.001, min(INTERVAL, rest, left))
        self.due = time.monotonic() + pause
        return pause

    def exceeded(self, cpu: float, wall: float, delay: float, memory: int, processes: int) -> str | None:
        """The first limit that was overstepped. `delay`: time that was spent waiting for a processor."""
        limits = self.limits
        if cpu > limits["cpu"]:
            return "cpu"
        if wall - delay > limits["wall"] or wall > PATIENCE * limits["wall"]:
            return "wall"
        if memory > limits["memory"]:
            return "memory"
        if any(os.fstat(output).st_size > limits["output"] for output in self.outputs):
            return "output"
        if processes > limits["processes"]:
            return "processes"
        return "disk" if self.fills_scratch() else None

    def fills_scratch(self) -> bool:
        """Whether scratch holds too much. Its size is the file system's to bound, where it has one of its own."""
        if self.slot.fence is not None:
            return bool(self.slot.fence.overfills(MAX_FILES, MAX_BYTES))
        space = os.statvfs(self.slot.scratch)
        return space.f_files - space.f_ffree > MAX_FILES

    def find_processes(self) -> list[str]:
        """Everything that lives in the box beside the runner and its keeper, and perhaps these too."""
        if self.slot.fence is not None:
            return list(self.slot.fence.find_processes())
        return [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]

    def measure(self, main: int) -> tuple[float, int, int]:
        """(CPU seconds, resident bytes above the runner's own, processes) of all that lived in the box so far."""
        waited, pages, processes = self.facts.cpu, 0, 0
        living: dict[int, float] = {}
        for name in self.find_processes():
            pid = int(name)
            if pid == self.slot.runner:
                continue
            fields = read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(fields) < 20:
                continue
            processes += int(fields[17])  # threads
            self.measure_delays(name)
            waited += (int(fields[13]) + int(fields[14])) * TICK  # of children it has waited for
            try:
                living[pid] = time.clock_gettime((~pid << 3) | 2)  # the process's own CPU clock, in nanoseconds
            except OSError:
                living[pid] = self.seen.get(pid, 0.0)
            resident = int((read(f"/proc/{name}/statm").split() or [b"0", b"0"])[1])
            if pid != main:
                resident -= self.shared.setdefault(pid, min(resident, self.shared.get(main, 0)))
            else:
                self.shared[main] = resident
                resident -= self.slot.resident // PAGE
            pages += max(0, resident)
        # Nobody waits for the children of one that ignores SIGCHLD: they count with what they were last seen with.
        self.gone += sum(used for pid, used in self.seen.items() if living.get(pid, -1.0) < used)
        self.seen = living
        return sum(living.values()) + max(waited, self.gone), pages * PAGE, processes

    def measure_delays(self, process: str) -> None:
        """How long each thread has waited for a processor. One that has ended keeps what it was last seen with: many
        programs do all their work in a thread, while the main one only waits for it."""
        try:
            threads = os.listdir(f"/proc/{process}/task")
        except OSError:
            return
        for thread in threads:
            fields = read(f"/proc/{process}/task/{thread}/schedstat").split()
            if len(fields) > 1:
                self.delays[thread] = int(fields[1])

    def ended_with(self, pid: int, status: int) -> bool:
        """Whether a process that ended, and isn't reaped yet, gave this exit status."""
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return ended is not None and ended.si_code == os.CLD_EXITED and ended.si_status == status

    def let_end(self, pid: int) -> None:
        """Give a process that is about to end the time for it, so that its exit status is its own."""
        if pid in self.facts.statuses:
            return
        handle = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(LAST_MOMENTS * 1000)
        finally:
            os.close(handle)

    def reap_strays(self, main: int) -> None:
        """Orphans that ended: their time counts, and zombies don't pile up. The main process is left to `sweep`."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid == main:
                return
            self.collect(ended.si_pid, 0)

    def collect(self, pid: int, options: int) -> int:
        ended, status, usage = os.wait4(pid, options)
        if ended:
            self.facts.statuses[ended] = status
            self.facts.count(usage)
            peak = usage.ru_maxrss * 1024 - self.slot.resident
            self.facts.memory = max(self.facts.memory, peak)
        return ended

    def kill(self) -> None:
        if os.getpid() != self.slot.runner:
            raise SystemExit("this isn't the runner: refusing to kill everything")
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def sweep(self) -> Facts:
        """Reap and kill until no child is left: then the box is empty, and this is proven."""
        try:
            self.collect(-1, 0)  # the one whose end was waited for, or that was killed
            while True:
                if not self.collect(-1, os.WNOHANG):
                    self.kill()
                    # Who lives on when the main process has ended by itself is ended by us: that's not its own end.
                    statuses = dict(self.facts.statuses)
                    self.facts.left.append(self.collect(-1, 0))
                    if self.facts.limit is None:
                        self.facts.statuses = statuses
        except ChildProcessError:
            self.facts.cpu = max(self.facts.cpu, self.gone + sum(self.seen.values()))
            return self.facts


def clean(scratch: str, slot: Slot) -> bool:
    """Empty the scratch directory, in a child with the slot's uid. Returns whether it is empty."""
    if slot.uid is None:
        os.chmod(scratch, 0o777)
        os.utime(scratch, (0, 0))  # it is the program's own: nothing may be told by it
    if not os.listdir(scratch):
        return True
    child = os.fork()
    if child == 0:
        try:
            slot.become()
            os.chdir(scratch)
            remove_all()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return not os.listdir(scratch)


def clean_leftovers(scratch: str) -> bool:
    """Remove what a session of this box that was broken off has left. Returns whether scratch is empty."""
    owners = {os.lstat(f"{scratch}/{name}").st_uid for name in os.listdir(scratch)}
    for uid in owners:
        clean(scratch, Slot(uid, private=True))
    return not os.listdir(scratch)


def remove_all() -> None:
    """Remove what is in the current directory, however deep or wide: one level at a time, so that no path grows too
    long, and each folder is listed once."""
    levels = [remove_files()]
    while True:
        if levels[-1]:
            os.chdir(levels[-1][-1])
            levels.append(remove_files())
            continue
        levels.pop()
        if not levels:
            return
        os.chdir("..")
        os.rmdir(levels[-1].pop())


def remove_files() -> list[str]:
    """Remove the files and empty folders of the current directory. Returns the other folders, open to us."""
    folders: list[str] = []
    for entry in list(os.scandir(".")):
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name)
            continue
        os.chmod(entry.name, 0o700)
        try:
            os.rmdir(entry.name)
        except OSError:
            folders.append(entry.name)
    return folders


def has_network() -> bool:
    """Whether the box has a network, which then isn't its own: a pod's containers share one, and count as one."""
    return read("/proc/net/route").count(b"\n") > 1


def count_sockets() -> int:
    """How many sockets there are in the box, beyond what any program needs."""
    fields = read("/proc/net/sockstat").split(maxsplit=3)
    return max(0, int(fields[2]) - FREE_SOCKETS) if len(fields) > 2 else 0


def count_oom_kills() -> int:
    """How often the kernel killed something in this box for want of memory: cgroup v2, v1; 0 where there is none."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        for line in read(path).splitlines():
            name, _, number = line.partition(b" ")
            if name == b"oom_kill":
                return int(number)
    return 0
