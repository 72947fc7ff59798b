"""What a run has to say, as one page (`report.html`) that needs nothing else: no script, no font, no network."""

import html
from collections.abc import Iterable, Sequence

from service.rescore_charts import Series, draw_bars, draw_counts, draw_lines, draw_matrix, draw_times, say_estimate
from service.rescore_flips import PUBLISHED
from service.rescore_report import (
    COSTS_HEADER,
    NAMES,
    describe_agreement,
    describe_alone,
    describe_attribution,
    describe_costs,
    describe_run,
    describe_wall,
    list_left_out,
    pick_changes,
)
from service.rescore_summary import Summary

_STYLE = """
:root { --ink: #1c2430; --soft: #667085; --line: #e4e7ec; --paper: #ffffff; --card: #f8f9fb;
  --ours: #2f6fde; --published: #98a2b3; --official: #d9822b; --differ: #fde2d6; --agree: #e3eefc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #98a2b3; --line: #303846; --paper: #12161d;
  --card: #1a2029; --ours: #6da2ff; --published: #7c879a; --official: #f0a65c; --differ: #57321f; --agree: #1d3557; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 860px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 24px; margin: 0 0 4px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 40px 0 10px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 12px 16px; flex: 1 1 200px; }
.card b { display: block; font-size: 22px; font-weight: 600; } .card span { color: var(--soft); font-size: 13px; }
svg { width: 100%; height: auto; display: block; font: 11px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .small { fill: var(--soft); font-size: 10px; } svg .big { font-size: 17px; }
svg .grid { stroke: var(--line); } svg .limit { stroke: var(--official); stroke-dasharray: 4 3; }
svg .whisker { stroke: var(--ink); fill: none; opacity: .55; }
svg polyline { fill: none; stroke-width: 2; }
.ours rect, .ours circle { fill: var(--ours); } .ours polyline { stroke: var(--ours); }
.published rect, .published circle { fill: var(--published); } .published polyline { stroke: var(--published); }
.official rect, .official circle { fill: var(--official); } .official polyline { stroke: var(--official); }
svg .agree { fill: var(--agree); } svg .differ { fill: var(--differ); }
.legend { display: flex; gap: 18px; font-size: 13px; color: var(--soft); margin: 0 0 6px; }
.legend i { width: 11px; height: 11px; border-radius: 2px; display: inline-block; margin-right: 6px; }
i.ours { background: var(--ours); } i.published { background: var(--published); }
i.official { background: var(--official); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; } td.proof { overflow-wrap: anywhere; min-width: 260px; }
code, pre { font: 12px ui-monospace, monospace; } pre { background: var(--card); padding: 10px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
td code { white-space: nowrap; }
"""


def write_page(summary: Summary) -> str:
    """The whole page."""
    title = html.escape(f"{summary.name}, re-scored")
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="soft">{_mark(describe_run(summary))}</p>',
        _cards(summary),
        _groups(summary),
        _months(summary),
        *(_side(summary, side) for side in summary.agreements),
        _verdicts(summary),
        _costs(summary),
        _errata(summary),
        _left_out(summary),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _cards(summary: Summary) -> str:
    cards = []
    for side in summary.sides:
        for k, estimate in list(side.scores.items())[:3]:
            value, _, interval = say_estimate(estimate).partition(" % ")
            cards.append((f"{value} %", f"pass@{k}, {NAMES[side.name]} {interval}"))
    for name, found in summary.agreements.items():
        share = f"{100 * found.same / found.total:.2f} %" if found.total else "—"
        cards.append((share, f"of {found.total:,} verdicts as {NAMES[name]}"))
    inner = "".join(f'<div class="card"><b>{value}</b><span>{html.escape(text)}</span></div>' for value, text in cards)
    return f'<div class="cards">{inner}</div>'


def _groups(summary: Summary) -> str:
    labels = ["\n".join(group) for group in summary.ours.groups]
    series = [
        Series(side.name, {"\n".join(group): one for group, one in side.groups.items()}) for side in summary.sides
    ]
    note = "Bars with 95 % intervals; the number of problems stands below."
    return f"<h2>pass@1 by platform and difficulty</h2>{_legend(summary)}{draw_bars(labels, series)}{_soft(note)}"


def _months(summary: Summary) -> str:
    labels = list(summary.ours.months)
    if len(labels) < 2:
        return ""
    series = [Series(side.name, side.months) for side in summary.sides]
    return f"<h2>pass@1 by month of the contest</h2>{_legend(summary)}{draw_lines(labels, series)}"


def _side(summary: Summary, side: str) -> str:
    found = summary.agreements[side]
    there = NAMES[side]
    word = "published" if side == PUBLISHED else "there"
    matrix = draw_matrix(
        ((found.both_right, found.only_ours), (found.only_theirs, found.both_wrong)),
        ("accepted here", "rejected here"),
        (f"accepted, {word}", f"rejected, {word}"),
    )
    text = f"<h2>Agreement: {html.escape(there)}</h2><p>{html.escape(describe_agreement(summary, side))}</p>{matrix}"
    if side == PUBLISHED:
        text += f"<p>{html.escape(describe_attribution(summary))}</p>"
    picked = pick_changes(summary, side)
    if not picked:
        return text
    rows = [
        (
            f"<code>{html.escape(f'{change.question_id}#{change.generation}')}</code>",
            "accepted" if change.other else "rejected",
            html.escape(change.verdict),
            html.escape(str(change.reason)),
            _mark(change.proof),
        )
        for change in picked
    ]
    counts = draw_counts(summary.reasons(side).most_common(), "changed verdicts by reason")
    more = summary.reasons(side).total() - len(rows)
    note = _soft(f"… and {more:,} more, in flips.jsonl.") if more else ""
    command = html.escape(picked[0].command)
    return (
        f"{text}<h2>Changed verdicts by reason: {html.escape(there)}</h2>{counts}"
        f"{_table(('generation', 'there', 'here', 'reason', 'proof'), rows)}{note}"
        f"<p>One case again, with everything that it does:</p><pre>{command}</pre>"
    )


def _verdicts(summary: Summary) -> str:
    counts = draw_counts(summary.verdicts.most_common(), "programs by verdict")
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in summary.alone)
    times = draw_times(summary.times, summary.rules.cpu_seconds)
    return (
        f"<h2>Programs by verdict</h2>{counts}<h2>Slowest test of each accepted program</h2>{times}"
        f"<p>{html.escape(describe_alone(summary))}</p>{f'<ul>{listed}</ul>' if listed else ''}"
    )


def _costs(summary: Summary) -> str:
    rows = [[html.escape(cell) for cell in row] for row in describe_costs(summary)]
    floor = "The floor is the programs' own processor time, up to the time limit."
    note = _soft(f"Seconds that workers were busy, over their number. {floor} {describe_wall(summary)}".rstrip())
    return f"<h2>Cost</h2>{_table(COSTS_HEADER, rows)}{note}" if rows else ""


def _errata(summary: Summary) -> str:
    rows = [
        (
            f"<code>{html.escape(id)}</code>",
            html.escape(what),
            f"{ours} of {total}",
            "—" if published is None else str(published),
        )
        for id, what, total, ours, published in summary.errata
    ]
    header = ("problem", "what LiveCodeBench's errata say", "accepted here", "accepted there")
    return (
        f"<h2>Known errata</h2>{_soft('In the scores, and apart in the agreement.')}{_table(header, rows)}"
        if rows
        else ""
    )


def _left_out(summary: Summary) -> str:
    lines = "".join(f"<li>{_mark(line)}</li>" for line in list_left_out(summary))
    return f"<h2>Left out</h2><ul>{lines}</ul>" if lines else ""


def _legend(summary: Summary) -> str:
    names = "".join(
        f'<span><i class="{side.name}"></i>{html.escape(NAMES[side.name])}</span>' for side in summary.sides
    )
    return f'<div class="legend">{names}</div>'


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(_cell(name, cell) for name, cell in zip(header, row, strict=True)) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _cell(name: str, text: str) -> str:
    return f'<td class="proof">{text}</td>' if name == "proof" else f"<td>{text}</td>"


def _soft(text: str) -> str:
    return f'<p class="soft">{html.escape(text)}</p>'


def _mark(text: str) -> str:
    """Text with `code`."""
    pieces = [html.escape(piece) for piece in text.split("`")]
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))
