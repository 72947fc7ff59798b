"""What a policy thinks of the tokens that it sampled, at the temperature at which it sampled them.

The ratio of the new policy to the old one is 1 in the first update only if both are taken at the temperature of the
generation. So the temperature belongs to the sample and travels with it: a batch may hold samples of two stages.
"""

import torch


def token_log_probabilities(
    logits: torch.Tensor, ids: torch.Tensor, temperatures: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """log softmax(logits / T) at the tokens that were sampled, and the entropy of that distribution.

    Args:
        logits: (B, L, V), those that predicted the tokens: of the position before each. 16-bit ones are widened first.
        ids: (B, L) integers.
        temperatures: (B,), greater than 0: at which each sample was generated.

    Returns:
        Two tensors (B, L): log-probabilities, with gradient, and entropies in nats, without.

    Raises:
        ValueError: the shapes don't belong together, or a temperature isn't positive.
    """
    if logits.shape[:2] != ids.shape or temperatures.shape != ids.shape[:1]:
        raise ValueError(
            f"Logits {tuple(logits.shape)}, ids {tuple(ids.shape)} and temperatures {tuple(temperatures.shape)} "
            "don't belong together: (B, L, V), (B, L) and (B,) are needed."
        )
    if not bool((temperatures > 0).all()):
        raise ValueError(f"A temperature isn't positive in {temperatures.tolist()}: greedy samples have no gradient.")
    wide = logits if logits.dtype == torch.float64 else logits.float()
    scores = wide / temperatures.to(wide)[:, None, None]
    logs = torch.log_softmax(scores, dim=-1)
    chosen = logs.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        # A token that the generation can't choose has a logit of -inf, and 0 · -inf isn't a number.
        entropies = torch.special.entr(logs.exp()).sum(-1)
    return chosen, entropies
