"""Boxes that dial in: containers that outlive their sessions, a directory that only they may call at."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.errors import BoxLost, SandboxUnavailable
from evaluator.model import Limits, Program
from evaluator.sandbox import boot
from evaluator.sandbox import pool as pool_module
from evaluator.sandbox.base import Call
from evaluator.sandbox.dial_in import DialInBackend, DialInOptions, prepare_directory
from evaluator.sandbox.docker import BOX_ENVIRONMENT
from evaluator.sandbox.pool import Pool, open_pool
from evaluator.sandbox.probes import find_failures
from service.doctor import State, dial_in
from tests.boxes_helper import find_processes
from tests.declared_helper import declare_boxes, find_obstacle, make_network
from tests.requirements_helper import require
from tests.test_box_contract import find_namespace

needs_docker = pytest.mark.docker


@pytest.fixture(scope="module")
def declared() -> Iterator:
    """Three boxes that call, for all tests that leave them as they were."""
    require("docker", find_obstacle())
    with declare_boxes(3) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory that isn't there yet."""
    return tmp_path / "dial-in"


def run_in(box, source: str) -> str:
    """What a program prints."""
    artifact = box.load(Program(source), Limits())
    with contextlib.closing(artifact):
        return box.run(artifact, Call(b""), Limits()).stdout.decode()


def wait_until(condition, seconds: float = 60) -> bool:
    """Whether `condition` came true in time."""
    deadline = time.monotonic() + seconds
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(true)


@needs_docker
def test_a_session_that_is_broken_off_leaves_nothing_to_the_next(declared):
    backend, containers, daemon = declared
    source = (
        "import os, time\nfor _ in range(3): os.mkdir('deep'); os.chdir('deep')\n"
        "for _ in range(3): os.chdir('..'); os.chmod('deep', 0)\n"
        "for _ in range(5):\n  if not os.fork(): os.setsid(); time.sleep(600)\nprint(1, flush=True); time.sleep(600)"
    )
    seen = set()
    for _ in range(4):
        box = backend.start()
        seen.add(namespace := find_namespace(box))
        artifact = box.load(Program(source), Limits())
        runs = box.run_all(artifact, [Call(b"")] * 3, Limits(wall_seconds=600))
        thread = threading.Thread(target=_drain, args=(runs,))
        thread.start()
        assert wait_until(lambda namespace=namespace: len(find_processes(namespace)) == 8)
        box._connection.shutdown(socket.SHUT_RDWR)  # as when the worker is killed
        thread.join()
        artifact.close()
        box.close()
        assert wait_until(lambda namespace=namespace: len(find_processes(namespace)) <= 2)
    for _ in range(3):
        with contextlib.closing(backend.start()) as box:
            assert list(find_failures(box)) == []
    assert len(seen) <= 3
    assert [daemon.inspect_container(container)["RestartCount"] for container in containers] == [0, 0, 0]


def _drain(runs) -> None:
    with contextlib.suppress(BoxLost):
        list(runs)


@needs_docker
def test_a_pool_takes_what_waits_and_a_box_that_is_no_good_comes_back_fresh(declared):
    backend, _, _ = declared
    pool = Pool(backend, backend.start(), spare=False)
    try:
        first, second = pool.take(), pool.take()
        assert {run_in(box, "print(6 * 7)") for box in (first, second)} == {"42\n"}
        pool.drop(first)
        third = pool.take()
        assert run_in(third, "import os; print(os.listdir())") == "[]\n"
        pool.give(second)
        pool.give(third)
    finally:
        pool.close()


@needs_docker
def test_two_workers_share_the_boxes_of_one_directory(declared):
    backend, _, _ = declared
    other = DialInBackend(backend._options)
    try:
        with contextlib.closing(backend.start()) as mine, contextlib.closing(other.start()) as theirs:
            assert find_namespace(mine) != find_namespace(theirs)
    finally:
        other.close()


@needs_docker
def test_a_pool_that_is_closed_waits_for_no_box():
    require("docker", find_obstacle())
    with declare_boxes(1) as (backend, _, _):
        pool = Pool(backend, backend.start())  # and its spare never comes
        began = time.monotonic()
        pool.close()
        assert time.monotonic() - began < 100


def test_a_caller_that_has_gone_is_passed_over(folder):
    backend = DialInBackend(DialInOptions(directory=str(folder), seconds="0.5"))
    backend._listen()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
        caller.connect(str(backend._path))
    with pytest.raises(SandboxUnavailable, match="The last one that did: The box started but its runner did not"):
        backend.start()
    backend.close()


@needs_docker
def test_a_box_has_nothing_of_its_engines_environment(declared):
    with contextlib.closing(declared[0].start()) as box:
        assert "SECRET" not in run_in(box, "import os; print(dict(os.environ))")


@needs_docker
def test_a_box_stops_at_once_when_it_is_told_to():
    require("docker", find_obstacle())
    with declare_boxes(1) as (backend, [container], daemon):
        backend.start().close()
        began = time.monotonic()
        daemon.stop(container, timeout=50)  # then it would be killed
        assert time.monotonic() - began < 45


@needs_docker
@pytest.mark.parametrize(
    ("changes", "seconds", "said"),
    [
        ({"init": True}, "3", "must be process 1 of its own namespace"),
        ({"cap_add": ["KILL"]}, "120", "Operation not permitted"),
    ],
)
def test_a_box_that_is_declared_wrongly_does_not_serve(changes, seconds, said):
    require("docker", find_obstacle())
    with declare_boxes(1, **changes, restart_policy={"Name": "no"}) as (backend, [container], daemon):
        backend._options = DialInOptions(directory=backend._options.directory, seconds=seconds)
        with pytest.raises(SandboxUnavailable, match=r"No box has called|self-test .* could not start the program"):
            pool_module._start_first(backend, self_test=True)
        assert wait_until(lambda: said in daemon.logs(container).decode())


@needs_docker
def test_a_network_is_refused_unless_it_was_accepted():
    require("docker", find_obstacle())
    with make_network() as name, declare_boxes(1, network_mode=name) as (backend, _, _):
        with pytest.raises(SandboxUnavailable, match="self-test of a dial-in box failed at 'network'"):
            pool_module._start_first(backend, self_test=True)
        backend.uncovered = DialInBackend(DialInOptions(shared_network="accepted")).uncovered
        pool_module._start_first(backend, self_test=True).close()


def test_the_environment_is_that_of_docker_boxes():
    assert boot.ENVIRONMENT == BOX_ENVIRONMENT


def test_without_any_box_the_sentence_says_what_to_start(folder):
    backend = DialInBackend(DialInOptions(directory=str(folder), seconds="0.1"))
    with pytest.raises(SandboxUnavailable, match=r"No box has called at .* for 0.1 seconds: start boxes that share"):
        backend.start()
    backend.close()
    assert list(folder.iterdir()) == []


def test_strangers_are_hung_up_on(folder, caplog):
    if os.geteuid() != 0:
        pytest.skip("needs to run as root, to be another user")
    backend = DialInBackend(DialInOptions(directory=str(folder), seconds="1.5"))
    backend._listen()
    call = "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); "
    call += "sys.exit(len(s.recv(9)))"
    folder.chmod(0o755)
    backend._path.chmod(0o666)
    for part in folder.parents:
        part.chmod(part.stat().st_mode | 0o011)
    command = ["/usr/bin/python3", "-c", call, str(backend._path)]
    with subprocess.Popen(command, user=12345, group=12345, extra_groups=[], cwd="/") as stranger:
        with pytest.raises(SandboxUnavailable, match="No box has called"):
            backend.start()
        assert stranger.wait(10) == 0
    assert "event=stranger_refused user=12345" in caplog.text
    backend.close()


def test_only_the_owner_and_its_group_may_enter_the_directory(folder):
    prepare_directory(folder)
    assert folder.stat().st_mode & 0o777 == 0o750
    backend = DialInBackend(DialInOptions(directory=str(folder)))
    backend._listen()
    assert backend._path.stat().st_mode & 0o777 == 0o660
    backend.close()
    for mode in (0o755, 0o770, 0o751):
        folder.chmod(mode)
        with pytest.raises(SandboxUnavailable, match="Others than boxes could call"):
            prepare_directory(folder)
    folder.rmdir()
    folder.symlink_to("/tmp")
    with pytest.raises(SandboxUnavailable, match="Others than boxes could call"):
        prepare_directory(folder)


def test_a_directory_that_cannot_be_made_is_a_sentence(folder):
    with pytest.raises(SandboxUnavailable, match=r"can't be made \(No such file or directory\): share a volume"):
        prepare_directory(folder / "deeper")


def test_what_dead_workers_left_is_removed_and_the_living_are_let_be(folder):
    living = DialInBackend(DialInOptions(directory=str(folder)))
    living._listen()
    source = "import os, sys; from evaluator.sandbox.dial_in import *; "
    source += "DialInBackend(DialInOptions(directory=sys.argv[1]))._listen(); os._exit(0)"
    subprocess.run([sys.executable, "-c", source, str(folder)], check=True)
    assert len(list(folder.iterdir())) == 2
    prepare_directory(folder)
    assert list(folder.iterdir()) == [living._path]
    living.close()


def test_options_come_from_the_environment():
    options = DialInOptions.read(
        {"MICROCODER_DIAL_IN_SECONDS": "soon", "MICROCODER_DIAL_IN_SHARED_NETWORK": "accepted"}
    )
    with pytest.raises(SandboxUnavailable, match="MICROCODER_DIAL_IN_SECONDS is 'soon': give a number"):
        options.patience  # noqa: B018
    assert DialInBackend(options).uncovered == {"network"}
    assert DialInBackend(DialInOptions(shared_network="yes")).uncovered == frozenset()


def test_the_sandbox_can_be_asked_for_by_name_and_is_never_chosen(folder, monkeypatch):
    monkeypatch.setenv("MICROCODER_DIAL_IN_DIRECTORY", str(folder))
    monkeypatch.setenv("MICROCODER_DIAL_IN_SECONDS", "0.1")
    with pytest.raises(SandboxUnavailable, match="dial-in: No box has called"):
        open_pool("dial-in")


def test_the_doctor_looks_for_callers_where_a_directory_is_set_up(folder):
    [finding] = dial_in({})
    assert (finding.state, finding.decisive) == (State.NOTE, False)
    environment = {"MICROCODER_DIAL_IN_DIRECTORY": str(folder), "MICROCODER_DIAL_IN_SECONDS": "0.1"}
    [finding] = dial_in(environment)
    assert (finding.state, finding.decisive) == (State.MISSING, True)
    assert "No box has called" in finding.remedy
