"""DAPO's overlong shaping: a penalty that grows over the last tokens before the limit."""

from collections.abc import Sequence


def shape_rewards(
    rewards: Sequence[float | None], lengths: Sequence[int], *, limit: int, share: float
) -> list[float | None]:
    """The rewards with up to 1 taken off, linearly, over the last `share` of the limit.

    Args:
        rewards: None stays None.
        lengths: of the completions, in tokens, their end token among them.
        limit: the most tokens that a completion may have.
        share: of the limit; 0 takes nothing off. DAPO's 4096 tokens of 20480 are 0.2.

    Raises:
        ValueError: the share isn't one, or a length is missing.
    """
    if not 0 <= share < 1:
        raise ValueError(f"The penalty begins within the limit; a share of {share} isn't in [0, 1).")
    width = share * limit
    if not width:
        return list(rewards)
    return [
        None if reward is None else reward - max(0.0, (length - (limit - width)) / width)
        for reward, length in zip(rewards, lengths, strict=True)
    ]
