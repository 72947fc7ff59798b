"""The temperature for a training, out of an offline sweep: accuracy bounds it, then diversity chooses.

The paper picks the temperature by the diversity of the first completions and doesn't publish the rule. This one takes
the lowest temperature whose diversity reaches a target, among those at which the model still solves its problems.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SHARE = 0.9


class NoTemperature(ValueError):
    """No temperature of the sweep satisfies both conditions. The message says what was found and what to try."""


@dataclass(frozen=True)
class SweepPoint:
    """What sampling at one temperature gave: the share of right completions, and their diversity."""

    temperature: float
    accuracy: float
    diversity: float


@dataclass(frozen=True)
class Choice:
    """A temperature, and a sentence for reports that says where it came from."""

    temperature: float
    origin: str


def choose_temperature(points: Sequence[SweepPoint], target: float, share: float = SHARE) -> Choice:
    """The lowest temperature with accuracy ≥ share · the best accuracy whose diversity is ≥ target.

    Args:
        points: of the sweep, in any order, each temperature once.
        target: diversity to start the training with, in the unit of the sweep's measure, for this model and task: there
            is no value that fits all.
        share: of the best accuracy that must be kept.

    Raises:
        NoTemperature: none satisfies both, or the model solves nothing at any temperature.
        ValueError: the sweep is empty, has a temperature twice, or one that can't be sampled at.
    """
    ordered = sorted(points, key=lambda point: point.temperature)
    temperatures = [point.temperature for point in ordered]
    if not ordered or len(set(temperatures)) < len(temperatures) or temperatures[0] <= 0:
        raise ValueError(f"A sweep is of positive temperatures, each once; this one has {temperatures}.")
    best = max(ordered, key=lambda point: point.accuracy)
    if best.accuracy <= 0:
        raise NoTemperature("No completion of the sweep was right at any temperature: take easier problems.")
    accurate = [point for point in ordered if point.accuracy >= share * best.accuracy]
    for point in accurate:
        if point.diversity >= target:
            return Choice(point.temperature, _explain(point, best, target, share))
    raise NoTemperature(_refuse(ordered, accurate, best, target, share))


def _explain(point: SweepPoint, best: SweepPoint, target: float, share: float) -> str:
    return (
        f"T = {point.temperature:g} by the sweep: the lowest temperature with a diversity of {target:g} or more (it "
        f"has {point.diversity:.3f}) at which the accuracy, {point.accuracy:.3f}, is at least {share:g} of the best, "
        f"{best.accuracy:.3f} at T = {best.temperature:g}."
    )


def _refuse(
    ordered: Sequence[SweepPoint], accurate: Sequence[SweepPoint], best: SweepPoint, target: float, share: float
) -> str:
    nearest = max(accurate, key=lambda point: point.diversity)
    text = (
        f"No temperature has both a diversity of {target:g} or more and {share:g} of the best accuracy "
        f"({best.accuracy:.3f} at T = {best.temperature:g}): among the accurate ones T = {nearest.temperature:g} is "
        f"the most diverse, with {nearest.diversity:.3f}"
    )
    diverse = [point for point in ordered if point.diversity >= target]
    if not diverse:
        return f"{text}, and no temperature of the sweep reaches the target. Sweep higher ones or lower the target."
    first = diverse[0]
    return (
        f"{text}, and the lowest that reaches the target, T = {first.temperature:g}, has an accuracy of "
        f"{first.accuracy:.3f}. Lower the target, sweep more finely between them, or train at the lower one first."
    )
