"""Why an output was rejected: position, expected and found, in one readable line."""

from evaluator.comparison import livecodebench_rungs, text_rungs, value_rungs
from evaluator.comparison.objects import first_difference
from evaluator.comparison.orders import misplaced
from evaluator.comparison.pairs import Pair
from evaluator.comparison.texts import Text, count_tokens
from evaluator.comparison.value_rungs import Values
from evaluator.comparison.wording import IN_ANY_ORDER, describe, quote
from evaluator.model import Match, Order

_NO_TOKEN = "nothing more"  # noqa: S105 - a word of the output, no secret
_NO_LINE = "the end of the output"


def explain_text(pair: Pair) -> Match:
    """Tell where the most lenient rung of the profile stops."""
    if pair.policy.profile == "exact":
        return _explain_bytes(pair.expected, pair.actual)
    if pair.policy.profile == "livecodebench":
        return _explain_livecodebench(pair)
    if pair.policy.order is not Order.EXACT and (left := misplaced(pair)) is not None:
        return _reject(IN_ANY_ORDER, _quote_or(left[0], _NO_TOKEN), _quote_or(left[1], _NO_TOKEN))
    data, start, line_start = pair.expected.data, pair.expected.start, pair.expected.line_start
    if pair.policy.ignore_lines and (difference := text_rungs.differing_tokens(pair)) is not None:
        number, first, second = difference
        position = f"token {count_tokens(data, 0, start) + number + 1}"
        return _reject(position, _quote_or(first, _NO_TOKEN), _quote_or(second, _NO_TOKEN))
    failure = pair.outcome.failure
    if failure is None:
        return _unexplained()
    line = data.count(b"\n", 0, line_start) + failure.line + 1
    if failure.token is None:
        return _reject(f"line {line}", _line_text(failure.expected), _line_text(failure.actual))
    before = 0 if failure.line else count_tokens(data, line_start, start)
    position = f"line {line}, token {before + failure.token + 1}"
    return _reject(position, _quote_or(failure.expected, _NO_TOKEN), _quote_or(failure.actual, _NO_TOKEN))


def explain_value(values: Values) -> Match:
    """Tell where two values first differ."""
    if values.policy.profile == "livecodebench":
        difference = first_difference(values.expected, value_rungs.outer_list(values.actual), value_rungs.PYTHON)
    elif values.policy.profile == "exact":
        difference = first_difference(values.expected, values.actual, value_rungs.SAME)
    else:
        difference = values.difference
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


def _explain_livecodebench(pair: Pair) -> Match:
    found = livecodebench_rungs.difference(pair)
    if found is None:
        return _unexplained()
    number, first, second = found
    texts = [None if line is None else line.encode("utf-8", "surrogateescape") for line in (first, second)]
    return _reject(f"line {number}", _line_text(texts[0]), _line_text(texts[1]))


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
