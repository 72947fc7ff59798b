"""Self-BLEU (Zhu et al., 2018): each completion of a group scored by BLEU against all others, averaged.

BLEU-4 with equal weights, the closest reference's length for the brevity penalty, and 0.1 in place of a count of 0
(Chen and Cherry's first smoothing), as in NLTK. Completions without tokens score 0.
"""

import math
from collections import Counter
from collections.abc import Sequence

ORDERS = (1, 2, 3, 4)
SMALLEST = 0.1

Ids = Sequence[int]
Grams = Counter[tuple[int, ...]]


def self_bleu(group: Sequence[Ids]) -> float:
    """The mean over a group of two completions or more, in [0, 1]: 1 where all are equal and have four tokens."""
    precisions = [_precisions([_count(ids, order) for ids in group]) for order in ORDERS]
    lengths = [len(ids) for ids in group]
    scores = [_combine([column[i] for column in precisions], lengths, i) for i in range(len(group))]
    return sum(scores) / len(scores)


def _count(ids: Ids, order: int) -> Grams:
    return Counter(zip(*(ids[start:] for start in range(order)), strict=False))


def _precisions(counts: Sequence[Grams]) -> list[tuple[int, int]]:
    """Of each completion: how many of its n-grams the others have, each as often as one of them has it, and all."""
    highest: dict[tuple[int, ...], tuple[int, int]] = {}
    for grams in counts:
        for gram, times in grams.items():
            first, second = highest.get(gram, (0, 0))
            highest[gram] = (times, first) if times > first else (first, max(second, times))
    found = []
    for grams in counts:
        # The most that another has: where this one has the most itself, the second most.
        shared = sum(min(times, highest[gram][times == highest[gram][0]]) for gram, times in grams.items())
        found.append((shared, grams.total()))
    return found


def _combine(precisions: Sequence[tuple[int, int]], lengths: Sequence[int], index: int) -> float:
    if precisions[0][0] == 0:
        return 0.0
    logs = [math.log((shared or SMALLEST) / max(total, 1)) for shared, total in precisions]
    own = lengths[index]
    closest = min((abs(length - own), length) for other, length in enumerate(lengths) if other != index)[1]
    penalty = 1.0 if own > closest else math.exp(1 - closest / own)
    return penalty * math.exp(sum(logs) / len(logs))
