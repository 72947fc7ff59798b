"""The self-test of a box: each protection is taken away from a real box in turn, and the worker refuses to serve."""

import contextlib
import signal
import time
from collections.abc import Iterator

import pytest

from evaluator.errors import SandboxUnavailable
from evaluator.sandbox import bubblewrap, channel
from evaluator.sandbox import pool as pool_module
from evaluator.sandbox.bubblewrap import BubblewrapBackend
from evaluator.sandbox.docker import DockerBackend
from evaluator.sandbox.pool import open_pool
from evaluator.sandbox.probes import REMEDIES, TRIALS, _judge, check_box, find_failures
from tests import conftest
from tests.boxes_helper import Room
from tests.declared_helper import make_network
from tests.requirements_helper import require


def failed(backend) -> dict[str, str]:
    """What the self-test finds in a box of this backend, by probe."""
    with contextlib.closing(backend.start()) as box:
        return {failure.probe: failure.found for failure in find_failures(box, backend.uncovered)}


@pytest.fixture
def backend() -> Iterator[BubblewrapBackend]:
    """A backend that works here."""
    try:
        BubblewrapBackend().start().close()
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))
    yield BubblewrapBackend()


def test_every_kind_of_box_passes_and_can_be_used_afterwards(room: Room):
    box = room.box
    assert list(find_failures(box)) == []
    assert box.reset()
    assert room.run("print(1)").stdout == b"1\n"


# What is taken out of the runner on its way into the box, and which probe must notice.
RUNNER = {
    "no system call filter": ("confine.install_filter()", "pass", "system calls"),
    "an empty filter": ("for numbers in DENIED.values():", "for numbers in ():", "system calls"),
    "no uid of its own": ("_setresuid(uid, uid, uid)", "pass", "uid"),
    "no sweep": ("if not self.collect(-1, os.WNOHANG):", "if not self.collect(-1, os.WNOHANG):\n"
        "                    return self.facts", "sweep"),
    "no clean-up": ("def clean(scratch: str, slot: Slot) -> bool:", "def clean(*_):\n    return True", "sweep"),
    "descriptors left open": ("_close_range(target, 4096)", "_close_range(target, 10)", "descriptors"),
    "no wall limit": ('if wall - delay > limits["wall"] or wall > PATIENCE * limits["wall"]:', "if 0:", "wall time"),
    "no memory limit": ('if memory > limits["memory"]:', "if False:", "memory"),
}  # fmt: skip


@pytest.mark.parametrize("what", RUNNER)
def test_a_runner_that_lacks_a_protection_is_noticed(what: str, backend, monkeypatch: pytest.MonkeyPatch):
    old, new, probe = RUNNER[what]
    bundle = channel.bundle_runner().decode()
    old, new = (text.replace('"', '\\"').replace("\n", "\\n") for text in (old, new))
    assert bundle.count(old) == 1
    monkeypatch.setattr(channel, "bundle_runner", lambda: bundle.replace(old, new).encode())
    monkeypatch.setattr("evaluator.sandbox.probes.PATIENT", 2.0)
    trials = [
        type(trial)(trial.probe, trial.source.replace("600", "0.3"), trial.limits, trial.limit, trial.refused)
        for trial in TRIALS
        if trial.probe == probe
    ]
    monkeypatch.setattr("evaluator.sandbox.probes.TRIALS", tuple(trials))
    assert probe in failed(backend)


ROOM = {
    "a network": (("--unshare-net",), (), "network"),
    "a writable root": (("--remount-ro", "/"), ("--chmod", "0777", "/"), "read-only"),
    "a scratch without a size": (("--size", str(bubblewrap.SCRATCH_BYTES)), (), "scratch"),
    "the socket of a daemon": ((), ("--dir", "/var/lib/docker", "--dir", "/var/lib/docker/x"), "out of sight"),
}
"""Options of bwrap to leave out, options to add, and which probe must notice."""


@pytest.mark.parametrize("what", ROOM)
def test_a_room_that_lacks_a_protection_is_noticed(what: str, backend, monkeypatch: pytest.MonkeyPatch):
    absent, added, probe = ROOM[what]
    build = bubblewrap.build_command

    def sabotaged(descriptor: int) -> list[str]:
        command = build(descriptor)
        [found, *_] = [i for i in range(len(command)) if tuple(command[i : i + len(absent)]) == absent]
        command[found : found + len(absent)] = []
        at = command.index("--proc")
        return [*command[:at], *added, *command[at:]]

    monkeypatch.setattr(bubblewrap, "build_command", sabotaged)
    monkeypatch.setattr("evaluator.sandbox.probes.TRIALS", ())
    assert probe in failed(backend)


class Careless(DockerBackend):
    """Starts containers with a network and a writable root."""

    network = ""

    def _describe(self, daemon, meeting):
        wanted = super()._describe(daemon, meeting)
        wanted["host_config"] |= {"NetworkMode": self.network, "ReadonlyRootfs": False}
        return wanted


@pytest.mark.docker
def test_a_container_with_a_network_and_a_writable_root_is_refused(monkeypatch: pytest.MonkeyPatch):
    require("docker", DockerBackend().check())
    monkeypatch.setitem(pool_module.BACKENDS, "docker", "tests.test_probes:Careless")

    with make_network() as Careless.network, pytest.raises(SandboxUnavailable) as refusal:
        open_pool("docker", spare=False, self_test=True)

    said = str(refusal.value)
    assert "The self-test of a docker box failed at 'network': the box has a network (" in said
    assert "Start the box without a network (network_mode: none)." in said
    assert "(And 1 more: microcoder doctor.)" in said


class Unfiltered(BubblewrapBackend):
    """Starts boxes whose runner installs no system call filter."""

    def start(self):
        bundle = channel.bundle_runner
        channel.bundle_runner = lambda: bundle().replace(b"confine.install_filter()", b"pass")
        try:
            return super().start()
        finally:
            channel.bundle_runner = bundle


def test_a_worker_whose_boxes_fail_refuses_to_serve_and_may_be_told_to(start_worker, monkeypatch):
    starting = "import tests.test_probes; from evaluator.sandbox import pool; "
    starting += "pool.BACKENDS['bubblewrap'] = 'tests.test_probes:Unfiltered'; "
    monkeypatch.setattr("tests.conftest.WORKER", starting + conftest.WORKER)

    worker = start_worker(self_test=True)

    assert worker.process.wait(60) == 1
    [line] = [line for line in worker.said().splitlines() if "event=no_sandbox" in line]
    assert "The self-test of a bubblewrap box failed at " in line and "calls aren't answered with EPERM" in line
    worker = start_worker(self_test=False)
    deadline = time.monotonic() + 60
    while "event=self_test_off" not in worker.said():
        assert worker.process.poll() is None and time.monotonic() < deadline, worker.said()
        time.sleep(0.05)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(60) == 0


def test_a_kind_that_fails_is_passed_over_and_named_where_none_is_left(backend, monkeypatch):
    monkeypatch.setitem(pool_module.BACKENDS, "docker", "tests.test_probes:Unfiltered")
    pool = open_pool("auto", spare=False, self_test=True)
    assert pool.runtime.sandbox == "bubblewrap"
    pool.close()
    monkeypatch.setitem(pool_module.BACKENDS, "bubblewrap", "tests.test_probes:Unfiltered")
    with pytest.raises(SandboxUnavailable, match=r"docker: The self-test .* bubblewrap: The self-test .*EPERM"):
        open_pool("auto", spare=False, self_test=True)


def test_a_box_that_breaks_under_the_probes_is_a_sentence(backend):
    box = backend.start()
    box.close()
    with pytest.raises(
        SandboxUnavailable, match=r"The self-test of a bubblewrap box couldn't be made: The box is gone"
    ):
        check_box(box)


TIGHT = {
    "ids": [20001] * 6, "capabilities": [], "privileges": 1, "calls": {"socket": "EPERM"}, "routes": [],
    "descriptors": [], "writable": [], "seen": [], "processes": 2, "scratch": 64 << 20, "left": [],
}  # fmt: skip
LOOSE = {
    "uid": {"ids": [20001, 0]}, "capabilities": {"capabilities": ["CapEff"]}, "privileges": {"privileges": 0},
    "system calls": {"calls": {"socket": ""}}, "network": {"routes": ["eth0"]}, "descriptors": {"descriptors": [3]},
    "read-only": {"writable": ["/tmp"]}, "out of sight": {"seen": ["/etc/shadow"]}, "alone": {"processes": 40},
    "scratch": {"scratch": 1 << 40}, "sweep": {"left": ["process 7"]},
}  # fmt: skip


@pytest.mark.parametrize("probe", LOOSE)
def test_each_finding_is_its_probes_and_has_a_remedy(probe: str):
    assert list(_judge(TIGHT)) == []
    [failure] = _judge(TIGHT | LOOSE[probe])
    assert failure.probe == probe
    assert failure.describe().endswith(REMEDIES[probe])


def test_every_probe_has_a_remedy_and_every_remedy_a_probe():
    assert set(REMEDIES) == {*LOOSE, *(trial.probe for trial in TRIALS)}


def test_what_a_kind_does_not_promise_is_not_asked_of_it(backend, monkeypatch):
    monkeypatch.setattr(bubblewrap, "SCRATCH_BYTES", 2 << 30)
    monkeypatch.setattr("evaluator.sandbox.probes.TRIALS", ())
    assert set(failed(backend)) == {"scratch"}
    backend.uncovered = frozenset({"scratch"})
    assert failed(backend) == {}
