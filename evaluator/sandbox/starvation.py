"""Whether the kernel ended something because the machine, or a control group around us, has no memory left.

A box by bubblewrap has no control group of its own: what a worker's group or the machine lacks is taken from the
largest process, which is mostly the program, however little of its limit it has used. It looks like a program that ends
itself by SIGKILL; that is told apart by the kernel's count of such ends (`oom_kill` of /proc/vmstat, of all groups).
"""

from pathlib import Path

COUNTS = Path("/proc/vmstat")


def count_kills() -> int:
    """Processes that the kernel has ended for want of memory; 0 where it doesn't tell."""
    try:
        text = COUNTS.read_text("ascii")
    except OSError:
        return 0
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if name == "oom_kill":
            return int(number)
    return 0


class Starvation:
    """Asked after an end that may have been one: a few processes are, so it costs nothing else."""

    def __init__(self) -> None:
        """Begin to count."""
        self._known = count_kills()

    def was_there(self) -> bool:
        """Whether there was one since this was asked last."""
        before, self._known = self._known, count_kills()
        return self._known > before
