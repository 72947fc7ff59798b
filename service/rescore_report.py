"""What a run has to say, in Markdown (`report.md`): the same sections as the page, as tables."""

from collections.abc import Iterable, Sequence

from evaluator.livecodebench.estimates import Estimate
from service.rescore_charts import say_estimate
from service.rescore_flips import OFFICIAL, PUBLISHED, Changed
from service.rescore_summary import Costs, Side, Summary

NAMES = {"ours": "MicroCoder", PUBLISHED: "published", OFFICIAL: "LiveCodeBench here"}
LISTED = 8
"""Changed verdicts of one reason that the reports list; all are in flips.jsonl."""


def write_report(summary: Summary) -> str:
    """The whole text."""
    parts = [f"# {summary.name}, re-scored", describe_run(summary), _scores(summary), _agreements(summary)]
    parts += [_changes(summary, side) for side in summary.agreements]
    parts += [
        _groups(summary),
        _months(summary),
        _errata(summary),
        _times(summary),
        _costs(summary),
        _left_out(summary),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def describe_run(summary: Summary) -> str:
    """One paragraph: what was judged, under which rules, where."""
    rules, runtime = summary.rules, summary.runtime
    where = ", ".join(f"{name} {value}" for name, value in runtime.items() if value and name != "image")
    return (
        f"{summary.generations:,} generations of {summary.problems:,} problems, {summary.programs:,} programs; "
        f"profile `{rules.profile}`, {rules.cpu_seconds:g} s of processor time a test{'; ' + where if where else ''}. "
        f"Intervals are 95 % bootstraps over problems. {describe_alone(summary)}"
    )


def describe_alone(summary: Summary) -> str:
    """How many programs were near the time limit."""
    if not summary.alone:
        return "No program was so near the time limit that it had to be judged again alone."
    rest = f"{summary.alone_changed:,} of them got another verdict then" if summary.alone_changed else "nothing changed"
    return f"{len(summary.alone):,} programs were near the time limit and were judged again alone: {rest}."


def describe_agreement(summary: Summary, side: str) -> str:
    """How often the other side says the same."""
    found = summary.agreements[side]
    apart = ""
    if found.kept != found.total:
        apart = (
            f" Without the problems that LiveCodeBench's errata name: {found.kept_same:,} of {found.kept:,} "
            f"({_percent(found.kept_same, found.kept)})."
        )
    return (
        f"{found.same:,} of {found.total:,} verdicts agree with {_say_side(side)} "
        f"({_percent(found.same, found.total)}); {found.only_ours:,} are accepted here alone, "
        f"{found.only_theirs:,} there alone.{apart}"
    )


def describe_attribution(summary: Summary) -> str:
    """Whose the changed verdicts are, where LiveCodeBench's evaluator was run here; nothing where it wasn't."""
    known = [change for change in summary.changes if change.against == PUBLISHED and change.official is not None]
    if not known:
        return ""
    as_published = sum(change.official is change.other for change in known)
    return (
        f"Of the {len(known):,} verdicts that differ from the published ones, LiveCodeBench's evaluator, run here, "
        f"repeats {as_published:,} as published: its runner or comparison makes the difference. With "
        f"{len(known) - as_published:,} it agrees with ours: the published tests, machine or version do."
    )


def _say_side(side: str) -> str:
    return "the published ones" if side == PUBLISHED else "LiveCodeBench's evaluator, run here on the same tests"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "—"


def _scores(summary: Summary) -> str:
    header = ("", *(NAMES[side.name] for side in summary.sides))
    rows = [
        (f"pass@{k}", *(say_estimate(side.scores[k]) if k in side.scores else "—" for side in summary.sides))
        for k in summary.ours.scores
    ]
    return "## Scores\n\n" + _table(header, rows)


def _agreements(summary: Summary) -> str:
    if not summary.agreements:
        return ""
    sentences = [describe_agreement(summary, side) for side in summary.agreements]
    return "## Agreement\n\n" + "\n\n".join([*sentences, describe_attribution(summary)]).rstrip()


def _changes(summary: Summary, side: str) -> str:
    changes = [change for change in summary.changes if change.against == side]
    if not changes:
        return ""
    title = f"## Changed verdicts, against {NAMES[side]}"
    counts = _table(("reason", "verdicts"), [(reason, f"{n:,}") for reason, n in summary.reasons(side).most_common()])
    picked = pick_changes(summary, side)
    header = ("generation", "there", "here", "reason", "proof")
    rows = [
        (
            f"`{change.question_id}#{change.generation}`", "accepted" if change.other else "rejected",
            change.verdict, str(change.reason), _escape(change.proof),
        )
        for change in picked
    ]  # fmt: skip
    more = len(changes) - len(rows)
    note = f"\n\n… and {more:,} more, in `flips.jsonl`." if more else ""
    example = f"\n\nOne case again, with everything that it does:\n\n```console\n$ {picked[0].command}\n```"
    return f"{title}\n\n{counts}\n\n{_table(header, rows)}{note}{example}"


def pick_changes(summary: Summary, side: str) -> list[Changed]:
    """The changes of a side that reports list: some of each reason, common reasons first."""
    picked: list[Changed] = []
    for reason, _ in summary.reasons(side).most_common():
        picked += [change for change in summary.changes if change.against == side and change.reason == reason][:LISTED]
    return picked


def _groups(summary: Summary) -> str:
    groups = list(summary.ours.groups)
    rows = [(*group, *_estimates(summary.sides, "groups", group)) for group in groups]
    header = ("platform", "difficulty", "problems", *(NAMES[side.name] for side in summary.sides))
    return "## pass@1 by platform and difficulty\n\n" + _table(header, rows)


def _months(summary: Summary) -> str:
    rows = [(month, *_estimates(summary.sides, "months", month)) for month in summary.ours.months]
    header = ("month", "problems", *(NAMES[side.name] for side in summary.sides))
    return "## pass@1 by month of the contest\n\n" + _table(header, rows)


def _estimates(sides: Sequence[Side], name: str, key: object) -> tuple[str, ...]:
    found: list[Estimate | None] = [getattr(side, name).get(key) for side in sides]
    first = next(estimate for estimate in found if estimate is not None)
    return (str(first.count), *("—" if one is None else say_estimate(one) for one in found))


def _errata(summary: Summary) -> str:
    if not summary.errata:
        return ""
    rows = [
        (f"`{id}`", what, str(total), str(ours), "—" if published is None else str(published))
        for id, what, total, ours, published in summary.errata
    ]
    header = ("problem", "what LiveCodeBench's errata say", "generations", "accepted here", "accepted there")
    return "## Known errata\n\nCounted in the scores above, and apart in the agreement.\n\n" + _table(header, rows)


def _times(summary: Summary) -> str:
    rows = [(verdict, f"{count:,}") for verdict, count in summary.verdicts.most_common()]
    listed = "".join(f"\n- {line}" for line in summary.alone)
    times = sorted(summary.times)
    quantiles = ""
    if times:
        picked = ", ".join(f"{name} {times[int(share * (len(times) - 1))]:.3f} s" for name, share in _QUANTILES)
        quantiles = f"\n\nSlowest test of the accepted programs: {picked}."
    alone = f"\n\n{describe_alone(summary)}{chr(10) + listed if listed else ''}"
    return "## Verdicts\n\n" + _table(("verdict", "programs"), rows) + quantiles + alone


_QUANTILES = (("median", 0.5), ("90 % below", 0.9), ("99 % below", 0.99), ("largest", 1.0))


def describe_costs(summary: Summary) -> list[tuple[str, ...]]:
    """Rows: which programs, floor, both sides' seconds, their ratio, the ratio of the overheads."""
    costs = summary.official_costs
    if costs is None:
        return []
    pairs = (("all", costs.ours, costs.theirs), ("without time limits", costs.ours_without, costs.theirs_without))
    return [_cost_row(name, ours, theirs) for name, ours, theirs in pairs]


def describe_wall(summary: Summary) -> str:
    """How long both sides took as a whole; nothing where a part of it was done before."""
    if summary.official_seconds is None:
        return ""
    return (
        f"On the wall, from the first box or process to the last verdict, with reading the problems: "
        f"{summary.seconds:.1f} s here, {summary.official_seconds:.1f} s LiveCodeBench."
    )


def _cost_row(name: str, ours: Costs, theirs: Costs) -> tuple[str, ...]:
    over_ours, over_theirs = ours.busy - ours.floor, theirs.busy - ours.floor
    ratio = f"{theirs.busy / ours.busy:.1f}×" if ours.busy else "—"
    overhead = f"{over_theirs / over_ours:.1f}×" if over_ours > 0 else "—"
    seconds = (f"{value:.1f} s" for value in (ours.floor, ours.busy, theirs.busy))
    return (name, f"{ours.programs:,}", *seconds, ratio, overhead)


COSTS_HEADER = ("programs", "number", "floor", "MicroCoder", "LiveCodeBench", "ratio", "ratio of overheads")


def _costs(summary: Summary) -> str:
    if summary.official_costs is None:
        return ""
    note = (
        "Seconds that workers were busy, over their number; what was judged again alone counts in full. The floor is "
        "the programs' own processor time in our boxes, of one run each and up to the time limit, over the workers; "
        "overhead is what is above."
    )
    parts = ["## Cost", note, _table(COSTS_HEADER, describe_costs(summary)), describe_wall(summary)]
    return "\n\n".join(part for part in parts if part)


def _left_out(summary: Summary) -> str:
    lines = [f"- {line}" for line in list_left_out(summary)]
    return "## Left out\n\n" + "\n".join(lines) if lines else ""


def list_left_out(summary: Summary) -> list[str]:
    """What isn't in the scores, a sentence each."""
    lines = []
    if summary.missing:
        lines.append(f"{len(summary.missing):,} problems aren't in the files of problems: {_some(summary.missing)}.")
    lines += [f"The tests of `{id}` can't be used: {why}" for id, why in sorted(summary.unusable.items())]
    if summary.unjudged:
        lines.append(
            f"{len(summary.unjudged):,} generations couldn't be judged, by our own fault, and their problems are "
            f"left out: {_some(summary.unjudged)}. Run the command again."
        )
    return lines


def _some(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
