"""The numbers of a run: what report, page and terminal show, computed once."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evaluator.livecodebench.errata import find_erratum
from evaluator.livecodebench.estimates import Estimate, estimate, pass_at_k
from evaluator.livecodebench.generations import Answers
from evaluator.livecodebench.rows import FIELDS, Problem
from evaluator.livecodebench.score_files import Graded, Record, usable_ks
from evaluator.model import Verdict
from service.rescore_flips import OFFICIAL, PUBLISHED, Changed
from service.rescore_results import FirstRun, Key, Outcome, Rules, digest_of

if TYPE_CHECKING:
    from evaluator.livecodebench.official import OfficialVerdict

PLATFORMS = ("leetcode", "atcoder", "codeforces")
DIFFICULTIES = ("easy", "medium", "hard")
OURS = "ours"


@dataclass(frozen=True)
class Side:
    """One judge's score. `groups` by platform and difficulty, `months` by the contest's month."""

    name: str
    scores: dict[int, Estimate]
    groups: dict[tuple[str, str], Estimate]
    months: dict[str, Estimate]


@dataclass(frozen=True)
class Agreement:
    """How often two judges say the same. `kept` and `kept_same` leave problems with known errata out."""

    both_right: int
    both_wrong: int
    only_ours: int
    only_theirs: int
    kept: int
    kept_same: int

    @property
    def total(self) -> int:
        """Generations that both have judged."""
        return self.both_right + self.both_wrong + self.only_ours + self.only_theirs

    @property
    def same(self) -> int:
        """Generations with the same verdict."""
        return self.both_right + self.both_wrong


@dataclass(frozen=True)
class Costs:
    """Seconds on the wall. `floor` is the programs' own processor time, of one run each and up to the time limit, over
    the workers; `busy` what judging them took."""

    programs: int
    busy: float
    floor: float


@dataclass(frozen=True)
class OfficialCosts:
    """The same programs, judged by both, over the workers: with, and without those that ran into a time limit."""

    ours: Costs
    theirs: Costs
    ours_without: Costs
    theirs_without: Costs


@dataclass
class Summary:
    """Everything that a report shows."""

    name: str
    rules: Rules
    runtime: dict[str, Any]
    problems: int
    generations: int
    programs: int
    judged_before: int
    seconds: float
    missing: list[str]
    unusable: dict[str, str]
    unjudged: list[str]
    sides: list[Side]
    agreements: dict[str, Agreement]
    changes: list[Changed]
    verdicts: Counter[str]
    times: list[float]
    """The slowest test of each program that was accepted, in seconds."""
    memories: list[int]
    alone: list[str]
    """The programs that were run again alone, a line each."""
    alone_changed: int
    """Of these, those that got another verdict then."""
    errata: list[tuple[str, str, int, int, int | None]]
    """Problem, what is wrong with it, generations, those accepted here, those accepted in the published file."""
    official_costs: OfficialCosts | None = None
    official_seconds: float | None = None
    """On the wall; None where a part was judged before."""
    files: list[str] = field(default_factory=list)

    @property
    def ours(self) -> Side:
        """Our score."""
        return self.sides[0]

    def reasons(self, against: str) -> Counter[str]:
        """Changed verdicts by reason."""
        return Counter(str(change.reason) for change in self.changes if change.against == against)


@dataclass(frozen=True)
class _Grade:
    """A problem's generations: whether each is right, by judge."""

    problem: Problem
    is_erratum: bool
    right: dict[str, list[bool]]


def make_records(
    answers: Iterable[Answers], problems: Mapping[str, Problem], outcomes: Mapping[Key, Outcome]
) -> list[Record]:
    """The problems whose generations are all judged, as the score files have them."""
    records = []
    for item in answers:
        id = item.question_id or ""
        if id not in problems or not item.programs:
            continue
        found = [outcomes.get(Key(id, digest_of(program))) for program in item.programs]
        graded = [_grade(outcome) for outcome in found if outcome is not None and _is_judged(outcome)]
        if len(graded) == len(item.programs):
            known = {name: item.record.get(name) or problems[id].fields[name] for name in FIELDS}
            rest = {name: value for name, value in item.record.items() if name not in known}
            records.append(Record({**known, **rest, "question_id": id, "code_list": item.programs}, tuple(graded)))
    return records


def _is_judged(outcome: Outcome) -> bool:
    return outcome.verdict not in (Verdict.INTERNAL_ERROR, Verdict.CANCELLED)


def _grade(outcome: Outcome) -> Graded:
    return Graded(outcome.verdict, outcome.passed, outcome.functional, outcome.detail, outcome.cpu_seconds)


def summarise(
    name: str,
    rules: Rules,
    answers: list[Answers],
    problems: Mapping[str, Problem],
    outcomes: Mapping[Key, Outcome],
    official: Mapping[Key, "OfficialVerdict"],
    changes: list[Changed],
    workers: int,
) -> Summary:
    """All numbers. What was read and how long it took is for the caller to fill in."""
    grades, unjudged = _collect_grades(answers, problems, outcomes, official)
    used = {
        key: outcomes[key]
        for item in answers
        for program in item.programs
        if (key := Key(item.question_id or "", digest_of(program))) in outcomes and item.question_id in problems
    }
    judged = [outcome for outcome in used.values() if _is_judged(outcome)]
    sides = [OURS, *(side for side in (PUBLISHED, OFFICIAL) if any(side in grade.right for grade in grades))]
    return Summary(
        name=name,
        rules=rules,
        runtime={},
        problems=len(grades),
        generations=sum(len(grade.right[OURS]) for grade in grades),
        programs=len(judged),
        judged_before=0,
        seconds=0.0,
        missing=[],
        unusable={},
        unjudged=unjudged,
        sides=[_score(side, grades) for side in sides],
        agreements={side: _compare(side, grades) for side in sides[1:]},
        changes=changes,
        verdicts=Counter(str(outcome.verdict) for outcome in judged),
        times=[outcome.slowest for outcome in judged if outcome.verdict is Verdict.ACCEPTED],
        memories=[outcome.memory_bytes for outcome in judged],
        alone=[_say_alone(outcome, outcome.first_run) for outcome in judged if outcome.first_run is not None],
        alone_changed=sum(
            outcome.first_run is not None and outcome.first_run.verdict is not outcome.verdict for outcome in judged
        ),
        errata=_count_errata(grades),
        official_costs=_count_costs(judged, official, rules.cpu_seconds, workers) if official else None,
    )


def _say_alone(outcome: Outcome, first: FirstRun) -> str:
    runs = "alone" if first.alone == 1 else f"alone, in the last of {first.alone} runs"
    return (
        f"{outcome.key.question_id} {outcome.key.digest[:8]}: {first.verdict} beside others, {outcome.verdict} {runs} "
        f"({outcome.slowest:.2f} s in its slowest test)"
    )


def _collect_grades(
    answers: list[Answers],
    problems: Mapping[str, Problem],
    outcomes: Mapping[Key, Outcome],
    official: Mapping[Key, "OfficialVerdict"],
) -> tuple[list[_Grade], list[str]]:
    """The problems whose generations are all judged, and the generations that aren't, by our own fault."""
    grades, unjudged = [], []
    for item in sorted(answers, key=lambda item: item.question_id or ""):
        id = item.question_id or ""
        if id not in problems or not item.programs:
            continue
        keys = [Key(id, digest_of(program)) for program in item.programs]
        lost = [number for number, key in enumerate(keys) if key not in outcomes or not _is_judged(outcomes[key])]
        if lost:
            unjudged += [f"{id}#{number}" for number in lost]
            continue
        right = {OURS: [outcomes[key].verdict is Verdict.ACCEPTED for key in keys]}
        if item.published:
            right[PUBLISHED] = item.published
        if all(key in official for key in keys):
            right[OFFICIAL] = [official[key].accepted for key in keys]
        erratum = find_erratum(id, problems[id].fields["question_title"])
        grades.append(_Grade(problems[id], erratum is not None, right))
    return grades, unjudged


def _score(side: str, grades: list[_Grade]) -> Side:
    mine = [(grade.problem.fields, grade.right[side]) for grade in grades if side in grade.right]
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    months: dict[str, list[float]] = defaultdict(list)
    for fields, right in mine:
        value = sum(right) / len(right)
        groups[fields["platform"], fields["difficulty"]].append(value)
        months[fields["contest_date"][:7]].append(value)
    return Side(
        side,
        {
            k: estimate([pass_at_k(len(right), sum(right), k) for _, right in mine])
            for k in usable_ks(len(right) for _, right in mine)
        },
        {name: estimate(groups[name]) for name in sorted(groups, key=_place)},
        {month: estimate(months[month]) for month in sorted(months)},
    )


def _place(group: tuple[str, str]) -> tuple[int, int, tuple[str, str]]:
    """Platforms and difficulties in their usual order, others behind."""
    platform, difficulty = group
    first = PLATFORMS.index(platform) if platform in PLATFORMS else len(PLATFORMS)
    second = DIFFICULTIES.index(difficulty) if difficulty in DIFFICULTIES else len(DIFFICULTIES)
    return first, second, group


def _compare(side: str, grades: list[_Grade]) -> Agreement:
    pairs: Counter[tuple[bool, bool]] = Counter()
    kept: Counter[bool] = Counter()
    for grade in grades:
        for ours, theirs in zip(grade.right[OURS], grade.right.get(side, ()), strict=False):
            pairs[ours, theirs] += 1
            if not grade.is_erratum:
                kept[ours == theirs] += 1
    return Agreement(
        pairs[True, True], pairs[False, False], pairs[True, False], pairs[False, True], kept.total(), kept[True]
    )


def _count_errata(grades: list[_Grade]) -> list[tuple[str, str, int, int, int | None]]:
    rows = []
    for grade in grades:
        fields = grade.problem.fields
        erratum = find_erratum(grade.problem.id, fields["question_title"])
        if erratum is not None:
            ours, published = grade.right[OURS], grade.right.get(PUBLISHED)
            counted = None if published is None else sum(published)
            rows.append((grade.problem.id, str(erratum), len(ours), sum(ours), counted))
    return rows


def _count_costs(
    judged: list[Outcome], official: Mapping[Key, "OfficialVerdict"], limit: float, workers: int
) -> OfficialCosts:
    both = [(outcome, official[outcome.key]) for outcome in judged if outcome.key in official]
    quick = [
        (outcome, verdict)
        for outcome, verdict in both
        if outcome.first_run is None
        and outcome.verdict is not Verdict.TIME_LIMIT
        and verdict.metadata.get("error_code") not in (-3, -5)
    ]

    def count(pairs: list[tuple[Outcome, "OfficialVerdict"]]) -> tuple[Costs, Costs]:
        floor = sum(outcome.cpu_seconds - max(0.0, outcome.slowest - limit) for outcome, _ in pairs) / workers
        ours = sum(_spend(outcome, workers) for outcome, _ in pairs)
        theirs = sum(verdict.seconds for _, verdict in pairs) / workers
        return Costs(len(pairs), ours, floor), Costs(len(pairs), theirs, floor)

    return OfficialCosts(*count(both), *count(quick))


def _spend(outcome: Outcome, workers: int) -> float:
    """Seconds on the wall: a share of them for what ran beside others, all for what ran alone."""
    if outcome.first_run is None:
        return outcome.seconds / workers
    return outcome.first_run.seconds / workers + outcome.seconds
