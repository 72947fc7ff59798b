"""MicroCoder-GRPO as a subclass of TRL's trainer: rewards from the service, everything else from `trainer.algorithm`.

TRL generates, batches, distributes, logs and saves. Advantages, mask, log-probabilities and loss are computed here.
"""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from microcoder_client.rewards.scoring import Score, close_shared
from microcoder_client.rewards.trl import make_reward
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState
from trl import GRPOTrainer
from trl.trainer.utils import RepeatSampler

from trainer.algorithm.advantages import find_flat_groups, group_advantages, mask_advantages
from trainer.algorithm.log_probabilities import token_log_probabilities
from trainer.algorithm.losses import clip_higher_loss, kl_term, measure_size
from trainer.algorithm.overlong import shape_rewards
from trainer.algorithm.stages import StageState, current_temperature, find_alarms, observe
from trainer.algorithm.truncation import Sample, judge_truncation
from trainer.arguments import MicroCoderConfig
from trainer.measures import Record, measure_generation
from trainer.phases import EVALUATION, GENERATION, Phases
from trainer.resampling import draw_rows, replace_groups

Hear = Callable[[list[Score]], None]

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
        self._phases = Phases()
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

    def train(self, *arguments: Any, **options: Any) -> Any:
        """TRL's; the connections to the service are closed when it ends, however it does."""
        try:
            return super().train(*arguments, **options)
        finally:
            loop = getattr(self, "async_loop", None)  # where TRL awaits rewards; it runs until the process ends
            if loop is not None:
                asyncio.run_coroutine_threadsafe(close_shared(), loop).result()

    def _hear(self, scores: list[Score]) -> None:
        self._scores = scores

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        with self._phases.within(EVALUATION):
            return self._insist_on_rewards(inputs, prompts, completions, completion_ids_list)

    def _insist_on_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
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
        with self._phases.within(GENERATION):
            self._set_temperature(current_temperature(self.plan, self.keeper.stage))
            batch = self._roll_out(inputs)
            if self.model.training:
                self._report()
                if self.args.dynamic_sampling:
                    batch = self._replace_flat_groups(batch)
        return batch

    def _roll_out(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """One generation by TRL, with what is ours beside it."""
        self._temperatures = torch.full((len(inputs),), self.temperature, device=self.accelerator.device)
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch["temperatures"] = self._temperatures
        if self.model.training:
            batch["advantages"] = self._weigh(inputs)
            own = self._records[self.accelerator.process_index * len(inputs) :][: len(inputs)]
            counted = [not (self.args.drop_truncated and record.truncation.truncated) for record in own]
            batch["counted"] = torch.tensor(counted, device=self.accelerator.device)
        return batch

    def _replace_flat_groups(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Dynamic sampling: other prompts in place of those whose rewards are all equal, while there are some.

        All processes go on until none has one, or the attempts are used up: then what is left teaches nothing.
        """
        size, dataset = self.num_generations, self.train_dataset
        flat = find_flat_groups([score.reward for score in self._scores], size).nonzero()[0].tolist()
        groups = len(self._scores) // size
        for attempt in range(1, self.args.dynamic_attempts):
            if not any(gather_object([bool(flat)])):
                break
            first = self.accelerator.process_index * groups
            places = {"seed": self.args.seed, "generation": self._generation, "attempt": attempt, "first": first}
            rows = [dataset[row] for row in draw_rows(len(dataset), groups, **places)]
            fresh = self._roll_out([row for row in rows for _ in range(size)])
            useful = (~find_flat_groups([score.reward for score in self._scores], size)).nonzero()[0].tolist()
            pairs = list(zip(flat, useful, strict=False))
            batch, flat = replace_groups(batch, fresh, pairs, size, self._tokenizer.pad_token_id), flat[len(pairs) :]
            self._metrics["train"]["groups/resampled"].append(float(groups))
        return batch

    @property
    def _generation(self) -> int:
        """Out of the state, which a checkpoint keeps: a resumed run draws what it would have drawn."""
        return int(self.state.global_step // self.args.updates_per_generation)

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
        own: list[Record] = []
        for place, (row, ids, score) in enumerate(zip(inputs, self._ids, self._scores, strict=True)):
            sample = Sample(ids, score.verdict, name_prompt(row["prompt"]), (first + place) % self.num_generations)
            found = judge_truncation(sample, self.rule, seed=self.args.seed, generation=self._generation)
            own.append(Record(str(sample.prompt), score.reward, score.verdict, list(ids), found))
        self._records: list[Record] = gather_object(own)
        lengths = [len(record.ids) for record in self._records]
        rewards = [record.reward for record in self._records]
        shaped = shape_rewards(rewards, lengths, limit=self.rule.limit, share=self.args.overlong_share)
        plain = group_advantages(shaped, self.num_generations, epsilon=self.args.advantage_epsilon)
        advantages = mask_advantages(plain, [record.truncation.masked for record in self._records]).tolist()
        for _ in advantages:  # TRL has put its own there, which know no mask
            self._logs["advantages"].pop()
        self._logs["advantages"].extend(advantages)
        local = advantages[first : first + len(inputs)]
        return torch.tensor(local, dtype=torch.float32, device=self.accelerator.device)

    def _report(self) -> None:
        """Log a generation, and let the stage control see it."""
        stage = self.keeper.stage
        special = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        found = measure_generation(self._records, self.num_generations, special)
        found |= {"temperature": current_temperature(self.plan, stage), "stage": stage.stage}
        for name, value in found.items():
            self._metrics["train"][name].append(float(value))
        after = observe(self.plan, stage, found["diversity"], found["accuracy"])
        self.keeper.stage = after
        if self.accelerator.is_main_process:
            known = find_alarms(self.plan, stage)
            for name, alarm in find_alarms(self.plan, after).items():
                if name not in known:  # it is told when it begins, not in each generation that it lasts
                    _logger.warning(alarm)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's, with the seconds of each phase since the last time."""
        for phase, seconds in self._phases.drain().items():
            self._metrics["train" if self.model.training else "eval"][f"seconds/{phase}"].append(seconds)
        super().log(logs, start_time)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        inputs = super()._prepare_inputs(generation_batch)
        if self.model.training and "loss_size" not in inputs:
            self._size_updates()
        return inputs

    def _size_updates(self) -> None:
        """Tell each part of a generation the size of the update that it belongs to, over all processes, and its tokens.

        Both make what is trained and logged the same however an update is split among parts and processes.
        """
        normaliser, width = self.args.make_normaliser(), self.args.gradient_accumulation_steps
        for start in range(0, len(self._buffered_inputs), width):
            parts = self._buffered_inputs[start : start + width]
            masks = [_loss_mask(part) for part in parts]
            own = torch.stack([torch.stack([measure_size(mask, normaliser), mask.sum()]) for mask in masks]).sum(dim=0)
            size, tokens = self.accelerator.gather(own).view(-1, 2).sum(dim=0)
            for part, mask in zip(parts, masks, strict=True):
                part["loss_size"] = size
                part["weight"] = mask.sum() * (len(parts) * self.accelerator.num_processes) / tokens.clamp(min=1)

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
        counted, training = _loss_mask(inputs), self.model.training
        # Processes average their gradients, so each takes its share of the sum times their number.
        size = inputs["loss_size"] / self.accelerator.num_processes if training else None
        mean: dict[str, Any] = {"normaliser": self.args.make_normaliser(), "size": size}
        found = clip_higher_loss(
            new, new.detach() if old is None else old, inputs["advantages"], counted, clip=self.args.make_clip(), **mean
        )
        # What is logged is averaged over an update's parts and over processes: weighted by tokens, a mean over tokens.
        weight = inputs["weight"] if training else 1.0
        entropy = (entropies * counted).sum() / counted.sum().clamp(min=1)
        tell = {"entropy": entropy, "clip/low": found.clipped_low, "clip/high": found.clipped_high}
        tell = {name: value * weight for name, value in tell.items()}
        loss = found.value
        if self.beta:
            divergence = kl_term(new, inputs["ref_per_token_logps"], counted, **mean)
            loss = loss + self.beta * divergence
            tell["kl"] = divergence.detach() * (self.args.gradient_accumulation_steps if training else 1)
        shares = torch.stack([new.new_tensor(float(value)) for value in tell.values()])
        means = self.accelerator.gather(shares).view(-1, len(tell)).mean(dim=0).tolist()
        for name, value in zip(tell, means, strict=True):
            self._metrics["train" if training else "eval"][name].append(value)
        return loss


def _loss_mask(part: Mapping[str, Any]) -> torch.Tensor:
    """Which tokens count: all that were generated, unless truncated completions are left out."""
    mask: torch.Tensor = part["completion_mask"]
    return mask * part["counted"][:, None] if "counted" in part else mask


def name_prompt(prompt: Any) -> str:
    """The same name for equal prompts, whatever their place in the dataset."""
    return hashlib.sha256(json.dumps(prompt, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]
