"""The trainer in two processes on the tiny model; each prints what it saw as JSON.

usage: torchrun grpo_processes.py FOLDER train|outage
"""

import hashlib
import json
import sys
from pathlib import Path

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from microcoder_client.rewards.scoring import Score
from tiny_model import make_model, make_tokenizer
from transformers import TrainerCallback

from tests.grpo_samples_helper import differentiate, judge, split_rows
from trainer.arguments import read_config
from trainer.grpo import MicroCoderGRPOTrainer, NoRewards, name_prompt

ROOT = Path(__file__).parents[2]
PROMPTS = ["Double it: a number ", "Double a number ", "a number it: ", "it: Double "]


class Watched(MicroCoderGRPOTrainer):
    """Keeps the parts of the first update, and what the first generation's completions were worth."""

    first = None
    worth = None

    def _weigh(self, inputs):
        found = super()._weigh(inputs)
        names = [name_prompt(row["prompt"]) for row in inputs]
        told = zip(names, self._ids, self._scores, found.tolist(), strict=True)
        self.worth = self.worth or [(name, ids, one.verdict, one.reward, worth) for name, ids, one, worth in told]
        return found

    def _compute_loss(self, model, inputs):
        self.first = self.first or inputs
        return super()._compute_loss(model, inputs)


class Watch(TrainerCallback):
    """Keeps the first gradient, which processes have averaged."""

    gradient = None

    def on_pre_optimizer_step(self, args, state, control, model=None, **others):
        self.gradient = self.gradient or [p.grad.clone() for p in model.parameters()]


def main(folder: Path, dies: bool) -> None:
    torch.set_num_threads(1)
    calls = []

    def reward(hear):
        async def planted(completions, **columns):
            calls.append(len(completions))
            dead = dies and trainer.accelerator.process_index == 1 and trainer.state.global_step > 0
            scores = [Score(None, "internal_error") if dead else judge(text) for text in completions]
            hear(scores)
            return [score.reward for score in scores]

        return planted

    watch = Watch()
    changes = {"per_device_train_batch_size": 8, "num_generations": 32, "max_grad_norm": 0.0, "disable_tqdm": True}
    trainer = Watched(
        model=make_model().double(),
        args=read_config(ROOT / "trainer" / "configs" / "tiny-cpu.yaml", output_dir=str(folder), **changes),
        reward=reward,
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
        processing_class=make_tokenizer(),
        callbacks=[watch],
    )
    stopped = ""
    try:
        trainer.train()
    except NoRewards as error:
        stopped = str(error)
    # Gathered before anything else is done with the model: no process may be ahead.
    rows = gather_object(split_rows(trainer.first))
    expected = differentiate(make_model().double(), rows, by_token=True)
    result = {
        "rank": trainer.accelerator.process_index,
        "parameters": digest(trainer.accelerator.unwrap_model(trainer.model)),
        "distance": max(float((a - b).abs().max()) for a, b in zip(expected, watch.gradient, strict=True)),
        "largest": max(float(gradient.abs().max()) for gradient in expected),
        "temperatures": [entry["temperature"] for entry in trainer.state.log_history if "temperature" in entry],
        "samples": len(rows),
        "worth": gather_object(trainer.worth),
        "calls": calls,
        "steps": trainer.state.global_step,
        "stopped": stopped,
    }
    results = gather_object([result])
    if result["rank"] == 0:
        print("RESULT " + json.dumps(results))


def digest(model) -> str:
    """The same for equal parameters."""
    found = hashlib.sha256()
    for parameter in model.parameters():
        found.update(parameter.detach().numpy().tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "outage")
