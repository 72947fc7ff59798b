"""One training of the toy, measured: held-out pass rate before and after, with rewards from the real service."""

import os
import random
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import transformers
from datasets import Dataset
from microcoder_client.rewards.scoring import Score
from microcoder_client.rewards.trl import make_reward, report

from trainer.arguments import MicroCoderConfig, read_config
from trainer.grpo import Hear, MicroCoderGRPOTrainer
from trainer.runs import TOY_PROBLEMS, RunSource, load_model, make_trainer
from trainer.sampling import judge, sample
from trainer.toy.chains import INPUTS, LENGTHS, Chain, draw_chains
from trainer.toy.vocabulary import make_model, make_tokenizer
from trainer.toy.warmup import BATCH, STEPS, warm_up

CONFIG = Path(__file__).parents[1] / "configs" / "demo-cpu.yaml"
HELD_OUT, SAMPLES = 250, 4
HELD_OUT_SEED = 1000
LIMIT = 64
"""Tokens in which every style of every chain has room."""
MEASURES = (
    "accuracy",
    "reward",
    "diversity",
    "entropy",
    "completions/mean_length",
    "truncation/truncated",
    "truncation/eligible",
    "truncation/masked",
    "duplicates",
    "seconds/generation",
    "seconds/evaluation",
    "seconds/update",
)


@dataclass(frozen=True)
class Course:
    """What to train and how.

    Args:
        base: folder of a warmed-up model (`prepare_base`).
        url: of the service.
        options: of the trainer, over those of `trainer/configs/demo-cpu.yaml`.
        shuffled: sabotage: the verdicts of a generation are dealt to its completions at random.
        stretches: options of trainings that follow each other, over `options`; each begins with a new optimizer.
        limits: of the held-out tests, in tokens; the first is the one of `before` and `after`.
        heats: temperatures of further held-out tests, at the first limit.
        lengths: of the chains to learn from, in operations; those held out have all lengths.
        inputs: tests of a problem to learn from; those held out have five.
        spoilt: the share of problems to learn from whose expected outputs are wrong.
        reward: options of the client's scorer in the training; held-out tests are judged without.
    """

    base: str
    url: str
    algorithm: str
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    shuffled: bool = False
    stretches: tuple[dict[str, Any], ...] = ({},)
    limits: tuple[int, ...] = (LIMIT,)
    heats: tuple[float, ...] = ()
    lengths: tuple[int, ...] = LENGTHS
    inputs: int = len(INPUTS)
    spoilt: float = 0.0
    reward: dict[str, Any] | None = None


def prepare_base(
    folder: str,
    seed: int,
    steps: int = STEPS,
    *,
    until: float | None = None,
    url: str = "",
    device: str = "cpu",
    sizes: Mapping[str, int] | None = None,
) -> str:
    """Make the warmed-up model that courses begin with, in a folder; which one.

    Args:
        steps: of the warm-up, at most.
        until: end the warm-up when the service at `url` accepts this share of completions of chains to learn from.
            Models of different seeds learn at different speeds: a number of steps leaves one where rewards have little
            to add, and another where they find little to reward.
        sizes: of `make_model`.
    """
    _calm()
    model, tokenizer = make_model(seed, **(sizes or {})).to(device), make_tokenizer()
    chains = draw_chains(HELD_OUT, HELD_OUT_SEED)

    def is_enough() -> bool:
        return until is not None and _measure(model, tokenizer, chains, 1, url, LIMIT, 1.0) >= until

    warm_up(model, tokenizer, steps=steps, batch=BATCH, seed=seed, enough=is_enough)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def take_course(course: Course) -> dict[str, Any]:
    """Train; the held-out pass rates before and after, and the curves, as JSON can carry them."""
    _calm()
    folder = tempfile.mkdtemp(prefix="microcoder-toy-")
    try:
        model, tokenizer = load_model(course.base, course.seed, dtype="float32")
        curves: dict[str, list[float]] = {}
        for number, stretch in enumerate(course.stretches):
            config = _configure(course, folder, number, stretch)
            trainer = _make_trainer(course, config, (model.to(config.device), tokenizer))
            trainer.train()
            for name, values in read_curves(trainer).items():
                curves.setdefault(name, []).extend(values)
        heat = config.temperature
        tests = [(limit, heat) for limit in course.limits] + [(course.limits[0], heat) for heat in course.heats]
        found = [
            {
                "limit": limit,
                "temperature": temperature,
                "before": _measure_base(course.base, course.url, limit, temperature, str(config.device)),
                "after": measure_held_out(model, tokenizer, course.url, limit, temperature),
            }
            for limit, temperature in tests
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "algorithm": course.algorithm,
        "seed": course.seed,
        "shuffled": course.shuffled,
        "before": found[0]["before"],
        "after": found[0]["after"],
        "limits": found[: len(course.limits)],
        "heats": found[len(course.limits) :],
        "curves": curves,
    }


def _configure(course: Course, folder: str, number: int, stretch: dict[str, Any]) -> MicroCoderConfig:
    """Options of one stretch; each draws its own prompts and completions."""
    options = {"report_to": "none", "log_completions": False, "seed": course.seed + 1000 * number}
    options |= {**course.options, **stretch}
    return read_config(CONFIG, algorithm=course.algorithm, output_dir=folder, **options)


def _make_trainer(course: Course, config: MicroCoderConfig, pair: tuple[Any, Any]) -> MicroCoderGRPOTrainer:
    source = RunSource(course.base, "toy", course.reward or {})
    sabotage = {"reward": lambda hear: _shuffle(hear, course)} if course.shuffled else {}
    chance, rows = random.Random(f"spoilt {config.seed}"), []
    for chain in draw_chains(TOY_PROBLEMS, config.seed, lengths=course.lengths):
        rows.append(chain.row(INPUTS[: course.inputs], off=int(chance.random() < course.spoilt)))
    trainer = make_trainer(source, config, course.url, pair, train_dataset=Dataset.from_list(rows), **sabotage)
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


@lru_cache(maxsize=32)
def _measure_base(base: str, url: str, limit: int, temperature: float, device: str) -> float:
    """The pass rate of a model as it was before: the same for all courses that begin with it."""
    model, tokenizer = load_model(base, 0, dtype="float32")
    return measure_held_out(model.to(device), tokenizer, url, limit, temperature)


def measure_held_out(model: Any, tokenizer: Any, url: str, limit: int, temperature: float) -> float:
    """The share of completions of held-out problems that the service accepts."""
    chains = draw_chains(HELD_OUT, HELD_OUT_SEED, held_out=True)
    return _measure(model, tokenizer, chains, SAMPLES, url, limit, temperature)


def _measure(
    model: Any, tokenizer: Any, chains: list[Chain], count: int, url: str, limit: int, temperature: float
) -> float:
    prompts = [chain.prompt for chain in chains]
    groups = sample(
        model, tokenizer, prompts, count=count, temperature=temperature, limit=limit, seed=HELD_OUT_SEED, batch=500
    )
    rights = [right for group in judge(groups, [chain.row() for chain in chains], url, {}) for right in group]
    return sum(rights) / len(rights)


def read_curves(trainer: MicroCoderGRPOTrainer) -> dict[str, list[float]]:
    """What was logged, a value a generation; seconds are those of all its updates."""
    every = trainer.args.updates_per_generation
    entries = [entry for entry in trainer.state.log_history if "loss" in entry]
    found: dict[str, list[float]] = {}
    for name in MEASURES:
        values = [float(entry.get(name) or 0.0) for entry in entries]
        parts = [values[start : start + every] for start in range(0, len(values), every)]
        found[name] = [round(sum(part) if name.startswith("seconds/") else part[0], 4) for part in parts]
    return found


def _shuffle(hear: Hear, course: Course) -> Any:
    """A reward function whose verdicts say nothing of the completions that they are given to."""
    heard: list[list[Score]] = []
    honest, chance = make_reward(on_scores=heard.append, url=course.url), random.Random(course.seed)

    async def shuffled(completions: list[Any], log_extra: Any, log_metric: Any, **columns: Any) -> list[float | None]:
        await honest(completions, **columns)
        scores = heard.pop()
        chance.shuffle(scores)
        return report(scores, log_extra, log_metric, hear)

    return shuffled


def _calm() -> None:
    """One thread, since several trainings run beside each other, and nothing on the terminal but what is ours."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
