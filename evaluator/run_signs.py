"""Suspicions that the facts of a run give. They say how a program behaved, not whether it was right."""

import re

from evaluator.model import TestCase, TestKind
from evaluator.sandbox.base import Run
from evaluator.suspicions import Suspicion, SuspicionKind

_FORGED = (
    b"the program sent a message that can't be read",
    b"the program sent a message that says nothing",
    b"the program sent an answer that can't be read",
    b"the program asked something that can't be read",
)
"""What the process of the test code says of messages that the runner's own end never sends."""
_RAISED = re.compile(rb"Traceback|Error|Exception|Interrupt")


def look_at_run(index: int, test: TestCase, run: Run, *, readable: bool) -> Suspicion | None:
    """What a run gives away, the gravest first. `readable`: a value that came back was one."""
    if run.written or not readable or _is_forged(test, run):
        return Suspicion(
            SuspicionKind.FORGED_MESSAGE, f"In test {index} it wrote to a descriptor that belongs to the runner."
        )
    if _ended_early(test, run):
        what = "test code had ended" if test.kind is TestKind.ASSERTION else "function had returned"
        return Suspicion(SuspicionKind.ENDED_EARLY, f"In test {index} it ended its process before its {what}.")
    if run.left_processes:
        return Suspicion(
            SuspicionKind.LEFT_PROCESSES, f"In test {index} processes that it had started still lived at its end."
        )
    return None


def _is_forged(test: TestCase, run: Run) -> bool:
    if test.kind is not TestKind.ASSERTION or run.failure != "ended":
        return False
    return run.stderr.rstrip().endswith(_FORGED)


def _ended_early(test: TestCase, run: Run) -> bool:
    """By itself and not by an exception, which would have left its traceback."""
    if run.limit is not None or run.signal is not None or test.kind is TestKind.STDIN:
        return False
    if test.kind is TestKind.FUNCTIONAL:
        return run.value is None and (run.exit_code == 0 or not run.stderr.strip())
    last = run.stderr.rstrip().rpartition(b"\n")[2]
    return run.failure == "ended" and (last.startswith(b"SystemExit") or not _RAISED.search(run.stderr))
