"""A fence around the runner where it has no namespaces of its own: Landlock, and a keeper that ends what is left.

Three domains lie in each other. The keeper's holds the box; the runner's, in it, may reach its scratch and what it is
given to read; each test's, in that, can't signal the runner. A signal, ptrace and what needs its permission (`mem`,
`environ`, `maps` below /proc) go from a domain inwards only. So to the keeper and the runner `kill(-1)` means the box
and the test, as if they had a process namespace; that is proven once, on a process outside, before it is relied on.
Orphans come to the runner, or when that has ended to its keeper: when the kernel says that no child is left, no
process of the test is.
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import stat
import struct
import sys
import time
from typing import Any, NoReturn

from . import confine, streams

CREATE, ADD, RESTRICT = 444, 445, 446
EXECUTE, WRITE, READ, LIST = 1, 2, 4, 8
TRUNCATE = 1 << 14
ALL_FILES = (1 << 16) - 1
MAKE_DEVICES_AND_SOCKETS = 1 << 6 | 1 << 9 | 1 << 11 | 1 << 15
NO_TCP, NO_SIGNALS = 3, 3  # nothing is bound or called; no signals and no abstract sockets outwards
UNCOUNTABLE = (errno.EACCES, errno.EMFILE)  # closed to the runner, or deeper than anybody needs
OF_A_FILE = EXECUTE | WRITE | READ | TRUNCATE

# Attributes of files aren't Landlock's: where a test has the runner's own uid, that uid's files are to be kept from it.
ATTRIBUTES: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
}  # fmt: skip
_libc = ctypes.CDLL(None, use_errno=True)
_call = _libc.syscall


def find_plan(arguments: list[str]) -> dict[str, Any] | None:
    """What the worker has said of the fence; None where the box has namespaces."""
    return json.loads(arguments[2]) if arguments[2:] and arguments[2].startswith("{") else None


class Fence:
    """The fence, seen from the runner that is in it."""

    def __init__(self, scratch: str) -> None:
        self.scratch = scratch
        inner = create_ruleset(0, 0)
        self._inner = fcntl.fcntl(inner, fcntl.F_DUPFD_CLOEXEC, streams.NULL + 1)  # the runner keeps those below
        os.close(inner)
        self._due = 0.0
        self._attributes = None if os.geteuid() == 0 else confine.Filter(confine.build_denial(ATTRIBUTES))

    def enter(self) -> None:
        """In a child: go one domain further in."""
        restrict(self._inner)
        if self._attributes is not None:
            self._attributes.install()

    def find_processes(self) -> list[str]:
        """All that descends from this process."""
        found: list[str] = []
        pending = [str(os.getpid())]
        while pending:
            pid = pending.pop()
            try:
                threads = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            for thread in threads:
                try:
                    with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                        children = file.read().decode().split()
                except OSError:
                    continue
                found += children
                pending += children
        return found

    def overfills(self, most_files: int, most_bytes: int) -> bool:
        """Whether scratch holds more than that: it has no file system of its own that would know.

        Counting takes a tenth of the time at most. What can't be counted is too much.
        """
        began = time.monotonic()
        if began < self._due:
            return False
        try:
            return self._count(most_files, most_bytes)
        except (OSError, RecursionError):
            return True
        finally:
            self._due = began + 10 * (time.monotonic() - began)

    def _count(self, most_files: int, most_bytes: int) -> bool:
        files = size = 0
        closed: list[OSError] = []
        for _, folders, names, folder in os.fwalk(self.scratch, onerror=closed.append):
            files += len(folders) + len(names)
            for name in names:
                try:
                    size += os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * 512
                except OSError:
                    pass  # it has just gone
            if files > most_files or size > most_bytes:
                return True
        return any(error.errno in UNCOUNTABLE for error in closed)


def settle(plan: dict[str, Any]) -> Fence:
    """Leave a keeper behind, and go into the fence. Returns in the runner."""
    confine.prctl(confine.PR_SET_NO_NEW_PRIVS, 1)
    restrict(create_ruleset(0, 0))
    prove(os.getppid())
    confine.adopt_orphans()
    runner = os.fork()
    if runner != 0:
        keep(runner)
    confine.adopt_orphans()
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(("site-packages", "dist-packages"))]
    outer = create_ruleset(ALL_FILES, NO_TCP)
    allow(outer, plan["scratch"], ALL_FILES & ~MAKE_DEVICES_AND_SOCKETS)
    for path in plan["read"]:
        allow(outer, path, EXECUTE | READ | LIST)
    for path in plan["list"]:
        allow(outer, path, LIST)
    for path in ("/dev/null", "/dev/full"):
        allow(outer, path, READ | WRITE)
    restrict(outer)
    os.close(outer)
    prove(os.getppid())
    return Fence(plan["scratch"])


def keep(runner: int) -> NoReturn:
    """The keeper: wait for the runner's end, and end whatever it has left."""
    os.closerange(0, 4096)  # or the worker would never learn of the runner's end
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.waitpid(-1, 0)[0] != runner:
        pass
    try:
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                os.kill(-1, signal.SIGKILL)  # all in this domain but the keeper itself: see `prove`
                os.waitpid(-1, 0)
    except ChildProcessError:
        os._exit(0)


def prove(outsider: int) -> None:
    """Go on only if no process outside can be reached: a domain is never left again.

    The outsider is this process's parent, which it may signal where no fence keeps it from that.
    """
    try:
        os.kill(outsider, 0)
    except PermissionError:
        return
    raise SystemExit("Landlock doesn't hold signals back: Linux 6.12 or newer is needed")


def create_ruleset(files: int, network: int) -> int:
    """A descriptor of rules that forbid what they don't allow, and any signal outwards."""
    attributes = struct.pack("QQQ", files, network, NO_SIGNALS)
    return check(_call(CREATE, attributes, ctypes.c_size_t(len(attributes)), 0))


def allow(ruleset: int, path: str, rights: int) -> None:
    """Allow it for a file, or for all beneath a folder. What isn't there needs no rule."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_A_FILE
        check(_call(ADD, ruleset, 1, struct.pack("=Qi", rights, place), 0))
    finally:
        os.close(place)


def restrict(ruleset: int) -> None:
    """Go into a new domain with these rules, for good."""
    check(_call(RESTRICT, ruleset, 0))


def check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {errno.errorcode.get(ctypes.get_errno(), '?')}")
    return result
