"""What a client waits for: one small submission, idle or behind slow ones; and what a long queue costs the service."""

import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import redis
from microcoder_client import Submission

from benchmarks.bench import Bench, Figures, record_rounds
from benchmarks.served import Service
from benchmarks.workloads import Batch, make_batch, make_trivial, salt
from service.redis_server import PrivateRedis

SLOW = "import time\nwhile time.process_time() < 1:\n    pass\nprint(input())\n"
"""A second of processor time."""
SLOW_SUBMISSIONS = 500
SMALL_TESTS = 10
BEHIND_ROUNDS = 5
POST = 1_000
"""Submissions of one evaluation of the long queue."""
PROBES = 30


def measure_latency(bench: Bench) -> Figures:
    """One submission with ten tests, posted with `wait`: alone, and while slow ones are queued."""
    service = bench.service()
    small = make_trivial(1, SMALL_TESTS)
    for number in range(5):
        service.judge(salt(small, number))
    seconds = []
    for number in range(bench.size.requests):
        if number % 10 == 0:
            bench.say(f"latency: request {number} of {bench.size.requests}")
        seconds.append(service.judge(salt(small, 1_000 + number)).seconds)
    seconds.sort()
    p50, p95 = _percentile(seconds, 0.50), _percentile(seconds, 0.95)
    figures: Figures = {
        "requests": len(seconds), "p50": round(p50, 5), "p95": round(p95, 5), "ratio": round(p95 / p50, 3),
        "lowest": round(seconds[0], 5), "highest": round(seconds[-1], 5),
    }  # fmt: skip
    return figures | _measure_behind(bench, service, small)


def _percentile(ordered: list[float], part: float) -> float:
    """The value that so large a part of the values doesn't exceed."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _measure_behind(bench: Bench, service: Service, small: Batch) -> Figures:
    """Seconds until a small submission is answered that was posted after many slow ones."""
    count = SLOW_SUBMISSIONS
    slow = make_batch("slow", SLOW, [("1\n", "1\n")], count)
    waits = []
    for number in range(min(bench.size.rounds, BEHIND_ROUNDS)):
        bench.say(f"latency: behind {count} slow submissions, round {number + 1}")
        busy = service.client.submit(service.submissions(salt(slow, number)))
        try:
            time.sleep(1.0)  # every worker is at work on a slow one
            waits.append(service.judge(salt(small, 10_000 + number)).seconds)
        finally:
            service.client.cancel(busy)
        service.client.fetch(busy, wait=10.0, detail="summary")
    record = record_rounds(waits)
    name = f"behind_{count}_slow_seconds"
    return {name: record["median"], f"{name}_rounds": record}


# A long queue


def measure_queue(bench: Bench) -> Figures:
    """Many queued submissions: the API's memory and latency before and after, and what each costs Redis."""
    count = bench.size.queued
    with PrivateRedis() as server, redis.Redis.from_url(server.url) as store:
        bench.say("queue: starting an API without workers")
        with closing(Service(0, bench.sandbox, redis_url=server.url)) as api:
            probe = Probe(api)
            figures: Figures = {"submissions": count, "before": _describe(probe, store)}
            meter = Meter(store)
            started = time.perf_counter()
            ids = _fill(bench, api, count)
            seconds = time.perf_counter() - started
            figures["post"] = meter.per_submission(count) | {"submissions_a_second": round(count / seconds, 1)}
            figures["after"] = _describe(probe, store)
            figures |= _compare(figures["before"], figures["after"], count)
            bench.say(f"queue: {bench.processors} workers judge {count} submissions")
            meter = Meter(store)
            with closing(Service(bench.processors, bench.sandbox, redis_url=server.url)):
                started = time.perf_counter()
                _wait_for(api, ids)
                seconds = time.perf_counter() - started
                figures["judge"] = meter.per_submission(count) | {"submissions_a_second": round(count / seconds, 1)}
    for name in ("commands", "bytes", "cpu_us"):
        figures[f"redis_{name}_per_submission"] = round(figures["post"][name] + figures["judge"][name], 2)
    return figures


def _fill(bench: Bench, api: Service, count: int) -> list[str]:
    """Post them, a thousand an evaluation. One test each, and one suite: what is measured is the queue."""
    ids = []
    for start in range(0, count, POST):
        bench.say(f"queue: {start} of {count} submissions are posted")
        batch = salt(make_trivial(min(POST, count - start), 1), start)
        ids.append(api.client.submit(api.submissions(batch)))
    return ids


def _wait_for(api: Service, ids: list[str]) -> None:
    for id in ids:
        while not api.client.fetch(id, wait=20.0, detail="summary").finished:
            pass


class Probe:
    """Asks the API the three things that clients ask, many times."""

    def __init__(self, api: Service) -> None:
        """Post one evaluation to ask for."""
        self.api = api
        self._batch = make_trivial(1, 1)
        self._id = api.client.submit(api.submissions(self._batch))
        self._posted = 0

    def measure(self) -> Figures:
        """Milliseconds: median and spread of each question."""
        questions: dict[str, Callable[[], Any]] = {
            "health_ms": self.api.client.health,
            "post_ms": self._post,
            "fetch_ms": lambda: self.api.client.fetch(self._id, detail="summary"),
        }
        return {name: record_rounds(_time(ask) for _ in range(PROBES)) for name, ask in questions.items()}

    def _post(self) -> None:
        self._posted += 1
        [entry] = self.api.submissions(self._batch)
        own = Submission(source=f"{entry.source}# {uuid.uuid4()}\n", suite=entry.suite)
        self.api.client.cancel(self.api.client.submit([own]))


def _time(ask: Callable[[], Any]) -> float:
    start = time.perf_counter()
    ask()
    return 1000 * (time.perf_counter() - start)


def _describe(probe: Probe, store: redis.Redis) -> Figures:
    record = probe.measure()
    return record | {
        "api_memory_bytes": probe.api.memory_bytes,
        "redis_memory_bytes": int(store.info("memory")["used_memory"]),
    }


def _compare(before: Figures, after: Figures, count: int) -> Figures:
    """How flat it stays."""
    names = ("health_ms", "post_ms", "fetch_ms")
    grown = after["redis_memory_bytes"] - before["redis_memory_bytes"]
    return {
        "api_memory_ratio": round(after["api_memory_bytes"] / before["api_memory_bytes"], 3),
        "latency_ratio": {name: round(after[name]["median"] / before[name]["median"], 3) for name in names},
        "redis_memory_bytes_per_submission": round(grown / count),
    }


class Meter:
    """Counts what Redis does from now on."""

    def __init__(self, store: redis.Redis) -> None:
        """Begin."""
        self._store = store
        self._commands = self._count_commands()
        self._bytes = self._count_bytes()
        self._cpu = self._count_cpu()

    def _count_commands(self) -> Counter[str]:
        stats = self._store.info("commandstats")
        return Counter({name.removeprefix("cmdstat_"): int(record["calls"]) for name, record in stats.items()})

    def _count_bytes(self) -> int:
        stats = self._store.info("stats")
        return int(stats["total_net_input_bytes"]) + int(stats["total_net_output_bytes"])

    def _count_cpu(self) -> float:
        stats = self._store.info("cpu")
        return float(stats["used_cpu_user"]) + float(stats["used_cpu_sys"])

    def per_submission(self, count: int) -> Figures:
        """Commands, those inside of scripts as well; bytes in both directions; the server's own processor time."""
        commands = self._count_commands()
        commands.subtract(self._commands)
        return {
            "commands": round(commands.total() / count, 2),
            "bytes": round((self._count_bytes() - self._bytes) / count),
            "cpu_us": round(1e6 * (self._count_cpu() - self._cpu) / count, 1),
            "by_command": {name: round(calls / count, 2) for name, calls in commands.most_common(12)},
        }
