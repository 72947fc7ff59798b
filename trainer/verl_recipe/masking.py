"""The truncation mask on verl's tensors. Needs torch, not verl."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from trainer.algorithm.truncation import Sample, Truncation, TruncationRule, judge_truncation


def mask_responses(
    keys: Sequence[str],
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    verdicts: Sequence[str],
    rule: TruncationRule,
    *,
    seed: int,
    step: int,
) -> list[Truncation]:
    """What the rule finds of each response of a step.

    Args:
        keys: verl's names of responses, `uid_session_index`. A uid is random, so the prompt's tokens name the prompt
            here; the session is the response's place among those of its prompt.
        prompts, responses: token ids without padding.
        verdicts: of the service.
        step: verl's global step, from 1: a generation of its own.
    """
    return [
        judge_truncation(
            Sample(list(response), verdict, name_tokens(prompt), int(key.rsplit("_", 2)[1])),
            rule,
            seed=seed,
            generation=step,
        )
        for key, prompt, response, verdict in zip(keys, prompts, responses, verdicts, strict=True)
    ]


def mask_rows(advantages: torch.Tensor, found: Sequence[Truncation]) -> torch.Tensor:
    """(B, L) advantages with 0 in the rows that are masked, and the very same numbers in the others."""
    masked = torch.tensor([one.masked for one in found], device=advantages.device)
    return advantages.masked_fill(masked[:, None], 0.0)


def read_verdict(extra: Mapping[str, Any]) -> str:
    """The verdict that the reward function put beside its number.

    Raises:
        ValueError: there is none: another reward function was configured.
    """
    verdict = extra.get("reward_extra_info", {}).get("verdict")
    if not isinstance(verdict, str):
        raise ValueError(
            "A response has no verdict: configure reward.custom_reward_function.path="
            "pkg://microcoder_client.rewards.verl, name=compute_score."
        )
    return verdict


def make_rule(options: Mapping[str, Any], limit: int, end_tokens: Sequence[int]) -> TruncationRule:
    """The rule out of the options `algorithm.microcoder`: `rate` and `window`, 0.2 and 128 where they aren't set."""
    unknown = options.keys() - {"rate", "window"}
    if unknown:
        raise ValueError(f"algorithm.microcoder has options that aren't known: {', '.join(sorted(unknown))}.")
    rate, window = options.get("rate", 0.2), options.get("window", 128)
    return TruncationRule(limit=limit, end_tokens=frozenset(end_tokens), rate=float(rate), window=int(window))


def name_tokens(ids: Sequence[int]) -> str:
    """The same name for equal prompts."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]
