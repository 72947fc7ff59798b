"""`POST /run_code` by many clients at once, each request on a new connection, as verl sends them.

Ours and an interpreter started for each request (`peers/request_server.py`, or a real SandboxFusion with
--sandboxfusion-url), in turns:

    python -m benchmarks.run_code [--connections 128] [--requests 512] [--rounds 3] [--workers N] [--json OUT]
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from benchmarks.bench import record_ratio
from benchmarks.peers.sides import CannotRun, RequestPerTest
from benchmarks.served import Service

PROGRAM = "print(int(input()) + {salt} - {salt} + 1)"
PEER_SHARE = 4
"""An interpreter for each request is so slow that it gets one request of so many; rates are compared."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a server did with a round of requests: answers a second, seconds until an answer, and failures."""

    rate: float
    p50: float
    p95: float
    longest: float
    errors: int


Connect = Callable[[], "asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]"]


async def post(connect: Connect, number: int) -> float:
    """One request on a new connection, by hand, so that the client costs little beside the server. Returns seconds.

    Raises:
        ValueError: the answer isn't the right one.
    """
    body = json.dumps(
        {
            "compile_timeout": 10, "run_timeout": 30, "code": PROGRAM.format(salt=number), "stdin": f"{number}\n",
            "memory_limit_MB": 1024, "language": "python", "files": {}, "fetch_files": [],
        }
    ).encode()  # fmt: skip
    head = (
        "POST /run_code HTTP/1.1\r\nHost: server\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    start = time.perf_counter()
    reader, writer = await connect()
    try:
        writer.write(head.encode() + body)
        answer = await reader.read()
    finally:
        writer.close()
    seconds = time.perf_counter() - start
    status, _, content = answer.partition(b"\r\n\r\n")
    if b" 200 " not in status[:20] or json.loads(content)["run_result"]["stdout"] != f"{number + 1}\n":
        raise ValueError(answer[-200:].decode("utf-8", "replace"))
    return seconds


async def drive(connect: Connect, first: int, requests: int, connections: int) -> Round:
    """So many requests, so many at a time."""
    numbers = iter(range(first, first + requests))
    found: list[float] = []
    errors = 0

    async def work() -> None:
        nonlocal errors
        for number in numbers:
            try:
                found.append(await post(connect, number))
            except (OSError, ValueError):
                errors += 1

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(connections)))
    seconds = time.perf_counter() - start
    cuts = statistics.quantiles(found, n=20) if len(found) > 1 else [float("inf")] * 19
    return Round(len(found) / seconds, cuts[9], cuts[18], max(found, default=float("inf")), errors)


def connector(url: str | None, socket: str | None) -> Connect:
    """What opens a connection to a server, at an address or a Unix socket."""
    if socket is not None:
        return lambda: asyncio.ensure_future(asyncio.open_unix_connection(socket, limit=1 << 24))
    parts = urlsplit(url or "")
    return lambda: asyncio.ensure_future(asyncio.open_connection(parts.hostname, parts.port or 80, limit=1 << 24))


def measure(options: argparse.Namespace) -> dict[str, list[Round]]:
    """Rounds of both, in turns."""
    with ExitStack() as stack:
        service, peer = Service(options.workers), RequestPerTest(options.sandboxfusion_url)
        stack.callback(service.close)
        stack.callback(peer.close)
        sides = {
            "ours": (connector(service.url, None), options.requests),
            "interpreter_per_request": (
                connector(options.sandboxfusion_url, peer.socket),
                max(options.connections, options.requests // PEER_SHARE),
            ),
        }
        found: dict[str, list[Round]] = {name: [] for name in sides}
        first = 0
        for connect, _ in sides.values():
            asyncio.run(drive(connect, first, options.connections, options.connections))
        for number in range(options.rounds):
            names = list(sides)[:: -1 if number % 2 else 1]
            for name in names:
                connect, requests = sides[name]
                first += options.requests
                found[name].append(asyncio.run(drive(connect, first, requests, options.connections)))
        return found


def main(arguments: list[str] | None = None) -> int:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run_code", description=__doc__.split("\n\n")[0])
    parser.add_argument("--connections", type=int, default=128, help="requests at a time (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=512, help="requests a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="(default: one per CPU)")
    parser.add_argument("--sandboxfusion-url", help="a real SandboxFusion instead of the restated server")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(arguments)
    try:
        found = measure(options)
    except CannotRun as error:
        parser.exit(1, f"{error}\n")
    ratio = record_ratio("ratio", [one.rate for one in found["ours"]], [one.rate for one in _peer(found)])
    table = Table("server", "answers a second", "p50, s", "p95, s", "longest, s", "errors")
    for name, rounds in found.items():
        middle = [
            statistics.median(getattr(one, field) for one in rounds) for field in ("rate", "p50", "p95", "longest")
        ]
        table.add_row(
            name, f"{middle[0]:.1f}", *(f"{value:.2f}" for value in middle[1:]), str(sum(r.errors for r in rounds))
        )
    Console().print(table)
    Console().print(f"answers a second, ours over theirs: {ratio['ratio']:.2f} ({ratio['ratio_rounds']['rounds']})")
    if options.json:
        figures = {name: [asdict(one) for one in rounds] for name, rounds in found.items()} | ratio
        options.json.write_text(json.dumps({"connections": options.connections, **figures}, indent=1) + "\n")
    return 1 if any(one.errors for one in found["ours"]) else 0


def _peer(found: dict[str, list[Round]]) -> list[Round]:
    return found["interpreter_per_request"]


if __name__ == "__main__":
    raise SystemExit(main())
