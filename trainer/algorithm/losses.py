"""The clip-higher loss, the baseline's KL term, and by what their sums over tokens are divided.

    loss = − Σ_i Σ_t min(r_it · A_i, clip(r_it, 1 − low, 1 + high) · A_i) / normaliser
    r_it = exp(log π_θ(o_it) − log π_old(o_it))

The paper writes neither the sum over tokens nor what divides it.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch

MOST = 20.0
"""Bound of a log-ratio. Past it exp() overflows in the end, and 0 · inf would poison the gradient (verl's bound)."""


@dataclass(frozen=True)
class Clip:
    """How far a ratio may fall below 1 and rise above it before its gradient ends.

    Raises:
        ValueError: the bounds don't enclose 1.
    """

    low: float = 0.2
    high: float = 0.28

    def __post_init__(self) -> None:
        if not (0 < self.low <= 1 and self.high > 0):
            raise ValueError(f"Ratios can't be kept between 1 − {self.low} and 1 + {self.high}: 0 < low ≤ 1, high > 0.")


class Normaliser(StrEnum):
    """What a loss is averaged over.

    `TOKEN_MEAN`: all tokens of an optimizer's step alike, a long completion counts more (DAPO; the default here).
    `SEQUENCE_MEAN`: completions alike, each the mean over its tokens (GRPO).

    A completion whose advantage is 0 counts in both, masked or not.
    """

    TOKEN_MEAN = "token_mean"  # noqa: S105
    SEQUENCE_MEAN = "sequence_mean"


@dataclass(frozen=True)
class Loss:
    """A loss with gradient, and of all tokens that count the fractions whose gradient the clip has ended."""

    value: torch.Tensor
    clipped_low: float
    clipped_high: float


def measure_size(mask: torch.Tensor, normaliser: Normaliser) -> torch.Tensor:
    """The number that the summed loss is divided by: of tokens, or of completions that have tokens. mask: (B, L).

    Sizes of the parts of a batch add up. A part's loss divided by the whole's size is its share of the whole's loss.
    """
    return mask.bool().sum() if normaliser is Normaliser.TOKEN_MEAN else mask.bool().any(dim=1).sum()


def clip_higher_loss(
    new: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    clip: Clip,
    normaliser: Normaliser = Normaliser.TOKEN_MEAN,
    size: torch.Tensor | float | None = None,
) -> Loss:
    """The loss of a batch, or of a part of one.

    Args:
        new: (B, L) log-probabilities of the policy that learns.
        old: (B, L) those of the policy that generated, stored then; `new.detach()` for a policy that hasn't moved.
        advantages: (B,).
        mask: (B, L), true where a token was generated (the end token is one).
        clip: the bounds of the ratio.
        normaliser: what the loss is averaged over.
        size: `measure_size` of the whole batch of an optimizer's step: of all its parts and all processes. By default
            that of this part.

    Returns:
        The loss. The gradient is exactly 0 in completions whose advantage is 0, whatever their ratios are.
    """
    counted = mask.bool()
    worth = advantages.to(new)[:, None].expand_as(new)
    acts = counted & (worth != 0)
    # Filled before exp(): where nothing is to act, not even an overflow may reach the gradient.
    logs = (new - old).masked_fill(~acts, 0.0).clamp(-MOST, MOST)
    ratios = logs.exp()
    gains = torch.minimum(ratios * worth, ratios.clamp(1 - clip.low, 1 + clip.high) * worth) * acts
    if normaliser is Normaliser.SEQUENCE_MEAN:
        gains = gains / counted.sum(dim=1, keepdim=True).clamp(min=1)
    divisor = torch.as_tensor(measure_size(mask, normaliser) if size is None else size).to(new).clamp(min=1.0)
    tokens = max(int(counted.sum()), 1)
    with torch.no_grad():
        fell = int((acts & (worth < 0) & (ratios < 1 - clip.low)).sum())
        rose = int((acts & (worth > 0) & (ratios > 1 + clip.high)).sum())
    return Loss(-gains.sum() / divisor, fell / tokens, rose / tokens)


def kl_term(
    new: torch.Tensor,
    reference: torch.Tensor,
    mask: torch.Tensor,
    *,
    normaliser: Normaliser,
    size: torch.Tensor | float | None = None,
) -> torch.Tensor:
    """An estimate of KL(π_θ ‖ π_ref) that is never negative: exp(d) − d − 1, d = log π_ref − log π_θ.

    MicroCoder-GRPO has no such term; the baseline `grpo` has. Schulman's third estimator, verl's `low_var_kl`.

    Args:
        new, reference: (B, L) log-probabilities, the reference's without gradient.
        mask, normaliser, size: as in `clip_higher_loss`.
    """
    counted = mask.bool()
    gaps = (reference - new).masked_fill(~counted, 0.0).clamp(-MOST, MOST)
    terms = (gaps.exp() - gaps - 1) * counted
    if normaliser is Normaliser.SEQUENCE_MEAN:
        terms = terms / counted.sum(dim=1, keepdim=True).clamp(min=1)
    divisor = torch.as_tensor(measure_size(mask, normaliser) if size is None else size).to(new).clamp(min=1.0)
    return terms.sum() / divisor
