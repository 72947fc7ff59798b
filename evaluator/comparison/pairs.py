"""The walk: two outputs line by line, token by token, once.

What a pair of tokens needs at least in order to be equal is a `Need`; the needs are ordered from strict to lenient, and
each includes those before it. The greatest need of all pairs says which rung accepts; the first pair that nothing helps
is the reason of a rejection. So all the rungs for tokens together cost one pass.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import chain, dropwhile, zip_longest

from evaluator.comparison.numerals import (
    TEXT_TOLERANCE,
    close_number,
    same_number,
    same_special,
    tolerance_of,
)
from evaluator.comparison.texts import Text, prepare, prepare_tidy, split_tokens
from evaluator.model import Policy

_SPELLINGS = {b"true": b"True", b"false": b"False", b"null": b"None"}
_YES_NO = frozenset((b"yes", b"no"))
_BOOLEANS = {b"True": b"1", b"False": b"0"}


class Need(IntEnum):
    """What it takes to find two lines or tokens equal."""

    TRAILING_WHITESPACE = 0
    TOKENS = 1
    NUMBERS = 2
    TOLERANCE = 3
    SPELLING = 4
    POLICY = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """The first pair that no need explains."""

    line: int
    """Counted from the first line of `Text.lines`."""
    token: int | None
    """Counted within what `Text.lines` gives of that line. None: a whole line stands against another one or none."""
    expected: bytes | None
    actual: bytes | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a walk found. `blank_lines`: blank lines had to be left out."""

    need: Need
    blank_lines: bool
    failure: Failure | None


TokenRule = Callable[[bytes, bytes], bool]


@dataclass(frozen=True)
class Pair:
    """An expected and an actual output under a policy: what every rung for text looks at."""

    expected: Text
    actual: Text
    policy: Policy
    same_bytes: bool
    unmatched: list[tuple[bytes | None, bytes | None] | None] = field(default_factory=list, compare=False, repr=False)
    """What `orders.misplaced` found, once it was asked: its verdict and its explanation cost one search."""

    @cached_property
    def outcome(self) -> Outcome:
        """The walk, made when it is first asked for."""
        return _Walk(self).walk()

    def needs_at_most(self, need: Need, *, blank_lines: bool = True) -> bool:
        """Say whether the outputs are equal when that much is allowed."""
        outcome = self.outcome
        return outcome.failure is None and outcome.need <= need and (blank_lines or not outcome.blank_lines)

    @property
    def forgives_blank_lines(self) -> bool:
        """Whether blank lines may be left out: not when both have some, for an empty line may be an answer."""
        return not (self.expected.has_blank_line and self.actual.has_blank_line)


def make_pair(expected: str, actual: bytes, policy: Policy) -> Pair:
    """Prepare two outputs for the rungs."""
    wanted = expected.encode("utf-8", "surrogatepass")
    texts = prepare(wanted, actual) if policy.profile == "exact" else prepare_tidy(wanted, actual)
    return Pair(*texts, policy, wanted == actual)


class _Walk:
    """One pass over both outputs."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.need = Need.TRAILING_WHITESPACE
        self.blank_lines = False
        self.rules = _make_rules(pair.policy)

    def walk(self) -> Outcome:
        expected, actual = self.pair.expected.lines(), self.pair.actual.lines()
        for number, (first, second) in enumerate(zip_longest(expected, actual)):
            if first == second or (first is not None and second is not None and first.rstrip() == second.rstrip()):
                continue
            if not first or not second or first.isspace() or second.isspace():
                return self._outcome(self._walk_on(number, _prepend(first, expected), _prepend(second, actual)))
            if (failure := self._compare_tokens(number, first, second)) is not None:
                return self._outcome(failure)
        return self._outcome(None)

    def _walk_on(self, number: int, expected: Iterator[bytes], actual: Iterator[bytes]) -> Failure | None:
        """Go on from a blank line that stands against another one or none, leaving out blank lines where that's right.

        Where both outputs have some, only those before the first line of the actual one, if none is expected there or
        at the end.
        """
        numbered: Iterator[tuple[int, bytes]] = enumerate(expected, number)
        leading = not number and not self.pair.expected.start and not self.pair.expected.has_blank_end
        if self.pair.forgives_blank_lines:
            numbered = filter(lambda line: line[1].strip(), numbered)
            actual = filter(bytes.strip, actual)
        elif leading:
            actual = dropwhile(_is_blank, actual)
        self.blank_lines = True
        number -= 1
        for line, second in zip_longest(numbered, actual):
            number, first = line if line is not None else (number + 1, None)
            if first == second or (first is not None and second is not None and first.rstrip() == second.rstrip()):
                continue
            if first is None or second is None or _is_blank(first) or _is_blank(second):
                return Failure(number, None, first, second)
            if (failure := self._compare_tokens(number, first, second)) is not None:
                return failure
        return None

    def _outcome(self, failure: Failure | None) -> Outcome:
        return Outcome(self.need, self.blank_lines, failure)

    def _compare_tokens(self, number: int, expected: bytes, actual: bytes) -> Failure | None:
        """Compare two lines that differ in more than trailing whitespace, neither of them blank."""
        if self.need < Need.TOKENS:
            self.need = Need.TOKENS
        for place, (first, second) in enumerate(zip_longest(split_tokens(expected), split_tokens(actual))):
            if first == second:
                continue
            need = None if first is None or second is None else self._needed(first, second)
            if need is None:
                return Failure(number, place, first, second)
            if need > self.need:
                self.need = need
        return None

    def _needed(self, expected: bytes, actual: bytes) -> Need | None:
        """Return the least need of a pair; where one already had a greater need, that one is tried first."""
        accepted = self.rules.get(self.need)
        if accepted is not None and accepted(expected, actual):
            return self.need
        return next((need for need, rule in self.rules.items() if rule(expected, actual)), None)


def _is_blank(line: bytes) -> bool:
    return not line or line.isspace()


def _prepend(line: bytes | None, lines: Iterator[bytes]) -> Iterator[bytes]:
    return lines if line is None else chain((line,), lines)


def token_rule(policy: Policy) -> TokenRule:
    """Return the most lenient rule for a pair of tokens that the policy allows."""
    rules = tuple(_make_rules(policy).values())
    return lambda expected, actual: expected == actual or any(rule(expected, actual) for rule in rules)


def _make_rules(policy: Policy) -> dict[Need, TokenRule]:
    rules: dict[Need, TokenRule] = {}
    if not policy.exact_tokens:
        rules[Need.NUMBERS] = same_number
        bounds = tolerance_of(policy, TEXT_TOLERANCE)
        if not bounds.is_zero:
            rules[Need.TOLERANCE] = lambda expected, actual: close_number(expected, actual, bounds)
        rules[Need.SPELLING] = _same_spelling
    if policy.ignore_case or policy.yes_no or policy.booleans_as_integers:
        strict = tuple(rules.values())

        def same_words(expected: bytes, actual: bytes) -> bool:
            first, second = canonical_word(expected, policy), canonical_word(actual, policy)
            return first == second or any(rule(first, second) for rule in strict)

        rules[Need.POLICY] = same_words
    return rules


def _same_spelling(expected: bytes, actual: bytes) -> bool:
    return same_special(expected, actual) or _SPELLINGS.get(expected, expected) == _SPELLINGS.get(actual, actual)


def canonical_word(token: bytes, policy: Policy) -> bytes:
    """Return one spelling for all that are equal as words."""
    if not policy.exact_tokens:
        token = _SPELLINGS.get(token, token)
    if policy.booleans_as_integers and token in _BOOLEANS:
        return _BOOLEANS[token]
    if policy.ignore_case:
        return token.decode("utf-8", "surrogateescape").casefold().encode("utf-8", "surrogateescape")
    return token.lower() if policy.yes_no and token.lower() in _YES_NO else token
