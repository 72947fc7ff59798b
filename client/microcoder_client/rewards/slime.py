"""slime: `--custom-rm-path microcoder_client.rewards.slime.reward`
and `--dynamic-sampling-filter-path microcoder_client.rewards.slime.keep_judged`.

The tests are in the sample's label, or in its metadata. With `--reward-key score`, the reward is a dictionary with
`score` and `verdict`; without, the number. The verdict is in `sample.metadata["verdict"]` either way. With
`--group-rm`, a group is one request.

Outage policy: a missing reward is None, and `keep_judged` drops its whole group, for which slime samples another.
Without the filter, slime stops at the None.
"""

import importlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

from microcoder_client.rewards.scoring import AsyncCodeScorer, Score, shared

UNJUDGED, ALIKE = "unjudged", "zero_std"


async def reward(args: Any, sample: Any, *, scorer: AsyncCodeScorer | None = None, **kwargs: Any) -> Any:
    """The reward of a sample, or a list of those of a group."""
    samples = sample if isinstance(sample, list) else [sample]
    judge = scorer or shared(AsyncCodeScorer)
    scores = await judge.score([item.response for item in samples], [_row(item) for item in samples])
    rewards = [_give(args, item, score) for item, score in zip(samples, scores, strict=True)]
    return rewards if isinstance(sample, list) else rewards[0]


def keep_judged(args: Any, samples: Sequence[Any], **kwargs: Any) -> Any:
    """Keep a group whose every sample has a reward."""
    judged = all(value is not None for value in _rewards(args, samples))
    return _output(judged, None if judged else UNJUDGED)


def keep_judged_and_varied(args: Any, samples: Sequence[Any], **kwargs: Any) -> Any:
    """Keep a group whose every sample has a reward, unless all are equal (DAPO's dynamic sampling)."""
    rewards = list(_rewards(args, samples))
    if None in rewards:
        return _output(False, UNJUDGED)
    varied = not all(math.isclose(value, rewards[0], abs_tol=1e-6) for value in rewards)
    return _output(varied, None if varied else f"{ALIKE}_{round(rewards[0], 1)}")


def _row(sample: Any) -> dict[str, Any]:
    metadata = sample.metadata if isinstance(sample.metadata, dict) else {}
    return {**metadata, "label": sample.label}


def _give(args: Any, sample: Any, score: Score) -> Any:
    if isinstance(sample.metadata, dict):
        sample.metadata["verdict"] = score.verdict
    key = getattr(args, "reward_key", None)
    return {key: score.reward, "verdict": score.verdict} if key else score.reward


def _rewards(args: Any, samples: Iterable[Any]) -> Iterable[Any]:
    for sample in samples:
        if isinstance(sample, list):  # one rollout that became several samples
            yield from _rewards(args, sample)
        else:
            yield sample.get_reward_value(args)


def _output(keep: bool, reason: str | None) -> Any:
    """slime's own answer, so that its metrics count the reason."""
    types = importlib.import_module("slime.rollout.filter_hub.base_types")
    return types.DynamicFilterOutput(keep=keep, reason=reason)
