"""The contract and the attacks of the first kinds of box, held by confined ones: as an ordinary user, the weakest.

What they can't be asked in the same words is in `test_confined.py`. MICROCODER_WHOLE_CONTRACT=1 asks as root too.
"""

import os
from collections.abc import Iterator

import pytest

from tests import test_box_attacks, test_box_calls, test_box_contract
from tests.boxes_helper import Room
from tests.contract_helper import take_over
from tests.test_confined import open_room

IN_OTHER_WORDS = {
    "test_a_closed_box_leaves_no_process", "test_a_dead_box_raises_box_lost", "test_no_process_survives",
    "test_the_box_ends_with_its_worker", "test_two_boxes_share_no_identity", "test_there_is_no_network_and_no_socket",
    "test_no_file_of_ours_can_be_read", "test_scratch_is_empty_for_the_next_test",
}  # fmt: skip
"""What is asked by the process namespace, the network's or scratch's own file system: there is none of these."""


@pytest.fixture(
    scope="module",
    params=["confined-user", *(["confined-root"] if os.environ.get("MICROCODER_WHOLE_CONTRACT") else [])],
)
def shared_room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """One room of each kind."""
    with open_room(request.param) as room:
        yield room


globals().update(take_over(IN_OTHER_WORDS, test_box_contract, test_box_calls, test_box_attacks))
