"""Error rates of evaluators on labelled programs: both kinds, each with its Wilson interval."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.referees import Outcome
from evaluator.model import Verdict

Z = 1.959964
"""Of the 95 % interval."""


@dataclass
class Counts:
    """What one evaluator made of a set of programs.

    A false reject is a program labelled `accepted` that was rejected, a false accept one with any other label that was
    accepted. An internal error is neither: it is counted apart.
    """

    accepted_labels: int = 0
    rejected_labels: int = 0
    false_rejects: int = 0
    false_accepts: int = 0
    internal_errors: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    disagreements: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one program."""
        is_right = outcome.label == Verdict.ACCEPTED
        is_accepted = outcome.verdict == Verdict.ACCEPTED
        is_ours = outcome.verdict == Verdict.INTERNAL_ERROR
        self.accepted_labels += is_right
        self.rejected_labels += not is_right
        self.internal_errors += is_ours
        self.false_rejects += is_right and not is_accepted and not is_ours
        self.false_accepts += is_accepted and not is_right
        if is_ours or is_right != is_accepted:
            self.disagreements.append(outcome)

    @property
    def programs(self) -> int:
        """All that were judged."""
        return self.accepted_labels + self.rejected_labels

    @property
    def record(self) -> dict[str, Any]:
        """As `--json` writes it."""
        return {
            "programs": self.programs,
            "accepted_labels": self.accepted_labels,
            "rejected_labels": self.rejected_labels,
            "false_rejects": self.false_rejects,
            "false_accepts": self.false_accepts,
            "false_reject_rate": rate(self.false_rejects, self.accepted_labels),
            "false_reject_interval": wilson_interval(self.false_rejects, self.accepted_labels),
            "false_accept_rate": rate(self.false_accepts, self.rejected_labels),
            "false_accept_interval": wilson_interval(self.false_accepts, self.rejected_labels),
            "internal_errors": self.internal_errors,
            "skipped": dict(self.skipped),
            "disagreements": [asdict(outcome) for outcome in self.disagreements],
        }


def total(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The record of several files together, without the list of disagreements."""
    counts = Counts()
    for record in records:
        for name in ("accepted_labels", "rejected_labels", "false_rejects", "false_accepts", "internal_errors"):
            setattr(counts, name, getattr(counts, name) + record[name])
        counts.skipped.update(record["skipped"])
    whole = counts.record
    del whole["disagreements"]
    return whole


def rate(events: int, trials: int) -> float | None:
    """The part of 1, or None where there were no trials."""
    return events / trials if trials else None


def wilson_interval(events: int, trials: int) -> list[float] | None:
    """The 95 % interval of a proportion by Wilson's score method, which holds for no events as well.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927), 209–212.
    """
    if not trials:
        return None
    part = events / trials
    centre = part + Z * Z / (2 * trials)
    width = Z * math.sqrt(part * (1 - part) / trials + Z * Z / (4 * trials * trials))
    scale = 1 + Z * Z / trials
    low = 0.0 if events == 0 else (centre - width) / scale
    high = 1.0 if events == trials else (centre + width) / scale
    return [low, high]
