"""Whether a completion ends in a loop: two readings of "the last m tokens repeat the m before them"."""

from collections.abc import Sequence


def repeats_literally(ids: Sequence[int], window: int) -> bool:
    """Whether the last `window` tokens equal the `window` before them, as the paper says.

    It finds loops whose period divides the window. A completion of fewer than two windows doesn't repeat.
    """
    return _is_long_enough(ids, window) and list(ids[-window:]) == list(ids[-2 * window : -window])


def repeats_with_any_period(ids: Sequence[int], window: int) -> bool:
    """Whether the last two windows are a loop of any period up to `window`: ids[j] == ids[j − p] within them.

    Whatever repeats literally repeats in this sense too, with p = window.
    """
    return _is_long_enough(ids, window) and _smallest_period(ids[-2 * window :]) <= window


def _is_long_enough(ids: Sequence[int], window: int) -> bool:
    if window < 1:
        raise ValueError(f"The repeat test compares windows of 1 token or more, not of {window}.")
    return len(ids) >= 2 * window


def _smallest_period(ids: Sequence[int]) -> int:
    """The length without the longest border (a start that is also an end), by Knuth, Morris and Pratt: linear time."""
    borders = [0] * len(ids)
    for end in range(1, len(ids)):
        border = borders[end - 1]
        while border and ids[border] != ids[end]:
            border = borders[border - 1]
        borders[end] = border + (ids[border] == ids[end])
    return len(ids) - borders[-1]
