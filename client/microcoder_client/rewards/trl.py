"""TRL: `GRPOTrainer(reward_funcs=code_reward)`, and the same for open-r1.

`code_reward` is TRL's asynchronous form (from 0.27): one request for a step's batch, beside the other reward functions.
`blocking_code_reward` does the same where the form isn't known yet, as in the TRL that open-r1 pins.

Outage policy: None for each completion without a reward. TRL leaves it out of its group's statistics, with advantage
0 (from 1.6; earlier releases count it as 0 where every reward function gave None). Verdicts go to the completions table
as the column `verdict`, their shares to the metrics as `verdict/…`; both where TRL offers that.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from microcoder_client.judgements import VERDICTS
from microcoder_client.rewards.scoring import AsyncCodeScorer, CodeScorer, Score

Log = Callable[[str, Any], None]
REPORTED = tuple(sorted(VERDICTS - {"skipped"}))
"""Every one is reported every time: TRL averages a metric over the steps that reported it."""


class CodeReward:
    """`code_reward` with options: `GRPOTrainer(reward_funcs=CodeReward(fraction=True))`.

    Options are those of `scoring.BaseScorer`. `scores` are those of the last call, for a trainer that needs verdicts.
    """

    def __init__(self, **options: Any) -> None:
        """Speak to the service when there is something to score."""
        self.__name__ = "code_reward"
        self._options = options
        self._scorer = AsyncCodeScorer(**options)
        self.scores: list[Score] = []

    async def __call__(
        self,
        completions: Sequence[Any],
        log_extra: Log | None = None,
        log_metric: Log | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """A reward for each completion, None where there is none. The tests are found in the dataset's columns."""
        self.scores = await self._scorer.score(completions, rows_of(columns, len(completions)))
        return report(self.scores, log_extra, log_metric)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels to other processes as its options."""
        return _rebuild, (self._options,)


def _rebuild(options: dict[str, Any]) -> CodeReward:
    return CodeReward(**options)


async def code_reward(
    completions: Sequence[Any], log_extra: Log | None = None, log_metric: Log | None = None, **columns: Any
) -> list[float | None]:
    """1 where every test of the row was passed, 0 where not, None where the service couldn't tell."""
    return await _default()(completions, log_extra, log_metric, **columns)


def blocking_code_reward(
    completions: Sequence[Any], log_extra: Log | None = None, log_metric: Log | None = None, **columns: Any
) -> list[float | None]:
    """`code_reward` for a TRL that doesn't await."""
    return report(_blocking().score(completions, rows_of(columns, len(completions))), log_extra, log_metric)


@cache
def _default() -> CodeReward:
    return CodeReward()


@cache
def _blocking() -> CodeScorer:
    return CodeScorer()


def rows_of(columns: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Rows out of columns. What isn't a list of the batch's length (the trainer's state, say) is no column."""
    lists = {name: values for name, values in columns.items() if isinstance(values, list) and len(values) == count}
    return [{name: values[index] for name, values in lists.items()} for index in range(count)]


def report(scores: Sequence[Score], log_extra: Log | None, log_metric: Log | None) -> list[float | None]:
    """Tell TRL the verdicts, and return the rewards."""
    if log_extra is not None:
        log_extra("verdict", [score.verdict for score in scores])
    if log_metric is not None:
        for verdict in REPORTED:
            log_metric(f"verdict/{verdict}", sum(score.verdict == verdict for score in scores) / max(1, len(scores)))
    return [score.reward for score in scores]
