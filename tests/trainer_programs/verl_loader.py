"""The reward function as verl loads and calls it; prints what its reward manager made of it as JSON.

usage: verl_loader.py PATH NAME
"""

import asyncio
import json
import sys

import numpy as np
import torch
from omegaconf import OmegaConf
from tiny_model import BROKEN, RIGHT, WRONG, make_tokenizer
from verl import DataProto
from verl.trainer.ppo.reward import load_reward_manager

TRUTH = json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})


def sample(tokenizer, answer: str) -> DataProto:
    """A rollout of one sequence, padded as verl pads responses."""
    responses = torch.tensor([[tokenizer.convert_tokens_to_ids(answer), 1, 0, 0]])
    tensors = {"responses": responses, "attention_mask": torch.tensor([[1, 1, 1, 1, 0, 0]])}
    columns = {
        "data_source": np.array(["taco"], dtype=object),
        "reward_model": np.array([{"style": "rule", "ground_truth": TRUTH}], dtype=object),
        "extra_info": np.array([{"index": 0, "split": "train"}], dtype=object),
    }
    return DataProto.from_dict(tensors=tensors, non_tensors=columns)


async def main(path: str, name: str) -> None:
    function = {"path": path, "name": name, "reward_kwargs": {"fraction": True, "limits": {"cpu_seconds": 2}}}
    manager = {"source": "register", "name": "naive", "module": None}
    config = OmegaConf.create({"reward": {"custom_reward_function": function, "reward_manager": manager}})
    tokenizer = make_tokenizer()
    loaded = load_reward_manager(config, tokenizer)
    samples = [sample(tokenizer, text) for text in (RIGHT, WRONG, BROKEN)]
    results = await asyncio.gather(*map(loaded.run_single, samples), return_exceptions=True)
    shown = [type(result).__name__ if isinstance(result, Exception) else result for result in results]
    print("RESULT " + json.dumps({"manager": type(loaded).__module__, "results": shown}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
