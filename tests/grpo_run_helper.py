"""The trainer on a random tiny model, watched: what completions were worth, ratios, gradients."""

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from microcoder_client.rewards.trl import report

from tests.grpo_oracle_helper import Answer
from tests.requirements_helper import require

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "trainer" / "configs" / "tiny-cpu.yaml"
PROMPTS = ["Double it: a number ", "Double a number ", "a number it: ", "it: Double "]


def load_code() -> SimpleNamespace:
    """The modules that need TRL, on one thread; without TRL, the test is skipped."""
    obstacle = None if importlib.util.find_spec("trl") else "TRL isn't installed here: pip install '.[trainer]'"
    require("trl", obstacle)
    import datasets
    import torch

    from tests import grpo_samples_helper
    from tests.trainer_programs import tiny_model
    from trainer import arguments, grpo

    torch.set_num_threads(1)
    return SimpleNamespace(
        torch=torch, datasets=datasets, tiny=tiny_model, samples=grpo_samples_helper, arguments=arguments, grpo=grpo
    )


@dataclass
class Run:
    """A trainer, and what was seen of it."""

    trainer: Any
    answers: list[list[Answer]] = field(default_factory=list)
    advantages: list[list[float]] = field(default_factory=list)
    ratios: list[list[float]] = field(default_factory=list)
    gradients: list[list[Any]] = field(default_factory=list)
    before: list[list[Any]] = field(default_factory=list)
    parts: list[dict[str, Any]] = field(default_factory=list)

    def logged(self, name: str) -> list[float]:
        """A measure, one a generation."""
        return [entry[name] for entry in self.trainer.state.log_history if name in entry]


def make_run(
    code: SimpleNamespace,
    folder: Path,
    judge=None,
    model: Any = None,
    reward=None,
    rows: list[dict[str, Any]] | None = None,
    **changes: Any,
) -> Run:
    """A trainer that has not begun, on the tiny configuration. `reward` makes rewards, else `judge` gives verdicts."""
    run = Run(None)

    def plant_verdicts(hear):
        async def planted(completions: list[str], **columns: Any) -> list[float | None]:
            scores = [(judge or code.samples.judge)(text) for text in completions]
            return report(scores, columns["log_extra"], columns["log_metric"], hear)

        return planted

    class Watch(code.grpo.TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **others):
            run.before.append([p.detach().clone() for p in model.parameters()])
            run.gradients.append([p.grad.clone() for p in model.parameters()])

    class Watched(code.grpo.MicroCoderGRPOTrainer):
        def _weigh(self, inputs):
            temperature = self.temperature
            found = super()._weigh(inputs)
            run.advantages.append(found.tolist())
            run.answers.append(
                [
                    Answer(
                        code.grpo.name_prompt(row["prompt"]), i % 8, 0, ids, score.verdict, score.reward, temperature
                    )
                    for i, (row, ids, score) in enumerate(zip(inputs, self._ids, self._scores, strict=True))
                ]
            )
            return found

        def _compute_loss(self, model, inputs):
            ids = code.torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
            mask = code.torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
            self._temperatures = inputs["temperatures"]
            with code.torch.no_grad():
                new, _, _ = self._get_per_token_logps_and_entropies(model, ids, mask, inputs["completion_ids"].size(1))
            ratios = (new - inputs["old_per_token_logps"]).exp()
            run.ratios.append(ratios[inputs["completion_mask"].bool()].tolist())
            run.parts.append(inputs)
            return super()._compute_loss(model, inputs)

    run.trainer = Watched(
        model=code.tiny.make_model() if model is None else model,
        args=code.arguments.read_config(CONFIG, output_dir=str(folder), **changes),
        reward=reward or plant_verdicts,
        train_dataset=code.datasets.Dataset.from_list(rows or [{"prompt": prompt} for prompt in PROMPTS]),
        processing_class=code.tiny.make_tokenizer(),
        callbacks=[Watch()],
    )
    return run
