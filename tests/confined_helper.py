"""Whether confined boxes can be had here, and an interpreter that tests with a uid of their own may use."""

import os

from evaluator.errors import SandboxUnavailable
from evaluator.sandbox.confined import ask_landlock, refuse_without_landlock

SYSTEM_PYTHON = "/usr/bin/python3"
if os.geteuid() == 0 and "MICROCODER_CONFINED_PYTHON" not in os.environ and os.access(SYSTEM_PYTHON, os.X_OK):
    os.environ["MICROCODER_CONFINED_PYTHON"] = SYSTEM_PYTHON  # the one of the tests may lie below root's own folder


def find_confined_obstacle() -> str | None:
    """What keeps confined boxes from being had here."""
    try:
        refuse_without_landlock(ask_landlock())
    except SandboxUnavailable as error:
        return str(error)
    return None
