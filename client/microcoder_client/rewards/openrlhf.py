"""OpenRLHF: `--reward.remote_url <path of this file>`, which prints it when it is run: `python -m …rewards.openrlhf`.

Outage policy: None. OpenRLHF reads it as "no reward", keeps the sample, and has no mask for it: unless a reward model
runs beside, its step ends with an error rather than with a number that was made up.
"""

import importlib
from collections.abc import Sequence
from typing import Any

from microcoder_client.rewards.scoring import CodeScorer, shared


def reward_func(
    queries: Sequence[str],
    prompts: Sequence[str],
    labels: Sequence[Any],
    *,
    scorer: CodeScorer | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Rewards of a batch (OpenRLHF sends one at a time, from threads) as tensors of shape (batch,).

    `labels` hold the tests: name the column with `--data.label_key`. `rewards` and `scores` are None as soon as one is
    missing.
    """
    answers = [take_response(query, prompt) for query, prompt in zip(queries, prompts, strict=True)]
    scores = (scorer or shared(CodeScorer)).score(answers, labels)
    rewards = [score.reward for score in scores]
    verdicts = [score.verdict for score in scores]
    shares = {
        f"verdict_{name}": verdicts.count(name) / max(1, len(verdicts))
        for name in ("accepted", "no_code", "time_limit", "internal_error")
    }
    if None in rewards:
        return {"rewards": None, "scores": None, "extra_logs": shares}
    numbers = importlib.import_module("torch").tensor(rewards)
    return {"rewards": numbers, "scores": numbers, "extra_logs": shares}


def take_response(query: str, prompt: str) -> str:
    """What follows the prompt. Decoding may have put a token before it; where it isn't found, the whole counts."""
    start = query.find(prompt)
    return query[start + len(prompt) :] if start >= 0 else query


if __name__ == "__main__":
    print(__file__)
