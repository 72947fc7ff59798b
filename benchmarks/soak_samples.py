"""What `soak` sees of a running service from outside: once a second, and when nothing is left to do.

Processes are found by descent (and, in Docker, by the label of their boxes), never by what a program says of itself.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from docker.api import APIClient
from docker.errors import DockerException

from evaluator.sandbox.leftovers import OWNER

CGROUPS = Path("/sys/fs/cgroup")
Sample = dict[str, float]
PARTS = ("api", "workers", "redis", "boxes")
"""Kinds of processes of a service."""


class Probe:
    """Looks at one service: process id, its temporary directory, its Redis."""

    def __init__(self, pid: int, directory: Path, store: redis.Redis, sandbox: str) -> None:
        """Nothing is looked at yet."""
        self._pid = pid
        self._directory = directory
        self._store = store
        self._daemon = APIClient() if sandbox == "docker" else None

    def look(self) -> Sample:
        """Everything, now."""
        parents, states, commands = read_processes()
        family = descend(parents, {self._pid, *self._containers(commands, parents)})
        sample: Sample = {"processes": 0, "threads": 0, "descriptors": 0}
        sample |= {f"{kind} of {part}": 0 for part in PARTS for kind in ("RSS", "PSS")}
        for pid in family:
            part = tell_part(commands.get(pid, ""))
            rss, pss = read_memory(pid)
            sample[f"RSS of {part}"] += rss
            sample[f"PSS of {part}"] += pss
            sample["processes"] += 1
            sample["threads"] += count_entries(f"/proc/{pid}/task")
            sample["descriptors"] += count_entries(f"/proc/{pid}/fd")
        sample["boxes"] = self._count_boxes(family, parents, commands)
        sample["zombies"] = sum(states[pid] == "Z" for pid in family)
        sample["mounts of the host"] = len(Path("/proc/self/mountinfo").read_text().splitlines())
        sample["temporary files"] = sum(len(folders) + len(files) for _, folders, files in os.walk(self._directory))
        sample["cgroups of the host"] = sum(len(folders) for _, folders, _ in os.walk(CGROUPS))
        return sample | self._scratch(family, commands) | self._redis()

    def _containers(self, commands: dict[int, str], parents: dict[int, int]) -> set[int]:
        """First processes of the containers that this service's workers made."""
        if self._daemon is None:
            return set()
        workers = {str(pid) for pid in descend(parents, {self._pid}) if "service.cli worker" in commands.get(pid, "")}
        found = set()
        with contextlib.suppress(DockerException):
            for container in self._daemon.containers(filters={"label": OWNER}):
                if container["Labels"][OWNER].split()[-2] in workers:
                    with contextlib.suppress(DockerException):
                        found.add(int(self._daemon.inspect_container(container["Id"])["State"]["Pid"]))
        return found - {0}

    def _count_boxes(self, family: set[int], parents: dict[int, int], commands: dict[int, str]) -> int:
        """A box is what hangs on a worker, or on no process of ours: its first process."""
        return sum(
            tell_part(commands.get(pid, "")) == "boxes" and tell_part(commands.get(parents.get(pid, 0), "")) != "boxes"
            for pid in family
        )

    def _scratch(self, family: set[int], commands: dict[int, str]) -> Sample:
        """Bytes and files in the scratch folders of all boxes, each seen through one of its processes."""
        seen: dict[int, os.statvfs_result] = {}
        for pid in family:
            if tell_part(commands.get(pid, "")) == "boxes":
                with contextlib.suppress(OSError):
                    place = f"/proc/{pid}/root/w"
                    seen[os.stat(place).st_dev] = os.statvfs(place)
        used = sum((facts.f_blocks - facts.f_bfree) * facts.f_frsize for facts in seen.values())
        shared = os.statvfs("/dev/shm")
        return {
            "scratch": used,
            "files in scratch": sum(facts.f_files - facts.f_ffree for facts in seen.values()),
            "shared memory of the host": (shared.f_blocks - shared.f_bfree) * shared.f_frsize,
        }

    def _redis(self) -> Sample:
        memory = self._store.info("memory")
        assert isinstance(memory, dict)
        return {"Redis keys": float(self._store.dbsize()), "Redis memory": float(memory["used_memory"])}  # type: ignore[arg-type]


def read_processes() -> tuple[dict[int, int], dict[int, str], dict[int, str]]:
    """Parent, state and command line of every process of this machine."""
    parents, states, commands = {}, {}, {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
            command = Path(f"/proc/{name}/cmdline").read_bytes()[:400].replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        parents[int(name)], states[int(name)], commands[int(name)] = int(fields[1]), fields[0], command
    return parents, states, commands


def descend(parents: dict[int, int], roots: set[int]) -> set[int]:
    """These processes and all that come from them."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found, waiting = set(), [pid for pid in roots if pid in parents]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found


def tell_part(command: str) -> str:
    """Which kind of process this is."""
    if "service.cli worker" in command:
        return "workers"
    if "service.cli serve" in command:
        return "api"
    return "redis" if "redis" in command.partition(" ")[0] or "valkey" in command.partition(" ")[0] else "boxes"


def read_memory(pid: int) -> tuple[int, int]:
    """Resident bytes, and resident bytes with shared pages divided among those who share them."""
    rss = pss = 0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in ("Rss", "Pss"):
                size = int(rest.split()[0]) * 1024
                rss, pss = (size, pss) if name == "Rss" else (rss, size)
    return rss, pss


def count_entries(path: str) -> int:
    """How many there are, none where the process is gone."""
    try:
        return len(os.listdir(path))
    except OSError:
        return 0


class Sampler:
    """Looks once a second, in a thread. Each sample bears the time, and how many tests were done by then."""

    def __init__(self, probe: Probe, done: Callable[[], int]) -> None:
        """Start."""
        self._probe = probe
        self._done = done
        self.samples: list[dict[str, Any]] = []
        self._began = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self) -> dict[str, Any]:
        """One more, now."""
        return {"second": round(time.monotonic() - self._began, 1), "tests": self._done(), **self._probe.look()}

    def _run(self) -> None:
        while not self._end.wait(1.0):
            with contextlib.suppress(redis.RedisError):  # the service is being stopped
                self.samples.append(self.take())

    def close(self) -> None:
        """Stop."""
        self._end.set()
        self._thread.join()
