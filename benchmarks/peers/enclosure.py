"""A room for peers: they run programs with their own process's rights, and these programs are models' work.

So each peer's process stands under bubblewrap: a read-only view of this machine, a small /tmp, no network, no process
but its own. It costs a peer nothing per program: the room is made once, before anything is measured.
"""

import os
import sys
from pathlib import Path

from evaluator.sandbox.bubblewrap import find_bwrap

ROOT = Path(__file__).parents[2]
TMP_BYTES = 512 << 20


def enclose(python: Path | str, script: Path, *arguments: str, writable: Path | None = None) -> list[str]:
    """The command that runs `script` by `python` in such a room. `writable` is a folder that it may write to.

    Raises:
        SandboxUnavailable: there is no bubblewrap.
    """
    environment = str(Path(python).parents[1])  # shown even where it lies in /tmp
    rights = ["--cap-drop", "ALL"] if os.geteuid() == 0 else ["--unshare-user"]
    shown = ["--bind", str(writable), str(writable)] if writable is not None else []
    return [
        find_bwrap(), *rights, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--die-with-parent",
        "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--size", str(TMP_BYTES), "--tmpfs", "/tmp",
        "--ro-bind", environment, environment, "--ro-bind", str(ROOT), str(ROOT), *shown, "--chdir", "/tmp",
        "--", str(python), "-P", str(script), *arguments,
    ]  # fmt: skip


def our_python() -> Path:
    """The interpreter that runs this, in its environment."""
    return Path(sys.prefix) / "bin" / Path(sys.executable).name
