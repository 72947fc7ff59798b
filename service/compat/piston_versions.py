"""Whether a version is what a SemVer selector asks for: `*`, `3.x`, `3.11.7`, `^3.10`, `~3.11`, `>=3.10 <4`, `a || b`.

As https://github.com/npm/node-semver describes ranges, without hyphens and pre-releases, which no Python here has.
"""

import re

Version = tuple[int, int, int]
_NUMBER = r"([0-9]{1,9}|[xX*])"
_COMPARATOR = re.compile(rf"(\^|~|>=|<=|>|<|=)?\s*v?{_NUMBER}(?:\.{_NUMBER})?(?:\.{_NUMBER})?(?:\s+|$)")
LONGEST = 256
"""Characters of a selector."""


class BadSelector(ValueError):
    """A selector that can't be read."""


def parse_version(text: str) -> Version:
    """`3.11.7` as numbers; what is missing is 0."""
    major, minor, patch, *_ = [*(int(part) for part in re.findall(r"\d+", text)), 0, 0, 0]
    return major, minor, patch


def satisfies(version: Version, selector: str) -> bool:
    """Whether one of the alternatives holds.

    Raises:
        BadSelector: it is no selector.
    """
    if len(selector) > LONGEST:
        raise BadSelector(selector[:LONGEST])
    held = [_all_hold(version, part.strip()) for part in selector.split("||")]  # all are read: a bad one is an error
    return any(held)


def _all_hold(version: Version, comparators: str) -> bool:
    place, holds = 0, True
    while place < len(comparators):
        found = _COMPARATOR.match(comparators, place)
        if found is None:
            raise BadSelector(comparators)
        operator, *parts = found.groups()
        known = [int(part) for part in _known(parts)]
        holds = holds and _holds(version, operator or "=", known)
        place = found.end()
    return holds


def _known(parts: list[str | None]) -> list[str]:
    """The numbers before the first that may be anything."""
    known = []
    for part in parts:
        if part is None or not part.isdecimal():
            break
        known.append(part)
    return known


def _holds(version: Version, operator: str, known: list[int]) -> bool:
    low = tuple(known + [0] * (3 - len(known)))
    match operator:
        case ">=":
            return version >= low
        case "<":
            return version < low
        case ">":
            return version > low and not _starts(version, known)
        case "<=":
            return version <= low or _starts(version, known)
        case "^":
            # Up to the first number that isn't 0.
            fixed = next((at for at, number in enumerate(known) if number), len(known) - 1) + 1
            return version >= low and _starts(version, known[:fixed])
        case "~":
            return version >= low and _starts(version, known[:2])
    return _starts(version, known)


def _starts(version: Version, known: list[int]) -> bool:
    return list(version[: len(known)]) == known
