"""A rubric of difficulty: five dimensions from 1 to 5, predicted by a model that reads the statement.

The dimensions and their weights are our reading of the MicroCoder paper, which names two of five and publishes no
weights. A prediction says nothing by itself: the stage `calibrate` puts it beside measured solve rates.
"""

import json
import re
from collections.abc import Sequence

import numpy

from curation.problem import Problem

DIMENSIONS = {
    "comprehension": (0.15, "how hard it is to understand what is asked"),
    "algorithmic_thinking": (0.30, "how far the idea of a solution is from standard ones"),
    "knowledge": (0.20, "which data structures, algorithms and mathematics must be known"),
    "implementation": (0.20, "how long and error-prone a right program is"),
    "edge_cases": (0.15, "how demanding special cases and limits of time and memory are"),
}
"""Name: (weight in the score, what is judged)."""
LEAST, MOST = 1.0, 5.0
_OBJECT = re.compile(r"\{[^{}]*\}")


def write_question(problem: Problem) -> str:
    """The prompt."""
    listed = "\n".join(f"- {name}: {about}" for name, (_, about) in DIMENSIONS.items())
    form = "{" + ", ".join(f'"{name}": ?' for name in DIMENSIONS) + "}"  # repeated as it is, it says nothing
    return (
        "Judge how difficult the programming problem below is. Don't solve it. Give each of these dimensions a number "
        "from 1 (a beginner manages at once) to 5 (few experts manage in a contest); halves are allowed.\n\n"
        f"{listed}\n\nEnd with one JSON object of this form, with a number for each question mark, and nothing behind "
        f"it:\n{form}\n\n"
        f"The problem:\n\n{problem.statement}"
    )


def read_prediction(answer: str) -> list[float] | None:
    """The numbers of an answer's last JSON object, in the order of `DIMENSIONS`; None where it doesn't hold all."""
    for text in reversed(_OBJECT.findall(answer)):
        try:
            found = json.loads(text)
            values = [float(found[name]) for name in DIMENSIONS if not isinstance(found[name], bool)]
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
        if len(values) == len(DIMENSIONS) and all(LEAST <= value <= MOST for value in values):
            return values
    return None


def weigh(predictions: Sequence[Sequence[float]]) -> float:
    """The score of a problem, from 1 to 5: the weighted mean of the means over its predictions."""
    weights = [weight for weight, _ in DIMENSIONS.values()]
    return float(numpy.mean(predictions, axis=0) @ numpy.array(weights))
