"""Three steps of TRL's GRPOTrainer on a random tiny model; prints what it logged as JSON.

usage: trl_grpo.py FOLDER
"""

import json
import sys
from pathlib import Path

import pandas
import torch
from datasets import Dataset
from microcoder_client.rewards.trl import code_reward
from tiny_model import make_model, make_tokenizer
from trl import GRPOConfig, GRPOTrainer

TESTS = json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    model = make_model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    trainer = GRPOTrainer(
        model=model,
        processing_class=make_tokenizer(),
        reward_funcs=code_reward,
        train_dataset=Dataset.from_list([{"prompt": "Double it: a number ", "input_output": TESTS}] * 8),
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=3,
            per_device_train_batch_size=16,
            num_generations=8,
            max_completion_length=6,
            learning_rate=0.01,
            logging_steps=1,
            log_completions=True,
            num_completions_to_print=0,
            report_to="none",
            save_strategy="no",
            bf16=False,
            use_cpu=True,
            seed=1,
        ),
    )
    trainer.train()
    tables = [pandas.read_parquet(path) for path in sorted(folder.glob("completions/*.parquet"))]
    after = list(trainer.model.parameters())
    result = {
        "steps": trainer.state.global_step,
        "logs": [entry for entry in trainer.state.log_history if "reward" in entry],
        "verdicts": [list(table["verdict"]) for table in tables],
        "rewards": [[None if value != value else value for value in table["code_reward"]] for table in tables],
        "advantages": [list(table["advantage"]) for table in tables],
        "changed": any(not torch.equal(old, new) for old, new in zip(before, after, strict=True)),
    }
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
