"""The masked trainer's advantages under the real verl, Ray and TransferQueue; prints them as JSON.

Twice, with every eligible response masked and with none. Verdicts come from the service at MICROCODER_URL,
by the reward function that the recipe names.
"""

import asyncio
import json

import numpy as np
import ray
import torch
import transfer_queue as tq
from microcoder_client.rewards.verl import compute_score
from omegaconf import OmegaConf
from tiny_model import BROKEN, OPEN, RIGHT, TOKENS, WRONG, make_tokenizer
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from trainer.verl_recipe.masked_trainer import MaskedTrainer

TRUTH = json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})
LIMIT = 4
WORD = "it: "
# Right; wrong at the limit; cut off within its block, at the limit; the same, in a loop; wrong and short; broken.
ANSWERS = [[RIGHT], [WORD, "a ", WORD, WRONG], [WORD, "a ", "Double ", OPEN], [OPEN] * 4, [WRONG], [BROKEN]]


def make_config(rate: float):
    """As much of verl's configuration as advantages need."""
    return OmegaConf.create(
        {
            "algorithm": {
                "use_kl_in_reward": False,
                "adv_estimator": "grpo",
                "gamma": 1.0,
                "lam": 1.0,
                "norm_adv_by_std_in_grpo": True,
                "microcoder": {"rate": rate, "window": 1},
            },
            "actor_rollout_ref": {"rollout": {"n": len(ANSWERS)}},
            "data": {"max_response_length": LIMIT, "seed": 3},
        }
    )


def make_row(ids: list[int], scored: dict) -> dict:
    """What verl's agent loop leaves of a response."""
    scores = torch.zeros(len(ids))
    scores[-1] = scored["score"]
    return {
        "uid": "prompt",
        "prompts": torch.tensor([7, 9]),
        "responses": torch.tensor(ids),
        "response_mask": torch.ones(len(ids), dtype=torch.int64),
        "rm_scores": scores,
        "rollout_log_probs": torch.zeros(len(ids)),
        "old_log_probs": torch.zeros(len(ids)),
        "extra_fields": {"reward_extra_info": {name: value for name, value in scored.items() if name != "score"}},
    }


async def main() -> None:
    tokenizer = make_tokenizer()
    ids = [[TOKENS.index(word) for word in words] + [1] * (len(words) < LIMIT) for words in ANSWERS]
    scored = [await compute_score("taco", tokenizer.decode(row), TRUTH, {}) for row in ids]

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
    keys = [f"prompt_{session}_0" for session in range(len(ids))]
    rows = list_of_dict_to_tensordict([make_row(*pair) for pair in zip(ids, scored, strict=True)])
    await tq.async_kv_batch_put(keys=keys, fields=rows, tags=[{}] * len(keys), partition_id="train")

    trainer = object.__new__(get_trainer_cls("microcoder"))
    trainer.tokenizer, trainer.global_steps = tokenizer, 5
    batch = KVBatchMeta(keys=keys, tags=[{}] * len(keys), partition_id="train", fields=None)
    result = {"trainer": MaskedTrainer.__mro__[1].__name__, "verdicts": [one["verdict"] for one in scored]}
    for name, rate in (("masked", 1.0), ("plain", 0.0)):
        metrics: dict = {}
        trainer.config = make_config(rate)
        trainer._compute_advantage(batch, metrics)
        found = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["advantages"])["advantages"]
        advantages = [np.round(row.numpy(), 6).tolist() for row in found.unbind()]
        result[name] = {"advantages": advantages, "metrics": metrics}
    print("RESULT " + json.dumps(result))
    tq.close()
    ray.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
