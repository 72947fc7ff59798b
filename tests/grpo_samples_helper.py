"""The loss of a batch sample by sample, without padding: what padded, split and spread batches must equal.

Needs torch.
"""

from types import SimpleNamespace
from typing import Any

import torch
from microcoder_client.rewards.scoring import Score


def judge(text: str) -> Score:
    """What the service would say of the tiny model's answers, most of which are words of the prompt."""
    verdict = "accepted" if "input()" in text else "no_code" if "x = 1" in text else "wrong_answer"
    return Score(float(verdict == "accepted"), verdict)


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
