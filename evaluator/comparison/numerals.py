"""Tokens that are numbers, and when two numbers are equal.

| written            | is                                                                                          |
| ------------------ | ------------------------------------------------------------------------------------------- |
| `7` `+7` `-7` `-0` | an integer; `-0` equals `0`                                                                   |
| `7.0` `.5` `7e3`   | a decimal; equal in value to `7`, `0.5`, `7000`                                               |
| `nan` `NaN` `-nan` | not a number: equal only to another spelling of itself, its sign doesn't count                |
| `inf` `Infinity`   | infinity: equal only to another spelling of itself with the same sign                         |
| `007` `00.5`       | a word: fixed-width digits, bit strings and codes aren't numbers                              |
| `1_000` `0x10`     | a word                                                                                        |
| `１２` (not ASCII)  | a word                                                                                        |
| `NAN` `INF`        | a word                                                                                        |

Values are compared as digits and an exponent, never expanded and never converted to a Python integer, so that no length
and no exponent costs more than a pass over the characters. A token of more than 100 000 characters is a word.
"""

import math
import re
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

from evaluator.model import Policy

_NUMBER = re.compile(rb"([+-]?)(0|[1-9][0-9]*+|(?=\.[0-9]))(?:(\.)([0-9]*+))?(?:[eE]([+-]?)([0-9]++))?")
_SPECIALS = {
    b"nan": "nan", b"NaN": "nan", b"-nan": "nan", b"-NaN": "nan", b"+nan": "nan",
    b"inf": "inf", b"Inf": "inf", b"Infinity": "inf", b"infinity": "inf", b"+inf": "inf",
    b"-inf": "-inf", b"-Inf": "-inf", b"-Infinity": "-inf", b"-infinity": "-inf",
}  # fmt: skip
_EXPONENT_DIGITS = 15
_MAXIMUM_LENGTH = 100_000
_CONTEXT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a number may be from the expected one: either bound suffices."""

    absolute: float
    relative: float
    everywhere: bool = False
    """Also where the expected number is written as an integer."""
    rounding: bool = False
    """Also by half a unit of the expected number's last digit, where it is written with five decimals or more: it was
    rounded there (1.16667 for 7/6)."""

    @property
    def is_zero(self) -> bool:
        """Whether only equal numbers are close."""
        return not self.absolute and not self.relative


_LEAST_DECIMALS, _MOST_DECIMALS = 5, 12
TEXT_TOLERANCE = Tolerance(absolute=1e-6, relative=1e-6, rounding=True)
"""Programs print six digits or more, and statements ask for 1e-6 more than for anything else."""
VALUE_TOLERANCE = Tolerance(absolute=1e-9, relative=1e-6, rounding=True)
"""Returned floats carry all their digits: only rounding noise is expected near zero."""


_ROUNDED = {
    (default, decimals): replace(default, absolute=max(default.absolute, float(f"5e-{decimals + 1}")))
    for default in (TEXT_TOLERANCE, VALUE_TOLERANCE)
    for decimals in range(_LEAST_DECIMALS, _MOST_DECIMALS + 1)
}


def tolerance_of(policy: Policy, default: Tolerance) -> Tolerance:
    """Return the policy's tolerance, or the profile's own where it sets none."""
    if policy.absolute_tolerance is None and policy.relative_tolerance is None:
        return default
    return Tolerance(policy.absolute_tolerance or 0.0, policy.relative_tolerance or 0.0, everywhere=True)


def same_number(expected: bytes, actual: bytes) -> bool:
    """Say whether both tokens are numbers of exactly the same value."""
    value = exact_value(expected)
    return value is not None and value == exact_value(actual)


def exact_value(token: bytes) -> tuple[bytes, bytes, int] | None:
    """Return sign, significant digits and exponent of a number, or None for a word."""
    match = _match(token)
    if match is None:
        return None
    sign, whole, _, fraction, exponent_sign, exponent_digits = match.groups(b"")
    digits = (whole + fraction).lstrip(b"0")
    significant = digits.rstrip(b"0")
    if not significant:
        return b"", b"", 0
    exponent_digits = exponent_digits.lstrip(b"0") or b"0"
    if len(exponent_digits) > _EXPONENT_DIGITS:
        return None
    exponent = int(exponent_sign + exponent_digits) - len(fraction) + len(digits) - len(significant)
    return (b"-" if sign == b"-" else b""), significant, exponent


def _match(token: bytes) -> re.Match[bytes] | None:
    return _NUMBER.fullmatch(token) if len(token) <= _MAXIMUM_LENGTH else None


def same_special(expected: bytes, actual: bytes) -> bool:
    """Say whether both tokens spell not-a-number, or the same infinity."""
    special = _SPECIALS.get(expected)
    return special is not None and special == _SPECIALS.get(actual)


def close_number(expected: bytes, actual: bytes, tolerance: Tolerance) -> bool:
    """Say whether both tokens are finite numbers within the tolerance."""
    match = _match(expected)
    if match is None or _match(actual) is None:
        return False
    if not tolerance.everywhere and match[3] is None and match[6] is None:
        return False
    if tolerance.rounding and match[6] is None and match[4] is not None:
        tolerance = _with_rounding(tolerance, len(match[4]))
    close = _close_floats(float(expected), float(actual), tolerance)
    if close is not None:
        return close
    if exact_value(expected) is None or exact_value(actual) is None:
        return False
    return _close_decimals(expected.decode("ascii"), actual.decode("ascii"), tolerance)


def close_value(expected: float, actual: float, tolerance: Tolerance) -> bool:
    """Say whether two finite Python numbers are within the tolerance; the caller knows that it applies."""
    if any(isinstance(number, int) and number.bit_length() > 1000 for number in (expected, actual)):
        return _close_integers(expected, actual, tolerance)
    first, second = float(expected), float(actual)
    if not math.isfinite(first) or not math.isfinite(second):
        return False
    if tolerance.rounding and "e" not in (text := repr(first)):
        tolerance = _with_rounding(tolerance, len(text) - text.index(".") - 1)
    close = _close_floats(first, second, tolerance)
    return _close_decimals(repr(first), repr(second), tolerance) if close is None else close


def _with_rounding(tolerance: Tolerance, decimals: int) -> Tolerance:
    return _ROUNDED.get((tolerance, decimals), tolerance)


def _close_floats(expected: float, actual: float, tolerance: Tolerance) -> bool | None:
    """Decide by floats where they can: None when rounding could change the answer, or a number overflowed."""
    size = abs(expected)
    difference = abs(expected - actual)
    bound = max(tolerance.absolute, tolerance.relative * size)
    noise = 2e-15 * (size + difference) + 1e-9 * bound
    if difference + noise < bound < math.inf:
        return True
    return False if math.inf > difference > bound + noise else None


def _close_decimals(expected: str, actual: str, tolerance: Tolerance) -> bool:
    first, second = _CONTEXT.create_decimal(expected), _CONTEXT.create_decimal(actual)
    if not first.is_finite() or not second.is_finite():
        return False
    difference = _CONTEXT.abs(_CONTEXT.subtract(first, second))
    bounds = (
        Decimal(repr(tolerance.absolute)),
        _CONTEXT.multiply(Decimal(repr(tolerance.relative)), _CONTEXT.abs(first)),
    )
    return any(_CONTEXT.compare(difference, bound) <= 0 for bound in bounds)


def _close_integers(expected: float, actual: float, tolerance: Tolerance) -> bool:
    """Compare where at least one number is an integer beyond the floats: a relative bound is all that can hold."""
    if isinstance(expected, float) and not math.isfinite(expected):
        return False
    if isinstance(actual, float) and not math.isfinite(actual):
        return False
    first, second = int(expected), int(actual)
    shift = max(0, first.bit_length() - 900, second.bit_length() - 900)
    bound = max(tolerance.relative * abs(float(first >> shift)), tolerance.absolute if not shift else 0.0)
    return abs(float(first >> shift) - float(second >> shift)) <= bound
