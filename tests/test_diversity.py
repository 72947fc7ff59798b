"""Measures of diversity: by hand, by their definitions, and what must hold of each."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.algorithm.diversity import mean_diversity, pairwise_diversity, pooled_distinct, self_bleu_diversity
from trainer.algorithm.self_bleu import self_bleu

MEASURES = [pairwise_diversity, pooled_distinct, self_bleu_diversity]
completions = st.lists(st.integers(0, 3), max_size=12)
groups = st.lists(completions, min_size=2, max_size=5)


def test_by_hand():
    # 4-grams: {1234, 2345} and {2345, 3456}: one of three is shared.
    group = [[1, 2, 3, 4, 5], [2, 3, 4, 5, 6]]
    assert pairwise_diversity(group) == pytest.approx(2 / 3)
    assert pooled_distinct(group) == pytest.approx(3 / 4)
    # A third that shares nothing: pairs 2/3, 1, 1; five different of six.
    group.append([7, 8, 9, 7, 8])
    assert pairwise_diversity(group) == pytest.approx(8 / 9)
    assert pooled_distinct(group) == pytest.approx(5 / 6)


def test_equal_completions_and_those_that_share_nothing():
    equal, different = [[1, 2, 3, 4, 5, 6]] * 4, [[10 * i + j for j in range(6)] for i in range(4)]
    assert (pairwise_diversity(equal), pairwise_diversity(different)) == (0.0, 1.0)
    assert (pooled_distinct(equal), pooled_distinct(different)) == (0.25, 1.0)
    assert (self_bleu_diversity(equal), self_bleu_diversity(different)) == (0.0, 1.0)


def test_loops_have_little_diversity_where_they_are_the_same_loop():
    assert pairwise_diversity([[1, 2] * 20, [1, 2] * 30]) == 0.0
    assert pooled_distinct([[1, 2] * 20, [1, 2] * 30]) < 0.03
    assert pairwise_diversity([[1, 2] * 20, [3, 4] * 30]) == 1.0


def test_completions_too_short_for_an_n_gram_are_compared_whole():
    assert pairwise_diversity([[1, 2], [1, 2]]) == 0.0
    assert pairwise_diversity([[1, 2], [1, 3]]) == 1.0
    assert pairwise_diversity([[], []]) == 0.0
    assert pooled_distinct([[], [], [1]]) == pytest.approx(2 / 3)


@settings(max_examples=150, deadline=None)
@given(groups)
def test_pairwise_diversity_is_its_definition(group: list[list[int]]):
    def grams(ids: list[int]) -> set[tuple[int, ...]]:
        return {tuple(ids[i : i + 4]) for i in range(len(ids) - 3)} or {tuple(ids)}

    values = []
    for i, j in itertools.combinations(range(len(group)), 2):
        one, other = grams(group[i]), grams(group[j])
        values.append(1 - len(one & other) / len(one | other))
    assert pairwise_diversity(group) == pytest.approx(sum(values) / len(values))


@settings(max_examples=150, deadline=None)
@given(groups, st.randoms(use_true_random=False))
def test_measures_lie_between_0_and_1_and_know_no_order(group: list[list[int]], random):
    shuffled = random.sample(group, len(group))
    for measure in MEASURES:
        assert -1e-12 <= measure(group) <= 1 + 1e-12
        assert measure(shuffled) == pytest.approx(measure(group))
        renamed = [[7 - id for id in ids] for ids in group]
        assert measure(renamed) == pytest.approx(measure(group)), "which ids the tokens have is all the same"


@pytest.mark.parametrize(
    ("group", "expected"),
    [  # sentence_bleu of NLTK 3.9 with SmoothingFunction().method1, each against the others, averaged
        ([[1, 2, 3, 4, 5], [1, 2, 3, 9, 5, 6], [7, 1, 2, 3, 4]], 0.5309885356579488),
        ([[1, 2, 1, 2, 1, 2], [1, 2, 1, 2], [2, 1, 2, 1, 2, 1, 2]], 0.7540396987244895),
        ([[4, 4, 4, 2, 3, 0, 4, 3, 2, 4, 1, 2], [1, 1], []], 0.0555226880532538),
        ([[4, 0], [3, 2, 2, 3], [0], [3, 3, 2, 2, 0, 3, 0, 3]], 0.1996095312313873),
    ],
)
def test_self_bleu_is_nltks(group: list[list[int]], expected: float):
    assert self_bleu(group) == pytest.approx(expected, rel=1e-12)


def test_the_mean_is_over_prompts_and_without_special_tokens():
    equal, different = [[1, 2, 3, 4, 0]] * 2, [[1, 2, 3, 4, 0], [5, 6, 7, 8, 0, 0]]
    assert mean_diversity([equal, different, different]) == pytest.approx(2 / 3)
    ended, cut_off = [1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5]
    assert mean_diversity([[ended, cut_off]]) > 0
    assert mean_diversity([[ended, cut_off]], special={0}) == 0.0
    assert mean_diversity([different], special={0}, measure=pooled_distinct) == 1.0


def test_what_has_no_diversity_is_refused():
    with pytest.raises(ValueError, match="no group"):
        mean_diversity([])
    for measure in MEASURES:
        with pytest.raises(ValueError, match="a group of 1 has none"):
            measure([[1, 2, 3, 4]])
