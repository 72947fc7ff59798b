"""A training out of a configuration: its model, its problems, where rewards come from. Needs torch and TRL.

The section `run` of a configuration says what is trained on what:

    run:
      model: Qwen/Qwen3-4B-Instruct-2507     # a name or a folder; `toy` is the toy's with random weights, `warm-toy`
                                             # the same after its supervised warm-up, which takes a minute or two
      problems: problems.jsonl               # a row a line: `prompt`, and tests in columns the client knows; or `toy`
      reward: {fraction: false}              # options of the client's scorer
      lora: {r: 16, lora_alpha: 32}          # of peft, where only adapters are trained
"""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml
from datasets import Dataset
from microcoder_client import UnreadableTests
from microcoder_client.rewards.columns import read_tests
from microcoder_client.rewards.trl import make_reward
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainer.arguments import MicroCoderConfig
from trainer.grpo import MicroCoderGRPOTrainer
from trainer.toy.chains import draw_chains
from trainer.toy.vocabulary import make_model, make_tokenizer
from trainer.toy.warmup import BATCH, STEPS, warm_up

TOY, WARM_TOY = "toy", "warm-toy"
TOY_PROBLEMS = 4096


class BadRun(ValueError):
    """A configuration's `run` can't be followed. The message says why."""


@dataclass(frozen=True)
class RunSource:
    """The section `run` of a configuration."""

    model: str
    problems: str
    reward: dict[str, Any] = field(default_factory=dict)
    lora: dict[str, Any] = field(default_factory=dict)


def read_source(path: Path) -> RunSource:
    """The section `run` of a configuration's file.

    Raises:
        BadRun: there is none, or it has keys that aren't known, or the file isn't YAML.
    """
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise BadRun(f"{path.name} can't be read as YAML: {' '.join(str(error).split())}") from None
    values = document.get("run") if isinstance(document, dict) else None
    known = {entry.name for entry in fields(RunSource)}
    if not isinstance(values, dict) or not {"model", "problems"} <= values.keys() <= known:
        raise BadRun(
            f"{path.name} needs a section `run` with `model` and `problems` (and `reward`, `lora` where wanted); it "
            f"has {values!r}."
        )
    return RunSource(**values)


def load_model(name: str, seed: int, *, dtype: str = "auto") -> tuple[Any, Any]:
    """A model and its tokenizer: by name, out of a folder, or the toy's."""
    if name in (TOY, WARM_TOY):
        made, words = make_model(seed), make_tokenizer()
        if name == WARM_TOY:
            warm_up(made, words, steps=STEPS, batch=BATCH, seed=seed)
        return made, words
    try:
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except OSError as error:
        raise BadRun(f"The model {name!r} can't be loaded: {str(error).splitlines()[0]}") from None
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def load_problems(name: str, seed: int) -> list[dict[str, Any]]:
    """Rows with a prompt and tests. Every row's tests are read once, here: in a training it is too late.

    Raises:
        BadRun: a row can't be used. The message names its line.
    """
    if name == TOY:
        return [chain.row() for chain in draw_chains(TOY_PROBLEMS, seed)]
    rows = []
    try:
        lines = Path(name).read_text("utf-8").splitlines()
    except OSError as error:
        raise BadRun(f"The problems {name!r} can't be read: {error.strerror}.") from None
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            read_tests(row)
        except (json.JSONDecodeError, UnreadableTests) as error:
            raise BadRun(f"{name}, line {number}: {error}") from None
        if not isinstance(row, dict) or "prompt" not in row:
            raise BadRun(f"{name}, line {number}: the row has no `prompt`.")
        rows.append(row)
    if not rows:
        raise BadRun(f"{name} holds no problem.")
    return rows


def make_trainer(
    source: RunSource, config: MicroCoderConfig, url: str, model: Any = None, **options: Any
) -> MicroCoderGRPOTrainer:
    """A trainer that has not begun.

    Args:
        url: of the service that judges.
        model: a model with its tokenizer, where they are at hand; else they are loaded as `source` says.
        options: of the trainer.
    """
    network, tokenizer = model or load_model(source.model, config.seed, dtype="bfloat16" if config.bf16 else "float32")
    if config.beta and not network.config._name_or_path and not source.lora:
        raise BadRun("A KL term compares with the model as it was: give `run.model` a name or folder to load it from.")
    if source.lora:
        from peft import LoraConfig

        options["peft_config"] = LoraConfig(task_type="CAUSAL_LM", **source.lora)
    rewards = {"url": url, **source.reward}
    options.setdefault("reward", lambda hear: make_reward(on_scores=hear, **rewards))
    if "train_dataset" not in options:
        options["train_dataset"] = Dataset.from_list(load_problems(source.problems, config.seed))
    return MicroCoderGRPOTrainer(model=network, args=config, processing_class=tokenizer, **options)
