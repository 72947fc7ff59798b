"""Faults of workers: killed between any two steps of a job, or stopped for longer than a lease."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial

from benchmarks.faults_scene import Outcome, Scene, Unexpected
from benchmarks.faults_worker import STEPS

NEXT_TURN = list(STEPS).index("before the next turn")
RESTART_PAUSE = 0.5
"""What `microcoder serve` waits before it starts a worker again."""
STOPPED_SECONDS = 30.0


def kill_at(step: str, lease: float) -> Outcome:
    """A worker alone is killed there; another is started, as `serve` does."""
    with Scene(lease=lease) as scene:
        worker = scene.start_worker(step)
        id = scene.post(6 if step in list(STEPS)[:NEXT_TURN] else 24)  # a turn of two seconds is to leave something
        if worker.process.wait(120) != -signal.SIGKILL:
            raise Unexpected(f"The worker wasn't killed: {worker.log.read_text()[-300:]}")
        since = time.monotonic()
        time.sleep(RESTART_PAUSE)
        scene.start_worker()
        return scene.finish([id], since)


def kill_thrice(lease: float) -> Outcome:
    """Three workers in a row are killed over the same submission: it is `internal_error`, without a reward."""
    with Scene(lease=lease) as scene:
        id = scene.post(1)
        for _ in range(3):
            worker = scene.start_worker("suite loaded", count=1)
            if worker.process.wait(120) != -signal.SIGKILL:
                raise Unexpected("The worker wasn't killed.")
        since = time.monotonic()
        scene.start_worker()
        outcome = scene.finish([id], since)
        outcome.demand(outcome.masked == 1, f"{outcome.masked} submissions are internal errors, and 1 should be")
        return outcome


def stop_worker(step: str, lease: float, seconds: float) -> Outcome:
    """A worker is stopped there, another does its work, and then it wakes and stores, too late."""
    with Scene(lease=lease) as scene:
        worker = scene.start_worker(step, number="STOP")
        id = scene.post()
        while not is_stopped(worker.process.pid):
            time.sleep(0.01)
        since = time.monotonic()
        scene.start_worker()
        outcome = scene.finish([id], since)
        outcome.demand(time.monotonic() - since < seconds, "the others took longer than the worker slept")
        judged = scene.http.get(f"/v1/evaluations/{id}", params={"detail": "full"}).text
        time.sleep(max(0, seconds - (time.monotonic() - since)))
        os.kill(worker.process.pid, signal.SIGCONT)
        time.sleep(3)
        outcome.demand(worker.process.poll() is None, "the worker that woke has ended")
        scene.count_repeats(outcome)
        again = scene.http.get(f"/v1/evaluations/{id}", params={"detail": "full"}).text
        outcome.demand(again == judged, "what it stored after it woke has changed the record")
        return outcome


def is_stopped(pid: int) -> bool:
    """Whether a process stands still."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] in "Tt"


def list_faults(quick: bool) -> dict[str, Callable[[], Outcome]]:
    """Each by its name."""
    lease = 2.0 if quick else 10.0
    faults: dict[str, Callable[[], Outcome]] = {
        f"worker killed: {step}": partial(kill_at, step, lease) for step in STEPS
    }
    faults["worker killed, three times over the same submission"] = partial(kill_thrice, 2.0)
    seconds = 12.0 if quick else STOPPED_SECONDS
    for step in ("in the middle of a test", "before storing"):
        faults[f"worker stopped for {seconds:g} s: {step}"] = partial(stop_worker, step, lease, seconds)
    return faults
