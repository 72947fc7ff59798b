"""Processor time of this process and of all that came from it, ended ones too: what a contender cost, whoever waited.

On a machine that does other things, the wall clock counts the others' work as well; processor time doesn't, or little.
Linux only, and only for what runs beneath this process: boxes of Docker's aren't.
"""

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def count_processor_seconds() -> float:
    """User and system time until now, of the family and of those of its members that have ended."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended: its time is its parent's now
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        seconds[pid] = sum(map(int, fields[11:15])) / TICKS
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(seconds[pid] for pid in family)
