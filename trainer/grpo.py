"""MicroCoder-GRPO as a subclass of TRL's trainer: rewards from the service, everything else from `trainer.algorithm`.

TRL generates, batches, distributes, logs and saves. Advantages, mask, log-probabilities and loss are computed here.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from microcoder_client.rewards.scoring import Score
from microcoder_client.rewards.trl import make_reward
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState
from trl import GRPOTrainer
from trl.trainer.utils import RepeatSampler

from trainer.algorithm.advantages import find_flat_groups, group_advantages, mask_advantages
from trainer.algorithm.diversity import mean_diversity, pooled_distinct
from trainer.algorithm.log_probabilities import token_log_probabilities
from trainer.algorithm.losses import clip_higher_loss, measure_size
from trainer.algorithm.stages import StageState, current_temperature, find_alarms, observe
from trainer.algorithm.truncation import Sample, Truncation, count_truncations, judge_truncation
from trainer.arguments import MicroCoderConfig

Hear = Callable[[list[Score]], None]
Record = tuple[float | None, str, list[int], Truncation]
"""Of a completion: reward, verdict, token ids, what the mask found."""

_logger = logging.getLogger(__name__)


class NoRewards(RuntimeError):
    """The service judged nothing for one of the processes, again and again. All stop, with a checkpoint."""


class StageKeeper(TrainerCallback, ExportableState):
    """Keeps the stage in checkpoints. Transformers puts another in its place on resume: look it up when it's needed."""

    def __init__(self, stage: Mapping[str, Any] | None = None) -> None:
        self.stage = StageState() if stage is None else StageState.from_json(stage)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, in the form that transformers asks for."""
        return {"args": {"stage": self.stage.to_json()}, "attributes": {}}


class EpochSampler(RepeatSampler):
    """TRL's sampler, but an epoch's order depends on the seed and the epoch alone. TRL's begins anew on resume."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called before an epoch begins."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        if self.shuffle:
            self.generator.manual_seed(self.seed + self.epoch)
        order: Iterator[int] = super().__iter__()
        return order


class MicroCoderGRPOTrainer(GRPOTrainer):
    """TRL's trainer with the paper's algorithm. The prompts' dataset has the tests in columns that the client knows."""

    def __init__(
        self,
        *,
        model: Any,
        args: MicroCoderConfig,
        reward: Callable[[Hear], Callable[..., Any]] = lambda hear: make_reward(on_scores=hear),
        callbacks: Sequence[TrainerCallback] = (),
        **options: Any,
    ) -> None:
        """See TRL's `GRPOTrainer`. `reward` makes the reward function, which tells the scores to what it is given."""
        self._scores: list[Score] = []
        self._ids: list[list[int]] = []
        self._temperatures = torch.empty(0)
        super().__init__(
            model=model, args=args, reward_funcs=reward(self._hear), callbacks=[*callbacks, StageKeeper()], **options
        )
        if self.aux_loss_enabled:
            raise ValueError("The loss has no term for the router of a mixture of experts: set its coefficient to 0.")
        self.rule = args.make_rule(frozenset(self.eos_token_ids))
        self.plan = args.make_plan()

    @property
    def keeper(self) -> StageKeeper:
        """Who knows the stage."""
        return next(one for one in self.callback_handler.callbacks if isinstance(one, StageKeeper))

    def _get_train_sampler(self, dataset: Any = None) -> EpochSampler:
        plain = super()._get_train_sampler(dataset)
        return EpochSampler(
            data_source=plain.data_source,
            mini_repeat_count=plain.mini_repeat_count,
            batch_size=plain.batch_size,
            repeat_count=plain.repeat_count,
            shuffle=plain.shuffle,
            seed=plain.seed,
        )

    def _hear(self, scores: list[Score]) -> None:
        self._scores = scores

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        """TRL's, tried again where the service is out. Processes agree on that, so that all of them go on or none."""
        self._ids = completion_ids_list
        for attempt in range(1, self.args.outage_attempts + 1):
            self._scores = []
            rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
            if len(self._scores) != len(completion_ids_list):
                raise RuntimeError(
                    f"The reward function told {len(self._scores)} scores of {len(completion_ids_list)} completions: "
                    "it has to pass them to the function that it was made with."
                )
            out = [place for place, one in enumerate(gather_object([self._is_service_out()])) if one]
            if not out:
                return rewards
            self._pending_extra_logs.clear()
            self._pending_metrics.clear()
            _logger.warning("Attempt %d: nothing was judged for the processes %s.", attempt, out)
            if attempt < self.args.outage_attempts:
                time.sleep(self.args.outage_pause)
        self._save_checkpoint(self.model, None)
        raise NoRewards(
            f"The service judged not one completion of the processes {out} in {self.args.outage_attempts} attempts. No "
            f"parameter has moved since: see how it is doing, and resume from checkpoint-{self.state.global_step}."
        )

    def _is_service_out(self) -> bool:
        return all(score.reward is None for score in self._scores)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        temperature = current_temperature(self.plan, self.keeper.stage)
        self._set_temperature(temperature)
        self._temperatures = torch.full((len(inputs),), temperature, device=self.accelerator.device)
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch["temperatures"] = self._temperatures
        if self.model.training:
            batch["advantages"] = self._weigh(inputs)
        return batch

    def _set_temperature(self, temperature: float) -> None:
        """For the generations to come: in each place that TRL reads it from."""
        self.temperature = temperature
        if self.use_vllm:
            self.vllm_generation.temperature = temperature
        else:
            self.generation_config.temperature = temperature
            self.generation_kwargs["temperature"] = temperature

    def _weigh(self, inputs: list[dict[str, Any]]) -> torch.Tensor:
        """The masked advantages of this process's completions; all processes see the completions of all."""
        first = self.accelerator.process_index * len(inputs)
        # Out of the state, which a checkpoint keeps: a resumed run draws what it would have drawn.
        generation = self.state.global_step // self.args.updates_per_generation
        own: list[Record] = []
        for place, (row, ids, score) in enumerate(zip(inputs, self._ids, self._scores, strict=True)):
            sample = Sample(ids, score.verdict, name_prompt(row["prompt"]), (first + place) % self.num_generations)
            found = judge_truncation(sample, self.rule, seed=self.args.seed, generation=generation)
            own.append((score.reward, score.verdict, list(ids), found))
        records: list[Record] = gather_object(own)
        rewards = [record[0] for record in records]
        plain = group_advantages(rewards, self.num_generations, epsilon=self.args.advantage_epsilon)
        advantages = mask_advantages(plain, [found.masked for _, _, _, found in records])
        self._report(records, advantages.tolist())
        local = advantages[first : first + len(inputs)]
        return torch.tensor(local, dtype=torch.float32, device=self.accelerator.device)

    def _report(self, records: list[Record], advantages: list[float]) -> None:
        """Log a generation, and let the stage control see it."""
        size, stage = self.num_generations, self.keeper.stage
        ids = [record[2] for record in records]
        special = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        groups = [ids[start : start + size] for start in range(0, len(ids), size)]
        diversity = mean_diversity(groups, special)
        judged = [record[1] == "accepted" for record in records if record[0] is not None]
        for _ in advantages:  # TRL has put its own there, which know no mask
            self._logs["advantages"].pop()
        self._logs["advantages"].extend(advantages)
        flat = find_flat_groups([record[0] for record in records], size)
        measures = {
            "temperature": current_temperature(self.plan, stage),
            "stage": stage.stage,
            "diversity": diversity,
            "diversity/pooled_distinct": mean_diversity(groups, special, pooled_distinct),
            "accuracy": sum(judged) / len(judged),
            "groups/flat": float(flat.mean()),
            **{f"truncation/{name}": n for name, n in count_truncations(record[3] for record in records).items()},
        }
        for name, value in measures.items():
            self._metrics["train"][name].append(float(value))
        after = observe(self.plan, stage, diversity, measures["accuracy"])
        self.keeper.stage = after
        for alarm in find_alarms(self.plan, after) if self.accelerator.is_main_process else ():
            _logger.warning(alarm)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        inputs = super()._prepare_inputs(generation_batch)
        if self.model.training and "loss_size" not in inputs:
            self._size_updates()
        return inputs

    def _size_updates(self) -> None:
        """Tell each part of a generation the size of the update that it belongs to, over all processes."""
        normaliser, width = self.args.make_normaliser(), self.args.gradient_accumulation_steps
        for start in range(0, len(self._buffered_inputs), width):
            parts = self._buffered_inputs[start : start + width]
            own = torch.stack([measure_size(part["completion_mask"], normaliser) for part in parts]).sum()
            size = self.accelerator.gather(own).sum()
            for part in parts:
                part["loss_size"] = size

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """TRL fixes the temperature of its log-probabilities when it starts; these have each sample's own."""
        if compute_aux_loss or any(value is not None for value in images.values()):
            raise ValueError("The trainer is for texts: no images, no auxiliary loss.")
        if len(self._temperatures) != len(input_ids):
            raise RuntimeError(f"There are {len(self._temperatures)} temperatures for {len(input_ids)} completions.")
        logs, entropies = [], []
        step = batch_size or len(input_ids)
        for part in (slice(start, start + step) for start in range(0, len(input_ids), step)):
            with self.accelerator.autocast():
                logits = model(
                    input_ids=input_ids[part],
                    attention_mask=attention_mask[part],
                    logits_to_keep=logits_to_keep + 1,
                    use_cache=False,
                ).logits[:, :-1]
            log, entropy = token_log_probabilities(logits, input_ids[part, -logits_to_keep:], self._temperatures[part])
            logs.append(log)
            entropies.append(entropy)
        return torch.cat(logs), torch.cat(entropies) if compute_entropy else None, None

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._temperatures = inputs["temperatures"]
        mask = inputs["completion_mask"]
        new, entropies, _ = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
            torch.cat([inputs["prompt_mask"], mask], dim=1),
            mask.size(1),
            compute_entropy=True,
        )
        old = inputs.get("old_per_token_logps")
        # Processes average their gradients, so each takes its share of the sum times their number.
        size = inputs["loss_size"] / self.accelerator.num_processes if self.model.training else None
        found = clip_higher_loss(
            new,
            new.detach() if old is None else old,
            inputs["advantages"],
            mask,
            clip=self.args.make_clip(),
            normaliser=self.args.make_normaliser(),
            size=size,
        )
        mode = "train" if self.model.training else "eval"
        mean_entropy = (entropies * mask).sum() / mask.sum().clamp(min=1)
        shares = torch.stack([new.new_tensor(found.clipped_low), new.new_tensor(found.clipped_high), mean_entropy])
        low, high, entropy = self.accelerator.gather(shares).view(-1, 3).mean(dim=0).tolist()
        for name, value in (("clip/low", low), ("clip/high", high), ("entropy", entropy)):
            self._metrics[mode][name].append(value)
        return found.value


def name_prompt(prompt: Any) -> str:
    """The same name for equal prompts, whatever their place in the dataset."""
    return hashlib.sha256(json.dumps(prompt, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]
