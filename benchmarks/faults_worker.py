"""A worker that is hit between two steps of a job: the real one, with some of its methods wrapped from outside.

    MICROCODER_FAULT="stored:2:KILL" python -m benchmarks.faults_worker

sends itself SIGKILL when it has stored for the second time. The product has no such place: a step is a method of it and
a moment, before or after.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis.connection

from evaluator.judge import Judge
from evaluator.sandbox.pool import Pool
from evaluator.session import Session
from service.claims import Claims
from service.hand import Hand
from service.settings import load_settings
from service.suite_store import SuiteCache
from service.turn_worker import TurnWorker
from service.turns import TurnQueue
from service.worker import TurnTaker, run_worker

VARIABLE = "MICROCODER_FAULT"


@dataclass(frozen=True)
class Step:
    """A moment of a job."""

    owner: type
    method: str
    after: bool
    count: int = 1
    """At the how manieth time it is of interest."""


STEPS = {
    "before a turn is taken": Step(TurnWorker, "dequeue_job_and_maintain_ttl", False),
    "turn taken off the queue": Step(TurnWorker, "execute_job", False),
    "turn begun": Step(TurnTaker, "take", False),
    "claimed": Step(Claims, "claim", True),
    "several claimed": Step(Claims, "claim", True, 3),
    "suite loaded": Step(SuiteCache, "get", True, 2),
    "box taken": Step(Pool, "take", True, 2),
    "program loaded": Step(Session, "load", True, 2),
    "in the middle of a test": Step(Hand, "progress", True, 4),
    "judged, not stored": Step(Judge, "judge", True, 3),
    "before storing": Step(Claims, "store", False, 2),
    "while storing": Step(redis.connection.UnixDomainSocketConnection, "send_packed_command", True),
    "stored": Step(Claims, "store", True, 2),
    "before the next turn": Step(Claims, "end_turn", False),
    "next turn noted, not queued": Step(TurnQueue, "enqueue", False),
    "next turn queued": Step(TurnQueue, "enqueue", True),
}
"""In the order of a job."""


def plant(text: str) -> None:
    """Wrap the step that `text` names, as `NAME:COUNT:SIGNAL`."""
    name, count, number = text.split(":")
    step, left = STEPS[name], [int(count)]
    storing = [name != "while storing"]

    def strike() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.Signals[f"SIG{number}"])

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def act(*arguments: Any, **options: Any) -> Any:
            if not step.after and storing[0]:
                strike()
            result = original(*arguments, **options)
            if step.after and storing[0]:
                strike()
            return result

        return act

    if name == "while storing":  # the request is sent, its answer not read: it is done, and the worker doesn't know

        def store(*arguments: Any, original: Callable[..., Any] = Claims.store) -> Any:
            storing[0] = True
            return original(*arguments)

        Claims.store = store  # type: ignore[method-assign, assignment]
    setattr(step.owner, step.method, wrapped(getattr(step.owner, step.method)))


if __name__ == "__main__":
    if VARIABLE in os.environ:
        plant(os.environ.pop(VARIABLE))
    sys.exit(run_worker(load_settings()))
