"""The rungs for standard output, from strict to lenient.

Each takes (expected, actual, policy) and answers True, False, or None where it doesn't apply. From `tokens` on each
accepts whatever the one before accepts and one leniency more, because an output may need several at once; the Match
names the first that accepts. Each docstring says what its rung accepts, and what it would wrongly accept.
"""

from collections.abc import Callable, Iterator
from itertools import chain, dropwhile, zip_longest

from evaluator.comparison import literals
from evaluator.comparison.numerals import (
    TEXT_TOLERANCE,
    close_number,
    exact_value,
    same_number,
    same_special,
    tolerance_of,
)
from evaluator.comparison.objects import Relation, first_difference
from evaluator.comparison.texts import Text, split_tokens
from evaluator.comparison.unordered import MAXIMUM_PAIRS, leftover, unpaired
from evaluator.model import Order, Policy

TokenRule = Callable[[bytes, bytes], bool]
_SPELLINGS = {b"true": b"True", b"false": b"False", b"null": b"None"}
_YES_NO = frozenset((b"yes", b"no"))
_BOOLEANS = {b"True": b"1", b"true": b"1", b"False": b"0", b"false": b"0"}
_LITERAL_STARTS = b"[({\"'"
_MAXIMUM_LITERAL = 1 << 21
"""Python literals longer than this aren't parsed (JSON is, at any length)."""


def exact(expected: Text, actual: Text, policy: Policy) -> bool:
    """Accept the same bytes. Wrongly accepts nothing."""
    return expected.data == actual.data


def trailing_whitespace(expected: Text, actual: Text, policy: Policy) -> bool:
    """Accept other whitespace at the ends of lines (CRLF too), and blank lines at the end.

    Would wrongly accept: a problem that asks for trailing spaces, or for a number of empty lines at the end.
    """
    for first, second in zip_longest(expected.lines(), actual.lines()):
        if first != second and (first is None or second is None or first.rstrip() != second.rstrip()):
            return False
    return True


def tokens(expected: Text, actual: Text, policy: Policy) -> bool:
    """Accept other whitespace within lines: each line has the same tokens.

    Would wrongly accept: drawings and texts whose inner or leading spaces matter.
    """
    return _lines_agree(expected.lines(), actual.lines(), _never)


def blank_lines(expected: Text, actual: Text, policy: Policy) -> bool:
    """Accept blank lines that are too many or too few, where at most one side has any; and blank lines at the start,
    where none is expected there.

    When both sides have blank lines, they must be the same ones: an empty line may be an answer.
    Would wrongly accept: an empty answer left out where no other line is blank.
    """
    return _agree(expected, actual, _never)


def numbers(expected: Text, actual: Text, policy: Policy) -> bool:
    """Accept numbers of exactly equal value, however written: `+5`, `5.0`, `5e0` for `5`, and `-0` for `0`.

    Would wrongly accept: `1e3` for the word `1000`, or the other way round. `1_000`, `0x3e8` and `01000` are words.
    """
    return _agree(expected, actual, same_number)


def tolerance(expected: Text, actual: Text, policy: Policy) -> bool | None:
    """Accept numbers within the tolerance, where the expected one is written as a non-integer, or the policy sets one.

    Would wrongly accept: a rounding that the statement fixes (`3.1415930` for `3.1415926`), a version number.
    """
    return None if tolerance_of(policy, TEXT_TOLERANCE).is_zero else _agree(expected, actual, _tolerance_rule(policy))


def spelling(expected: Text, actual: Text, policy: Policy) -> bool:
    """Accept `true` for `True`, `false` for `False`, `null` for `None`, and other spellings of nan and of infinity.

    Would wrongly accept: `null` where the word `None` is asked for.
    """
    return _agree(expected, actual, _spelling_rule(policy))


def policy_words(expected: Text, actual: Text, policy: Policy) -> bool | None:
    """Accept what the policy says of words: any case, yes and no in any case, booleans as 1 and 0.

    Would wrongly accept: what the policy shouldn't have said. Whole tokens only: `yes` is never part of `yesterday`.
    """
    if not (policy.ignore_case or policy.yes_no or policy.booleans_as_integers):
        return None
    return _agree(expected, actual, token_rule(policy))


def literal_values(expected: Text, actual: Text, policy: Policy) -> bool | None:
    """Accept JSON or Python literals of equal value, as the whole output or line by line.

    Lists and tuples are one, quotes of either kind too, `[1,2]` is `[1, 2]`, a set has no order where one is expected,
    numbers follow their own rungs; a line that is one quoted string may come without its quotes.
    Would wrongly accept: `(1, 2)` where the statement fixes square brackets. Brackets without any content are words:
    `[]` isn't `()`.
    """
    whole = _literals_agree(expected.data.strip(), actual.data.strip(), policy)
    if whole:
        return True
    rule, applies = token_rule(policy), whole is not None
    for first, second in zip_longest(expected.whole_lines(), actual.whole_lines()):
        if first is None or second is None:
            return False if applies else None
        if first == second or _tokens_agree(first, second, rule):
            continue
        answer = _literals_agree(first.strip(), second.strip(), policy)
        if not answer:
            return False if applies or answer is not None else None
        applies = True
    return True


def token_stream(expected: Text, actual: Text, policy: Policy) -> bool | None:
    """Accept other line ends, where the policy ignores lines.

    Would wrongly accept: one number a line where a row is asked for, and a number moved to another line.
    """
    if not policy.ignore_lines:
        return None
    return _streams_agree(all_tokens(expected), all_tokens(actual), token_rule(policy))


def any_order(expected: Text, actual: Text, policy: Policy) -> bool | None:
    """Accept another order of lines, of each line's tokens, or both, as the policy says. Repeats count.

    Would wrongly accept: an order that matters; with `any`, tokens that changed places within their line.
    """
    return None if policy.order is Order.EXACT else misplaced(expected, actual, policy) is None


def misplaced(expected: Text, actual: Text, policy: Policy) -> tuple[bytes | None, bytes | None] | None:
    """Return an expected piece without partner and an actual one, in the order that the policy asks for."""
    rule, canonical = token_rule(policy), _canonical_token(policy)

    def unordered_tokens(first: bytes, second: bytes) -> tuple[bytes | None, bytes | None] | None:
        return _unpartnered(first.split(), second.split(), canonical, rule)

    if policy.ignore_lines:
        return unordered_tokens(expected.data, actual.data)
    first_lines, second_lines = _full_lines(expected), _full_lines(actual)
    if policy.order is Order.TOKENS:
        for first, second in zip_longest(first_lines, second_lines):
            if first is None or second is None:
                return first, second
            if first != second and (pair := unordered_tokens(first, second)) is not None:
                return pair
        return None
    if policy.order is Order.LINES:
        return _unpartnered(
            list(first_lines),
            list(second_lines),
            lambda line: list(map(canonical, line.split())),
            lambda first, second: _tokens_agree(first, second, rule),
        )
    return _unpartnered(
        list(first_lines),
        list(second_lines),
        lambda line: sorted(map(canonical, line.split())),
        lambda first, second: unordered_tokens(first, second) is None,
    )


def _unpartnered(
    expected: list[bytes], actual: list[bytes], key: Callable[[bytes], object], close: TokenRule
) -> tuple[bytes | None, bytes | None] | None:
    missing, extra = leftover(expected, actual, key)
    if len(missing) != len(extra):
        return (missing[0] if len(missing) > len(extra) else None), (extra[0] if len(missing) < len(extra) else None)
    return unpaired(missing, extra, close, MAXIMUM_PAIRS)


def token_rule(policy: Policy) -> TokenRule:
    """Return the most lenient rule for a pair of tokens that the policy allows."""
    spelled = _spelling_rule(policy)
    if not (policy.ignore_case or policy.yes_no or policy.booleans_as_integers):
        return spelled

    def rule(expected: bytes, actual: bytes) -> bool:
        if spelled(expected, actual):
            return True
        first, second = _canonical_word(expected, policy), _canonical_word(actual, policy)
        return first == second or spelled(first, second)

    return rule


def lenient_lines(expected: Text, actual: Text) -> Iterator[tuple[Iterator[bytes], Iterator[bytes]]]:
    """Yield the ways in which the lines of both may be aligned, strict first."""
    yield expected.lines(), actual.lines()
    if forgives_blank_lines(expected, actual):
        yield filter(bytes.strip, expected.lines()), filter(bytes.strip, actual.lines())
    elif expected.start == 0 and not expected.starts_blank():
        yield expected.lines(), dropwhile(_is_blank, actual.lines())


def forgives_blank_lines(expected: Text, actual: Text) -> bool:
    """Say whether blank lines may be left out: not when both have some, for an empty line may be an answer."""
    return not (expected.has_blank_line() and actual.has_blank_line())


def all_tokens(text: Text) -> Iterator[bytes]:
    """Yield every token from the line of the first difference on."""
    return chain.from_iterable(map(split_tokens, text.whole_lines()))


def _agree(expected: Text, actual: Text, rule: TokenRule) -> bool:
    return any(_lines_agree(first, second, rule) for first, second in lenient_lines(expected, actual))


def _lines_agree(expected: Iterator[bytes], actual: Iterator[bytes], rule: TokenRule) -> bool:
    for first, second in zip_longest(expected, actual):
        if first != second and (first is None or second is None or not _tokens_agree(first, second, rule)):
            return False
    return True


def _tokens_agree(expected: bytes, actual: bytes, rule: TokenRule) -> bool:
    return _streams_agree(split_tokens(expected), split_tokens(actual), rule)


def _streams_agree(expected: Iterator[bytes], actual: Iterator[bytes], rule: TokenRule) -> bool:
    for first, second in zip_longest(expected, actual):
        if first != second and (first is None or second is None or not rule(first, second)):
            return False
    return True


def _full_lines(text: Text) -> Iterator[bytes]:
    return filter(bytes.strip, text.whole_lines())


def _is_blank(line: bytes) -> bool:
    return not line.strip()


def _never(expected: bytes, actual: bytes) -> bool:
    return False


def _tolerance_rule(policy: Policy) -> TokenRule:
    bounds = tolerance_of(policy, TEXT_TOLERANCE)
    if bounds.is_zero:
        return same_number
    return lambda expected, actual: close_number(expected, actual, bounds) or same_number(expected, actual)


def _spelling_rule(policy: Policy) -> TokenRule:
    near = _tolerance_rule(policy)
    return lambda expected, actual: (
        near(expected, actual)
        or same_special(expected, actual)
        or _SPELLINGS.get(expected, expected) == _SPELLINGS.get(actual, actual)
    )


def _canonical_word(token: bytes, policy: Policy) -> bytes:
    if policy.booleans_as_integers and token in _BOOLEANS:
        return _BOOLEANS[token]
    if policy.ignore_case:
        return token.decode("utf-8", "surrogateescape").casefold().encode("utf-8", "surrogatepass")
    return token.lower() if policy.yes_no and token.lower() in _YES_NO else token


def _canonical_token(policy: Policy) -> Callable[[bytes], tuple[object, ...]]:
    def canonical(token: bytes) -> tuple[object, ...]:
        word = _canonical_word(_SPELLINGS.get(token, token), policy)
        value = exact_value(word)
        return (1, word) if value is None else (0, *value)

    return canonical


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
    if not expected.translate(None, b"[](){}, \t\r\n\v\f"):
        return b"".join(expected.split()) == b"".join(actual.split())
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
