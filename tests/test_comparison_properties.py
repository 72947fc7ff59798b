"""What must hold of every comparison, whatever is compared."""

import ast
import json
import string
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.comparison import literals
from evaluator.comparison.ladder import TEXT_RUNGS, VALUE_RUNGS, compare, compare_value
from evaluator.comparison.pairs import make_pair
from evaluator.comparison.unordered import leftover
from evaluator.comparison.value_rungs import Values
from evaluator.model import Order, Policy

DEFAULT = Policy()
POLICIES = [
    DEFAULT,
    Policy(profile="exact"),
    Policy(profile="livecodebench"),
    Policy(ignore_case=True, yes_no=True),
    Policy(ignore_lines=True),
    Policy(order=Order.LINES),
    Policy(order=Order.TOKENS),
    Policy(order=Order.ANY, ignore_lines=True),
    Policy(absolute_tolerance=0.5),
    Policy(relative_tolerance=0.0, booleans_as_integers=True),
    Policy(exact_tokens=True, ignore_case=True, order=Order.TOKENS),
]


def holds(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try a property on a number of examples that keeps the tests quick."""
    return lambda test: settings(max_examples=60, deadline=None)(given(*strategies)(test))


CUMULATIVE = ["trailing_whitespace", "tokens", "blank_lines", "numbers", "tolerance", "spelling"]

ODD_TOKENS = """
    0 -0 1 1.0 +1 1e0 01 1_0 0.3 0.30000000000000004 nan NaN inf True true YES yes None null
    [1, 2] [1,2] (1,) [] () 'a' "a" 1e999 1e-999 . -
"""
tokens = st.one_of(
    st.sampled_from(ODD_TOKENS.split()),
    st.integers().map(str),
    st.floats().map(repr),
    st.text(alphabet=string.printable, max_size=4),
)
outputs = st.text(max_size=20) | st.lists(st.lists(tokens, max_size=4).map(" ".join), max_size=5).map("\n".join)
policies = st.sampled_from(POLICIES)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([10**400, 2**53 + 1, 0.3]),
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
values = st.recursive(
    scalars | st.complex_numbers() | st.binary(max_size=3) | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.frozensets(st.integers() | st.floats() | st.text(max_size=2), max_size=3)
        | st.dictionaries(st.integers() | st.text(max_size=2) | st.booleans(), inner, max_size=3)
    ),
    max_leaves=12,
)


@holds(outputs, policies)
def test_an_output_equals_itself(output: str, policy: Policy) -> None:
    """Reflexive in every profile, and by the strictest rung."""
    assert compare(output, output.encode("utf-8", "surrogatepass"), policy).rung == "exact"


@holds(outputs, st.binary(max_size=30) | outputs.map(lambda text: text.encode("utf-8", "surrogatepass")), policies)
def test_comparing_outputs_never_raises_and_always_explains(expected: str, actual: bytes, policy: Policy) -> None:
    """A Match has a rung, or position, expected and found."""
    match = compare(expected, actual, policy)
    assert (match.rung is not None) is match.matched
    assert match.matched or (match.position and match.expected and match.found)
    assert match.matched or match.position != "the output", "a rejection without its reason"
    assert "\n" not in match.explanation


@holds(outputs | json_values.map(json.dumps), values, policies)
def test_comparing_values_never_raises_and_always_explains(expected: str, actual: Any, policy: Policy) -> None:
    """The same of values, of any type."""
    match = compare_value(expected, actual, policy)
    assert (match.rung is not None) is match.matched
    assert match.matched or (match.position and match.expected and match.found)
    assert match.expected != "another one", "a rejection without its reason"


@holds(json_values)
def test_a_value_equals_itself(value: Any) -> None:
    """Reflexive, nan included, for the strictest rung."""
    for profile in ("exact", "microcoder"):
        assert compare_value(json.dumps(value), value, Policy(profile=profile)).rung == "exact"


@holds(outputs, outputs)
def test_rungs_for_tokens_are_monotone(expected: str, actual: str) -> None:
    """What a rung accepts, each more lenient one accepts."""
    pair = make_pair(expected, actual.encode("utf-8", "surrogatepass"), DEFAULT)
    answers = {rung.name: bool(rung.accepts(pair)) for rung in TEXT_RUNGS}
    accepted = [answers[name] for name in ["exact", *CUMULATIVE]]
    assert accepted == sorted(accepted)


@holds(json_values, values)
def test_rungs_for_values_are_monotone(expected: Any, actual: Any) -> None:
    """The same of values."""
    names = ["exact", "sequences", "numbers", "keys", "tolerance", "sets"]
    rungs = {rung.name: rung for rung in VALUE_RUNGS}
    accepted = [bool(rungs[name].accepts(Values(expected, actual, DEFAULT))) for name in names]
    assert accepted == sorted(accepted)


@holds(outputs, outputs, policies)
def test_exact_is_within_every_profile(expected: str, actual: str, policy: Policy) -> None:
    """What the profile `exact` accepts, every policy accepts."""
    found = actual.encode("utf-8", "surrogatepass")
    if compare(expected, found, Policy(profile="exact")).matched:
        assert compare(expected, found, policy).matched


@holds(outputs, outputs, policies.filter(lambda policy: policy.profile == "microcoder"))
def test_policy_options_only_add(expected: str, actual: str, policy: Policy) -> None:
    """Without a tolerance of its own, a policy accepts at least what the default one does."""
    found = actual.encode("utf-8", "surrogatepass")
    if policy.absolute_tolerance is policy.relative_tolerance is None and compare(expected, found, DEFAULT).matched:
        assert compare(expected, found, policy).matched


@holds(outputs, outputs)
def test_strict_rungs_are_symmetric(first: str, second: str) -> None:
    """Up to numbers of equal value it doesn't matter which of the two was expected, blank lines aside."""
    for name in ("exact", "trailing_whitespace", "tokens"):
        rung = next(rung for rung in TEXT_RUNGS if rung.name == name)
        one = make_pair(first, second.encode("utf-8", "surrogatepass"), DEFAULT)
        other = make_pair(second, first.encode("utf-8", "surrogatepass"), DEFAULT)
        assert rung.accepts(one) == rung.accepts(other)


@holds(st.lists(tokens.filter(lambda token: token.split() == [token]), min_size=1, max_size=6), st.randoms())
def test_order_of_tokens_is_ignored_when_asked(items: list[str], random: Any) -> None:
    """Any permutation is accepted, and no proper part of it."""
    shuffled = random.sample(items, len(items))
    policy = Policy(order=Order.TOKENS)
    assert compare(" ".join(items), " ".join(shuffled).encode(), policy).matched
    if len("x".join(items).split()) == 1:
        assert not compare(" ".join(items), " ".join(shuffled[1:]).encode(), policy).matched


@holds(st.lists(st.integers(0, 3) | st.floats(0, 1) | st.text(max_size=1)), st.randoms())
def test_order_of_items_is_ignored_when_asked(items: list[Any], random: Any) -> None:
    """The same of lists."""
    shuffled = random.sample(items, len(items))
    for order in (Order.LINES, Order.TOKENS, Order.ANY):
        assert compare_value(json.dumps(items), shuffled, Policy(order=order)).matched
        assert not compare_value(json.dumps([*items, 7]), shuffled, Policy(order=order)).matched


@holds(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_leftovers_are_the_difference_of_multisets(first: list[int], second: list[int]) -> None:
    """Each item has at most one partner."""
    missing, extra = leftover(first, second, lambda item: item)
    assert sorted([*missing, *second]) == sorted([*extra, *first])
    assert not set(missing) & set(extra)


@holds(json_values)
def test_both_parsers_agree_on_json(value: Any) -> None:
    """Python's spelling of a value parses to what JSON's does, integers of any size included."""
    text = json.dumps(value)
    assert repr(literals.parse_json(text)) == repr(value)
    assert repr(literals.parse_python(repr(value))) == repr(value)


@holds(st.text(alphabet="[](){},:'\"\\0123456789.eE+-jbTruefalsn \n", max_size=30) | st.text(max_size=20))
def test_parsers_never_raise(text: str) -> None:
    """Whatever isn't a literal is INVALID; what is one for Python means the same here, if we read it at all."""
    value = literals.parse_python(text)
    literals.parse_json(text)
    if value is not literals.INVALID and not any(
        name in text for name in ("true", "false", "null", "nan", "inf", "NaN", "Inf")
    ):
        assert repr(ast.literal_eval(text.strip())) == repr(value)


@holds(st.integers(-(10**9000), 10**9000))
def test_integers_beyond_the_interpreters_limit(number: int) -> None:
    """Exact, whatever the length; the interpreter's limit stays."""
    limit = sys.get_int_max_str_digits()
    sign, rest, pieces = ("-" if number < 0 else ""), abs(number), []
    while rest:
        rest, piece = divmod(rest, 10**1000)
        pieces.append(f"{piece:01000d}" if rest else str(piece))
    text = sign + ("".join(reversed(pieces)) or "0")
    assert compare_value(text, number, DEFAULT).rung == "exact"
    assert not compare_value(text, number + 1, DEFAULT).matched
    assert sys.get_int_max_str_digits() == limit


def test_giant_integers_are_known_by_their_residue() -> None:
    """100 000 digits, compared with a true integer without ever converting them."""
    number = 7**120_000
    text = _decimal(number)
    assert len(text) > 100_000
    assert compare_value(text, number, DEFAULT).matched
    assert compare_value(f"[-{text}]", [-number], DEFAULT).matched
    assert not compare_value(text, number + 1, DEFAULT).matched
    assert not compare_value(text, -number, DEFAULT).matched
    assert not compare_value(text, number * 10, DEFAULT).matched
    assert compare(f"[{text}]", f"[ {text}]".encode(), DEFAULT).rung == "literal_values"


def _decimal(number: int) -> str:
    if number < 10**4000:
        return str(number)
    half = number.bit_length() * 3 // 20
    high, low = divmod(number, 10**half)
    return _decimal(high) + _decimal(low).rjust(half, "0")


MEGABYTE = 1_000_000
BOMBS: dict[str, tuple[str, bytes]] = {
    "digits": ("1.5", b"1" * 10 * MEGABYTE),
    "digits on both sides": ("1" * 10 * MEGABYTE + "1", b"1" * 10 * MEGABYTE + b"2"),
    "digits behind the point": ("1.5", b"1." + b"5" * 10 * MEGABYTE),
    "exponent": ("1.5", b"1e999999999"),
    "exponents on both sides": ("1e999999998", b"1e999999999"),
    "negative exponent": ("0.1", b"1e-999999999"),
    "digits of an exponent": ("1.5", b"1e" + b"9" * 10 * MEGABYTE),
    "almost a number": ("1.5", b"1" * 10 * MEGABYTE + b"x"),
    "almost an exponent": ("1.5", b"1e" * 5 * MEGABYTE),
    "open brackets": ("[1]", b"[" * 10 * MEGABYTE),
    "nested brackets": ("[1]", b"[" * 5 * MEGABYTE + b"]" * 5 * MEGABYTE),
    "nested parentheses": ("[1]", b"(" * MEGABYTE + b")" * MEGABYTE),
    "brackets on both sides": ("[" * 10_000 + "]" * 10_000, b"(" * 10_000 + b")" * 10_000),
    "nested values on both sides": ("[" * 10_000 + "1" + "]" * 10_000, b"[" * 10_000 + b"2" + b"]" * 10_000),
    "backslashes": ("['a']", b"'\\" * 5 * MEGABYTE),
    "quotes": ("['a']", b"['" * 5 * MEGABYTE),
    "spaces": ("1", b" " * 10 * MEGABYTE + b"2"),
    "line feeds": ("1\n2", b"\n" * 10 * MEGABYTE + b"2"),
    "carriage returns": ("1\n2", b"\r\n" * 5 * MEGABYTE + b"2"),
    "one hash for all": ("{1}", b"{" + b",".join(b"%d" % (number * (2**61 - 1)) for number in range(60_000)) + b"}"),
    "one hash for all keys": ("{1: 1}", b"{" + b",".join(b"%d:1" % (n * (2**61 - 1)) for n in range(60_000)) + b"}"),
    "integer in a list": ("[1]", b"[" + b"7" * MEGABYTE + b"]"),
    "exponent in a list": ("[1.5]", b"[1e999999999]"),
}


IN_ANY_ORDER = (
    "line feeds",
    "nested values on both sides",
    "one hash for all",
    "one hash for all keys",
    "digits on both sides",
)
BOMB_POLICIES = [
    *((name, Policy(profile=profile)) for name in BOMBS for profile in ("microcoder", "livecodebench")),
    *((name, Policy(order=Order.ANY)) for name in IN_ANY_ORDER),
]


@pytest.mark.parametrize(
    ("name", "policy"), BOMB_POLICIES, ids=[f"{name}-{policy.profile}-{policy.order}" for name, policy in BOMB_POLICIES]
)
def test_bombs_are_harmless(name: str, policy: Policy) -> None:
    """Rejected in seconds (mostly far less), never raised."""
    expected, actual = BOMBS[name]
    start = time.process_time()
    match = compare(expected, actual, policy)
    assert not match.matched
    assert time.process_time() - start < 4


def test_deep_values_are_harmless() -> None:
    """A program may return what is nested beyond the interpreter's stack."""
    deep: Any = 1
    for _ in range(20_000):
        deep = [deep]
    for policy in POLICIES:
        assert not compare_value("[[1]]", deep, policy).matched
    for policy in (DEFAULT, Policy(order=Order.ANY)):
        assert not compare_value("[" * 20_000 + "2" + "]" * 20_000, deep, policy).matched
    text = "[" * 8_000 + "1" + "]" * 8_000
    value: Any = 1
    for _ in range(8_000):
        value = (value,)
    assert compare_value(text, value, DEFAULT).rung == "sequences"


def test_unordered_values_take_bounded_time() -> None:
    """Where nothing pairs, the search for partners gives up."""
    expected = [[number / 7, number / 3] for number in range(1_000)]
    actual = [[number / 7 + 1e-3, number / 3] for number in range(1_000)]
    start = time.process_time()
    assert not compare_value(json.dumps([expected] * 20), [actual] * 20, Policy(order=Order.ANY)).matched
    assert time.process_time() - start < 10


@pytest.fixture(scope="module")
def ten_megabytes() -> str:
    """Numbers, one a line."""
    return "\n".join(str(number % 97) for number in range(3_500_000))


def seconds(action: Callable[[], object]) -> float:
    """Return processor seconds."""
    start = time.process_time()
    action()
    return time.process_time() - start


@pytest.mark.parametrize("separator", ["\n", " "])
def test_ten_megabytes_that_differ_at_the_end_take_a_few_passes(ten_megabytes: str, separator: str) -> None:
    """Less than it takes to split one of both outputs into tokens once, which any naive comparison does to both."""
    text = ten_megabytes.replace("\n", separator)
    expected, actual = f"{text} 1\n", f"{text} 2\n".encode()
    split = seconds(lambda: expected.split())
    for profile in ("microcoder", "livecodebench", "exact"):
        policy = Policy(profile=profile)
        assert min(seconds(lambda policy=policy: compare(expected, actual, policy)) for _ in range(2)) < split
        assert not compare(expected, actual, policy).matched


def test_memory_is_bounded_by_the_outputs(ten_megabytes: str) -> None:
    """Even where every line and token must be looked at, none is kept."""
    text = ten_megabytes[: 2 * MEGABYTE].replace("\n", " ")
    expected, actual = f"{text} 1", text.replace(" ", "  ").encode() + b" 2"
    tracemalloc.start()
    compare(expected, actual, DEFAULT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60 * MEGABYTE
