"""The ladder: which rungs there are, which profile has which, and `compare`.

`compare` and `compare_value` never raise, change nothing, and take linear time (sorting aside, where a policy asks for
any order). Rungs stand from strict to lenient in one tuple each; a profile is a selection of it by name; the Match
names the first rung that accepts. A rejection tells the first place that even the most lenient rung of the profile
refuses, so that what the profile forgives is never given as the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from evaluator.comparison import explanations, literals, livecodebench_rungs, text_rungs, value_rungs
from evaluator.comparison.pairs import make_pair
from evaluator.comparison.value_rungs import Values
from evaluator.model import Match, Policy


@dataclass(frozen=True, slots=True)
class Rung:
    """A rule by its name. `accepts` answers True, False, or None where the rule doesn't apply.

    It takes a `Pair` of outputs, or `Values`.
    """

    name: str
    accepts: Callable[..., bool | None]
    profiles: tuple[str, ...] = ("microcoder",)


_ALL: Final = ("exact", "livecodebench", "microcoder")

TEXT_RUNGS: Final = (
    Rung("exact", text_rungs.exact, _ALL),
    Rung("trailing_whitespace", text_rungs.trailing_whitespace),
    Rung("stripped_lines", livecodebench_rungs.stripped_lines, ("livecodebench",)),
    Rung("decimal_lines", livecodebench_rungs.decimal_lines, ("livecodebench",)),
    Rung("tokens", text_rungs.tokens),
    Rung("blank_lines", text_rungs.blank_lines),
    Rung("numbers", text_rungs.numbers),
    Rung("tolerance", text_rungs.tolerance),
    Rung("spelling", text_rungs.spelling),
    Rung("policy_words", text_rungs.policy_words),
    Rung("literal_values", text_rungs.literal_values),
    Rung("token_stream", text_rungs.token_stream),
    Rung("any_order", text_rungs.any_order),
)
VALUE_RUNGS: Final = (
    Rung("exact", value_rungs.exact, ("exact", "microcoder")),
    Rung("python_equal", value_rungs.python_equal, ("livecodebench",)),
    Rung("sequences", value_rungs.sequences),
    Rung("numbers", value_rungs.numbers),
    Rung("keys", value_rungs.keys),
    Rung("tolerance", value_rungs.tolerance),
    Rung("sets", value_rungs.sets),
    Rung("any_order", value_rungs.any_order),
)


def compare(expected: str, actual: bytes, policy: Policy) -> Match:
    """Compare what a program wrote to standard output with what was expected."""
    pair = make_pair(expected, actual, policy)
    for rung in TEXT_RUNGS:
        if policy.profile in rung.profiles and rung.accepts(pair):
            return Match(matched=True, rung=rung.name)
    return explanations.explain_text(pair)


def compare_value(expected: str, actual: object, policy: Policy) -> Match:
    """Compare what a function returned with the JSON text of what was expected."""
    values = Values(_expected_value(expected, policy), actual, policy)
    for rung in VALUE_RUNGS:
        if policy.profile in rung.profiles and rung.accepts(values):
            return Match(matched=True, rung=rung.name)
    return explanations.explain_value(values)


def _expected_value(expected: str, policy: Policy) -> object:
    """Read the expected value. LiveCodeBench reads JSON only: to it, anything else equals nothing."""
    if policy.profile == "livecodebench":
        return literals.parse_json(expected)
    value = literals.parse(expected)
    return expected if value is literals.INVALID else value
