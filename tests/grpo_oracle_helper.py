"""One step of MicroCoder-GRPO in plain Python, from the paper's formulas and without the trainer's code.

The policy is a table: the logits of the next token are the row of the token before. Its gradient is derived by hand, so
nothing here is differentiated by a library. Numbers are floats, batches are lists.
"""

import hashlib
import json
import math
from dataclasses import dataclass


@dataclass
class Answer:
    """A completion, the token before it, and what the service said of it (None: nothing)."""

    prompt: int
    index: int
    start: int
    ids: list[int]
    verdict: str
    reward: float | None
    temperature: float


@dataclass
class Step:
    """The hyperparameters of a step."""

    group: int
    limit: int
    ends: list[int]
    window: int
    rate: float
    seed: int
    generation: int
    low: float
    high: float
    by_token: bool


def probabilities(table, before, temperature):
    scores = [value / temperature for value in table[before]]
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return [weight / sum(weights) for weight in weights]


def advantages(answers, step):
    """The masked advantages, in the order of the answers."""
    found = []
    for first in range(0, len(answers), step.group):
        group = answers[first : first + step.group]
        known = [a.reward for a in group if a.reward is not None]
        mean = sum(known) / len(known)
        deviation = math.sqrt(sum((r - mean) ** 2 for r in known) / (len(known) - 1))
        for a in group:
            value = 0.0 if a.reward is None else (a.reward - mean) / (deviation + 1e-6)
            found.append(0.0 if is_masked(a, step) else value)
    return found


def is_masked(a, step):
    if len(a.ids) != step.limit or a.ids[-1] in step.ends:
        return False
    if a.verdict not in ("accepted", "no_code"):
        return False
    m, n = step.window, len(a.ids)
    if n >= 2 * m and all(a.ids[n - m + k] == a.ids[n - 2 * m + k] for k in range(m)):
        return False
    key = json.dumps([step.seed, step.generation, a.prompt, a.index]).encode()
    number = int(hashlib.sha256(key).hexdigest()[:16], 16) // 2048
    return number / 2**53 < step.rate


def loss_and_gradient(new, old, answers, step):
    """The loss of the table `new` on answers that `old` gave, and its gradient, a table too."""
    gradient = [[0.0] * len(row) for row in new]
    loss = 0.0
    tokens = sum(len(a.ids) for a in answers)
    for a, advantage in zip(answers, advantages(answers, step), strict=True):
        share = 1 / tokens if step.by_token else 1 / (len(answers) * len(a.ids))
        before = a.start
        for token in a.ids:
            now = probabilities(new, before, a.temperature)
            then = probabilities(old, before, a.temperature)
            ratio = now[token] / then[token]
            kept = min(max(ratio, 1 - step.low), 1 + step.high)
            loss -= share * min(ratio * advantage, kept * advantage)
            if ratio * advantage <= kept * advantage:
                for other, chance in enumerate(now):
                    slope = ((other == token) - chance) / a.temperature
                    gradient[before][other] -= share * advantage * ratio * slope
            before = token
    return loss, gradient
