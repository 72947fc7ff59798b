"""The pool of boxes, with real ones: bubblewrap, as whoever runs the tests."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from evaluator.errors import SandboxUnavailable
from evaluator.model import Limits, Program
from evaluator.sandbox import pool as pool_module
from evaluator.sandbox.base import Box, Call
from evaluator.sandbox.bubblewrap import BubblewrapBackend
from evaluator.sandbox.pool import Pool, load_backend, open_pool
from tests.boxes_helper import NAMESPACE, find_processes
from tests.requirements_helper import require


class CountingBackend(BubblewrapBackend):
    """Counts its boxes, and can be told to refuse."""

    def __init__(self) -> None:
        self.boxes: list[Box] = []
        self.refuses = False

    def start(self):
        if self.refuses:
            raise SandboxUnavailable("told to refuse")
        self.boxes.append(super().start())
        return self.boxes[-1]


@pytest.fixture
def backend() -> CountingBackend:
    """A backend that works here."""
    backend = CountingBackend()
    try:
        backend.start().close()
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))
    backend.boxes.clear()
    return backend


@pytest.fixture
def pool(backend: CountingBackend) -> Iterator[Pool]:
    """A pool with a spare."""
    pool = Pool(backend, backend.start())
    yield pool
    pool.close()


def run_in(box: Box, source: str = "print(1)") -> bytes:
    """What a program prints in a box."""
    artifact = box.load(Program(source), Limits())
    try:
        return box.run(artifact, Call(b""), Limits()).stdout
    finally:
        artifact.close()


def kill(box: Box) -> None:
    """Kill a box's runner from outside."""
    namespace = int(run_in(box, NAMESPACE))
    os.kill(find_processes(namespace)[0], signal.SIGKILL)
    deadline = time.monotonic() + 10
    while find_processes(namespace) and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_box_that_is_given_back_is_taken_again(pool: Pool):
    box = pool.take()
    assert run_in(box) == b"1\n"
    pool.give(box)
    assert pool.take() is box
    pool.give(box)


def test_a_box_that_is_no_good_is_destroyed_and_the_spare_takes_its_place(pool: Pool, backend: CountingBackend):
    box = pool.take()
    kill(box)
    pool.give(box)
    other = pool.take()
    assert other is not box
    assert run_in(other) == b"1\n"
    pool.give(other)


def test_boxes_that_died_while_nobody_used_them_are_not_handed_out(pool: Pool, backend: CountingBackend):
    pool._spare.result()
    for box in list(backend.boxes):  # the idle one and the spare
        kill(box)
    box = pool.take()
    assert run_in(box) == b"1\n"
    assert box not in backend.boxes[:2]
    pool.give(box)


def test_a_spare_that_could_not_be_made_is_made_when_it_is_needed(backend: CountingBackend):
    first = backend.start()
    backend.refuses = True
    pool = Pool(backend, first)
    try:
        assert pool.take() is first
        assert isinstance(pool._spare.exception(), SandboxUnavailable)
        backend.refuses = False
        second = pool.take()
        assert run_in(second) == b"1\n"
        pool.give(first)
        pool.give(second)
    finally:
        pool.close()


def test_without_any_box_the_reason_is_told(backend: CountingBackend):
    pool = Pool(backend, backend.start(), spare=False)
    box = pool.take()
    backend.refuses = True
    with pytest.raises(SandboxUnavailable, match="told to refuse"):
        pool.take()
    pool.give(box)
    pool.close()


def test_a_box_of_age_is_replaced(pool: Pool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("evaluator.sandbox.channel.MAX_AGE", 4)
    box = pool.take()
    for _ in range(3):
        run_in(box)
    pool.give(box)
    other = pool.take()
    assert other is not box
    pool.give(other)


def test_boxes_are_counted_those_of_branches_too(backend: CountingBackend, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("evaluator.sandbox.channel.MAX_AGE", 4)
    pool = Pool(backend, backend.start(), spare=False)
    branch = pool.branch()
    box = branch.take()
    assert (pool.started, pool.ended) == (2, 0)
    for _ in range(3):
        run_in(box)
    branch.give(box)
    assert (pool.started, pool.ended) == (2, 1)
    pool.close()
    assert (pool.started, pool.ended) == (2, 1), "the end of all is no box's fault"


def test_closing_a_pool_destroys_every_box(backend: CountingBackend):
    pool = Pool(backend, backend.start())
    box = pool.take()
    namespaces = [int(run_in(box, NAMESPACE))]
    pool.give(box)
    pool.close()
    pool.give(box)  # too late: it is destroyed
    assert len(backend.boxes) == 2
    assert not any(box.reset() for box in backend.boxes)
    deadline = time.monotonic() + 10
    while find_processes(namespaces[0]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert find_processes(namespaces[0]) == []


def test_an_unknown_sandbox_is_refused_with_the_choices():
    with pytest.raises(SandboxUnavailable, match="choose one of auto, docker, bubblewrap"):
        load_backend("chroot")


def test_auto_takes_the_first_that_works_and_tells_of_all_that_do_not(monkeypatch: pytest.MonkeyPatch, backend):
    monkeypatch.setitem(pool_module.BACKENDS, "docker", "tests.test_pool:Refusing")
    pool = open_pool("auto", spare=False)
    assert pool.runtime.sandbox == "bubblewrap"
    pool.close()
    monkeypatch.setitem(pool_module.BACKENDS, "bubblewrap", "tests.test_pool:Refusing")
    with pytest.raises(SandboxUnavailable, match=r"docker: never here.*bubblewrap: never here.*microcoder doctor"):
        open_pool("auto")


class Refusing:
    """A backend that never works."""

    name = "refusing"

    def start(self) -> Box:
        raise SandboxUnavailable("never here.")
