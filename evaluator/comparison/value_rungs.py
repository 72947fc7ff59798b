"""The rungs for returned values, from strict to lenient: each a relation (see `objects`) that allows one thing more.

The expected value comes from JSON or, where the text isn't JSON, from a Python literal, or is the text itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from evaluator.comparison.numerals import VALUE_TOLERANCE, tolerance_of
from evaluator.comparison.objects import Difference, Relation, first_difference
from evaluator.model import Order, Policy

SAME: Final = Relation()
PYTHON: Final = Relation(numbers=True, booleans=True, nan=False)
_MOST_LENIENT: Final = 6


@dataclass(frozen=True)
class Values:
    """An expected and an actual value under a policy: what every rung for values looks at."""

    expected: object
    actual: object
    policy: Policy

    @cached_property
    def difference(self) -> Difference | None:
        """What even the most lenient rung refuses: found once, because most rejected values are just wrong."""
        return first_difference(self.expected, self.actual, relation(self.policy, _MOST_LENIENT))

    def allowing(self, level: int) -> bool:
        """Say whether the values are equal under the relation of a level."""
        if self.difference is not None or level == _MOST_LENIENT:
            return self.difference is None
        return first_difference(self.expected, self.actual, relation(self.policy, level)) is None


def exact(values: Values) -> bool:
    """Accept the same value of the same types. Wrongly accepts nothing."""
    return first_difference(values.expected, values.actual, SAME) is None


def python_equal(values: Values) -> bool:
    """Accept what LiveCodeBench accepts: an outermost tuple is a list, then `==`.

    Would wrongly accept: True for 1. Wrongly rejects: nested tuples, rounding noise, nan, sets for lists.
    """
    return first_difference(values.expected, outer_list(values.actual), PYTHON) is None


def sequences(values: Values) -> bool:
    """Accept a tuple for a list, at any depth: JSON knows no tuples.

    Would wrongly accept: a tuple where the caller must be able to change it.
    """
    return values.allowing(1)


def numbers(values: Values) -> bool:
    """Accept numbers of equal value as Python does: 2.0 for 2, True for 1, 1 for True.

    Would wrongly accept: 1 where a truth value is asked for.
    """
    return values.allowing(2)


def keys(values: Values) -> bool:
    """Accept a dictionary's key that JSON can only spell as a string: 1 for "1", True for "true", (1, 2) for "(1, 2)".

    Would wrongly accept: numbers as keys where the statement asks for strings.
    """
    return values.allowing(3)


def tolerance(values: Values) -> bool | None:
    """Accept numbers within the tolerance, at any depth, where the expected one is a float, or the policy sets one.

    Would wrongly accept: another value that is as near, such as 0.0 for 1e-10.
    """
    return None if tolerance_of(values.policy, VALUE_TOLERANCE).is_zero else values.allowing(4)


def sets(values: Values) -> bool:
    """Accept a set for an ascending list without repeats, and any order, repeats counted, where a set is expected.

    A list in another order was put into it: `set(xs)` isn't a permutation of `xs`.
    Would wrongly accept: a set where a list is asked for that ascends because it has to.
    """
    return values.allowing(5)


def any_order(values: Values) -> bool | None:
    """Accept another order of the outermost list, of the innermost lists, or of every list, as the policy says.

    Repeats count. Would wrongly accept: an order that matters; with `any`, pairs whose parts changed places.
    """
    if values.policy.order is Order.EXACT:
        return None
    return values.allowing(6)


def relation(policy: Policy, level: int) -> Relation:
    """Return the relation of the rungs up to a level: 1 is `sequences`, 6 is `any_item_order`."""
    return Relation(
        sequences=level >= 1,
        numbers=level >= 2,
        booleans=level >= 2,
        keys=level >= 3,
        tolerance=tolerance_of(policy, VALUE_TOLERANCE) if level >= 4 else None,
        sets=level >= 5,
        sets_as_lists=level >= 5,
        order=policy.order if level >= 6 else Order.EXACT,
        fold=_fold(policy),
    )


def _fold(policy: Policy) -> Callable[[str], str] | None:
    if policy.ignore_case:
        return str.casefold
    return _fold_yes_no if policy.yes_no else None


def _fold_yes_no(text: str) -> str:
    return text.lower() if text.lower() in ("yes", "no") else text


def outer_list(value: object) -> object:
    """Turn an outermost tuple into a list."""
    return list(value) if type(value) is tuple else value
