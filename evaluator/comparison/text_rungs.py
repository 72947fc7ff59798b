"""The rungs for standard output, from strict to lenient.

Each looks at a pair of outputs and answers True, False, or None where it doesn't apply. From `tokens` on each accepts
whatever the one before accepts and one leniency more, because an output may need several at once; the Match names the
first that accepts. Each docstring says what its rung accepts, and what it would wrongly accept.
"""

from collections.abc import Iterator
from itertools import islice, zip_longest

from evaluator.comparison import literals
from evaluator.comparison.numerals import TEXT_TOLERANCE, tolerance_of
from evaluator.comparison.objects import Relation, first_difference
from evaluator.comparison.orders import misplaced
from evaluator.comparison.pairs import Need, Pair, token_rule
from evaluator.comparison.texts import Text, split_tokens
from evaluator.model import Order, Policy

_LITERAL_STARTS = b"[({\"'"
_BRACKETS_AND_SPACE = b"[](){}, \t\r\n\v\f"
_MAXIMUM_LITERAL = 1 << 21
"""Python literals longer than this aren't parsed (JSON is, at any length)."""


def exact(pair: Pair) -> bool:
    """Accept the same bytes. Wrongly accepts nothing."""
    return pair.same_bytes


def trailing_whitespace(pair: Pair) -> bool:
    """Accept other whitespace at the ends of lines (CRLF too), and blank lines at the end.

    Would wrongly accept: a problem that asks for trailing spaces, or for a number of empty lines at the end.
    """
    return pair.needs_at_most(Need.TRAILING_WHITESPACE, blank_lines=False)


def tokens(pair: Pair) -> bool:
    """Accept other whitespace within lines: each line has the same tokens.

    Would wrongly accept: drawings and texts whose inner or leading spaces matter.
    """
    return pair.needs_at_most(Need.TOKENS, blank_lines=False)


def blank_lines(pair: Pair) -> bool:
    """Accept blank lines that are too many or too few, where at most one side has any; and blank lines at the start,
    where none is expected there or at the end.

    When both sides have blank lines, they must be the same ones: an empty line may be an answer.
    Would wrongly accept: an empty answer left out where no other line is blank.
    """
    return pair.needs_at_most(Need.TOKENS)


def numbers(pair: Pair) -> bool:
    """Accept numbers of exactly equal value, however written: `+5`, `5.0`, `5e0` for `5`, and `-0` for `0`.

    Would wrongly accept: `1e3` for the word `1000`, or the other way round. `1_000`, `0x3e8` and `01000` are words.
    """
    return pair.needs_at_most(Need.NUMBERS)


def tolerance(pair: Pair) -> bool | None:
    """Accept numbers within the tolerance, where the expected one is written as a non-integer, or the policy sets one.

    Would wrongly accept: a rounding that the statement fixes (`3.1415930` for `3.1415926`), a version number.
    """
    return None if tolerance_of(pair.policy, TEXT_TOLERANCE).is_zero else pair.needs_at_most(Need.TOLERANCE)


def spelling(pair: Pair) -> bool:
    """Accept `true` for `True`, `false` for `False`, `null` for `None`, and other spellings of nan and of infinity.

    Would wrongly accept: `null` where the word `None` is asked for.
    """
    return pair.needs_at_most(Need.SPELLING)


def policy_words(pair: Pair) -> bool | None:
    """Accept what the policy says of words: any case, yes and no in any case, booleans as 1 and 0.

    Would wrongly accept: what the policy shouldn't have said. Whole tokens only: `yes` is never part of `yesterday`.
    """
    policy = pair.policy
    if not (policy.ignore_case or policy.yes_no or policy.booleans_as_integers):
        return None
    return pair.needs_at_most(Need.POLICY)


def literal_values(pair: Pair) -> bool | None:
    """Accept JSON or Python literals of equal value, as the whole output or line by line.

    Lists and tuples are one, quotes of either kind too, `[1,2]` is `[1, 2]`, a set has no order where one is expected,
    numbers follow their own rungs; a line that is one quoted string may come without its quotes.
    Would wrongly accept: `(1, 2)` where the statement fixes square brackets. Brackets without any content are words:
    `[]` isn't `()`.
    """
    if pair.policy.exact_tokens:
        return None
    whole = _literals_agree(pair.expected.data.strip(), pair.actual.data.strip(), pair.policy)
    if whole:
        return True
    failure = pair.outcome.failure
    if failure is None or failure.token is None:
        return whole
    # Only a literal can explain the pair of tokens that the walk stopped at, so look at its line before all others.
    lines = islice(pair.expected.whole_lines(), failure.line, failure.line + 1)
    if not all(map(_starts_literal, lines)) or (whole is False and _has_one_line(pair)):
        return whole
    for first, second in zip_longest(_lines(pair, pair.expected), _lines(pair, pair.actual)):
        if first is None or second is None:
            return False
        if first != second and not _lines_agree(first, second, pair.policy):
            return False
    return True


def token_stream(pair: Pair) -> bool | None:
    """Accept other line ends, where the policy ignores lines.

    Would wrongly accept: one number a line where a row is asked for, and a number moved to another line.
    """
    if not pair.policy.ignore_lines:
        return None
    return differing_tokens(pair) is None


def any_order(pair: Pair) -> bool | None:
    """Accept another order of lines, of each line's tokens, or both, as the policy says. Repeats count.

    Would wrongly accept: an order that matters; with `any`, tokens that changed places within their line.
    """
    return None if pair.policy.order is Order.EXACT else misplaced(pair) is None


def differing_tokens(pair: Pair) -> tuple[int, bytes | None, bytes | None] | None:
    """Return the first two tokens that no rule finds equal, line ends ignored, and their number after `start`."""
    rule = token_rule(pair.policy)
    for number, (first, second) in enumerate(zip_longest(pair.expected.tokens(), pair.actual.tokens())):
        if first != second and (first is None or second is None or not rule(first, second)):
            return number, first, second
    return None


def _lines(pair: Pair, text: Text) -> Iterator[bytes]:
    """Yield the lines; without the blank ones, where these may be left out."""
    return filter(bytes.strip, text.whole_lines()) if pair.forgives_blank_lines else text.whole_lines()


def _has_one_line(pair: Pair) -> bool:
    return b"\n" not in pair.expected.data[: pair.expected.end].lstrip()


def _starts_literal(line: bytes) -> bool:
    return line.lstrip()[:1] in _LITERAL_STARTS


def _lines_agree(expected: bytes, actual: bytes, policy: Policy) -> bool:
    rule = token_rule(policy)
    pairs = zip_longest(split_tokens(expected), split_tokens(actual))
    if all(first is not None and second is not None and rule(first, second) for first, second in pairs):
        return True
    return _literals_agree(expected.strip(), actual.strip(), policy) is True


def _literals_agree(expected: bytes, actual: bytes, policy: Policy) -> bool | None:
    """Compare two texts as literals; None where the expected one isn't of that kind."""
    if expected[:1] not in _LITERAL_STARTS or not expected:
        return None
    value = _parse(expected)
    if value is literals.INVALID or type(value) in (int, float, complex, bool, type(None)):
        return None
    other = _parse(actual) if actual[:1] in _LITERAL_STARTS else literals.INVALID
    if type(value) is str:
        return value == (actual.decode("utf-8", "surrogateescape") if other is literals.INVALID else other)
    if other is literals.INVALID:
        return False
    if not expected.translate(None, _BRACKETS_AND_SPACE):
        return expected.translate(None, b" \t\r\n\v\f") == actual.translate(None, b" \t\r\n\v\f")
    return first_difference(value, other, _text_relation(policy)) is None


def _parse(text: bytes) -> object:
    characters = text.decode("utf-8", "surrogateescape")
    value: object = literals.parse_json(characters)
    if value is literals.INVALID and len(text) <= _MAXIMUM_LITERAL:
        return literals.parse_python(characters)
    return value


def _text_relation(policy: Policy) -> Relation:
    return Relation(
        sequences=True,
        numbers=True,
        booleans=policy.booleans_as_integers,
        keys=True,
        tolerance=tolerance_of(policy, TEXT_TOLERANCE),
        sets=True,
        order=policy.order,
        fold=str.casefold if policy.ignore_case else None,
    )
