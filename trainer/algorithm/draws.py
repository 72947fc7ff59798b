"""Chance without a generator: a number that depends on what it is for, and on nothing that happened before.

A run that is resumed, one that is split over more processes, and a sample that is looked at in several updates all get
the same number.
"""

import hashlib
import json
import operator
from typing import SupportsIndex

_BITS = 53
"""As many as a float between 0 and 1 tells apart."""


def draw(seed: SupportsIndex, generation: SupportsIndex, prompt: SupportsIndex | str, sample: SupportsIndex) -> float:
    """A number in [0, 1), uniform over what it is drawn for.

    Args:
        seed: the run's.
        generation: how many batches of completions were generated before this one.
        prompt: what the dataset calls the problem. A number and the text of that number are two prompts.
        sample: the completion's place among those of its prompt, from 0.
    """
    name = prompt if isinstance(prompt, str) else operator.index(prompt)
    key = json.dumps([operator.index(seed), operator.index(generation), name, operator.index(sample)])
    word = int.from_bytes(hashlib.sha256(key.encode("ascii")).digest()[:8], "big")
    return (word >> (64 - _BITS)) * 2.0**-_BITS
