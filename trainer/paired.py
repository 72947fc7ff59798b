"""Variants of one training on the same seeds, set beside each other: means with intervals, and paired differences.

A result is what `trainer.toy.course.take_course` returns, with the `label` of its variant.
"""

import math
from typing import Any

from trainer.intervals import Interval, mean_interval

FEW = 5
"""Generations at the beginning and at the end of a run that count for what is told of either."""
Table = dict[str, dict[str, Interval]]
"""Label of a variant → figure → mean and interval."""


def measure_run(result: dict[str, Any]) -> dict[str, float]:
    """The figures of one run. The mask's rate is over all its generations, NaN where nothing was eligible."""
    curves = result["curves"]
    eligible, masked = sum(curves["truncation/eligible"]), sum(curves["truncation/masked"])
    early, late = (
        {name: sum(values[part]) / len(values[part]) for name, values in curves.items()}
        for part in (slice(FEW), slice(-FEW, None))
    )
    return {
        "masked of eligible": masked / eligible if eligible else float("nan"),
        "truncated of 256": late["truncation/truncated"],
        "accepted, first": early["accuracy"],
        "accepted, last": late["accuracy"],
        "mean length": late["completions/mean_length"],
        "diversity, first": early["diversity"],
        "diversity, last": late["diversity"],
        "entropy": late["entropy"],
        **{f"solved at {one['limit']}": one["after"] for one in result["limits"]},
        **{f"solved at T = {one['temperature']}": one["after"] for one in result.get("heats", ())},
    }


def summarise(results: list[dict[str, Any]]) -> Table:
    """Each variant's figures: their means over its seeds, with intervals. In the order of the results."""
    labels = dict.fromkeys(result["label"] for result in results)
    measured = {label: [measure_run(one) for one in results if one["label"] == label] for label in labels}
    return {
        label: {name: mean_interval([one[name] for one in runs]) for name in runs[0]}
        for label, runs in measured.items()
    }


def compare(results: list[dict[str, Any]]) -> Table:
    """What each variant changes against the first one, seed by seed: the mean difference, with its interval."""
    by_label: dict[str, dict[int, dict[str, float]]] = {}
    for result in results:
        by_label.setdefault(result["label"], {})[result["seed"]] = measure_run(result)
    base, *others = by_label
    return {
        label: {
            name: mean_interval(
                [figures[name] - by_label[base][seed][name] for seed, figures in by_label[label].items()]
            )
            for name in next(iter(by_label[label].values()))
        }
        for label in others
    }


def write_table(means: Table, differences: Table, x: str) -> str:
    """Markdown: means by variant, the first with its interval, the others with their paired difference to the first.

    ± is half of the 95 % interval. Differences whose interval excludes 0 are bold; where all seeds gave the
    very same figure there is none. `x`: what variants differ in.
    """
    base, names = next(iter(means)), list(next(iter(means.values())))
    lines = [f"| {x} | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    for label, row in means.items():
        apart = differences.get(label, {})
        cells = [
            _write(row[name]) if label == base else f"{row[name][0]:.3g}{_write_difference(apart[name])}"
            for name in names
        ]
        lines.append(f"| {label} | {' | '.join(cell.replace('nan', '–') for cell in cells)} |")
    return "\n".join(lines)


def _write(interval: Interval) -> str:
    middle, low, high = interval
    return f"{middle:.3g}" if math.isnan(low) else f"{middle:.3g} ± {(high - low) / 2:.2g}"


def _write_difference(interval: Interval) -> str:
    middle, low, high = interval
    if math.isnan(middle) or low == high == 0:
        return ""
    told = f"{middle:+.3g}" if math.isnan(low) else f"{middle:+.2g} ± {(high - low) / 2:.2g}"
    return f" (**{told}**)" if low * high > 0 else f" ({told})"
