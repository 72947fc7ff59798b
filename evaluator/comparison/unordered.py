"""Equality of two collections whose order doesn't count: as multisets, so that repeats do.

By sorting, never by hashing: a program can choose numbers that all have one hash, but not a slow sort.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
_MAXIMUM_LEFTOVER = 200


def leftover(
    expected: Sequence[Item], actual: Sequence[Item], key: Callable[[Item], Any]
) -> tuple[list[Item], list[Item]]:
    """Return the expected items and the actual ones that have no partner of equal key, in sorted order.

    Keys must be sortable. Every item has at most one partner.
    """
    first_keys, second_keys = list(map(key, expected)), list(map(key, actual))
    one = sorted(range(len(expected)), key=first_keys.__getitem__)
    other = sorted(range(len(actual)), key=second_keys.__getitem__)
    missing: list[Item] = []
    extra: list[Item] = []
    first = second = 0
    while first < len(one) and second < len(other):
        first_key, second_key = first_keys[one[first]], second_keys[other[second]]
        if first_key == second_key:
            first += 1
            second += 1
        elif first_key < second_key:
            missing.append(expected[one[first]])
            first += 1
        else:
            extra.append(actual[other[second]])
            second += 1
    missing.extend(expected[place] for place in one[first:])
    extra.extend(actual[place] for place in other[second:])
    return missing, extra


def unpaired(
    missing: Sequence[Item],
    extra: Sequence[Item],
    close: Callable[[Item, Item], bool],
    affordable: Callable[[], bool] = lambda: True,
) -> tuple[Item, Item] | None:
    """Pair what is left over with what is close to it (a number within a tolerance); return two without partner.

    Both must be of one length. Pairs in sorted order, or, where that fails, few are left and it stays affordable, first
    come first served. Wrongly rejects, at worst, many leftover items whose noise changes their sorted order.
    """
    failed = next((pair for pair in zip(missing, extra, strict=True) if not close(*pair)), None)
    if failed is None or not 1 < len(missing) <= _MAXIMUM_LEFTOVER:
        return failed
    free = list(extra)
    for item in missing:
        partners = (place for place, other in enumerate(free) if affordable() and close(item, other))
        partner = next(partners, None)
        if partner is None:
            return item, free[0]
        free.pop(partner)
    return None
