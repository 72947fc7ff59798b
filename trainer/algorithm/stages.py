"""Temperature in stages, from low to high, and alarms: what to do with the diversity that is measured each generation.

The paper found one abrupt step upwards better than either temperature alone, and continuous ramps harmful, however
short. So a plan has few stages with clear steps between them, a step is taken between two generations, and never back.
All functions are pure: the state is a value that a checkpoint keeps, and every process that sees the same measurements
(those of all processes together) has the same state.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

MOST_STAGES = 4
SMALLEST_STEP = 0.1


@dataclass(frozen=True)
class StagePlan:
    """Temperatures, and when to go to the next. Numbers of generations, not of updates.

    Args:
        temperatures: rising; one alone is a constant temperature.
        length: a stage ends after so many generations. None: it ends when its diversity has fallen by `drop` of what it
            was when the stage began, while the accuracy of the last `gain_window` generations is less than `gain` above
            that of those before.
        shortest: generations that a stage without a `length` lasts in any case.
        origin: a sentence for reports: where the temperatures came from.
        floor: diversity under which a falling one is called a collapse. None: no such alarm.
        rise: a rise of diversity that is called overheating where accuracy falls meanwhile.
        window: generations within which a fall and a rise are looked for.
        smoothing: weight of the newest measurement in the moving average.

    Raises:
        ValueError: the plan is a ramp, or has no meaning.
    """

    temperatures: tuple[float, ...]
    origin: str
    length: int | None = None
    shortest: int = 40
    drop: float = 0.1
    gain: float = 0.005
    gain_window: int = 20
    floor: float | None = None
    rise: float = 0.1
    window: int = 50
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        steps = [later - earlier for earlier, later in zip(self.temperatures, self.temperatures[1:], strict=False)]
        if not self.temperatures or not all(t > 0 and math.isfinite(t) for t in self.temperatures):
            raise ValueError(f"The temperatures {self.temperatures} aren't all positive numbers.")
        if len(self.temperatures) > MOST_STAGES or any(step < SMALLEST_STEP - 1e-9 for step in steps):
            raise ValueError(
                f"The temperatures {self.temperatures} aren't stages: at most {MOST_STAGES}, rising by {SMALLEST_STEP} "
                "or more. A ramp, even a short one, harms the training."
            )
        if self.length is not None and self.length < 1:
            raise ValueError(f"A stage lasts 1 generation or more, not {self.length}.")
        if not 0 < self.smoothing <= 1 or self.window < 2 or self.gain_window < 1:
            raise ValueError("The smoothing is in (0, 1], the window 2 generations or more, the gain's 1 or more.")


@dataclass(frozen=True)
class StageState:
    """Where a training stands: the stage, and the measurements of this stage, the newest last."""

    stage: int = 0
    generations: int = 0
    start: float | None = None
    averages: tuple[float, ...] = ()
    accuracies: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "StageState":
        """The state that `to_json` wrote, also after JSON has made lists of its tuples."""
        values: dict[str, Any] = dict(data)
        return cls(**values | {name: tuple(values[name]) for name in ("averages", "accuracies")})


def current_temperature(plan: StagePlan, state: StageState) -> float:
    """The temperature of the next generation."""
    return plan.temperatures[state.stage]


def observe(plan: StagePlan, state: StageState, diversity: float, accuracy: float) -> StageState:
    """The state after a generation: the same stage, or the beginning of the next one.

    Args:
        diversity, accuracy: of the generation's completions, those of all processes.

    Raises:
        ValueError: one of them isn't a number. A generation that nobody could judge isn't observed.
    """
    if not (math.isfinite(diversity) and math.isfinite(accuracy)):
        raise ValueError(f"A generation can't be observed with diversity {diversity} and accuracy {accuracy}.")
    last = state.averages[-1] if state.averages else diversity
    average = last + plan.smoothing * (diversity - last)
    after = replace(
        state,
        generations=state.generations + 1,
        start=average if state.start is None else state.start,
        averages=(*state.averages, average)[-plan.window :],
        accuracies=(*state.accuracies, accuracy)[-2 * plan.gain_window :],
    )
    is_last = state.stage == len(plan.temperatures) - 1
    return after if is_last or not _is_over(plan, after) else StageState(stage=state.stage + 1)


def find_alarms(plan: StagePlan, state: StageState) -> dict[str, str]:
    """What is wrong with the diversity of this stage, by name, a sentence or two each; nothing, most of the time.

    A fall alone is no overheating: a policy that learns grows certain.
    """
    alarms: dict[str, str] = {}
    if not state.averages:
        return alarms
    now, full = state.averages[-1], len(state.averages) == plan.window
    heat = f"T = {current_temperature(plan, state):g}"
    if plan.floor is not None and full and now < plan.floor and _slope(state.averages) < 0:
        alarms["collapse"] = (
            f"Collapse: diversity has fallen to {now:.3f}, under the floor of {plan.floor:g}, and goes on falling at "
            f"{heat}. Go to a higher temperature."
        )
    rise, gain = now - min(state.averages), _gain(state.accuracies)
    if rise > plan.rise and gain <= -plan.gain:
        alarms["overheating"] = (
            f"Overheating: diversity has risen by {rise:.3f} within {len(state.averages)} generations at {heat}, and "
            f"accuracy has fallen by {-gain:.3f}. Go back to a checkpoint from before, and to a lower temperature."
        )
    return alarms


def _is_over(plan: StagePlan, state: StageState) -> bool:
    if plan.length is not None:
        return state.generations >= plan.length
    if state.generations < plan.shortest or len(state.accuracies) < 2 * plan.gain_window or state.start is None:
        return False
    return state.averages[-1] <= (1 - plan.drop) * state.start and _gain(state.accuracies) < plan.gain


def _gain(accuracies: Sequence[float]) -> float:
    """How much higher the later half's mean is than the earlier half's; 0 while there is no earlier half."""
    half = len(accuracies) // 2
    return (sum(accuracies[-half:]) - sum(accuracies[:half])) / half if half else 0.0


def _slope(values: Sequence[float]) -> float:
    """Of the straight line through equally spaced values, by least squares (times a positive number)."""
    middle = (len(values) - 1) / 2
    return sum((place - middle) * value for place, value in enumerate(values))
