"""The contract and the attacks of the first kinds of box, held by the others: those that dial in.

What another kind can't be asked in the same words stands here in its own.
"""

import os
import signal
from collections.abc import Iterator

import pytest

from evaluator.errors import BoxLost
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call
from evaluator.sandbox.probes import find_failures
from tests import test_box_attacks, test_box_calls, test_box_contract
from tests.boxes_helper import Room, find_processes
from tests.contract_helper import take_over
from tests.declared_helper import declare_boxes, find_obstacle
from tests.requirements_helper import require
from tests.test_box_attacks import SURVIVORS
from tests.test_box_contract import find_namespace

pytestmark = pytest.mark.docker

IN_OTHER_WORDS = {
    "test_a_closed_box_leaves_no_process", "test_a_dead_box_raises_box_lost", "test_no_process_survives",
    "test_the_box_ends_with_its_worker",
}  # fmt: skip
"""The keeper stays, and so does its process namespace."""


class DialInRoom(Room):
    """A room whose runner has a keeper, which stays."""

    def processes(self) -> list[int]:
        """What lives in the shared box beside its keeper."""
        return find_processes(self._namespace)[1:]


@pytest.fixture(scope="session")
def shared_room() -> Iterator[Room]:
    """A room of declared boxes. Its image is the Docker kind's, so what is in sight is the same."""
    require("docker", find_obstacle())
    with declare_boxes(2) as (backend, _, _):
        room = DialInRoom("docker", backend.start)
        yield room
        room.close()


globals().update(take_over(IN_OTHER_WORDS, test_box_contract, test_box_calls, test_box_attacks))


@pytest.mark.parametrize("what", SURVIVORS)
def test_no_process_survives_but_runner_and_keeper(room: Room, what: str):
    box = room.box
    room.run(SURVIVORS[what], cpu_seconds=1, wall_seconds=1)
    assert len(room.processes()) == 1
    assert room.run("import os; print(sum(n.isdigit() for n in os.listdir('/proc')))").stdout == b"3\n"
    assert room.box is box


def test_a_closed_box_is_empty_and_calls_again(room: Room):
    room.close()  # there are two, and the next to call shall be the one that this test closes
    box = room.start()
    namespace = find_namespace(box)
    box.close()
    assert not box.reset()
    for _ in range(4):  # two boxes, and whichever calls first
        again = room.start()
        found = find_namespace(again)
        assert list(find_failures(again)) == []
        again.close()
        if found == namespace:
            return
    raise AssertionError("the box that was closed has not called again")


def test_a_box_whose_runner_was_killed_raises_box_lost(room: Room):
    box = room.start()
    artifact = box.load(Program("print(1)"), Limits())
    os.kill(find_processes(find_namespace(box))[1], signal.SIGKILL)
    with pytest.raises(BoxLost):
        box.run(artifact, Call(b""), Limits())
    assert not box.reset()
    artifact.close()
    box.close()
