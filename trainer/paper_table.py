"""The paper's table out of graded problems: AtCoder and LeetCode by easy, medium and hard, with intervals.

Accuracy is the mean over problems of the share of right generations, in percent. Intervals: bootstraps over problems.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainer.intervals import Interval, bootstrap_interval

PLATFORMS = {"atcoder": "AtCoder", "leetcode": "LeetCode"}
DIFFICULTIES = ("easy", "medium", "hard")
PAPER = {"atcoder": (26, 26, 60), "leetcode": (17, 26, 20)}
"""LiveCodeBench v6, as the paper's figures imply: 175 problems."""


@dataclass(frozen=True)
class Graded:
    """A problem and what became of its generations."""

    question_id: str
    platform: str
    difficulty: str
    right: tuple[bool, ...]

    @property
    def accuracy(self) -> float:
        """The share of right generations, in percent."""
        return 100 * sum(self.right) / len(self.right)


def write_table(columns: Mapping[str, Sequence[Graded]]) -> str:
    """Markdown: a row for each platform and difficulty with the number of problems, a column for each evaluation."""
    lines = [f"| | | n | {' | '.join(columns)} |", f"| --- | --- | --- |{' --- |' * len(columns)}"]
    first = next(iter(columns.values()))
    for platform, difficulty in _cells():
        counts = len(_pick(first, platform, difficulty))
        if counts:
            values = (_say(_estimate(_pick(graded, platform, difficulty))) for graded in columns.values())
            name = PLATFORMS.get(platform, "all")
            lines.append(f"| {name} | {difficulty or 'all'} | {counts} | {' | '.join(values)} |")
    return "\n".join(lines)


def write_comparison(first: Sequence[Graded], second: Sequence[Graded]) -> str:
    """One line: the paired difference, second minus first, over the problems that both have.

    Raises:
        ValueError: they have none in common.
    """
    others = {graded.question_id: graded for graded in second}
    gaps = [others[one.question_id].accuracy - one.accuracy for one in first if one.question_id in others]
    if not gaps:
        raise ValueError("The two evaluations have no problem in common: nothing can be compared.")
    gap, low, high = bootstrap_interval(gaps)
    verdict = "no difference is shown" if low <= 0 <= high else "a difference is shown"
    return f"Difference over {len(gaps)} problems, paired: {gap:+.1f} points [{low:+.1f}, {high:+.1f}]; {verdict}."


def describe_set(graded: Sequence[Graded]) -> str:
    """Whether these are the 175 problems of the paper's table."""
    counts = {name: tuple(len(_pick(graded, name, level)) for level in DIFFICULTIES) for name in PLATFORMS}
    if counts == PAPER:
        return "The problems are as many as in the paper's table: LiveCodeBench v6, 175."
    told = "; ".join(f"{PLATFORMS[name]} {'/'.join(map(str, found))}" for name, found in counts.items())
    return f"These aren't the paper's 175 problems (AtCoder 26/26/60, LeetCode 17/26/20) but {len(graded)}: {told}."


def _cells() -> list[tuple[str, str]]:
    own = [(platform, level) for platform in PLATFORMS for level in (*DIFFICULTIES, "")]
    return own + [("", level) for level in (*DIFFICULTIES, "")]


def _pick(graded: Sequence[Graded], platform: str, difficulty: str) -> list[Graded]:
    """Those of a platform and difficulty; an empty text means any."""
    return [one for one in graded if platform in ("", one.platform) and difficulty in ("", one.difficulty)]


def _estimate(graded: Sequence[Graded]) -> Interval | None:
    return bootstrap_interval([one.accuracy for one in graded]) if graded else None


def _say(found: Interval | None) -> str:
    return "—" if found is None else f"{found[0]:.1f} [{found[1]:.1f}, {found[2]:.1f}]"
