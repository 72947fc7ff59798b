"""verl's synchronous trainer with the truncation mask: `trainer.v1.trainer_mode=microcoder`.

verl finds it by `VERL_USE_EXTERNAL_MODULES=trainer.verl_recipe.masked_trainer`. It reads what the reward function and
the rollout have left in the TransferQueue, and puts the masked advantages back. For verl 0.9.
"""

from typing import Any

import torch
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.utils.padding import response_to_nested

from trainer.verl_recipe.masking import make_rule, mask_responses, mask_rows, read_verdict

NAME = "microcoder"
READ = ("prompts", "responses", "response_mask", "extra_fields", "advantages")


@register_trainer(NAME)
class MaskedTrainer(PPOTrainerSync):
    """`sync`, and advantages of 0 for the responses that the rule masks."""

    def __init__(self, config: DictConfig) -> None:
        """See verl's trainer, which asks for the mode by its name in many places: there this one is `sync`."""
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"
        super().__init__(config)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(READ))
        found = mask_responses(
            batch.keys,
            [ids.tolist() for ids in data["prompts"].unbind()],
            [ids.tolist() for ids in data["responses"].unbind()],
            [read_verdict(extra) for extra in data.pop("extra_fields").tolist()],
            self._rule(),
            seed=int(self.config.data.get("seed") or 0),
            step=self.global_steps,
        )
        mask = data["response_mask"]
        advantages = mask_rows(torch.nested.to_padded_tensor(data["advantages"], 0.0), found)
        fields = TensorDict({"advantages": response_to_nested(advantages, mask)}, batch_size=len(found))
        for name in ("truncated", "eligible", "masked"):
            metrics[f"truncation/{name}"] = sum(getattr(one, name) for one in found)
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)

    def _rule(self) -> Any:
        options = self.config.algorithm.get(NAME) or {}
        plain = OmegaConf.to_container(options) if OmegaConf.is_config(options) else options
        return make_rule(plain, self.config.data.max_response_length, [self.tokenizer.eos_token_id])
