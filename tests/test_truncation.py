"""The conditional truncation mask: each predicate, all of them together, and the chance that it rests on."""

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from microcoder_client.judgements import VERDICTS

from evaluator.extraction import extract_code
from trainer.algorithm.draws import draw
from trainer.algorithm.repeats import repeats_literally, repeats_with_any_period
from trainer.algorithm.truncation import (
    CORRECT,
    INCOMPLETE,
    INCORRECT,
    UNJUDGED,
    Reading,
    RepeatTest,
    Sample,
    Truncation,
    TruncationRule,
    count_truncations,
    is_not_incorrect,
    is_truncated,
    judge_truncation,
)

END, OTHER_END = 1, 2
RULE = TruncationRule(limit=8, end_tokens=frozenset({END, OTHER_END}), rate=1.0, window=3)
STRAIGHT = (10, 11, 12, 13, 14, 15, 16, 17)
LOOPING = (10, 11, 12, 13, 14, 12, 13, 14)
"""The last three tokens equal the three before."""
PERIOD_OF_TWO = (10, 11, 12, 13, 12, 13, 12, 13)
"""A loop that the literal test doesn't see with a window of three."""
NOTHING = Truncation(False, False, False, False, False)

tokens = st.lists(st.integers(0, 2), max_size=14)
windows = st.integers(1, 5)


def judge(ids, verdict="no_code", rule=RULE, prompt="p", index=0, generation=0) -> Truncation:
    return judge_truncation(Sample(ids, verdict, prompt, index), rule, seed=7, generation=generation)


def test_a_completion_at_the_limit_is_truncated_unless_it_ends_with_any_of_the_end_tokens():
    assert is_truncated(STRAIGHT, RULE)
    assert not is_truncated(STRAIGHT[:7], RULE)
    assert not is_truncated((*STRAIGHT[:7], END), RULE)
    assert not is_truncated((*STRAIGHT[:7], OTHER_END), RULE)
    assert is_truncated((*STRAIGHT[:6], END, 10), RULE)
    assert not is_truncated((), RULE)


def test_more_tokens_than_the_limit_are_refused():
    with pytest.raises(ValueError, match="9 tokens and the limit is 8"):
        is_truncated((*STRAIGHT, 0), RULE)


def test_the_groups_of_verdicts_are_all_that_the_service_knows_each_once():
    groups = [CORRECT, INCOMPLETE, INCORRECT, UNJUDGED]
    assert set().union(*groups) == VERDICTS
    assert sum(map(len, groups)) == len(VERDICTS)


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (Reading.CORRECT_OR_INCOMPLETE, {"accepted", "no_code"}),
        (Reading.CORRECT_ONLY, {"accepted"}),
        (Reading.INCORRECT_ONLY, INCORRECT),
        (Reading.ANY, VERDICTS - {"internal_error", "cancelled", "skipped"}),
    ],
)
def test_each_reading_of_non_incorrect_takes_its_verdicts(reading: Reading, expected: set[str]):
    assert {verdict for verdict in VERDICTS if is_not_incorrect(verdict, reading)} == expected
    assert {verdict for verdict in VERDICTS if judge(STRAIGHT, verdict, replace(RULE, reading=reading)).masked} == (
        expected
    )


def test_an_unknown_verdict_is_refused_even_where_it_would_not_matter():
    with pytest.raises(ValueError, match="'presentation_error' isn't known"):
        judge(STRAIGHT[:3], "presentation_error")


def test_the_literal_test_finds_what_it_says_and_not_other_periods():
    assert repeats_literally(LOOPING, 3)
    assert not repeats_literally(PERIOD_OF_TWO, 3)
    assert repeats_literally(PERIOD_OF_TWO, 2)
    assert repeats_with_any_period(PERIOD_OF_TWO, 3)
    assert not repeats_with_any_period(STRAIGHT, 3)


def test_a_loop_of_three_tokens_over_a_window_of_128_is_found_by_any_period_alone():
    ids = [5, 6, 7] * 100
    assert not repeats_literally(ids, 128)
    assert repeats_with_any_period(ids, 128)
    assert repeats_literally([5, 6] * 128, 128)
    assert not repeats_literally(([5, 6] * 128)[1:], 128), "255 tokens are fewer than two windows"


@settings(max_examples=400, deadline=None)
@given(tokens, windows)
def test_both_repeat_tests_agree_with_their_definitions(ids: list[int], window: int):
    tail = ids[-2 * window :]
    enough = len(ids) >= 2 * window
    literal = enough and all(tail[j] == tail[j + window] for j in range(window))
    periodic = enough and any(all(tail[j] == tail[j - p] for j in range(p, 2 * window)) for p in range(1, window + 1))
    assert repeats_literally(ids, window) == literal
    assert repeats_with_any_period(ids, window) == periodic
    assert periodic or not literal


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.lists(st.integers(0, 3), max_size=6), st.integers(5, 9))
def test_a_built_loop_is_found_whatever_comes_before_and_where_it_is_cut(loop: list[int], before: list[int], m: int):
    ids = before + (loop * (2 * m))[: 2 * m]
    assert repeats_with_any_period(ids, m)


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_without_tokens_is_refused(window: int):
    for test in (repeats_literally, repeats_with_any_period):
        with pytest.raises(ValueError, match="windows of 1 token"):
            test([1, 2, 3], window)


def test_the_four_predicates_are_needed_together():
    ways = {
        "length": (STRAIGHT[:7], STRAIGHT),
        "verdict": ("wrong_answer", "no_code"),
        "loop": (LOOPING, STRAIGHT),
        "rate": (0.0, 1.0),
    }
    for bits in itertools.product((0, 1), repeat=4):
        long, fits, straight, lucky = bits
        ids = STRAIGHT if straight else LOOPING
        ids = ids if long else ids[1:]
        found = judge(ids, ways["verdict"][fits], replace(RULE, rate=ways["rate"][lucky]))
        assert found.truncated == bool(long)
        assert found.eligible == all((long, fits, straight))
        assert found.masked == all(bits)
        assert found.repeats_literally == (bool(long) and not straight)


def test_the_repeat_test_is_switchable_and_both_are_reported():
    for repeat_test, masked in ((RepeatTest.LITERAL, True), (RepeatTest.ANY_PERIOD, False), (RepeatTest.OFF, True)):
        found = judge(PERIOD_OF_TWO, rule=replace(RULE, repeat_test=repeat_test))
        assert found == Truncation(True, masked, masked, repeats_literally=False, repeats_with_any_period=True)
    assert judge(LOOPING, rule=replace(RULE, repeat_test=RepeatTest.OFF)).masked


def test_masking_all_masks_whatever_was_cut_off_and_judged():
    rule = TruncationRule.mask_all(8, frozenset({END}))
    for ids, verdict in itertools.product((STRAIGHT, LOOPING, PERIOD_OF_TWO), VERDICTS):
        assert judge(ids, verdict, rule).masked == (verdict not in UNJUDGED)
        assert judge(ids[:7], verdict, rule) == NOTHING


def test_a_draft_in_a_thinking_that_was_cut_off_is_incomplete_and_is_masked():
    draft = "A draft:\n```python\nprint(1)\n```\nBut wait"
    assert extract_code(f"<think>\n{draft}") is None, "so the service's verdict is no_code"
    assert extract_code(draft) == "print(1)\n", "without the thinking it is a program, right or wrong"
    assert judge(STRAIGHT, "no_code").masked
    assert not judge(STRAIGHT, "wrong_answer").masked


def test_a_rate_of_zero_masks_nothing_and_changes_nothing_else():
    for ids, verdict in itertools.product((STRAIGHT, LOOPING, STRAIGHT[:4]), VERDICTS):
        for generation in range(20):
            with_mask = judge(ids, verdict, generation=generation)
            without = judge(ids, verdict, replace(RULE, rate=0.0), generation=generation)
            assert without == replace(with_mask, masked=False)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
def test_the_masked_share_of_eligible_completions_is_the_rate(rate: float):
    found = [
        judge(STRAIGHT, rule=replace(RULE, rate=rate), prompt=prompt, index=index, generation=generation)
        for generation, prompt, index in itertools.product(range(25), range(25), range(8))
    ]
    counts = count_truncations(found)
    assert counts["completions"] == counts["truncated"] == counts["eligible"] == 5000
    assert counts["masked"] / 5000 == pytest.approx(rate, abs=4 * (rate * (1 - rate) / 5000) ** 0.5)


def test_a_higher_rate_masks_a_superset():
    def masked(rate: float) -> set[int]:
        return {i for i in range(500) if judge(STRAIGHT, rule=replace(RULE, rate=rate), index=i).masked}

    assert masked(0.1) < masked(0.2) < masked(0.6)


def test_draws_are_the_same_numbers_for_ever():
    """A training that is resumed with a later version goes on with the mask that it would have had."""
    assert [draw(0, 0, 0, 0), draw(1, 2, "a", 3), draw(42, 7, "é", 0)] == [
        0.6603546431722601,
        0.6045479359919133,
        0.1077761674266603,
    ]


def test_draws_are_the_same_in_another_process_with_another_hash_seed():
    keys = [(0, 0, 0, 0), (1, 2, "a", 3), (42, 7, "é\ud800", 5), (2**70, 3, -1, 4)]
    source = f"from trainer.algorithm.draws import draw; print([draw(*key) for key in {keys!r}])"
    for seed in ("0", "1"):
        answer = subprocess.run(
            [sys.executable, "-c", source],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent.parent,
            env={"PYTHONHASHSEED": seed},
        )
        assert answer.stdout.strip() == repr([draw(*key) for key in keys])


@settings(max_examples=200, deadline=None)
@given(st.tuples(st.integers(), st.integers(), st.integers() | st.text(), st.integers()), st.integers(0, 3))
def test_every_part_of_a_draws_key_counts(key: tuple, place: int):
    other = list(key)
    other[place] = (
        f"{key[place]}" if place == 2 and isinstance(key[place], int) else "x" if place == 2 else key[place] + 1
    )
    assert 0.0 <= draw(*key) < 1.0
    assert draw(*key) == draw(*key)
    assert draw(*key) != draw(*other) or tuple(other) == key


def test_draws_are_uniform():
    drawn = sorted(draw(3, generation, "p", index) for generation in range(100) for index in range(40))
    worst = max(abs(value - (place + 0.5) / len(drawn)) for place, value in enumerate(drawn))
    assert worst < 1.63 / len(drawn) ** 0.5, "Kolmogorov and Smirnov's bound at 1 %; the draws never change"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 1.1}, "isn't between 0 and 1"),
        ({"rate": float("nan")}, "isn't between 0 and 1"),
        ({"end_tokens": frozenset()}, "No end token"),
        ({"limit": 0, "repeat_test": RepeatTest.OFF}, "allows none"),
        ({"window": 0}, "windows of 1 token"),
        ({"window": 5}, "set the window to 4 at most"),
    ],
)
def test_rules_that_cannot_mean_what_they_say_are_refused(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        replace(RULE, **options)
