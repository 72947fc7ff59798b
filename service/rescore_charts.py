"""The pictures of a report, as SVG that stands in the page itself. Colours come from the page's style sheet."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.livecodebench.estimates import Estimate

WIDTH = 760
_LEFT, _TOP = 46, 14
_EDGES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Borders of the classes of run times, in seconds."""


@dataclass(frozen=True)
class Series:
    """One judge's estimates, by what stands on the horizontal axis."""

    name: str
    values: Mapping[str, Estimate]


def draw_bars(labels: Sequence[str], series: Sequence[Series]) -> str:
    """Groups of bars from 0 to 1, each with its interval."""
    height, bottom = 250, 46
    plot = height - _TOP - bottom
    step = (WIDTH - _LEFT) / max(1, len(labels))
    width = min(26.0, step * 0.8 / max(1, len(series)))
    parts = _axis(height, bottom)
    for place, label in enumerate(labels):
        middle = _LEFT + step * (place + 0.5)
        for number, one in enumerate(series):
            if label not in one.values:
                continue
            estimate = one.values[label]
            left = middle + (number - len(series) / 2) * width
            top = _TOP + plot * (1 - estimate.value)
            tip = f"{one.name}, {label.replace(chr(10), ', ')}: {say_estimate(estimate)} of {estimate.count} problems"
            parts.append(
                f'<g class="{one.name}"><title>{html.escape(tip)}</title>'
                f'<rect x="{left + 1:.1f}" y="{top:.1f}" width="{width - 2:.1f}" height="{plot * estimate.value:.1f}"/>'
                f"{_whisker(left + width / 2, plot, estimate)}</g>"
            )
        count = next((one.values[label].count for one in series if label in one.values), 0)
        for line, text in enumerate((*label.split("\n"), f"{count}")):
            parts.append(_text(middle, height - bottom + 14 + 12 * line, text, "middle", "small" if line == 2 else ""))
    return _svg(height, parts, "pass@1 by group")


def draw_lines(labels: Sequence[str], series: Sequence[Series]) -> str:
    """A line for each series from 0 to 1, the first with its intervals."""
    height, bottom = 250, 40
    plot = height - _TOP - bottom
    step = (WIDTH - _LEFT - 10) / max(1, len(labels))
    parts = _axis(height, bottom)
    for number, one in reversed(list(enumerate(series))):
        points = []
        for place, label in enumerate(labels):
            if label in one.values:
                points.append((_LEFT + step * (place + 0.5), one.values[label], label))
        path = " ".join(f"{x:.1f},{_TOP + plot * (1 - estimate.value):.1f}" for x, estimate, _ in points)
        parts.append(f'<g class="{one.name}"><polyline points="{path}"/>')
        for x, estimate, label in points:
            tip = f"{one.name}, {label}: {say_estimate(estimate)} of {estimate.count} problems"
            whisker = _whisker(x, plot, estimate) if number == 0 else ""
            y = _TOP + plot * (1 - estimate.value)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{html.escape(tip)}</title></circle>{whisker}')
        parts.append("</g>")
    every = math.ceil(len(labels) / 13)
    for place, label in enumerate(labels):
        if place % every == 0:
            parts.append(_text(_LEFT + step * (place + 0.5), height - bottom + 16, label, "middle"))
    return _svg(height, parts, "pass@1 by month of the contest")


def draw_counts(rows: Sequence[tuple[str, int]], label: str) -> str:
    """Horizontal bars, one a row, with their numbers."""
    height = 24 * max(1, len(rows)) + 8
    most = max((count for _, count in rows), default=1)
    parts = []
    for place, (name, count) in enumerate(rows):
        y = 4 + 24 * place
        length = max(1.5, (WIDTH - 330) * count / most)
        parts.append(_text(250, y + 15, name, "end"))
        parts.append(f'<g class="ours"><rect x="258" y="{y + 3}" width="{length:.1f}" height="16"/></g>')
        parts.append(_text(258 + length + 6, y + 15, f"{count:,}", "start"))
    return _svg(height, parts, label)


def draw_times(times: Sequence[float], limit: float) -> str:
    """How many programs took how long, in classes that grow by about a factor of two."""
    counts = [0] * (len(_EDGES) + 1)
    for seconds in times:
        counts[sum(seconds >= edge for edge in _EDGES)] += 1
    height, bottom = 220, 34
    plot = height - _TOP - bottom
    most = max(*counts, 1)
    step = (WIDTH - _LEFT) / len(counts)
    parts = []
    for place, count in enumerate(counts):
        x = _LEFT + step * place
        tall = plot * count / most
        between = f"{_EDGES[place - 1]:g} s" if place else "0 s"
        to = f"to {_EDGES[place]:g} s" if place < len(_EDGES) else "and more"
        parts.append(
            f'<g class="ours"><title>{between} {to}: {count} programs</title>'
            f'<rect x="{x + 2:.1f}" y="{_TOP + plot - tall:.1f}" width="{step - 4:.1f}" height="{tall:.1f}"/></g>'
        )
        if count:
            parts.append(_text(x + step / 2, _TOP + plot - tall - 3, f"{count:,}", "middle", "small"))
        if place:
            parts.append(_text(x, height - bottom + 16, _say_seconds(_EDGES[place - 1]), "middle"))
    at = _LEFT + step * _place_of(limit)
    parts.append(f'<line class="limit" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_TOP + plot}"/>')
    parts.append(_text(at - 4, _TOP + 10, f"limit {limit:g} s", "end", "small"))
    return _svg(height, parts, "slowest test of accepted programs")


def draw_matrix(cells: Sequence[Sequence[int]], rows: Sequence[str], columns: Sequence[str]) -> str:
    """Two by two counts; cells off the diagonal stand out."""
    parts = []
    for column, name in enumerate(columns):
        parts.append(_text(270 + 150 * column, 16, name, "middle"))
    for row, name in enumerate(rows):
        parts.append(_text(182, 54 + 52 * row, name, "end"))
        for column in range(2):
            kind = "agree" if row == column else "differ"
            x, y = 198 + 150 * column, 26 + 52 * row
            parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="144" height="46" rx="4"/>')
            parts.append(_text(x + 72, y + 29, f"{cells[row][column]:,}", "middle", "big"))
    return _svg(134, parts, "verdicts of both sides")


def say_estimate(estimate: Estimate) -> str:
    """A share in percent with its interval."""
    if math.isnan(estimate.value):
        return "—"
    return f"{100 * estimate.value:.1f} % ({100 * estimate.low:.1f}–{100 * estimate.high:.1f})"


def _say_seconds(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"


def _place_of(seconds: float) -> float:
    """Where a time stands among the classes, between their borders too."""
    place = sum(seconds >= edge for edge in _EDGES)
    if place in (0, len(_EDGES)):
        return float(place)
    low, high = _EDGES[place - 1], _EDGES[place]
    return place + math.log(seconds / low) / math.log(high / low)


def _axis(height: int, bottom: int) -> list[str]:
    plot = height - _TOP - bottom
    parts = []
    for tick in range(0, 101, 25):
        y = _TOP + plot * (1 - tick / 100)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{tick} %", "end"))
    return parts


def _whisker(x: float, plot: float, estimate: Estimate) -> str:
    low, high = (_TOP + plot * (1 - value) for value in (estimate.low, estimate.high))
    return f'<path class="whisker" d="M{x - 3:.1f} {high:.1f}h6m-3 0V{low:.1f}m-3 0h6"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}>{html.escape(text)}</text>'


def _svg(height: int, parts: Sequence[str], label: str) -> str:
    inner = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(label)}">{inner}</svg>'
