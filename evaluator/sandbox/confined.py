"""Boxes without Docker and without namespaces, for a pod that may do nothing: Landlock, system call filter, limits.

What it covers: no file but scratch can be written, and none read but the interpreter, its libraries and a few contest
packages; no socket can be made; no process outside can be signalled or looked into; limits and sweep as everywhere. As
root with SETUID, SETGID and KILL each test has a uid of its own, else it has the worker's.

What it doesn't: there is one process namespace, so a program sees what runs beside it, and with which command lines;
one network namespace, from which only the filter keeps it; one file system, so that names can be tried, though not
read, and scratch has no size of its own but what the watch sees every few milliseconds. There is no cgroup. Nobody
gets these boxes who doesn't ask for them by name.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from evaluator.errors import SandboxUnavailable
from evaluator.sandbox.bubblewrap import ENVIRONMENT, find_packages, find_python
from evaluator.sandbox.channel import RunnerBox

logger = logging.getLogger(__name__)

OLDEST_ABI = 6
"""Of Landlock, in Linux 6.12: signals can be held back."""
END_SECONDS, YOUNG_SECONDS = 15.0, 60.0
PREFIX = "microcoder-confined-"
SYSTEM = ("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/usr/share/zoneinfo")
ALWAYS = ("/etc/ld.so.cache", "/proc", "/sys/devices/system/cpu", "/dev/zero", "/dev/random", "/dev/urandom")
HIDDEN = ("site-packages", "dist-packages")
FACTS = "import json, sys, sysconfig; print(json.dumps([sys.base_prefix, sysconfig.get_path('stdlib')]))"


class ConfinedBackend:
    """Starts boxes as processes behind a fence."""

    name = "confined"
    uncovered = frozenset({"alone", "network", "scratch"})

    def start(self) -> RunnerBox:
        """A fresh box."""
        refuse_without_landlock(ask_landlock())
        python = os.environ.get("MICROCODER_CONFINED_PYTHON") or find_python()
        sweep_folders(Path(tempfile.gettempdir()))
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        hold = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(hold, fcntl.LOCK_EX)  # until this process ends, however it does: see `sweep_folders`
            plan = furnish(folder, python)
            return self._open(folder, hold, python, plan)
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(hold)
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _open(self, folder: Path, hold: int, python: str, plan: dict[str, object]) -> RunnerBox:
        boot = (Path(__file__).parent / "boot.py").read_text("utf-8")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        said = os.memfd_create("stderr", os.MFD_CLOEXEC)
        with theirs:
            process = subprocess.Popen(
                [python, "-s", "-P", "-B", "-c", boot, str(theirs.fileno()), json.dumps(plan)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd=str(plan["scratch"]),
                env=ENVIRONMENT | {"HOME": str(plan["scratch"]), "PYTHONPATH": str(folder / "packages")},
                start_new_session=True,
            )
        try:
            return RunnerBox(ours, lambda: _destroy(process, folder, hold), sandbox=self.name, image=None)
        except SandboxUnavailable as error:
            text = os.pread(said, 2000, 0).decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise SandboxUnavailable(f"A confined box can't be made here: {text or error}") from error
        finally:
            os.close(said)


def sweep_folders(place: Path) -> None:
    """Remove what dead workers of this user left: a living one holds its folders locked."""
    for folder in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            if facts.st_uid != os.geteuid() or time.time() - facts.st_ctime < YOUNG_SECONDS:
                continue  # somebody else's, or not locked yet
            hold = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(hold)


def _destroy(process: "subprocess.Popen[bytes]", folder: Path, hold: int) -> None:
    """The runner has been hung up on and ends; its keeper ends what it leaves, and then itself. Never raises."""
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        logger.error("event=box_not_ended pid=%d message=Processes of a test may have been left.", process.pid)
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.close(hold)


def ask_landlock() -> tuple[int, int]:
    """(version of Landlock's interface, error number where there is none)."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(444, None, ctypes.c_size_t(0), 1)), ctypes.get_errno()


def refuse_without_landlock(answer: tuple[int, int]) -> None:
    """Say what to do about a kernel that has no Landlock, or one that is too old.

    Raises:
        SandboxUnavailable: confined boxes can't be had here.
    """
    version, error = answer
    if version >= OLDEST_ABI:
        return
    if version > 0:
        found = f"this kernel's Landlock is version {version}, {OLDEST_ABI} is needed: run Linux 6.12 or newer"
    elif error == errno.EOPNOTSUPP:
        found = "Landlock is switched off: add landlock to lsm= on the kernel's command line and boot again"
    elif error == errno.EPERM:
        found = "the container's seccomp profile forbids Landlock: use the engine's default profile of today"
    else:
        found = "this kernel has no Landlock: run Linux 6.12 or newer with CONFIG_SECURITY_LANDLOCK"
    raise SandboxUnavailable(f"Confined boxes can't be had here: {found}.")


def furnish(folder: Path, python: str) -> dict[str, object]:
    """Make scratch and the folder of packages in `folder`. Returns what the fence is told.

    Raises:
        SandboxUnavailable: tests couldn't read the interpreter.
    """
    base, library = json.loads(subprocess.run([python, "-I", "-c", FACTS], capture_output=True, check=True).stdout)
    refuse_unreadable(Path(library))
    folder.chmod(0o711)
    scratch, packages = folder / "w", folder / "packages"
    for path, mode in ((scratch, 0o777), (packages, 0o755)):
        path.mkdir()
        path.chmod(mode)
    sources = find_packages()
    for source in sources:
        (packages / source.name).symlink_to(source)
    tops = [Path(path).resolve() for path in (*SYSTEM, f"{base}/bin", f"{base}/lib", library) if Path(path).is_dir()]
    read, listed = spread(list(dict.fromkeys(tops)))
    read += [str(packages), *map(str, sources), *ALWAYS, os.path.realpath(python)]
    return {"scratch": str(scratch), "read": read, "list": listed}


def spread(tops: list[Path]) -> tuple[list[str], list[str]]:
    """(paths to read, folders to list): all of `tops` but installed packages, since our own code may lie there.

    A rule holds for all beneath a folder, and none can take back from it: so a folder with packages in it is spelt out.
    """
    read: list[str] = []
    listed: list[str] = []
    for top in tops:
        hidden = [
            path for name in HIDDEN for pattern in ("", "python*/", "python*/*/") for path in top.glob(pattern + name)
        ]
        ways = {parent for path in hidden for parent in path.parents if parent == top or top in parent.parents}
        if not hidden:
            read.append(str(top))
            continue
        for way in sorted(ways):
            listed.append(str(way))
            read += [str(path) for path in way.iterdir() if path not in ways and path.name not in HIDDEN]
    return read, listed


def refuse_unreadable(library: Path) -> None:
    """A test with a uid of its own has to read the interpreter's library.

    Raises:
        SandboxUnavailable: it can't.
    """
    closed = [path for path in (library, *library.parents) if not path.stat().st_mode & 0o001]
    if os.geteuid() == 0 and closed:
        raise SandboxUnavailable(
            f"Confined boxes can't be had with the interpreter below {library}: nobody but root may enter {closed[0]}. "
            "Name one that all may use in MICROCODER_CONFINED_PYTHON, such as /usr/bin/python3."
        )
