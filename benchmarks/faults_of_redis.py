"""Faults of Redis: killed with its data and without, paused, stopped, full, on a full disk, restarted under load."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from microcoder_client import Client, EvaluationUnknown, MicrocoderError, stdin_test
from microcoder_client.rewards.scoring import CodeScorer

from benchmarks.faults_scene import LIMITS, PROGRAMS, TESTS, CannotTry, Outcome, Scene, wait_until

DOWN_SECONDS = 3.0
REFUSED_AFTER = 16.0
"""A Redis that is silent for less may yet answer in time for the request."""
CASES = [stdin_test(test["input"], test["expected"]) for test in TESTS]


def kill_with_data(lease: float) -> Outcome:
    """Killed in the middle of the work, started again with its append-only file after a while."""
    with Scene(lease=lease, keep=True) as scene:
        for _ in range(2):
            scene.start_worker(ready=True)
        id = scene.post(24)
        scene.await_begin(id)
        since = time.monotonic()
        scene.redis.kill()
        outcome = Outcome()
        check_refusal(scene, outcome, "answer")
        time.sleep(max(0, DOWN_SECONDS - (time.monotonic() - since)))
        scene.redis.start()
        since = time.monotonic()
        scene.finish([id], since, outcome)
        outcome.notes.append(f"away for {DOWN_SECONDS:g} s; counted from its return")
        return outcome


def kill_without_data(lease: float) -> Outcome:
    """Killed, and back empty: who waits is told that the evaluation is unknown, and the reward functions post again."""
    with Scene(lease=lease) as scene:
        scene.start_worker(ready=True)
        outcome = Outcome()
        said: list[object] = []
        rewards: list[object] = []
        sources = list(PROGRAMS)

        def ask() -> None:
            with Client(scene.url) as client:
                try:
                    said.append(client.evaluate([f"{sources[4]}\n# {n}" for n in range(40)], suite=CASES))
                except MicrocoderError as error:
                    said.append(error)

        def score() -> None:
            scorer = CodeScorer(scene.url, limits=LIMITS)
            answers = [f"```python\n{source}\n```" for source in (sources[4], *sources)]
            scores = scorer.score(answers, [{"input": ["1\n", "2\n"], "output": ["2\n", "3\n"]}] * len(answers))
            rewards.extend(item.reward for item in scores)

        threads = [threading.Thread(target=ask), threading.Thread(target=score)]
        for thread in threads:
            thread.start()
        wait_until(lambda: depth(scene) > 0, 20, "Nothing was posted")
        time.sleep(1)
        since = time.monotonic()
        scene.redis.kill()
        scene.redis.start()
        for thread in threads:
            thread.join(120)
        outcome.done = time.monotonic() - since
        outcome.demand(isinstance(said[0], EvaluationUnknown), f"`evaluate` gave {said[0]!r:.80}, no EvaluationUnknown")
        outcome.notes.append(f"`evaluate` raises {type(said[0]).__name__}; a reward function posts again")
        right = [1.0, *(1.0 if verdict == "accepted" else 0.0 for verdict in PROGRAMS.values())]
        outcome.submissions = len(right)
        outcome.masked = rewards.count(None)
        outcome.wrong = sum(given is not None and given != wanted for given, wanted in zip(rewards, right, strict=True))
        return outcome


def depth(scene: Scene) -> int:
    """Submissions that wait or are judged."""
    return int((scene.http.get("/health").json()["queue"] or {}).get("submissions", 0))


def reuse_name(lease: float) -> Outcome:
    """Redis comes back empty while a worker holds a judgement, and the same name is used for other programs."""
    with Scene(lease=lease) as scene:
        worker = scene.start_worker("before storing", number="STOP", count=1)
        scene.post(1, "e", only="accepted")
        wait_until(lambda: stat(worker.process.pid) == "T", 60, "The worker wasn't stopped")
        scene.redis.kill()
        scene.redis.start()
        body = scene.body(1, "e", only="wrong_answer")
        scene.http.post("/v1/evaluations", json=body).raise_for_status()
        since = time.monotonic()
        os.kill(worker.process.pid, signal.SIGCONT)
        wait_until(lambda: (scene.counts("e") or {"done": 0})["done"] == 1, 60, "It wasn't judged")
        outcome = Outcome(submissions=1, done=time.monotonic() - since)
        [item] = scene.http.get("/v1/evaluations/e").json()["judgements"]
        outcome.wrong = int(item["verdict"] != "wrong_answer")
        return outcome


def stat(pid: int) -> str:
    """The letter of its state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def pause(seconds: float, lease: float, *, stop: bool) -> Outcome:
    """Silent for longer than a lease, then as before."""
    with Scene(lease=lease) as scene:
        for _ in range(2):
            scene.start_worker(ready=True)
        id = scene.post(24)
        scene.await_begin(id)
        outcome = Outcome()
        if stop:
            scene.redis.process.send_signal(signal.SIGSTOP)
        else:
            with scene.redis.client() as client:
                client.client_pause(int(seconds * 1000))
        since = time.monotonic()
        if seconds > REFUSED_AFTER:
            check_refusal(scene, outcome, "answer")
        time.sleep(max(0, seconds - (time.monotonic() - since)))
        scene.redis.process.send_signal(signal.SIGCONT)
        scene.finish([id], time.monotonic(), outcome)
        outcome.notes.append("counted from its return")
        outcome.demand(all(worker.process.poll() is None for worker in scene.workers), "a worker has ended")
        return outcome


def check_refusal(scene: Scene, outcome: Outcome, word: str) -> None:
    """The API says that it can't now, and why."""
    since = time.monotonic()
    answer = scene.http.post("/v1/evaluations", json=scene.body(1, salt="refused"))
    problem = answer.headers.get("content-type") == "application/problem+json"
    detail = answer.json().get("detail", "") if problem else ""
    refused = answer.status_code == 503 and word in detail
    outcome.demand(refused, f"the API said {answer.status_code}: {answer.text:.80}")
    outcome.demand("retry-after" in answer.headers, "the refusal has no Retry-After")
    outcome.notes.append(f"the API says {answer.status_code} after {time.monotonic() - since:.1f} s")


def fill(lease: float) -> Outcome:
    """`maxmemory` reached in the middle of the work, for longer than a lease; then raised."""
    with Scene(lease=lease) as scene, scene.redis.client() as client:
        for _ in range(2):
            scene.start_worker(ready=True)
        id = scene.post(24)
        scene.await_begin(id)
        client.config_set("maxmemory", 1)
        outcome = Outcome()
        check_refusal(scene, outcome, "memory")
        outcome.demand(scene.counts(id) is not None, "what is there can't be read")
        time.sleep(lease + 3)
        client.config_set("maxmemory", 0)
        scene.finish([id], time.monotonic(), outcome)
        outcome.notes.append(f"full for {lease + 3:g} s; counted from its end")
        outcome.demand(all(worker.process.poll() is None for worker in scene.workers), "a worker has ended")
        return outcome


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A file system of its own.

    Raises:
        CannotTry: this user may not mount one.
    """
    folder = Path(tempfile.mkdtemp(prefix="faults-disk-"))
    try:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
        if mounted.returncode:
            raise CannotTry("a small disk takes root")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
    finally:
        folder.rmdir()


def fill_disk(lease: float) -> Outcome:
    """The disk of its append-only file is full for a while."""
    with small_disk("24m") as folder, Scene(lease=lease, keep=True, redis_folder=folder) as scene:
        scene.start_worker(ready=True)
        id = scene.post(12)
        scene.await_begin(id)
        with (folder / "filler").open("wb") as file:
            filled = 0
            while filled < 64 << 20:
                try:
                    filled += os.write(file.fileno(), b"\0" * 4096)
                except OSError:
                    break
        outcome = Outcome()
        wait_until(lambda: refuses(scene), 30, "Redis went on writing")
        check_refusal(scene, outcome, "disk")
        time.sleep(3)
        (folder / "filler").unlink()
        scene.finish([id], time.monotonic(), outcome)
        outcome.notes.append("counted from when there was room")
        return outcome


def refuses(scene: Scene) -> bool:
    """Whether nothing is taken any more."""
    return scene.http.post("/v1/evaluations", json=scene.body(1, salt=str(time.monotonic()))).status_code == 503


def restart_under_load(lease: float) -> Outcome:
    """Three restarts with its data while four clients post and wait."""
    with Scene(lease=lease, keep=True) as scene:
        for _ in range(2):
            scene.start_worker(ready=True)
        outcome = Outcome()
        results: list[tuple[str, object]] = []
        end = time.monotonic() + 12

        def load(number: int) -> None:
            sources = [(source, verdict) for source, verdict in PROGRAMS.items() if verdict != "time_limit"]
            with Client(scene.url) as client:
                turn = 0
                while time.monotonic() < end:
                    turn += 1
                    try:
                        programs = [f"{source}\n# {number} {turn}" for source, _ in sources]
                        judged = client.evaluate(programs, suite=CASES, limits=LIMITS)
                    except MicrocoderError as error:
                        results.append(("", error))
                        continue
                    results.extend((verdict, item) for (_, verdict), item in zip(sources, judged, strict=True))

        threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            time.sleep(2.5)
            scene.redis.kill()
            scene.redis.start()
        since = time.monotonic()
        for thread in threads:
            thread.join(120)
        outcome.done = time.monotonic() - since
        for right, judgement in results:
            if isinstance(judgement, Exception):
                outcome.faults.append(f"{type(judgement).__name__}: {judgement}")
                continue
            outcome.submissions += 1
            verdict, reward = judgement.verdict, judgement.reward  # type: ignore[attr-defined]
            outcome.masked += verdict == "internal_error"
            rightly = verdict == right and reward == (1.0 if right == "accepted" else 0.0)
            outcome.wrong += not rightly and verdict != "internal_error"
        scene.count_repeats(outcome)
        return outcome


def list_faults(quick: bool) -> dict[str, Callable[[], Outcome]]:
    """Each by its name."""
    lease = 2.0 if quick else 10.0
    seconds = 8.0 if quick else 20.0
    return {
        "redis killed, back with its data": partial(kill_with_data, lease),
        "redis killed, back without its data": partial(kill_without_data, lease),
        "redis back without its data, and a name used again": partial(reuse_name, lease),
        f"redis paused for {seconds:g} s (CLIENT PAUSE)": partial(pause, seconds, lease, stop=False),
        f"redis stopped for {seconds:g} s (SIGSTOP)": partial(pause, seconds, lease, stop=True),
        "redis full (maxmemory)": partial(fill, lease),
        "redis on a full disk": partial(fill_disk, lease),
        "redis restarted three times under load": partial(restart_under_load, lease),
    }
