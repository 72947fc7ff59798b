"""verl: `reward.custom_reward_function.path=pkg://microcoder_client.rewards.verl`, name `compute_score`.

`compute_score` is awaited by verl's reward loop (from 0.7). `compute_score_sync` is the same for managers that call in
threads or one after another, `compute_score_batch` for the manager `batch` of older releases. Options of
`scoring.BaseScorer` come from `reward_kwargs`.

Outage policy: the client tries for two minutes, the whole three times, and then `RewardUnavailable` is raised, which
stops the training. verl has no place for a missing reward, and a made-up one would be learnt.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from microcoder_client.rewards.columns import KNOWN
from microcoder_client.rewards.scoring import AsyncCodeScorer, CodeScorer, Score, shared

ATTEMPTS = 3
_PASSED_ON = frozenset({"reward_router_address", "reward_model_tokenizer"})
"""What verl adds to a call where a reward model runs beside the function."""


async def compute_score(
    data_source: str | None = None,
    solution_str: str = "",
    ground_truth: Any = None,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The score of one answer: `score` (the reward), `acc` (1 when accepted) and `verdict`.

    Raises:
        RewardUnavailable: after three attempts.
    """
    scorer = shared(AsyncCodeScorer, _options(options))
    return _answer(await scorer(solution_str, _row(ground_truth, extra_info)))


def compute_score_sync(
    data_source: str | None = None,
    solution_str: str = "",
    ground_truth: Any = None,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """`compute_score` for managers that don't await."""
    return _answer(shared(CodeScorer, _options(options))(solution_str, _row(ground_truth, extra_info)))


def compute_score_batch(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """`compute_score` for a whole batch, in one request."""
    infos: Sequence[Any] = [None] * len(solution_strs) if extra_infos is None else extra_infos
    rows = [_row(truth, info) for truth, info in zip(ground_truths, infos, strict=True)]
    return [_answer(score) for score in shared(CodeScorer, _options(options)).score(list(solution_strs), rows)]


def _row(ground_truth: Any, extra_info: Mapping[str, Any] | None) -> dict[str, Any]:
    """The ground truth, and what `extra_info` says beside it, such as the function's name."""
    beside = {name: value for name, value in (extra_info or {}).items() if name in KNOWN}
    return {**beside, "ground_truth": ground_truth} if ground_truth is not None else beside


def _answer(score: Score) -> dict[str, Any]:
    return {"score": score.require(), "acc": float(score.accepted), "verdict": score.verdict}


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"attempts": ATTEMPTS, **{name: value for name, value in given.items() if name not in _PASSED_ON}}
