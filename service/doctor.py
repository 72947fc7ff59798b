"""What works on this machine, and what to do about what doesn't: one finding a question, one sentence of remedy each.

It looks where the service will look, and then tries: a real box of each kind has to run `print(1)`, a private Redis has
to answer. Nothing is changed and nothing stays.
"""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import redis

from evaluator.errors import SandboxError, SandboxUnavailable
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Backend, Box, Call, CompileFailure
from evaluator.sandbox.obstacles import (
    APPARMOR,
    describe_cgroups,
    find_daemon_obstacles,
    find_namespace_obstacle,
    is_rootless,
    read_setting,
)
from evaluator.sandbox.probes import REMEDIES, Failure, find_failures
from service.redis_server import PrivateRedis, RedisUnavailable, find_server

OLDEST_REDIS = (6, 2)
"""Older servers lose a job when a worker dies between taking and starting it."""
LOOK_AROUND = """
import shutil
found = [name for name in ("cc", "gcc", "g++", "clang") if shutil.which(name)]
print(1)
print(", ".join(found))
"""
"""Run in each kind of box."""


class State(StrEnum):
    """What a finding means."""

    WORKS = "works"
    MISSING = "missing"
    NOTE = "note"
    """Neither good nor bad: worth knowing."""


class Group(StrEnum):
    """What a finding is about. One working sandbox and one working Redis are enough."""

    DOCKER = "docker"
    BUBBLEWRAP = "bubblewrap"
    DIAL_IN = "dial-in"
    CONFINED = "confined"
    REDIS = "redis"
    MACHINE = "machine"


@dataclass(frozen=True)
class Finding:
    """The answer to one question."""

    group: Group
    subject: str
    state: State
    found: str
    remedy: str = ""
    decisive: bool = False
    """The group works when this finding does."""


def examine() -> Iterator[Finding]:
    """Every finding, as it is made."""
    yield machine()
    yield container()
    yield cgroups()
    if sys.platform == "linux":
        yield from docker()
        yield from bubblewrap()
        yield from dial_in(os.environ)
        yield from confined(os.environ)
    yield from redis_server(os.environ)


def is_usable(findings: list[Finding]) -> bool:
    """Whether the service can run here: at least one kind of box and one Redis."""
    working = {finding.group for finding in findings if finding.decisive and finding.state is State.WORKS}
    return Group.REDIS in working and bool(working - {Group.REDIS, Group.MACHINE})


# The machine


def machine() -> Finding:
    """System and Python."""
    found = f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    if sys.platform == "linux":
        return Finding(Group.MACHINE, "system", State.WORKS, found)
    remedy = "Boxes need Linux: run the service in a Linux virtual machine, and use the client from here."
    return Finding(Group.MACHINE, "system", State.MISSING, found, remedy)


def container(root: Path = Path("/")) -> Finding:
    """Whether this is itself a container, which decides what bubblewrap may do."""
    marks = [mark for mark in (".dockerenv", "run/.containerenv") if (root / mark).exists()]
    kind = _read(root / "run/systemd/container") or ("yes" if marks else "")
    if kind in ("", "yes"):
        return Finding(Group.MACHINE, "in a container", State.NOTE, kind or "no")
    return Finding(Group.MACHINE, "in a container", State.NOTE, f"yes, {kind}")


def cgroups(root: Path = Path("/")) -> Finding:
    """Which cgroups the kernel offers."""
    kind, obstacle = describe_cgroups(root)
    if obstacle is None:
        return Finding(Group.MACHINE, "cgroups", State.NOTE, kind)
    state = State.NOTE if kind == "none" else State.MISSING
    return Finding(Group.MACHINE, "cgroups", state, kind if kind == "none" else obstacle.found, obstacle.remedy)


# Boxes


def docker() -> Iterator[Finding]:
    """Daemon, image, and a box."""
    from evaluator.sandbox.docker import DockerBackend, DockerOptions  # importable on Linux only

    backend = DockerBackend()
    said = backend.check()
    image = DockerOptions.read(os.environ).image
    if said is None:
        yield from daemon(backend.ask(), DockerOptions.read(os.environ).runtime)
        yield Finding(Group.DOCKER, "image", State.WORKS, image)
        yield from trial(Group.DOCKER, backend)
    elif "no image" in said:
        yield Finding(Group.DOCKER, "daemon", State.WORKS, "answers")
        yield Finding(Group.DOCKER, "image", State.MISSING, f"{image} isn't there", said)
    else:
        yield Finding(Group.DOCKER, "daemon", State.MISSING, "doesn't answer", said)


def daemon(info: Mapping[str, Any], runtime: str = "") -> Iterator[Finding]:
    """A daemon that answers, and what it can't hold of a box's limits. `info` is what it says of itself."""
    yield Finding(Group.DOCKER, "daemon", State.WORKS, "answers, rootless" if is_rootless(info) else "answers")
    for obstacle in find_daemon_obstacles(info, runtime):
        yield Finding(Group.DOCKER, "limits", State.MISSING, obstacle.found, obstacle.remedy)


def bubblewrap() -> Iterator[Finding]:
    """Binary, user namespaces, and a box."""
    from evaluator.sandbox.bubblewrap import BubblewrapBackend, find_bwrap  # importable on Linux only

    try:
        binary = find_bwrap()
    except SandboxUnavailable as error:
        yield Finding(Group.BUBBLEWRAP, "binary", State.MISSING, "not found", str(error))
        return
    yield Finding(Group.BUBBLEWRAP, "binary", State.WORKS, _shown_path(binary))
    yield user_namespaces(bwrap=binary)
    yield from trial(Group.BUBBLEWRAP, BubblewrapBackend())


def dial_in(environment: Mapping[str, str]) -> Iterator[Finding]:
    """A box that calls, where a directory for it is set up."""
    from evaluator.sandbox.dial_in import DialInBackend, DialInOptions  # importable on Linux only

    options = DialInOptions.read({"MICROCODER_DIAL_IN_SECONDS": "5", **environment})
    if "MICROCODER_DIAL_IN_DIRECTORY" not in environment and not Path(options.directory).exists():
        found = f"not set up: nobody has made {options.directory}"
        yield Finding(Group.DIAL_IN, "boxes that dial in", State.NOTE, found)
        return
    with closing(DialInBackend(options)) as backend:
        yield from trial(Group.DIAL_IN, backend)


def confined(environment: Mapping[str, str]) -> Iterator[Finding]:
    """A box behind Landlock alone. It decides only where it was asked for by name, since nobody else gets one."""
    from evaluator.sandbox.confined import ConfinedBackend  # importable on Linux only

    asked = environment.get("MICROCODER_SANDBOX") == "confined"
    for finding in trial(Group.CONFINED, ConfinedBackend()):
        state = State.NOTE if finding.state is State.MISSING and not asked else finding.state
        yield replace(finding, state=state, decisive=finding.decisive and asked)


def user_namespaces(
    root: Path = Path("/"),
    is_root: bool | None = None,
    attempt: Callable[[], bool] | None = None,
    bwrap: str = "/usr/bin/bwrap",
) -> Finding:
    """Whether an ordinary user may make a user namespace, and which setting forbids it."""
    subject = "user namespaces"
    if os.geteuid() == 0 if is_root is None else is_root:
        return Finding(Group.BUBBLEWRAP, subject, State.NOTE, "not needed: this is root")
    obstacle = find_namespace_obstacle(root, bwrap)
    if (attempt or _can_unshare)() and read_setting(root, APPARMOR) != "1":
        return Finding(Group.BUBBLEWRAP, subject, State.WORKS, "allowed")
    if obstacle is not None:
        found = obstacle.found.removeprefix("user namespaces are ")
        return Finding(Group.BUBBLEWRAP, subject, State.MISSING, found, obstacle.remedy)
    remedy = (
        "A container's seccomp profile or the kernel's build forbids them: use docker boxes, or run as root, or start "
        "the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined."
    )
    return Finding(Group.BUBBLEWRAP, subject, State.MISSING, "forbidden", remedy)


def trial(group: Group, backend: Backend) -> Iterator[Finding]:
    """Start a real box, run a program in it, and try what a worker tries before it serves."""
    try:
        with closing(backend.start()) as box:
            printed = _run(box, LOOK_AROUND)
            runtime = box.runtime
            began = time.monotonic()
            failures = list(find_failures(box, backend.uncovered)) if printed else []
            seconds = time.monotonic() - began
    except SandboxError as error:
        yield Finding(group, "a real box", State.MISSING, "can't be started", str(error), decisive=True)
        return
    ran, _, compilers = printed.partition("\n")
    if ran != "1":
        remedy = "Report this: the box started, and a program that prints 1 didn't."
        yield Finding(group, "a real box", State.MISSING, f"printed {printed[:60]!r}", remedy, decisive=True)
        return
    yield Finding(group, "a real box", State.WORKS, f"ran print(1) under Python {runtime.python}")
    yield from self_test(group, backend.uncovered, failures, seconds)
    if runtime.numpy is None:
        remedy = "Install numpy where the worker runs." if group is Group.BUBBLEWRAP else "Build the image again."
        yield Finding(group, "numpy in the box", State.MISSING, "none: programs that import it fail", remedy)
    else:
        yield Finding(group, "numpy in the box", State.WORKS, runtime.numpy)
    found = compilers.strip() or "none: programs in Python only"
    yield Finding(group, "compilers in the box", State.NOTE, found)


def self_test(group: Group, uncovered: frozenset[str], failures: list[Failure], seconds: float) -> Iterator[Finding]:
    """What the probes found: a worker serves where none of them failed."""
    for failure in failures:
        remedy = REMEDIES[failure.probe]
        yield Finding(group, f"self-test: {failure.probe}", State.MISSING, failure.found, remedy, decisive=True)
    if uncovered:
        yield Finding(group, "not covered", State.NOTE, ", ".join(sorted(uncovered)))
    if not failures:
        found = f"{len(REMEDIES.keys() - uncovered)} probes passed in {seconds:.1f} s"
        yield Finding(group, "self-test", State.WORKS, found, decisive=True)


def _run(box: Box, source: str) -> str:
    limits = Limits(cpu_seconds=10)
    artifact = box.load(Program(source), limits)
    if isinstance(artifact, CompileFailure):
        return artifact.message
    with closing(artifact):
        run = box.run(artifact, Call(b""), limits)
    return (run.stdout or run.stderr).decode("utf-8", "replace")


# Redis


def redis_server(environment: Mapping[str, str]) -> Iterator[Finding]:
    """The server that is configured, else one that `serve` can start."""
    url = environment.get("REDIS_URL") or environment.get("MICROCODER_REDIS_URL")
    if url:
        yield _reach(url)
        return
    try:
        binary = find_server()
        yield Finding(Group.REDIS, "binary", State.WORKS, _shown_path(binary))
        with PrivateRedis(binary) as server, redis.Redis.from_url(server.url) as client:
            version = _version(client)
    except RedisUnavailable as error:
        yield Finding(Group.REDIS, "private server", State.MISSING, "can't be started", str(error), decisive=True)
        return
    yield _judge_version("private server", version)


def _reach(url: str) -> Finding:
    subject = "REDIS_URL"
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=3) as client:
            return _judge_version(subject, _version(client))
    except redis.AuthenticationError:
        remedy = "Put the right user and password into REDIS_URL."
        return Finding(Group.REDIS, subject, State.MISSING, "refuses the password", remedy, decisive=True)
    except (redis.RedisError, ValueError) as error:
        remedy = "Start the server or mend REDIS_URL; unset it to let `serve` start a private server."
        found = f"can't be reached ({str(error)[:100]})"
        return Finding(Group.REDIS, subject, State.MISSING, found, remedy, decisive=True)


def _version(client: "redis.Redis") -> str:
    told = client.info("server")
    return f"Valkey {told['valkey_version']}" if "valkey_version" in told else f"Redis {told['redis_version']}"


def _judge_version(subject: str, version: str) -> Finding:
    numbers = tuple(int(part) for part in version.split()[1].split(".")[:2] if part.isdigit())
    if numbers < OLDEST_REDIS:
        remedy = "Use Redis 6.2 or newer: older ones can lose work when a worker dies."
        return Finding(Group.REDIS, subject, State.MISSING, version, remedy, decisive=True)
    return Finding(Group.REDIS, subject, State.WORKS, f"{version} answers", decisive=True)


# Helpers


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _shown_path(path: str) -> str:
    home = str(Path.home())
    return "~" + path.removeprefix(home) if home != "/" and path.startswith(home + "/") else path


def _can_unshare() -> bool:
    """Try it in a process of its own."""
    code = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0
