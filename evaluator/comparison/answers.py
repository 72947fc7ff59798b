"""The answer of a call: what the function returned, or an argument that it changed in place. And values as text."""

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from evaluator.comparison import literals
from evaluator.model import InPlace, Policy

_CHANGEABLE: Final = (list, dict, set)
_PLAIN_BITS: Final = 14_000  # Python prints integers up to here
_PRINTED_BITS: Final = 400_000
_STEP: Final = 4000


class Answer(NamedTuple):
    """What to compare."""

    value: Any
    remark: str | None = None
    """Why an argument that might be the answer isn't."""


def choose_answer(
    expected: str | None, returned: object, arguments: list[Any], objection: str | None, policy: Policy
) -> Answer:
    """Choose what is compared with the expected value, or is the output where nothing is expected.

    It is the returned value, unless that is None, the policy allows an argument to be the answer, and one fits: the
    first list, dictionary or set, of the expected value's type. `objection` says why the function isn't one that leaves
    its answer there; it binds unless the policy says `always`.

    Would wrongly accept: a program without annotations that forgot to return a list which it had changed.
    """
    if returned is not None or policy.in_place is InPlace.NEVER or policy.profile != "microcoder":
        return Answer(returned)
    kinds: tuple[type, ...] = _CHANGEABLE
    if expected is not None:
        kinds = tuple(kind for kind in _CHANGEABLE if kind is type(literals.parse(expected)))
    fitting = [argument for argument in arguments if type(argument) in kinds]
    if not fitting:
        return Answer(returned)
    if objection is not None and policy.in_place is InPlace.AUTO:
        return Answer(returned, f"an argument changed in place isn't taken for the answer: {objection}")
    return Answer(fitting[0])


def spell(value: object) -> str:
    """Write a value as people and checkers read it: JSON, or Python's own form where JSON has none (sets and the like).

    An integer of more digits than anybody wants to see (or to wait for) is described in words.
    """
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return _spell_any(value)
    except RecursionError:  # nested more deeply than a program's value can be: a forged one
        return "<a value that is nested too deeply>"


def _spell_any(value: Any) -> str:
    kind = type(value)
    if kind is int:
        return _spell_integer(value)
    if kind is list:
        return f"[{_join(value)}]"
    if kind is tuple:
        return f"({_join(value)}{',' if len(value) == 1 else ''})"
    if kind is dict:
        return f"{{{', '.join(f'{_spell_any(key)}: {_spell_any(item)}' for key, item in value.items())}}}"
    if kind in (set, frozenset):
        return f"{{{_join(sorted(value, key=_spell_any))}}}" if value else "set()"
    return repr(value)


def _join(values: Iterable[Any]) -> str:
    return ", ".join(map(_spell_any, values))


def _spell_integer(value: int) -> str:
    """Decimal digits, also of integers that Python refuses to print."""
    if value.bit_length() < _PLAIN_BITS:
        return str(value)
    if value.bit_length() > _PRINTED_BITS:
        return f"<an integer of {int(value.bit_length() * 0.30103) + 1} digits>"
    rest, pieces = abs(value), []
    while rest:
        rest, piece = divmod(rest, 10**_STEP)
        pieces.append(f"{piece:0{_STEP}}")
    return ("-" if value < 0 else "") + "".join(reversed(pieces)).lstrip("0")
