"""Advantages of groups: the formula, what is exactly 0, and what a mask leaves alone."""

import math
import statistics

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.algorithm.advantages import EPSILON, find_flat_groups, group_advantages, mask_advantages

SIZE = 4
rewards = st.none() | st.sampled_from([0.0, 1.0]) | st.floats(-10, 10)
batches = st.integers(1, 4).flatmap(lambda groups: st.lists(rewards, min_size=SIZE * groups, max_size=SIZE * groups))


def test_binary_rewards_of_two_groups():
    found = group_advantages([1, 0, 0, 0, 1, 1, 0, 0], SIZE)

    first, second = 0.5 + EPSILON, math.sqrt(1 / 3) + EPSILON
    expected = [0.75 / first, *[-0.25 / first] * 3, 0.5 / second, 0.5 / second, -0.5 / second, -0.5 / second]
    assert found.tolist() == pytest.approx(expected, rel=1e-14)


@settings(max_examples=200, deadline=None)
@given(batches)
def test_any_rewards_give_the_formula_over_those_that_are_known(batch: list[float | None]):
    found = group_advantages(batch, SIZE)
    for start in range(0, len(batch), SIZE):
        group = batch[start : start + SIZE]
        known = [reward for reward in group if reward is not None]
        for reward, advantage in zip(group, found[start : start + SIZE], strict=True):
            if reward is None or len(set(known)) < 2:
                assert advantage == 0.0
            else:
                expected = (reward - statistics.fmean(known)) / (statistics.stdev(known) + EPSILON)
                assert advantage == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("group", [[0.1] * 3, [0.0] * 3, [1 / 3] * 3, [None, 0.5, None], [None] * 3])
def test_a_group_that_teaches_nothing_has_advantages_of_exactly_zero(group: list[float | None]):
    assert group_advantages(group, 3).tolist() == [0.0] * 3
    assert find_flat_groups([*group, 1.0, 0.0, None], 3).tolist() == [True, False]


def test_an_unknown_reward_is_no_reward_of_zero():
    assert group_advantages([1, 1, 1, None], SIZE).tolist() == [0.0] * 4
    assert group_advantages([1, 1, 1, 0], SIZE)[0] > 0
    assert group_advantages([1, 0, None, math.nan], SIZE).tolist()[:2] == group_advantages([1, 0], 2).tolist()


@settings(max_examples=200, deadline=None)
@given(batches, st.data())
def test_a_mask_gives_exactly_zero_and_leaves_the_others_bit_for_bit(batch: list[float | None], data: st.DataObject):
    before = group_advantages(batch, SIZE)
    flags = data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch)))
    after = mask_advantages(before, flags)
    for flag, one, other in zip(flags, before, after, strict=True):
        assert other.tobytes() == (numpy.float64(0.0) if flag else one).tobytes()
    assert mask_advantages(before, [False] * len(batch)).tobytes() == before.tobytes()


def test_groups_do_not_touch_each_other():
    first, second = [1, 0, 0, 0], [0.5, 0.25, 1, 0]
    together = group_advantages(first + second, SIZE)
    assert together.tobytes() == group_advantages(first, SIZE).tobytes() + group_advantages(second, SIZE).tobytes()


def test_what_is_no_batch_of_groups_is_refused():
    for batch, size in (([1, 0, 1], 2), ([1, 0], 1), ([[1, 0]], 2)):
        with pytest.raises(ValueError, match="aren't groups"):
            group_advantages(batch, size)
    with pytest.raises(ValueError, match="completion 1 is infinite"):
        group_advantages([1, math.inf], 2)
    with pytest.raises(ValueError, match="one flag an advantage"):
        mask_advantages(numpy.zeros(4), [True])
