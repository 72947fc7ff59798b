"""Requests too large, or as large as they may be: a million tests, a body and a suite of 100 MB, 60 MB of output."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from benchmarks.faults_scene import Outcome, Scene, wait_until

MEGABYTE = 1_000_000


def measure_memory(pid: int) -> int:
    """Megabytes that a process alone keeps resident."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 // MEGABYTE
    raise ValueError(f"process {pid} doesn't tell of its memory")


@contextmanager
def watching(**processes: int) -> Iterator[dict[str, int]]:
    """The most that each takes meanwhile, in megabytes."""
    most = {name: measure_memory(pid) for name, pid in processes.items()}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            for name, pid in processes.items():
                most[name] = max(most[name], measure_memory(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        stop.set()
        thread.join()


def describe(before: int, most: dict[str, int], seconds: float) -> str:
    """One sentence."""
    told = ", ".join(f"{name} {size} MB" for name, size in most.items())
    return f"{seconds:.1f} s; the API had {before} MB before; at most: {told}"


def post(scene: Scene, content: bytes | Iterator[bytes], path: str = "/v1/evaluations") -> httpx.Response:
    """Send a body as it is. Who is refused early may find the connection closed: the answer is what counts."""
    headers = {"Content-Type": "application/json"}
    return httpx.post(f"{scene.url}{path}", content=content, headers=headers, timeout=120)


def refuse(lease: float, content: bytes, status: int, word: str) -> Outcome:
    """It is refused with a sentence, and the API goes on."""
    with Scene(lease=lease) as scene:
        scene.start_worker(ready=True)
        before, since = measure_memory(scene.api.pid), time.monotonic()
        with watching(API=scene.api.pid) as most:
            answer = post(scene, content)
        outcome = Outcome(notes=[f"{answer.status_code} after {describe(before, most, time.monotonic() - since)}"])
        outcome.demand(answer.status_code == status, f"the status is {answer.status_code}, not {status}")
        outcome.demand(word in answer.text, f"the refusal doesn't say {word}: {answer.text:.120}")
        id = scene.post(6)
        return scene.finish([id], time.monotonic(), outcome)


def make_tests(count: int, text: str) -> bytes:
    """An evaluation with so many tests in it."""
    test = json.dumps({"kind": "stdin", "input": text}, separators=(",", ":"))
    tests = ",".join([test] * count)
    return f'{{"suite":{{"tests":[{tests}]}},"submissions":[{{"program":{{"source":"print(1)"}}}}]}}'.encode()


def upload(lease: float, size: int) -> Outcome:
    """A suite of 100 MB is stored, and a program is judged with it."""
    with Scene(lease=lease) as scene:
        worker = scene.start_worker(ready=True)
        text = "x" * (size // 100)
        tests = ({"kind": "stdin", "input": f"{number} {text}", "expected": f"{number}"} for number in range(100))
        data = b"".join(json.dumps(test).encode() + b"\n" for test in tests)
        id, before, since = hashlib.sha256(data).hexdigest(), measure_memory(scene.api.pid), time.monotonic()
        parts = {"API": scene.api.pid, "worker": worker.process.pid, "Redis": scene.redis.process.pid}
        with watching(**parts) as most:
            stored = httpx.put(f"{scene.url}/v1/suites/{id}", content=data, timeout=120)
            uploaded = time.monotonic() - since
            programs = ["print(input().split()[0])", "print(input()[0])"]
            body = {"suite": {"id": id}, "submissions": [{"program": {"source": source}} for source in programs]}
            name = scene.http.post("/v1/evaluations", json=body).json()["id"]
            wait_until(lambda: (scene.counts(name) or {"done": 0})["done"] == 2, 120, "It wasn't judged")
        outcome = Outcome(submissions=2, done=time.monotonic() - since)
        outcome.demand(stored.status_code == 201, f"the upload gave {stored.status_code}")
        verdicts = [item["verdict"] for item in scene.http.get(f"/v1/evaluations/{name}").json()["judgements"]]
        outcome.wrong = sum(given != right for given, right in zip(verdicts, ("accepted", "wrong_answer"), strict=True))
        outcome.notes.append(f"stored after {describe(before, most, uploaded)}")
        return outcome


def print_much(lease: float) -> Outcome:
    """60 MB of output: over the usual limit; and within a limit of 64 MB."""
    with Scene(lease=lease) as scene:
        worker = scene.start_worker(ready=True)
        source = "import sys\nfor _ in range(60):\n    sys.stdout.write('x' * 999_999 + '\\n')"
        tests = [{"kind": "stdin", "input": ""}]
        ids = []
        before, since = measure_memory(scene.api.pid), time.monotonic()
        with watching(API=scene.api.pid, worker=worker.process.pid, Redis=scene.redis.process.pid) as most:
            for limits in ({}, {"output_bytes": 64 << 20}):
                body = {"suite": {"tests": tests}, "limits": limits, "submissions": [{"program": {"source": source}}]}
                ids.append(scene.http.post("/v1/evaluations", json=body).json()["id"])
            for id in ids:
                wait_until(lambda id=id: (scene.counts(id) or {"done": 0})["done"] == 1, 60, "It wasn't judged")
                scene.http.get(f"/v1/evaluations/{id}", params={"detail": "full"}).raise_for_status()
        outcome = Outcome(submissions=2, done=time.monotonic() - since)
        for id, right in zip(ids, ("output_limit", "accepted"), strict=True):
            [item] = scene.http.get(f"/v1/evaluations/{id}").json()["judgements"]
            outcome.wrong += item["verdict"] != right
        outcome.notes.append(f"judged after {describe(before, most, outcome.done or 0)}")
        return outcome


def list_faults(quick: bool) -> dict[str, Callable[[], Outcome]]:
    """Each by its name."""
    lease = 2.0 if quick else 10.0
    small, large = make_tests(1_000_000, ""), make_tests(1_000_000, "x" * 60)
    return {
        "size: a million tests, 30 MB": partial(refuse, lease, small, 422, "at most"),
        "size: a million tests, 93 MB": partial(refuse, lease, large, 413, "bytes"),
        "size: a body of 100 MB": partial(refuse, lease, b" " * (100 * MEGABYTE), 413, "bytes"),
        "size: a suite of 100 MB": partial(upload, lease, 100 * MEGABYTE),
        "size: an output of 60 MB": partial(print_much, lease),
    }
