"""The paper's seven aspects as comparisons at the scale of the toy: what each variant changes."""

import json
from dataclasses import dataclass, field
from typing import Any

SHORT = {"max_completion_length": 44, "truncation_window": 8}
"""A limit that truncates."""
HEATS = (0.6, 1.0, 1.4, 1.8)


@dataclass(frozen=True)
class Variant:
    """One side of a comparison: what it changes of the toy's training, and the rest of a `Course`."""

    label: str
    options: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "microcoder"
    rest: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same for variants of different names that train alike."""
        return json.dumps([self.options, self.algorithm, self.rest], sort_keys=True)


def _batch(parts: int) -> dict[str, int]:
    """A generation of 256 completions in so many updates."""
    return {"per_device_train_batch_size": 256 // parts, "steps_per_generation": parts}


def _heat(label: str, **options: Any) -> Variant:
    return Variant(label, options, rest={"heats": HEATS})


def _grow(label: str, limit: int, generations: int) -> Variant:
    """A limit for so many of 20 generations, then 64."""
    short = {"max_completion_length": limit, "max_steps": 4 * generations}
    return Variant(label, rest={"stretches": (short, {"max_steps": 4 * (20 - generations)})})


ASPECTS: dict[str, tuple[Variant, ...]] = {
    "evaluator": (
        Variant("right"),
        Variant("rejects a fifth", rest={"spoilt": 0.2}),
        Variant("rejects half", rest={"spoilt": 0.5}),
        Variant("one test", rest={"inputs": 1}),
        Variant("fraction", rest={"reward": {"fraction": True}}),
    ),
    "temperature": (
        _heat("1.0"),
        _heat("0.6", temperatures="0.6"),
        _heat("1.4", temperatures="1.4"),
        _heat("0.6, then 1.0", temperatures="0.6,1.0", stage_length=10),
        _heat("0.6, then 1.4", temperatures="0.6,1.4", stage_length=10),
    ),
    "data": (
        Variant("all lengths"),
        Variant("2 and 3", rest={"lengths": (2, 3)}),
        Variant("5 and 6", rest={"lengths": (5, 6)}),
    ),
    "context": (
        Variant("64"),
        Variant("44", {"max_completion_length": 44}),
        Variant("28", {"max_completion_length": 28}),
        _grow("44, from 10 on 64", 44, 10),
        _grow("28, from 10 on 64", 28, 10),
        _grow("28, from 16 on 64", 28, 16),
    ),
    "mask": (
        Variant("none", {**SHORT, "truncation_rate": 0.0}),
        Variant("0.2", {**SHORT, "truncation_rate": 0.2}),
        Variant("1", {**SHORT, "truncation_rate": 1.0}),
        Variant("1, correct only", {**SHORT, "truncation_rate": 1.0, "truncation_reading": "correct_only"}),
        Variant("1, loops too", {**SHORT, "truncation_rate": 1.0, "repeat_test": "off"}),
        Variant("all", {**SHORT, "truncation_rate": 1.0, "truncation_reading": "any", "repeat_test": "off"}),
    ),
    "updates": (
        Variant("4 a generation"),
        Variant("1", _batch(1)),
        Variant("2", _batch(2)),
        Variant("8", _batch(8)),
    ),
    "kl-and-clip": (
        Variant("none, 0.28"),
        Variant("none, 0.2", {"epsilon_high": 0.2}),
        Variant("0.001, 0.2", {"epsilon_high": 0.2, "beta": 0.001}),
        Variant("0.1, 0.2", {"epsilon_high": 0.2, "beta": 0.1}),
    ),
}
"""By the paper's aspect: the variants, the first of which the others are compared with."""
