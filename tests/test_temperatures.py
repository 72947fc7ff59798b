"""The choice of a temperature out of a sweep, and the control of stages."""

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.algorithm.stages import StagePlan, StageState, current_temperature, find_alarms, observe
from trainer.algorithm.temperatures import NoTemperature, SweepPoint, choose_temperature

# The untrained model of the paper's figure 7, read off its curves to about ±0.002.
PAPER = [
    SweepPoint(temperature, accuracy, diversity)
    for temperature, accuracy, diversity in [
        (0.2, 0.38, 0.60), (0.4, 0.38, 0.63), (0.6, 0.38, 0.655), (0.8, 0.38, 0.68), (1.0, 0.365, 0.71),
        (1.2, 0.34, 0.75), (1.4, 0.34, 0.785), (2.0, 0.27, 0.895),
    ]
]  # fmt: skip


def test_the_lowest_diverse_temperature_among_the_accurate_ones_is_chosen():
    choice = choose_temperature(PAPER, target=0.70)
    assert choice.temperature == 1.0
    assert "T = 1 by the sweep" in choice.origin
    assert "0.710" in choice.origin
    assert "best, 0.380 at T = 0.2" in choice.origin
    assert choose_temperature(PAPER[::-1], target=0.66).temperature == 0.8
    assert choose_temperature(PAPER, target=0.72, share=0.89).temperature == 1.2


def test_accuracy_comes_before_diversity():
    points = [SweepPoint(0.5, 0.5, 0.3), SweepPoint(1.0, 0.44, 0.7), SweepPoint(1.5, 0.46, 0.8)]
    assert choose_temperature(points, target=0.6).temperature == 1.5, "T = 1 is diverse, but 0.44 < 0.9 · 0.5"


def test_a_refusal_says_which_condition_fails_where():
    with pytest.raises(NoTemperature) as refused:
        choose_temperature(PAPER, target=0.72)
    for part in ("diversity of 0.72", "T = 1 is the most diverse, with 0.710", "T = 1.2, has an accuracy of 0.340"):
        assert part in str(refused.value)
    with pytest.raises(NoTemperature, match="no temperature of the sweep reaches the target"):
        choose_temperature(PAPER, target=0.95)
    with pytest.raises(NoTemperature, match="take easier problems"):
        choose_temperature([SweepPoint(1.0, 0.0, 0.7)], target=0.5)


@pytest.mark.parametrize("temperatures", [[], [0.5, 0.5], [0.0, 1.0]])
def test_what_is_no_sweep_is_refused(temperatures: list[float]):
    with pytest.raises(ValueError, match="each once") as refused:
        choose_temperature([SweepPoint(t, 0.5, 0.5) for t in temperatures], target=0.5)
    assert not isinstance(refused.value, NoTemperature)


shares = st.floats(0, 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=8), shares)
def test_a_choice_satisfies_both_conditions_and_no_lower_one_does(measured: list[tuple[float, float]], target: float):
    points = [SweepPoint(0.2 * (i + 1), *pair) for i, pair in enumerate(measured)]
    best = max(point.accuracy for point in points)
    fitting = [p.temperature for p in points if best > 0 and p.accuracy >= 0.9 * best and p.diversity >= target]
    if fitting:
        assert choose_temperature(points, target).temperature == min(fitting)
    else:
        with pytest.raises(NoTemperature):
            choose_temperature(points, target)


def follow(plan: StagePlan, measured, state: StageState | None = None) -> list[StageState]:
    states = [state or StageState()]
    for diversity, accuracy in measured:
        states.append(observe(plan, states[-1], diversity, accuracy))
    return states


def test_a_stage_of_fixed_length_ends_after_it_and_the_last_never_does():
    plan = StagePlan((0.6, 1.2), "by hand", length=140)
    states = follow(plan, [(0.6, 0.4)] * 400)
    temperatures = [current_temperature(plan, state) for state in states]
    assert temperatures == [0.6] * 140 + [1.2] * 261


def test_a_stage_ends_when_its_diversity_has_fallen_and_its_accuracy_has_stopped_rising():
    plan = StagePlan((0.6, 1.2), "by hand", shortest=40, drop=0.1)
    falling = [0.6 - 0.002 * i for i in range(200)]
    stuck = follow(plan, [(d, 0.5) for d in falling])
    switched = next(i for i, state in enumerate(stuck) if state.stage)
    assert switched >= 40
    assert stuck[switched - 1].averages[-1] > 0.9 * stuck[switched - 1].start
    rising = follow(plan, [(d, 0.2 + 0.002 * i) for i, d in enumerate(falling)])
    assert all(state.stage == 0 for state in rising)
    steady = follow(plan, [(0.6, 0.5)] * 200)
    assert all(state.stage == 0 for state in steady)


def test_no_stage_ends_before_its_shortest_time():
    plan = StagePlan((0.6, 1.2), "by hand", shortest=90, gain_window=5)
    states = follow(plan, [(0.6 * 0.97**i, 0.5) for i in range(100)])
    assert [state.stage for state in states] == [0] * 90 + [1] * 11


measurements = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=120)
plans = st.builds(
    StagePlan,
    st.sampled_from([(0.6,), (0.6, 1.2), (0.5, 0.9, 1.3), (0.4, 0.5, 0.6, 1.7)]),
    st.just("by hand"),
    length=st.none() | st.integers(1, 30),
    shortest=st.integers(1, 20),
    gain_window=st.integers(1, 5),
    floor=st.none() | st.just(0.5),
    window=st.integers(2, 10),
)


@settings(max_examples=150, deadline=None)
@given(plans, measurements, st.integers(0, 120))
def test_temperatures_rise_stage_by_stage_and_a_resumed_run_takes_the_same(plan, measured, cut):
    states = follow(plan, measured)
    temperatures = [current_temperature(plan, state) for state in states]
    assert set(temperatures) <= set(plan.temperatures)
    assert all(later.stage - earlier.stage in (0, 1) for earlier, later in pairwise(states))
    half = follow(plan, measured[:cut])[-1]
    resumed = StageState.from_json(json.loads(json.dumps(half.to_json())))
    assert follow(plan, measured[cut:], resumed)[-1] == states[-1]
    assert find_alarms(plan, resumed) == find_alarms(plan, half)


def test_a_falling_diversity_under_the_floor_is_called_a_collapse():
    plan = StagePlan((0.6,), "by hand", floor=0.5)
    falling = follow(plan, [(0.57 - 0.001 * i, 0.4) for i in range(120)])
    first = next(i for i, state in enumerate(falling) if find_alarms(plan, state))
    assert falling[first].averages[-1] < 0.5 <= falling[first - 1].averages[-1]
    assert find_alarms(plan, falling[first]).keys() == {"collapse"}
    assert "T = 0.6" in find_alarms(plan, falling[first])["collapse"]
    low_but_rising = follow(plan, [(0.3 + 0.001 * i, 0.4) for i in range(120)])
    assert not any(find_alarms(plan, state) for state in low_but_rising)


def draw_line(points: dict[int, float]) -> list[float]:
    """A curve through the points, straight between them, a value a generation."""
    places = sorted(points)
    found = [points[places[0]]]
    for start, end in pairwise(places):
        step = (points[end] - points[start]) / (end - start)
        found += [points[start] + step * (place - start) for place in range(start + 1, end + 1)]
    return found


# Of the paper's figures 7 and 12 (T = 1.2 where it isn't said), read off its curves: diversity, accuracy, by step.
CALM = {
    "no mask": ({0: 0.67, 400: 0.61, 520: 0.645}, {0: 0.34, 290: 0.363, 520: 0.337}),
    "mask of 20 %": ({0: 0.68, 300: 0.55, 380: 0.51, 517: 0.67}, {0: 0.34, 200: 0.387, 480: 0.387, 517: 0.376}),
    "T = 1.8": ({3: 0.974, 50: 0.625, 300: 0.542, 400: 0.625, 497: 0.657}, {3: 0.368, 200: 0.576, 497: 0.608}),
    "a toy that learns": ({0: 0.692, 10: 0.231, 20: 0.111, 59: 0.069}, {0: 0.754, 20: 0.871, 59: 0.898}),
}


@pytest.mark.parametrize("name", CALM)
def test_a_policy_that_grows_certain_while_it_learns_is_not_overheating(name: str):
    plan = StagePlan((1.2,), "by hand")
    states = follow(plan, zip(*map(draw_line, CALM[name]), strict=False))
    assert not any(find_alarms(plan, state) for state in states)


def test_diversity_that_rises_while_accuracy_falls_is_called_overheating():
    """The paper's run in which every truncated completion was masked: it collapsed by step 225."""
    plan = StagePlan((1.2,), "by hand")
    diversity = draw_line({0: 0.69, 200: 0.79, 260: 0.93})
    states = follow(plan, zip(diversity, draw_line({0: 0.34, 140: 0.369, 225: 0.32, 260: 0.25}), strict=True))
    first = next(step for step, state in enumerate(states) if find_alarms(plan, state))
    assert 200 < first <= 260
    assert "accuracy has fallen by 0.0" in find_alarms(plan, states[first])["overheating"]
    states = follow(plan, zip(diversity, draw_line({0: 0.34, 260: 0.42}), strict=True))
    assert not any(find_alarms(plan, state) for state in states), "it writes in more ways, and is more often right"


def test_a_step_upwards_is_no_rise():
    plan = StagePlan((0.6, 1.2), "by hand", length=30)
    states = follow(plan, [(0.5, 0.4)] * 30 + [(0.75, 0.3)] * 60)
    assert states[-1].stage == 1
    assert not any(find_alarms(plan, state) for state in states)


@pytest.mark.parametrize(
    ("temperatures", "options", "message"),
    [
        ((), {}, "aren't all positive"),
        ((0.0, 1.0), {}, "aren't all positive"),
        ((1.0, math.inf), {}, "aren't all positive"),
        ((1.2, 0.6), {}, "aren't stages"),
        ((0.6, 0.65), {}, "A ramp"),
        ((0.2, 0.4, 0.6, 0.8, 1.0), {}, "at most 4"),
        ((0.6, 1.2), {"length": 0}, "1 generation or more"),
        ((0.6, 1.2), {"smoothing": 0.0}, "smoothing"),
    ],
)
def test_ramps_and_senseless_plans_are_refused(temperatures: tuple[float, ...], options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        StagePlan(temperatures, "by hand", **options)


@pytest.mark.parametrize("measured", [(math.nan, 0.5), (0.5, math.nan), (0.5, math.inf)])
def test_a_generation_that_nobody_could_judge_is_not_observed(measured: tuple[float, float]):
    with pytest.raises(ValueError, match="can't be observed"):
        observe(StagePlan((1.2,), "by hand"), StageState(), *measured)
