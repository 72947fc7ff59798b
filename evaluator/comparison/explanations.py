"""Why an output was rejected: position, expected and found, in one readable line."""

from collections.abc import Iterator
from itertools import zip_longest

from evaluator.comparison import livecodebench_rungs, text_rungs, value_rungs
from evaluator.comparison.objects import Relation, first_difference
from evaluator.comparison.texts import Text, count_tokens, split_tokens
from evaluator.comparison.wording import IN_ANY_ORDER, describe, quote
from evaluator.model import Match, Order, Policy

_NO_TOKEN = "nothing more"  # noqa: S105 - a word of the output, no secret
_NO_LINE = "the end of the output"


def explain_text(expected: Text, actual: Text, policy: Policy) -> Match:
    """Tell where the most lenient rung of the profile stops."""
    if policy.profile == "exact":
        return _explain_bytes(expected, actual)
    if policy.profile == "livecodebench":
        return _explain_livecodebench(expected, actual)
    if policy.order is not Order.EXACT and (pair := text_rungs.misplaced(expected, actual, policy)) is not None:
        return _reject(IN_ANY_ORDER, _quote_or(pair[0], _NO_TOKEN), _quote_or(pair[1], _NO_TOKEN))
    if policy.ignore_lines:
        pairs = zip_longest(text_rungs.all_tokens(expected), text_rungs.all_tokens(actual))
        before = count_tokens(expected.data, 0, expected.line_start)
        return _first_token(pairs, before, "", policy) or _unexplained()
    before = count_tokens(expected.data, expected.line_start, expected.start)
    for number, first, second in _numbered_lines(expected, actual):
        if first is None or second is None or not (first.strip() and second.strip()):
            if first is None or second is None or first.strip() or second.strip():
                return _reject(f"line {number}", _line_text(first), _line_text(second))
        elif first != second:
            pairs = zip_longest(split_tokens(first), split_tokens(second))
            if (rejected := _first_token(pairs, before, f"line {number}, ", policy)) is not None:
                return rejected
        before = 0
    return _unexplained()


def explain_value(expected: object, actual: object, policy: Policy) -> Match:
    """Tell where two values first differ."""
    relation = Relation()
    if policy.profile == "livecodebench":
        actual = value_rungs.outer_list(actual)
        relation = Relation(numbers=True, booleans=True, nan=False)
    elif policy.profile == "microcoder":
        relation = value_rungs.relation(policy, value_rungs.MOST_LENIENT)
    difference = first_difference(expected, actual, relation)
    if difference is None:
        return _unexplained()
    return _reject(difference.path, describe(difference.expected), describe(difference.actual))


def _explain_bytes(expected: Text, actual: Text) -> Match:
    place = expected.start
    shorter = min(len(expected.data), len(actual.data))
    while place < shorter and expected.data[place] == actual.data[place]:
        place += 1
    line = expected.data.count(b"\n", 0, place) + 1
    column = place - expected.data.rfind(b"\n", 0, place)
    first, second = expected.data[place : place + 200], actual.data[place : place + 200]
    return _reject(
        f"line {line}, byte {column}", _quote_or(first or None, _NO_LINE), _quote_or(second or None, _NO_LINE)
    )


def _explain_livecodebench(expected: Text, actual: Text) -> Match:
    found = livecodebench_rungs.difference(expected, actual)
    if found is None:
        return _unexplained()
    number, first, second = found
    texts = [None if line is None else line.encode("utf-8", "surrogateescape") for line in (first, second)]
    return _reject(f"line {number}", _line_text(texts[0]), _line_text(texts[1]))


def _numbered_lines(expected: Text, actual: Text) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Pair the lines as leniently as the rungs may, numbered as they are in the expected output."""
    number = expected.data.count(b"\n", 0, expected.line_start)
    *_, (_, found) = text_rungs.lenient_lines(expected, actual)
    forgiven = text_rungs.forgives_blank_lines(expected, actual)
    for first in expected.lines():
        number += 1
        if not forgiven or first.strip():
            yield number, first, next(found, None)
    for second in found:
        number += 1
        yield number, None, second


def _first_token(
    pairs: Iterator[tuple[bytes | None, bytes | None]], before: int, line: str, policy: Policy
) -> Match | None:
    rule = text_rungs.token_rule(policy)
    for number, (first, second) in enumerate(pairs, start=before + 1):
        if first != second and (first is None or second is None or not rule(first, second)):
            return _reject(f"{line}token {number}", _quote_or(first, _NO_TOKEN), _quote_or(second, _NO_TOKEN))
    return None


def _line_text(line: bytes | None) -> str:
    if line is None:
        return _NO_LINE
    return quote(line.strip()) if line.strip() else "a blank line"


def _quote_or(token: bytes | None, otherwise: str) -> str:
    return otherwise if token is None else quote(token)


def _reject(position: str, expected: str, found: str) -> Match:
    return Match(matched=False, position=position, expected=expected, found=found)


def _unexplained() -> Match:
    return _reject("the output", "another one", "this one")
