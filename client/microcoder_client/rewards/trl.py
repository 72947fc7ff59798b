"""TRL: `GRPOTrainer(reward_funcs=code_reward)`, and the same for open-r1.

`code_reward` is TRL's asynchronous form (from 0.27): one request for a step's batch, beside the other reward functions.
`blocking_code_reward` does the same where the form isn't known yet, as in the TRL that open-r1 pins.

Outage policy: None for each completion without a reward. TRL leaves it out of its group's statistics, with advantage
0 (from 1.6; earlier releases count it as 0 where every reward function gave None). Verdicts go to the completions table
as the column `verdict`, their shares to the metrics as `verdict/…`; both where TRL offers that.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from microcoder_client.judgements import VERDICTS
from microcoder_client.rewards.scoring import AsyncCodeScorer, CodeScorer, Score, shared

Log = Callable[[str, Any], None]
Hear = Callable[[list[Score]], None]
REPORTED = tuple(sorted(VERDICTS - {"skipped"}))
"""Every one is reported every time: TRL averages a metric over the steps that reported it."""


async def code_reward(
    completions: Sequence[Any],
    log_extra: Log | None = None,
    log_metric: Log | None = None,
    *,
    scorer_options: Mapping[str, Any] | None = None,
    on_scores: Hear | None = None,
    **columns: Any,
) -> list[float | None]:
    """A reward for each completion: 1 where every test of its row was passed, 0 where not, None where nobody can tell.

    `columns` are the dataset's. For the other arguments see `make_reward`.
    """
    scores = await shared(AsyncCodeScorer, scorer_options).score(completions, rows_of(columns, len(completions)))
    return report(scores, log_extra, log_metric, on_scores)


def blocking_code_reward(
    completions: Sequence[Any],
    log_extra: Log | None = None,
    log_metric: Log | None = None,
    *,
    scorer_options: Mapping[str, Any] | None = None,
    on_scores: Hear | None = None,
    **columns: Any,
) -> list[float | None]:
    """`code_reward` for a TRL that doesn't await."""
    scores = shared(CodeScorer, scorer_options).score(completions, rows_of(columns, len(completions)))
    return report(scores, log_extra, log_metric, on_scores)


def make_reward(*, blocking: bool = False, on_scores: Hear | None = None, **options: Any) -> Callable[..., Any]:
    """`code_reward` with options, such as `make_reward(fraction=True)`. It can be pickled, as TRL's own forms can.

    Args:
        blocking: make a `blocking_code_reward`.
        on_scores: called with the scores of each batch, for a trainer that needs verdicts.
        options: those of `scoring.BaseScorer` that JSON can carry.
    """
    function: Callable[..., Any] = blocking_code_reward if blocking else code_reward
    made = functools.partial(function, scorer_options=options, on_scores=on_scores)
    return functools.update_wrapper(made, function)


def rows_of(columns: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Rows out of columns. What isn't a list of the batch's length (the trainer's state, say) is no column."""
    lists = {name: values for name, values in columns.items() if isinstance(values, list) and len(values) == count}
    return [{name: values[index] for name, values in lists.items()} for index in range(count)]


def report(
    scores: list[Score], log_extra: Log | None, log_metric: Log | None, on_scores: Hear | None
) -> list[float | None]:
    """Tell whoever wants to know the verdicts, and return the rewards."""
    if on_scores is not None:
        on_scores(scores)
    if log_extra is not None:
        log_extra("verdict", [score.verdict for score in scores])
    if log_metric is not None:
        for verdict in REPORTED:
            log_metric(f"verdict/{verdict}", sum(score.verdict == verdict for score in scores) / max(1, len(scores)))
    return [score.reward for score in scores]
