"""Boxes of every kind for the tests of the contract: each test runs once per kind, and all share one box of a kind."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from evaluator.errors import SandboxUnavailable
from evaluator.judge import Rules, judge_run
from evaluator.model import Limits, Policy, Program, TestCase, TestKind, Verdict
from evaluator.sandbox.base import Box, Call, CompileFailure, Launcher, Run
from evaluator.sandbox.bubblewrap import BubblewrapBackend
from evaluator.sandbox.docker import DockerBackend
from tests.ordinary_user_helper import OrdinaryUser
from tests.requirements_helper import require

KINDS = ("bubblewrap-root", "bubblewrap-user", pytest.param("docker", marks=pytest.mark.docker))
NAMESPACE = "import os; print(os.stat('/proc/self/ns/pid').st_ino)"


@dataclass
class Room:
    """One kind of box, and the box of that kind that tests share."""

    kind: str
    start: Callable[[], Box]
    worker: int = field(default_factory=os.getpid)
    """The process that owns the boxes."""
    _box: Box | None = None
    _namespace: int = 0

    @property
    def box(self) -> Box:
        """The shared box; a new one where the last can't be used again."""
        if self._box is None or not self._box.reset():
            self.close()
            self._box = self.start()
            self._namespace = int(self.run(NAMESPACE).stdout)
        return self._box

    def run(self, source: str, stdin: bytes | str = b"", *, launcher: Launcher = Launcher.COMPILED, **limits) -> Run:
        """Run a program once."""
        return self.repeat(source, [Call(encode(stdin))], launcher=launcher, **limits)[0]

    def call(self, source: str, function: str, *lines: str, **limits) -> Run:
        """Call a function of a program, with its arguments as JSON lines."""
        return self.repeat(source, [Call("\n".join(lines).encode(), function=function)], **limits)[0]

    def check(self, source: str, test_code: str, entry_point: str = "f", **limits) -> Run:
        """Run test code against a program."""
        return self.repeat(source, [Call(b"", function=entry_point, test_code=test_code.encode())], **limits)[0]

    def repeat(self, source: str, calls: Iterable[Call], launcher: Launcher = Launcher.COMPILED, **limits) -> list[Run]:
        """Run a program on each call."""
        artifact = self.box.load(Program(source), Limits(), launcher)
        assert not isinstance(artifact, CompileFailure), artifact.message
        try:
            return list(self.box.run_all(artifact, list(calls), Limits(**limits)))
        finally:
            artifact.close()

    def judge(self, source: str, stdin: bytes | str = b"", **limits) -> Verdict:
        """What the judge would say of one run whose output doesn't matter."""
        run = self.run(source, stdin, **limits)
        return judge_run(0, TestCase(TestKind.STDIN, ""), run, Rules(Limits(**limits), Policy())).verdict

    @property
    def namespace(self) -> int:
        """The process namespace of the shared box."""
        return self._namespace

    def processes(self) -> list[int]:
        """What lives in the shared box, as the host sees it."""
        return find_processes(self._namespace)

    def close(self) -> None:
        """Destroy the shared box."""
        if self._box is not None:
            self._box.close()


def encode(text: bytes | str) -> bytes:
    """Bytes as they are, text as UTF-8."""
    return text if isinstance(text, bytes) else text.encode()


def find_processes(namespace: int) -> list[int]:
    """The host's ids of all processes in a process namespace, the runner first."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "ns" / "pid").stat().st_ino == namespace:
                    facts = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines())
                    if not facts["State"].startswith("Z"):
                        found.append((int(facts["NSpid"].split()[-1]), int(entry.name)))
            except OSError:
                pass  # it ended, or isn't ours to look at
    return [pid for _, pid in sorted(found)]


def open_room(kind: str) -> Iterator[Room]:
    """A room of a kind; skips where the kind can't be had here."""
    if kind == "docker":
        backend = DockerBackend()
        require("docker", backend.check())
        yield from _keep(Room(kind, backend.start))
    elif kind == "bubblewrap-root":
        require("root", None if os.geteuid() == 0 else "needs to run as root")
        yield from _keep(Room(kind, BubblewrapBackend().start))
    elif os.geteuid() != 0:
        yield from _keep(Room(kind, BubblewrapBackend().start))
    else:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            user = OrdinaryUser(Path(folder))
            require("ordinary user", user.find_obstacle())
            with user:
                yield from _keep(Room(kind, user.backend.start, user.process.pid))


def _keep(room: Room) -> Iterator[Room]:
    try:
        room.start().close()
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))
    try:
        yield room
    finally:
        room.close()


@pytest.fixture(scope="session", params=KINDS)
def shared_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """One room of each kind."""
    yield from open_room(request.param)


@pytest.fixture
def room(shared_room: Room) -> Iterator[Room]:
    """The shared room. Whatever a test did in it, afterwards nothing but the runner is left there."""
    yield shared_room
    assert shared_room.box.reset()
    assert len(shared_room.processes()) == 1
