"""Outputs in another order: which pieces have no partner on the other side.

Pieces are matched as multisets: first those of the same bytes, then those of the same canonical spelling, at last, in
the order of their numbers, those that a tolerance lets agree.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest

from evaluator.comparison.numerals import exact_value
from evaluator.comparison.pairs import Pair, TokenRule, canonical_word, token_rule
from evaluator.comparison.texts import Text, skip_common_tokens, split_tokens
from evaluator.comparison.unordered import unpaired
from evaluator.model import Order, Policy

Unmatched = tuple[bytes | None, bytes | None]


def misplaced(pair: Pair) -> Unmatched | None:
    """Return an expected piece without partner and an actual one, under the order that the policy asks for."""
    if not pair.unmatched:
        pair.unmatched.append(_search(pair))
    return pair.unmatched[0]


def _search(pair: Pair) -> Unmatched | None:
    matcher = _Matcher(pair.policy)
    if pair.policy.ignore_lines:
        return matcher.match_tokens(pair.expected.tokens(), pair.actual.tokens())
    expected, actual = _full_lines(pair.expected), _full_lines(pair.actual)
    if pair.policy.order is Order.TOKENS:
        return matcher.match_lines(expected, actual)
    return matcher.match(expected, actual, matcher.line_key, matcher.lines_agree)


class _Matcher:
    """The rules of one policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.rule = token_rule(policy)

    def match_lines(self, expected: Iterator[bytes], actual: Iterator[bytes]) -> Unmatched | None:
        """Match the tokens of each line with those of the same line."""
        for first, second in zip_longest(expected, actual):
            if first is None or second is None:
                return first, second
            if first != second and (left := self.match_tokens(*_split(first, second))) is not None:
                return left
        return None

    def match_tokens(self, expected: Iterator[bytes], actual: Iterator[bytes]) -> Unmatched | None:
        """Match tokens, wherever they stand."""
        return self.match(expected, actual, self.token_key, self.rule)

    def match(
        self, expected: Iterable[bytes], actual: Iterable[bytes], key: Callable[[bytes], bytes], agree: TokenRule
    ) -> Unmatched | None:
        """Match pieces by their bytes, then by their keys, then by what agrees with what."""
        first, second = _uncommon(Counter(expected), Counter(actual))
        if first.total() > second.total():
            return next(iter(first)), None
        if first.total() < second.total():
            return None, next(iter(second))
        if first.total() == 1:
            one, other = next(iter(first)), next(iter(second))
            return None if agree(one, other) else (one, other)
        first, second = _uncommon_keys(first, second, key)
        missing, extra = sorted(first.elements(), key=_by_number), sorted(second.elements(), key=_by_number)
        return unpaired(missing, extra, agree)

    def lines_agree(self, expected: bytes, actual: bytes) -> bool:
        """Say whether two lines agree, in order or, where the policy says so, in any order of their tokens."""
        ours, theirs = _split(expected, actual)
        if self.policy.order is Order.ANY:
            return self.match_tokens(ours, theirs) is None
        pairs = zip_longest(ours, theirs)
        return all(first is not None and second is not None and self.rule(first, second) for first, second in pairs)

    def line_key(self, line: bytes) -> bytes:
        """Return one spelling for all lines that are equal."""
        keys = map(self.token_key, line.split())
        return b" ".join(sorted(keys) if self.policy.order is Order.ANY else keys)

    def token_key(self, token: bytes) -> bytes:
        """Return one spelling for all tokens that are equal."""
        word = canonical_word(token, self.policy)
        value = None if self.policy.exact_tokens else exact_value(word)
        return word if value is None else b"%b%be%d" % value


def _split(first: bytes, second: bytes) -> tuple[Iterator[bytes], Iterator[bytes]]:
    start = skip_common_tokens(first, second)
    return split_tokens(first[start:]), split_tokens(second[start:])


def _full_lines(text: Text) -> Iterator[bytes]:
    return filter(bytes.strip, text.whole_lines())


def _uncommon(first: Counter[bytes], second: Counter[bytes]) -> tuple[Counter[bytes], Counter[bytes]]:
    return first - second, second - first


def _uncommon_keys(
    first: Counter[bytes], second: Counter[bytes], key: Callable[[bytes], bytes]
) -> tuple[Counter[bytes], Counter[bytes]]:
    """Drop from both sides what has the same key."""
    keys = {piece: key(piece) for pieces in (first, second) for piece in pieces}
    missing, extra = _uncommon(_count_keys(first, keys), _count_keys(second, keys))
    return _with_keys(first, missing, keys), _with_keys(second, extra, keys)


def _count_keys(pieces: Counter[bytes], keys: dict[bytes, bytes]) -> Counter[bytes]:
    counts: Counter[bytes] = Counter()
    for piece, times in pieces.items():
        counts[keys[piece]] += times
    return counts


def _with_keys(pieces: Counter[bytes], wanted: Counter[bytes], keys: dict[bytes, bytes]) -> Counter[bytes]:
    """Return as many of the pieces as each key is wanted."""
    found: Counter[bytes] = Counter()
    for piece, times in pieces.items() if wanted else ():
        name = keys[piece]
        taken = min(times, wanted[name])
        wanted[name] -= taken
        found[piece] += taken
    return found


def _by_number(piece: bytes) -> list[tuple[int, float, bytes]]:
    return [(0, float(token), b"") if exact_value(token) is not None else (1, 0.0, token) for token in piece.split()]
