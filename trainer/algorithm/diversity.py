"""How far the completions of one prompt differ. The paper shows a diversity and doesn't define it; these are ours.

All three are in [0, 1], of token ids, per prompt and then averaged. Their values aren't comparable with each other, nor
with the paper's curves: calibrate any threshold with a sweep. They grow with the length of completions.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations

from trainer.algorithm.self_bleu import self_bleu

ORDER = 4

Ids = Sequence[int]


def pairwise_diversity(group: Sequence[Ids], order: int = ORDER) -> float:
    """Mean over all pairs of 1 − |A ∩ B| / |A ∪ B|, where A and B are their sets of n-grams. The default measure.

    0 where all are equal, 1 where no two share an n-gram.
    """
    sets = [set(_grams(ids, order)) for ids in _check(group)]
    distances = [1 - len(one & other) / len(one | other) for one, other in combinations(sets, 2)]
    return sum(distances) / len(distances)


def pooled_distinct(group: Sequence[Ids], order: int = ORDER) -> float:
    """Different n-grams of a group's completions by all of them: 1/G where G are equal and don't repeat themselves."""
    grams = [gram for ids in _check(group) for gram in _grams(ids, order)]
    return len(set(grams)) / len(grams)


def self_bleu_diversity(group: Sequence[Ids]) -> float:
    """1 − self-BLEU-4: how badly each completion is explained by the others together. Slow: for reports, not steps."""
    return 1 - self_bleu(_check(group))


def mean_diversity(
    groups: Sequence[Sequence[Ids]],
    special: Collection[int] = (),
    measure: Callable[[Sequence[Ids]], float] = pairwise_diversity,
) -> float:
    """The mean of a measure over prompts.

    Args:
        groups: each prompt's completions, as token ids without padding.
        special: ids that are left out: end tokens, and others that nobody wrote.
        measure: one of the measures of this module.

    Raises:
        ValueError: there is no group, or one of fewer than two completions.
    """
    if not groups:
        raise ValueError("There is no group of completions to measure the diversity of.")
    left_out = frozenset(special)
    return sum(measure([[id for id in ids if id not in left_out] for ids in group]) for group in groups) / len(groups)


def _check(group: Sequence[Ids]) -> Sequence[Ids]:
    if len(group) < 2:
        raise ValueError(f"Diversity is between completions of one prompt; a group of {len(group)} has none.")
    return group


def _grams(ids: Ids, order: int) -> Iterator[tuple[int, ...]]:
    """All n-grams; of a completion that is too short for one, the whole: equal ones stay equal, others different."""
    if len(ids) < order:
        return iter([tuple(ids)])
    return zip(*(ids[start:] for start in range(order)), strict=False)
