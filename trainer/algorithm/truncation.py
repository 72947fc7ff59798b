"""The conditional truncation mask: which completions that hit the limit get no advantage, neither good nor bad.

A completion is masked when it reached the limit, isn't incorrect, doesn't end in a loop, and chance says so. All others
keep their advantage: loops and wrong programs that happen to be long go on being punished.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainer.algorithm.draws import draw
from trainer.algorithm.repeats import repeats_literally, repeats_with_any_period

CORRECT = frozenset({"accepted"})
INCOMPLETE = frozenset({"no_code"})
INCORRECT = frozenset({"wrong_answer", "time_limit", "memory_limit", "output_limit", "runtime_error", "compile_error"})
UNJUDGED = frozenset({"internal_error", "cancelled", "skipped"})
"""Nobody knows what these programs are worth: never masked, since they have no reward to begin with."""


class Reading(StrEnum):
    """Which verdicts count as non-incorrect. The paper's wordings disagree; the first is the default here."""

    CORRECT_OR_INCOMPLETE = "correct_or_incomplete"
    CORRECT_ONLY = "correct_only"
    INCORRECT_ONLY = "incorrect_only"
    ANY = "any"


_READ = {
    Reading.CORRECT_OR_INCOMPLETE: CORRECT | INCOMPLETE,
    Reading.CORRECT_ONLY: CORRECT,
    Reading.INCORRECT_ONLY: INCORRECT,
    Reading.ANY: CORRECT | INCOMPLETE | INCORRECT,
}


class RepeatTest(StrEnum):
    """Which completions end in a loop. `OFF`: none does."""

    LITERAL = "literal"
    ANY_PERIOD = "any_period"
    OFF = "off"


@dataclass(frozen=True)
class TruncationRule:
    """What is masked. `limit` and `window` count tokens, `rate` is the paper's ρ.

    Args:
        limit: the most tokens that a completion may have (L_max).
        end_tokens: every id that ends a completion. A completion whose last token within the limit is one of them is
            complete.
        rate: the share of eligible completions that is masked; 0 masks none, 1 all.
        window: m of the repeat test.

    Raises:
        ValueError: the rule can't mean what it says.
    """

    limit: int
    end_tokens: frozenset[int]
    rate: float = 0.2
    window: int = 128
    reading: Reading = Reading.CORRECT_OR_INCOMPLETE
    repeat_test: RepeatTest = RepeatTest.LITERAL

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise ValueError(f"The mask's rate is a probability; {self.rate} isn't between 0 and 1.")
        if self.limit < 1:
            raise ValueError(f"Completions have 1 token or more; a limit of {self.limit} allows none.")
        if not self.end_tokens:
            raise ValueError("No end token is given: a completion that ends at the limit would pass for truncated.")
        if self.window < 1:
            raise ValueError(f"The repeat test compares windows of 1 token or more, not of {self.window}.")
        if self.repeat_test is not RepeatTest.OFF and self.limit < 2 * self.window:
            raise ValueError(
                f"The repeat test looks at the last 2 · {self.window} tokens, but completions end at {self.limit}: "
                f"set the window to {self.limit // 2} at most, or the repeat test to `off`."
            )

    @classmethod
    def mask_all(cls, limit: int, end_tokens: frozenset[int]) -> "TruncationRule":
        """The rule that masks every truncated completion that was judged."""
        return cls(limit, end_tokens, rate=1.0, reading=Reading.ANY, repeat_test=RepeatTest.OFF)


@dataclass(frozen=True)
class Sample:
    """A completion: its tokens without padding (the end token belongs to them), its verdict, and what to draw for."""

    ids: Sequence[int]
    verdict: str
    prompt: int | str
    index: int


@dataclass(frozen=True)
class Truncation:
    """What the rule found. `masked` is what counts, the others say why; both repeat tests are made for the log.

    The repeat tests are false where a completion isn't truncated: they aren't made there.
    """

    truncated: bool
    eligible: bool
    masked: bool
    repeats_literally: bool
    repeats_with_any_period: bool


def is_truncated(ids: Sequence[int], rule: TruncationRule) -> bool:
    """Whether generation stopped at the limit and not at an end token.

    Raises:
        ValueError: there are more tokens than the limit, so that it isn't the one that generation had.
    """
    if len(ids) > rule.limit:
        raise ValueError(f"A completion has {len(ids)} tokens and the limit is {rule.limit}: pass ids without padding.")
    return len(ids) == rule.limit and ids[-1] not in rule.end_tokens


def is_not_incorrect(verdict: str, reading: Reading) -> bool:
    """Whether a verdict counts as non-incorrect.

    Raises:
        ValueError: the verdict isn't known.
    """
    if verdict not in CORRECT | INCOMPLETE | INCORRECT | UNJUDGED:
        raise ValueError(f"The verdict {verdict!r} isn't known to the truncation mask: say what it means there.")
    return verdict in _READ[reading]


def judge_truncation(sample: Sample, rule: TruncationRule, *, seed: int, generation: int) -> Truncation:
    """Apply the rule to one completion. `seed` and `generation` are those of `draws.draw`."""
    fits = is_not_incorrect(sample.verdict, rule.reading)
    if not is_truncated(sample.ids, rule):
        return Truncation(False, False, False, False, False)
    literal = repeats_literally(sample.ids, rule.window)
    periodic = repeats_with_any_period(sample.ids, rule.window)
    loops = {RepeatTest.LITERAL: literal, RepeatTest.ANY_PERIOD: periodic, RepeatTest.OFF: False}[rule.repeat_test]
    eligible = fits and not loops
    masked = eligible and draw(seed, generation, sample.prompt, sample.index) < rule.rate
    return Truncation(True, eligible, masked, literal, periodic)


def count_truncations(found: Iterable[Truncation]) -> dict[str, int]:
    """How many completions there are, and of how many each field is true."""
    all_found = list(found)
    names = ("truncated", "eligible", "masked", "repeats_literally", "repeats_with_any_period")
    return {"completions": len(all_found), **{name: sum(getattr(one, name) for one in all_found) for name in names}}
