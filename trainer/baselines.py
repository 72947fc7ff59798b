"""The algorithms by name. All are the same code with other options; nothing else differs between two of them."""

from typing import Any

ALGORITHMS: dict[str, dict[str, Any]] = {
    "microcoder": {},
    "grpo": {
        "beta": 0.001,
        "epsilon_high": 0.2,
        "normaliser": "sequence_mean",
        "truncation_rate": 0.0,
    },
    "dapo-paper": {"truncation_rate": 0.0},
    "dapo-full": {"truncation_rate": 0.0, "dynamic_sampling": True, "overlong_share": 0.2},
    "deepcoder": {"truncation_rate": 0.0, "drop_truncated": True},
}
"""What each sets otherwise than MicroCoder-GRPO, whose options are the defaults. docs/trainer.md says whose choice."""


def options_of(algorithm: str) -> dict[str, Any]:
    """The options that make an algorithm.

    Raises:
        ValueError: there is none of this name.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"The algorithm {algorithm!r} isn't known: it is one of {', '.join(ALGORITHMS)}.")
    return {**ALGORITHMS[algorithm], "algorithm": algorithm}
