"""The whole service in a process of its own, for tests that use it as its clients do."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MICROCODER = [sys.executable, "-m", "service.cli"]


class Served:
    """`microcoder serve` in a process of its own."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.log = tempfile.TemporaryFile()  # a pipe that nobody reads would stop the service when it is full
        inherited = {name: value for name, value in os.environ.items() if "REDIS_URL" not in name}
        self.process = subprocess.Popen(
            [*MICROCODER, "serve", "--port", "0", *arguments],
            env=inherited | environment,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def ready(self) -> str:
        """The URL, once it is ready."""
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        return re.search(r"http://\S+", self.line)[0]

    def said(self) -> str:
        """What it wrote to stderr so far."""
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def descendants(self) -> dict[int, str]:
        """Process ids and command lines of all that came from it: Redis, workers, boxes."""
        parents, commands = {}, {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
                command = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(stat.parent.name)], commands[int(stat.parent.name)] = int(fields[1]), command
        family = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        return {pid: commands[pid] for pid in family - {self.process.pid}}

    def workers(self) -> set[int]:
        return {pid for pid, command in self.descendants().items() if "service.cli worker" in command}

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=40)
        return self.process.returncode

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.stop()
        for stream in (self.process.stdout, self.log):
            stream.close()


def alive(pids: Iterable[int]) -> set[int]:
    """Those that still run."""
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def until(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """What `condition` returns once it is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return value
