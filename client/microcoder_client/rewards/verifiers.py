"""verifiers, and so prime-rl.

- Tasksets of verifiers' v1: `code_reward` as a reward by its import path, without a line of code:
  `[env.taskset.task.rewards] code = { fn = "microcoder_client.rewards.verifiers:code_reward" }`.
- Environments with a rubric (up to 0.3, later `verifiers.legacy`): `rubric()`.

Outage policy: the rollout carries an error, and prime-rl leaves it out. v1 records whatever a reward function raises as
the trace's error. A rubric would turn an exception into reward 0; so the error is put into the rollout's state, where
retries (`max_retries`) and trainers look for it.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from microcoder_client.rewards.scoring import AsyncCodeScorer, shared


async def code_reward(task: Any, trace: Any) -> float:
    """A reward of v1. The tests are among the task's data; the verdict goes to `trace.info["verdict"]`.

    Raises:
        RewardUnavailable: there is none; verifiers keeps it as the trace's error.
    """
    row = task if isinstance(task, Mapping) else task.model_dump()
    score = await shared(AsyncCodeScorer)(trace.last_reply, row)
    if isinstance(info := getattr(trace, "info", None), dict):
        info["verdict"] = score.verdict
    return score.require()


def rubric(**options: Any) -> Any:
    """A `verifiers.Rubric` that judges the completion by the tests in `info`, in `answer` or in another column.

    The verdict goes to `state["verdict"]`: list it in `state_columns` to keep it. Options are those of
    `scoring.BaseScorer`.
    """
    library = importlib.import_module("verifiers")
    scorer = AsyncCodeScorer(**options)

    async def code_reward(completion: Any, state: Any, **columns: Any) -> float:
        score = await scorer(completion, columns)
        state["verdict"] = score.verdict
        if score.reward is None:
            state["error"] = library.InfraError(f"There is no reward ({score.verdict}: {score.detail}).")
            return 0.0  # a rubric takes numbers only; the error says that this one is none
        return score.reward

    return library.Rubric(funcs=[code_reward])
