"""Values and places in words: one readable line, whatever the size of what it tells of."""

from typing import Any, Final

_LENGTH = 80
_ITEMS = 12
_DEPTH = 4
_STEPS = 8
IN_ANY_ORDER: Final = "in any order"


class Nothing:
    """Stands where one side has no item."""


NOTHING: Final = Nothing()


def quote(token: bytes) -> str:
    """Quote a piece of text, shortened."""
    if len(token) <= _LENGTH:
        return repr(token.decode("utf-8", "backslashreplace"))
    head = token[: _LENGTH - 20].decode("utf-8", "ignore")
    return f"{head!r}… ({len(token)} bytes)"


def describe(value: object) -> str:
    """Write a value as Python would, shortened."""
    text = _write(value, 0)
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"


def spell_path(path: list[object]) -> str:
    """Write a path as Python would: `[4].name`, or `the value` for the outermost."""
    if len(path) > 2 * _STEPS:
        return f"{''.join(map(_step, path[:_STEPS]))}…{''.join(map(_step, path[-_STEPS:]))}"
    return "".join(map(_step, path)).strip() or "the value"


def _step(key: object) -> str:
    if key is IN_ANY_ORDER:
        return f" {IN_ANY_ORDER} "
    if type(key) is str and key.isidentifier() and len(key) <= _LENGTH:
        return f".{key}"
    return f"[{describe(key)}]"


def _write(value: Any, depth: int) -> str:
    kind = type(value)
    if value is NOTHING:
        return "nothing"
    if value is None or kind in (bool, float, complex):
        return repr(value)
    if kind is int:
        bits = value.bit_length()
        return str(value) if bits < 400 else f"an integer of {int(bits * 0.30103) + 1} digits"
    if kind in (str, bytes):
        return repr(value) if len(value) <= _LENGTH else f"{value[: _LENGTH - 20]!r}… ({len(value)} long)"
    if kind not in (list, tuple, set, frozenset, dict):
        return _write_other(value)
    if depth == _DEPTH:
        return "…"
    left, right = "[]" if kind is list else "()" if kind is tuple else "{}"
    pieces = []
    for number, item in enumerate(value if kind in (list, tuple, dict) else sorted(value, key=_by_text)):
        if number == _ITEMS:
            pieces.append(f"… {len(value)} items")
            break
        text = _write(item, depth + 1)
        pieces.append(f"{text}: {_write(value[item], depth + 1)}" if kind is dict else text)
    if kind is tuple and len(value) == 1:
        pieces.append("")
    return left + ", ".join(pieces).rstrip(" ") + right if value or kind in (list, tuple, dict) else "set()"


def _by_text(item: object) -> str:
    return _write(item, _DEPTH)


def _write_other(value: object) -> str:
    digits = getattr(value, "digits", None)
    return f"an integer of {digits} digits" if type(digits) is int else f"an object of type {type(value).__name__}"
