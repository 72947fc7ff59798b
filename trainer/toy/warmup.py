"""The toy's supervised warm-up: what a model must be able to do before rewards can teach it anything."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch

from trainer.toy.chains import Chain, Style, draw_chains

STEPS, BATCH = 400, 48
FALL = 600
"""Steps in which the rate falls."""
FIRST, EVERY = 200, 25
"""When it is first asked whether that is enough, and how often after that."""
RATE = 3e-3
PARTS = 4
"""A batch is padded in so many parts."""
POOL = 20_000
"""Different chains to learn from."""


def warm_up(
    model: Any, tokenizer: Any, *, steps: int, batch: int, seed: int, enough: Callable[[], bool] = lambda: False
) -> float:
    """Teach a model all three styles alike, on chains that aren't held out; the mean loss of the last tenth.

    Args:
        model: changed in place.
        steps: of the optimizer at most, with `batch` answers each; the rate rises for 50 and falls as a cosine to a
            tenth, which it has after 600.
        seed: of the chains and styles.
        enough: whether the model, as it is now, need learn no more; asked now and then.
    """
    chance, pool, losses = random.Random(f"warm-up {seed}"), draw_chains(POOL, seed), list[float]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    model.train()
    for step in range(steps):
        if step >= FIRST and step % EVERY == 0 and enough():
            break
        slope = min(1.0, (step + 1) / 50) * (0.55 + 0.45 * math.cos(math.pi * min(step / FALL, 1.0)))
        for group in optimizer.param_groups:
            group["lr"] = RATE * slope
        chosen = [(chance.choice(pool), chance.choice(list(Style))) for _ in range(batch)]
        optimizer.zero_grad()
        losses.append(_differentiate(model, tokenizer, chosen))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail)


def _differentiate(model: Any, tokenizer: Any, chosen: list[tuple[Chain, Style]]) -> float:
    """Add the gradient of the mean cross-entropy of the answers' tokens, their ends among them; that mean.

    In parts of like lengths: padded to the longest of all, most of a batch would be padding.
    """
    rows = []
    for chain, style in chosen:
        prompt, answer = tokenizer(chain.prompt)["input_ids"], tokenizer(chain.answer(style))["input_ids"]
        rows.append((prompt, [*answer, tokenizer.eos_token_id]))
    rows.sort(key=lambda row: len(row[0]) + len(row[1]))
    tokens, mean, step = sum(len(answer) for _, answer in rows), 0.0, -(-len(rows) // PARTS)
    for start in range(0, len(rows), step):
        loss = _sum_loss(model, rows[start : start + step], tokenizer.pad_token_id) / tokens
        loss.backward()
        mean += float(loss.detach())
    return mean


def _sum_loss(model: Any, rows: list[tuple[list[int], list[int]]], pad: int) -> torch.Tensor:
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids, labels = (torch.full((len(rows), width), fill) for fill in (pad, -100))
    for place, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        ids[place, :end] = torch.tensor(prompt + answer)
        labels[place, len(prompt) : end] = torch.tensor(answer)
    ids, labels = ids.to(model.device), labels.to(model.device)
    logits = model(input_ids=ids, attention_mask=(ids != pad).long()).logits
    flat, wanted = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return torch.nn.functional.cross_entropy(flat, wanted, reduction="sum")
