"""What is logged of a generation: numbers out of the records of its completions, those of all processes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trainer.algorithm.advantages import find_flat_groups
from trainer.algorithm.diversity import mean_diversity, pooled_distinct
from trainer.algorithm.truncation import Truncation, count_truncations


@dataclass(frozen=True)
class Record:
    """A completion: its prompt's name, reward (None: unknown) and verdict, its token ids, what the mask found."""

    prompt: str
    reward: float | None
    verdict: str
    ids: list[int]
    truncation: Truncation


def measure_generation(records: Sequence[Record], group_size: int, special: Collection[int]) -> dict[str, float]:
    """Diversity, accuracy, flat groups, duplicates, lengths by verdict and what the mask counted.

    Args:
        records: group after group. At least one has a reward.
        special: token ids that diversity passes over.
    """
    ids = [record.ids for record in records]
    groups = [ids[start : start + group_size] for start in range(0, len(ids), group_size)]
    judged = [record.verdict == "accepted" for record in records if record.reward is not None]
    counts = count_truncations(record.truncation for record in records)
    return {
        "diversity": mean_diversity(groups, special),
        "diversity/pooled_distinct": mean_diversity(groups, special, pooled_distinct),
        "accuracy": sum(judged) / len(judged),
        "groups/flat": float(find_flat_groups([record.reward for record in records], group_size).mean()),
        "duplicates": len(records) - len({(record.prompt, tuple(record.ids)) for record in records}),
        **_mean_lengths(records),
        **{f"truncation/{name}": count for name, count in counts.items()},
    }


def _mean_lengths(records: Sequence[Record]) -> dict[str, float]:
    """In tokens, of the verdicts that there are."""
    lengths: dict[str, list[int]] = {}
    for record in records:
        lengths.setdefault(record.verdict, []).append(len(record.ids))
    return {f"length/{verdict}": sum(found) / len(found) for verdict, found in lengths.items()}
