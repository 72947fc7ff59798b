"""The comparison ladder on golden cases, and what must hold of all of them."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from evaluator.comparison import unordered
from evaluator.comparison.ladder import TEXT_RUNGS, VALUE_RUNGS, compare, compare_value
from evaluator.errors import InvalidSubmission
from evaluator.model import PROFILES, Match, Order, Policy

GROUPS = tomllib.loads((Path(__file__).parent / "comparisons.toml").read_text("utf-8"))["group"]
BIG = int("123456" * 700) * 10**1800 + 7
HUGE = 10**400
NAMES = {"nan": float("nan"), "inf": float("inf"), "BIG": BIG, "HUGE": HUGE}


def digits(number: int) -> str:
    """Write an integer beyond the interpreter's limit."""
    high, low = divmod(number, 10**3000)
    return f"{high}{low:03000d}" if high else str(low)


def golden_cases(kind: str) -> list[Any]:
    """Return the cases with `text` or `value`, each with its policy."""
    return [
        pytest.param(case, Policy(**group.get("policy", {})), id=f"{group['name']}: {case['name']}")
        for group in GROUPS
        for case in group["cases"]
        if kind in case
    ]


def expected_text(case: dict[str, Any]) -> str:
    text: str = case["expected"]
    return digits(NAMES[text]) if text in ("BIG", "HUGE") else text


def check(match: Match, case: dict[str, Any]) -> None:
    """Compare a Match with what the case says."""
    if "rung" in case:
        assert match.matched, match.explanation
        assert match.rung == case["rung"]
        return
    assert not match.matched, match.explanation
    assert match.position == case["rejected"], match.explanation
    assert match.expected and match.found
    assert "\n" not in match.explanation and len(match.explanation) < 300


@pytest.mark.parametrize(("case", "policy"), golden_cases("text"))
def test_golden_text(case: dict[str, Any], policy: Policy) -> None:
    """The rung that accepts an output is the one that the case names, or the rejection stands where it says."""
    check(compare(expected_text(case), case["text"].encode("utf-8"), policy), case)


@pytest.mark.parametrize(("case", "policy"), golden_cases("value"))
def test_golden_values(case: dict[str, Any], policy: Policy) -> None:
    """The same for returned values."""
    check(compare_value(expected_text(case), eval(case["value"], dict(NAMES)), policy), case)


@pytest.mark.parametrize(("case", "policy"), [*golden_cases("text"), *golden_cases("value")])
def test_livecodebench_profile_agrees_with_its_recorded_verdict(case: dict[str, Any], policy: Policy) -> None:
    """Whatever a case's own policy: LiveCodeBench has one comparison only."""
    profile = Policy(profile="livecodebench")
    if "text" in case:
        match = compare(expected_text(case), case["text"].encode("utf-8"), profile)
    else:
        match = compare_value(expected_text(case), eval(case["value"], dict(NAMES)), profile)
    assert match.matched is case.get("livecodebench", False), match.explanation


def test_every_rung_has_golden_cases_that_it_accepts() -> None:
    """No rung is without an example, in its own kind."""
    for kind, rungs in (("text", TEXT_RUNGS), ("value", VALUE_RUNGS)):
        named = {case.values[0].get("rung") for case in golden_cases(kind)}
        assert {rung.name for rung in rungs} <= named


def test_rungs_have_distinct_names_and_known_profiles() -> None:
    """A Match's rung names one rule."""
    for rungs in (TEXT_RUNGS, VALUE_RUNGS):
        assert len({rung.name for rung in rungs}) == len(rungs)
        assert {profile for rung in rungs for profile in rung.profiles} == set(PROFILES)


def test_every_rung_and_every_option_is_documented() -> None:
    """`docs/comparison.md` names them all."""
    document = (Path(__file__).parent.parent / "docs" / "comparison.md").read_text("utf-8")
    names = [rung.name for rung in (*TEXT_RUNGS, *VALUE_RUNGS)] + [field.name for field in fields(Policy)]
    assert [name for name in names if f"`{name}`" not in document and name != "profile"] == []


def test_every_rung_says_what_it_would_wrongly_accept() -> None:
    """A rung's docstring holds both sides."""
    for rung in (*TEXT_RUNGS, *VALUE_RUNGS):
        text = (rung.accepts.__doc__ or "").lower()
        assert text.startswith("accept"), rung.name
        assert "wrongly accept" in text, rung.name


def test_output_that_is_not_utf8_is_compared_as_bytes() -> None:
    """Bytes that are no text differ from text, and still equal nothing but themselves."""
    assert not compare("a", b"\xff\xfe", Policy()).matched
    assert not compare("\ufffd", b"\xff", Policy()).matched
    assert compare("1 \u00e9", b"1  \xc3\xa9", Policy()).rung == "tokens"
    for profile in PROFILES:
        match = compare("a\nb", b"a\n\xff\x00", Policy(profile=profile))
        assert not match.matched
        assert match.position and match.position.startswith("line 2")


def test_long_differences_are_shortened() -> None:
    """A rejection stays readable whatever its size."""
    match = compare("x" * 100_000, b"y" * 100_000, Policy())
    assert len(match.explanation) < 300
    assert "100000 bytes" in match.explanation
    match = compare_value("[" + "1, " * 10_000 + "1]", list(range(10_000)), Policy(order=Order.ANY))
    assert len(match.explanation) < 300
    match = compare_value(digits(BIG), BIG + 1, Policy())
    assert match.explanation == "the value: expected an integer of 6000 digits, found an integer of 6000 digits"


def test_position_counts_lines_and_tokens_of_long_outputs() -> None:
    """What is skipped as common is counted."""
    lines = "\n".join(f"{number} x" for number in range(200_000))
    assert compare(f"{lines}\na b c", f"{lines}\na b d".encode(), Policy()).position == "line 200001, token 3"
    row = lines.replace("\n", " ")
    assert compare(f"1\n{row} 7 8", f"1\n{row} 7 9".encode(), Policy()).position == "line 2, token 400002"
    assert compare(f"1\n{row} 7 8", f"1\n{row} 7".encode(), Policy()).position == "line 2, token 400002"
    assert compare(f"{row} 8", f"{row} 9".encode(), Policy(ignore_lines=True)).position == "token 400001"
    assert compare(f"{lines}\n1", f"{lines}\n2".encode(), Policy(profile="livecodebench")).position == "line 200001"
    assert compare(f"{lines}\n1", f"{lines}\n2".encode(), Policy(profile="exact")).position == "line 200001, byte 1"


def test_token_behind_a_long_line_is_not_taken_for_a_blank_line() -> None:
    """Skipping within a line leaves a token, so that its rest isn't blank."""
    row = "1 " * 100_000
    assert not compare(f"{row}2\n3", f"{row}\n2\n3".encode(), Policy()).matched
    assert not compare(f"{row}\n2\n3", f"{row}2\n3".encode(), Policy()).matched


@pytest.mark.parametrize(
    "options",
    [
        {"profile": "strict"},
        {"absolute_tolerance": -1.0},
        {"relative_tolerance": float("nan")},
        {"absolute_tolerance": True},
        {"ignore_case": "yes"},
        {"order": "random"},
        {"profile": "exact", "ignore_case": True},
        {"profile": "livecodebench", "absolute_tolerance": 1e-6},
        {"profile": "livecodebench", "order": "any"},
        {"profile": "exact", "ignore_lines": True},
    ],
)
def test_policies_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    """The message names the field."""
    with pytest.raises(InvalidSubmission, match="policy\\."):
        Policy(**options)


def test_order_may_be_given_as_text() -> None:
    """So that a policy can come from JSON."""
    assert Policy(order="any").order is Order.ANY  # type: ignore[arg-type]


def test_many_items_where_few_are_expected_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may return millions: that must not cost the worker more than it costs the program."""
    asked: list[int] = []

    def leftover(expected: list[Any], actual: list[Any], key: Any) -> tuple[list[Any], list[Any]]:
        asked.append(len(actual))
        return unordered.leftover(expected, actual, key)

    monkeypatch.setattr("evaluator.comparison.objects.leftover", leftover)
    assert not compare_value("[1, 2]", [2, 1] * 50_000, Policy(order=Order.ANY)).matched
    assert not compare("{1, 2}", str([2, 1] * 50_000).encode(), Policy()).matched
    assert len(asked) >= 2
    assert max(asked) <= 3
