"""The loss of a batch sample by sample, without padding: what padded, split and spread batches must equal.

And what tests plant: verdicts, and completions that don't depend on who generates them. Needs torch.
"""

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from microcoder_client.rewards.scoring import Score

TOO_HARD = "Double it: a number "


def judge(text: str) -> Score:
    """What the service would say of the tiny model's answers, most of which are words of the prompt."""
    verdict = "accepted" if "input()" in text else "no_code" if "x = 1" in text else "wrong_answer"
    return Score(float(verdict == "accepted"), verdict)


def judge_all_but_one(prompt: str, text: str) -> Score:
    """As above, but one prompt is too hard: all its answers are wrong."""
    return Score(0.0, "wrong_answer") if prompt == TOO_HARD else judge(text)


def plant(prompt: Sequence[int], generation: int, place: int) -> list[int]:
    """The tokens of a completion of the tiny model, which the arguments alone decide: six, or an end before."""
    chance = random.Random(f"{list(prompt)} {generation} {place}")
    words = [chance.randrange(3, 11) for _ in range(chance.choice([2, 4, 6, 6]))]
    return words if len(words) == 6 else [*words, 1]


def read_curves(history: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """What a training has logged, an entry an update, but for seconds."""
    return [
        {name: value for name, value in entry.items() if not (name.startswith("seconds/") or name == "step_time")}
        for entry in history
        if "loss" in entry
    ]


def split_rows(part: dict[str, Any]) -> list[SimpleNamespace]:
    """The samples of a part of a batch."""
    rows = []
    for i in range(len(part["advantages"])):
        inside, kept = part["prompt_mask"][i].bool(), part["completion_mask"][i].bool()
        rows.append(
            SimpleNamespace(
                prompt=part["prompt_ids"][i][inside].tolist(),
                ids=part["completion_ids"][i][kept].tolist(),
                old=part["old_per_token_logps"][i][kept],
                advantage=part["advantages"][i].item(),
                temperature=part["temperatures"][i].item(),
            )
        )
    return rows


def differentiate(model: Any, rows: list[SimpleNamespace], by_token: bool) -> list[torch.Tensor]:
    """The gradient of one update on these samples."""
    model.zero_grad()
    tokens = sum(len(row.ids) for row in rows)
    for row in rows:
        logits = model(torch.tensor([row.prompt + row.ids])).logits[0, len(row.prompt) - 1 : -1]
        logs = torch.log_softmax(logits / row.temperature, dim=-1)[range(len(row.ids)), row.ids]
        ratios = (logs - row.old).exp()
        gains = torch.min(ratios * row.advantage, ratios.clip(0.8, 1.28) * row.advantage)
        loss = -gains.sum() / tokens if by_token else -gains.mean() / len(rows)
        loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]
