"""The trainer in two processes on the tiny model, once for each mode; each process prints what it saw as JSON.

usage: torchrun grpo_processes.py FOLDER MODE...
"""

import hashlib
import json
import sys
from pathlib import Path

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from microcoder_client.rewards.scoring import Score
from transformers import TrainerCallback

from tests.grpo_samples_helper import differentiate, judge, judge_all_but_one, plant, read_curves, split_rows
from tests.trainer_programs.tiny_model import make_model, make_tokenizer
from trainer.arguments import read_config
from trainer.grpo import MicroCoderGRPOTrainer, NoRewards, name_prompt

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "trainer" / "configs" / "tiny-cpu.yaml"
PROMPTS = ["Double it: a number ", "Double a number ", "a number it: ", "it: Double "]
ONE_GROUP = {"per_device_train_batch_size": 8, "num_generations": 32, "max_grad_norm": 0.0}
MODES = {
    "spread": ONE_GROUP,
    "outage": ONE_GROUP,
    "planted": {
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "steps_per_generation": 4,
        "num_iterations": 2,
    },
    "dynamic": {"per_device_train_batch_size": 8, "algorithm": "dapo-full", "overlong_share": 0.0},
}


class Watched(MicroCoderGRPOTrainer):
    """Keeps the parts of all updates, and what each generation's completions were worth."""

    parts = ()
    worth = ()
    planted = False

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations):
        if not self.planted:
            return super()._generate_single_turn(prompt_ids, images, multimodal_fields, num_generations)
        first = self.accelerator.process_index * len(prompt_ids)
        places = [(first + i) % num_generations for i in range(len(prompt_ids))]
        return [plant(ids, self._generation, place) for ids, place in zip(prompt_ids, places, strict=True)], None

    def _weigh(self, inputs):
        found = super()._weigh(inputs)
        names = [name_prompt(row["prompt"]) for row in inputs]
        told = zip(names, self._ids, self._scores, found.tolist(), strict=True)
        told = [(name, ids, one.verdict, one.reward, worth) for name, ids, one, worth in told]
        self.worth = (*self.worth, told)
        return found

    def _compute_loss(self, model, inputs):
        self.parts = (*self.parts, inputs)
        return super()._compute_loss(model, inputs)


class Watch(TrainerCallback):
    """Keeps the first gradient, which processes have averaged, and a digest of the parameters after each update."""

    gradient = None
    digests = ()

    def on_pre_optimizer_step(self, args, state, control, model=None, **others):
        self.gradient = self.gradient or [p.grad.clone() for p in model.parameters()]

    def on_step_end(self, args, state, control, model=None, **others):
        self.digests = (*self.digests, digest(model))


def run(folder: Path, mode: str, **changes) -> dict:
    """A training in this mode, and what this process saw of it."""
    calls = []

    def reward(hear):
        async def planted(prompts, completions, **columns):
            calls.append(len(completions))
            dead = mode == "outage" and trainer.accelerator.process_index == 1 and trainer.state.global_step > 0
            one = judge_all_but_one if mode == "dynamic" else lambda prompt, text: judge(text)
            scores = [one(*pair) for pair in zip(prompts, completions, strict=True)]
            scores = [Score(None, "internal_error")] * len(scores) if dead else scores
            hear(scores)
            return [score.reward for score in scores]

        return planted

    watch = Watch()
    trainer = Watched(
        model=make_model().double(),
        args=read_config(CONFIG, output_dir=str(folder / mode), disable_tqdm=True, **MODES[mode] | changes),
        reward=reward,
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
        processing_class=make_tokenizer(),
        callbacks=[watch],
    )
    trainer.planted = mode == "planted"
    stopped = ""
    try:
        trainer.train()
    except NoRewards as error:
        stopped = str(error)
    result = {
        "rank": trainer.accelerator.process_index,
        "parameters": digest(trainer.accelerator.unwrap_model(trainer.model)),
        "updated": watch.digests,
        "calls": calls,
        "steps": trainer.state.global_step,
        "stopped": stopped,
        "worth": [gather_object(told) for told in trainer.worth],
        "curves": read_curves(trainer.state.log_history),
        "advantages": [part["advantages"].tolist() for part in trainer.parts],
    }
    if mode == "spread":
        rows = gather_object(split_rows(trainer.parts[0]))
        expected = differentiate(make_model().double(), rows, by_token=True)
        result["samples"] = len(rows)
        result["distance"] = max(float((a - b).abs().max()) for a, b in zip(expected, watch.gradient, strict=True))
        result["largest"] = max(float(gradient.abs().max()) for gradient in expected)
    return result


def digest(model) -> str:
    """The same for equal parameters."""
    found = hashlib.sha256()
    for parameter in model.parameters():
        found.update(parameter.detach().numpy().tobytes())
    return found.hexdigest()


def main(folder: Path, modes: list[str]) -> None:
    torch.set_num_threads(1)
    results = {mode: gather_object([run(folder, mode)]) for mode in modes}
    if torch.distributed.get_rank() == 0:
        print("RESULT " + json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
