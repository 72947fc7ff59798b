"""A worker that `microcoder serve` started ends with it, even when that was killed: the kernel tells it (Linux)."""

import ctypes
import os
import signal
import sys

PARENT_VARIABLE = "MICROCODER_PARENT"
"""Set for a worker that shall end with the process of this id."""

_PR_SET_PDEATHSIG = 1


def follow_parent() -> None:
    """Ask for SIGTERM at the parent's end, where a parent is named. To be called before anything slow is imported."""
    parent = os.environ.pop(PARENT_VARIABLE, None)
    if parent is None or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it ended before we asked
        sys.exit(0)
