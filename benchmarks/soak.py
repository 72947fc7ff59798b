"""Does anything grow? `python -m benchmarks.soak [--tests 100000] [--sandbox KIND] [--json OUT] [--png OUT]`

A whole service (its own Redis, two workers) judges a hundred thousand tests, with hostile programs among them: fork
bombs, memory hogs, daemons, fillers of scratch, floods. Evaluations expire, some are cancelled or listened to, suites
push each other out, results come out of the cache, and single runs go beside, as in real use; the lifetimes and budgets
are short, so that they are reached in the warm-up.

It is looked at from outside once a second, and whenever it has nothing left to do (sixteen times):
memory, descriptors, threads, processes, zombies, mounts, scratch, boxes, Redis, temporary files, cgroups. Growth is
told by a line through what was seen at rest after the warm-up (a fifth of the tests), with a 95 % interval. The exit
code is 1 when something grows, or when a program got a verdict that it may not get; 2 when the service can't start.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import redis
from microcoder_client import Client
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.agreement import positive_integer
from benchmarks.peers.sides import CannotRun
from benchmarks.soak_figures import Growth, is_bytes, measure_growth, plot
from benchmarks.soak_programs import Sent, Traffic
from benchmarks.soak_samples import Probe, Sampler

AT_ONCE = 4
"""Evaluations under way."""
RESTS = 16
"""Times at which the service has nothing to do."""
WARM_PART = 0.2
EXPIRY_SECONDS = 8
STEADY_SECONDS = EXPIRY_SECONDS + 3
"""After the last verdict: until what expires has expired, and what is made beforehand is made."""
ENVIRONMENT = {
    "MICROCODER_RESULT_TTL_SECONDS": str(EXPIRY_SECONDS),
    "MICROCODER_RESULT_CACHE_BYTES": str(1 << 20),
    "MICROCODER_SUITE_BUDGET_BYTES": str(1 << 20),
    "MICROCODER_WORKER_CACHE_BYTES": str(1 << 20),
}
START_SECONDS, STOP_SECONDS = 90.0, 60.0


class Load:
    """Sends evaluations, several at a time, and holds every verdict against what it may be."""

    def __init__(self, url: str, client: Client, seed: int) -> None:
        """Nothing is sent yet."""
        self._client = client
        self._http = httpx.Client(base_url=url, timeout=60)
        self._traffic = Traffic(seed)
        self._lock = threading.Lock()
        self.tests = self.evaluations = self.cancelled = self.runs = 0
        self.verdicts: Counter[str] = Counter()
        self.wrong: list[dict[str, Any]] = []

    def send(self, tests: int, progress: Any) -> None:
        """Until that many more are done."""
        wanted = self.tests + tests

        def drive() -> None:
            while self.tests < wanted:
                with self._lock:
                    self.evaluations += 1
                    number, sent = self.evaluations, self._traffic.evaluation()
                progress(self._cancel(sent) if number % 15 == 0 else self._judge(sent))
                if number % 5 == 0:
                    self._run_code(number)

        with ThreadPoolExecutor(AT_ONCE) as threads:
            for future in [threads.submit(drive) for _ in range(AT_ONCE)]:
                future.result()

    def _judge(self, sent: list[Sent]) -> int:
        judgements = self._client.evaluate([item.submission for item in sent], detail="summary")
        done = 0
        for item, judgement in zip(sent, judgements, strict=True):
            done += item.tests
            if judgement.verdict not in item.allowed:
                source = item.submission.source or ""
                self.wrong.append({"program": source[-200:], "verdict": judgement.verdict, "detail": judgement.detail})
        with self._lock:
            self.tests += done
            self.verdicts.update(judgement.verdict for judgement in judgements)
        return done

    def _cancel(self, sent: list[Sent]) -> int:
        """Post, hear of what is judged, and give up in the middle. Its tests aren't counted."""
        id = self._client.submit([item.submission for item in sent])
        with self._http.stream("GET", f"/v1/evaluations/{id}/events") as events:
            next(events.iter_bytes(), None)
        self._client.cancel(id)
        self.cancelled += 1
        return 0

    def _run_code(self, number: int) -> None:
        body = {"code": f"open('out', 'w').write('{number}')\nprint({number})", "fetch_files": ["out"]}
        answer = self._http.post("/run_code", json=body)
        if answer.status_code != 200 or answer.json()["run_result"]["stdout"] != f"{number}\n":
            self.wrong.append({"program": "/run_code", "verdict": answer.status_code, "detail": answer.text[:200]})
        self.runs += 1

    def close(self) -> None:
        """Hang up."""
        self._http.close()


@contextmanager
def running(workers: int, sandbox: str) -> Iterator[tuple[str, int, Path]]:
    """A service: its URL, process id, and the directory of its temporary files."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, tempfile.TemporaryFile() as log:
        environment = {name: value for name, value in os.environ.items() if "REDIS_URL" not in name}
        command = [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--workers", str(workers)]
        process = subprocess.Popen(
            [*command, "--sandbox", sandbox], env=environment | ENVIRONMENT | {"TMPDIR": folder},
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if "http://" not in line:
                said = os.pread(log.fileno(), 1 << 16, 0).decode("utf-8", "replace").strip().splitlines()
                raise CannotRun(f"The service doesn't start: {said[-1] if said else 'it says nothing'}")
            yield line[line.index("http://") :].split()[0], process.pid, Path(folder)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def find_redis(directory: Path) -> redis.Redis:
    """The service's own server, by its socket."""
    sockets = [path for path in directory.rglob("*") if path.is_socket()]
    for path in sockets:
        store = redis.Redis(unix_socket_path=str(path))
        try:
            store.ping()
            return store
        except redis.RedisError:
            store.close()
    raise CannotRun("The service's Redis can't be found in its temporary directory.")


# The command


def main(arguments: list[str] | None = None) -> int:
    """Send, look, print, and write what was asked for."""
    options = _parse(arguments)
    console = Console(stderr=True)
    try:
        with running(options.workers, options.sandbox) as (url, pid, folder), Client(url) as client:
            load = Load(url, client, options.seed)
            sampler = Sampler(Probe(pid, folder, find_redis(folder), options.sandbox), lambda: load.tests)
            try:
                began = time.monotonic()
                rests = _soak(load, sampler, options.tests, console)
                seconds = time.monotonic() - began
            finally:
                sampler.close()
                load.close()
    except CannotRun as error:
        console.print(f"soak: {error}", highlight=False, markup=False, soft_wrap=True)
        return 2
    warm = int(options.tests * WARM_PART)
    growths = find_growth(rests, warm)
    document = summarise(load, growths, rests, options, seconds)
    show(document, Console(width=None if sys.stdout.isatty() else 140))
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.png is not None:
        plot(sampler.samples, rests, warm, options.png)
    return 1 if load.wrong or any(growth.grows for growth in growths) else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.split("\n\n")[1])
    parser.add_argument("--tests", type=positive_integer, default=100_000, help="default: 100000")
    parser.add_argument("--workers", type=positive_integer, default=2, help="default: 2")
    parser.add_argument("--sandbox", default="bubblewrap", help="docker, bubblewrap; default: bubblewrap")
    parser.add_argument("--seed", type=int, default=1, help="of the traffic; default: 1")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    parser.add_argument("--png", type=Path, metavar="OUT", help="draw the plot here")
    return parser.parse_args(arguments)


def _soak(load: Load, sampler: Sampler, tests: int, console: Console) -> list[dict[str, Any]]:
    """Send all; between the parts, look at the service when it is at rest."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    rests = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("tests", total=tests)
        for number in range(1, RESTS + 1):
            load.send(tests * number // RESTS - load.tests, lambda done: progress.advance(task, done))
            time.sleep(STEADY_SECONDS)
            rests.append(sampler.take())
            if not console.is_terminal:
                seen = rests[-1]
                console.print(
                    f"{seen['tests']} tests after {seen['second']:.0f} s: {seen['processes']:.0f} processes, "
                    f"{seen['descriptors']:.0f} descriptors, {seen['Redis keys']:.0f} keys, {len(load.wrong)} wrong",
                    highlight=False,
                )
    return rests


def find_growth(rests: list[dict[str, Any]], warm: int) -> list[Growth]:
    """Of each measure, after the warm-up."""
    after = [rest for rest in rests if rest["tests"] >= warm]
    tests = [rest["tests"] for rest in after]
    names = [name for name in after[0] if name not in ("second", "tests")]
    return [measure_growth(name, tests, [rest[name] for rest in after]) for name in names]


def summarise(
    load: Load, growths: list[Growth], rests: list[dict[str, Any]], options: argparse.Namespace, seconds: float
) -> dict[str, Any]:
    """The figures, as `--json` writes them."""
    return {
        "tests": load.tests,
        "evaluations": load.evaluations,
        "cancelled_evaluations": load.cancelled,
        "single_runs": load.runs,
        "verdicts": dict(load.verdicts.most_common()),
        "wrong": load.wrong[:50],
        "wrong_verdicts": len(load.wrong),
        "sandbox": options.sandbox,
        "workers": options.workers,
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "seconds": round(seconds, 1),
        "growth_per_10000_tests": {growth.name: asdict(growth) for growth in growths},
        "at_rest": rests,
    }


def show(document: dict[str, Any], console: Console) -> None:
    """Print the growth of everything, and what went wrong."""
    title = f"{document['tests']} tests, {document['sandbox']}: at rest, growth per 10 000 tests after the warm-up"
    table = Table("measure", title=title, title_justify="left")
    for heading in ("first", "last", "slope", "95 % interval", "grows"):
        table.add_column(heading, justify="right")
    for name, growth in document["growth_per_10000_tests"].items():
        scale = 1 << 20 if is_bytes(name) else 1
        first, last, slope, low, high = (growth[key] / scale for key in ("first", "last", "slope", "low", "high"))
        label = f"{name}, MiB" if scale > 1 else name
        cells = [f"{first:.1f}", f"{last:.1f}", f"{slope:+.3f}", f"{low:+.3f} to {high:+.3f}"]
        table.add_row(label, *cells, "yes" if growth["grows"] else "no")
    console.print(table)
    console.print(f"verdicts: {document['verdicts']}; wrong: {document['wrong_verdicts']}", highlight=False)
    for item in document["wrong"][:10]:
        console.print(str(item), highlight=False, markup=False)


if __name__ == "__main__":
    sys.exit(main())
