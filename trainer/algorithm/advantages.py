"""Advantages relative to the group: what a completion's reward is worth among those of its prompt."""

from collections.abc import Sequence

import numpy
import numpy.typing

Values = numpy.typing.NDArray[numpy.float64]
Flags = numpy.typing.NDArray[numpy.bool_]

EPSILON = 1e-6
"""Added to the standard deviation, as verl does. TRL adds 1e-4; the paper doesn't say."""


def group_advantages(rewards: Sequence[float | None] | Values, group_size: int, *, epsilon: float = EPSILON) -> Values:
    """(r − mean) / (std + epsilon) within each group, with the unbiased standard deviation.

    Args:
        rewards: (N,), group after group. None and NaN mean that nobody knows: such a completion is left out of its
            group's mean and deviation, and its advantage is 0.
        group_size: completions a prompt.

    Returns:
        (N,). Exactly 0 for a whole group whose known rewards are equal, or of which at most one is known.

    Raises:
        ValueError: the rewards aren't whole groups, or one is infinite.
    """
    groups = _split_into_groups(rewards, group_size)
    advantages = numpy.zeros_like(groups)
    for group, out in zip(groups, advantages, strict=True):
        known = ~numpy.isnan(group)
        values = group[known]
        if values.size and values.min() != values.max():  # equal ones may differ from their mean by rounding
            out[known] = (values - values.mean()) / (values.std(ddof=1) + epsilon)
    return advantages.reshape(-1)


def mask_advantages(advantages: Values, masked: Sequence[bool] | Flags) -> Values:
    """The advantages with 0 where `masked`, and the very same numbers elsewhere. Both (N,)."""
    flags = numpy.asarray(masked, dtype=bool)
    if flags.shape != advantages.shape:
        raise ValueError(f"{advantages.shape} advantages and a mask of {flags.shape}: one flag an advantage is needed.")
    return numpy.where(flags, 0.0, advantages)


def find_flat_groups(rewards: Sequence[float | None] | Values, group_size: int) -> Flags:
    """(groups,): which groups teach nothing, since their known rewards are equal. Errors as `group_advantages`."""
    groups = _split_into_groups(rewards, group_size)
    differ: Flags = numpy.fmax.reduce(groups, axis=1) > numpy.fmin.reduce(groups, axis=1)  # None known: NaN > NaN
    return ~differ


def _split_into_groups(rewards: Sequence[float | None] | Values, group_size: int) -> Values:
    values = numpy.array(rewards, dtype=numpy.float64)
    if values.ndim != 1 or group_size < 2 or values.size % group_size:
        raise ValueError(f"Rewards of shape {values.shape} aren't groups of {group_size}, of which 2 is the smallest.")
    if numpy.isinf(values).any():
        raise ValueError(f"The reward of completion {int(numpy.isinf(values).argmax())} is infinite.")
    return values.reshape(-1, group_size)
