"""The reward batch, by us and by others: walls, the programs' own floor, overheads, verdicts; and more workers."""

import statistics
from collections import Counter
from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench, Figures, record_ratio, record_rounds, salted
from benchmarks.peers.sides import Floor, Judged, PrimeCode, Side, Subprocesses
from benchmarks.workloads import Batch, draw_reward_batch, make_trivial, salt, without_loops

PROCESS_COUNTS = (1, 2, 4)
"""What LiveCodeBench's evaluator is tried with; its best counts."""
LEAST_OVERHEAD = 0.01
"""An overhead below this part of the floor isn't told from none, and counts as this."""
Judging = Callable[[Batch], Judged]


def measure_reward_batch(bench: Bench) -> Figures:
    """Everything under `reward_batch`."""
    whole = draw_reward_batch(bench.data, bench.size.groups)
    short = without_loops(whole)
    processes, tried = _choose_processes(bench, short)
    figures: Figures = {
        "workload": whole.record, "workload_without_loops": short.record,
        "livecodebench_processes": {"tried_seconds": tried, "chosen": processes},
        "verdicts": {},
    }  # fmt: skip
    library, service, peer = bench.library(), bench.service(), bench.livecodebench(processes)
    floor = bench.open(Floor(bench.processors))
    main: dict[str, Judging] = {
        "library": library.judge, "service": service.judge, "livecodebench": peer.judge,
    }  # fmt: skip
    others: dict[str, Judging] = {"library_forks": library.judge_in_forks}
    peers: dict[str, Callable[[int], Side]] = {"subprocess": Subprocesses, "prime_code": PrimeCode}
    for name, open_peer in peers.items() if bench.size.peers else ():
        if (side := bench.try_to_open(f"reward_batch.{name}", partial(open_peer, bench.processors))) is not None:
            others[name] = side.judge
    _warm(main | {"library_forks": others["library_forks"]}, short, bench)
    rounds, slow_rounds = bench.size.rounds, bench.size.slow_rounds
    figures["without_loops"] = _measure(bench, short, main | others, floor, rounds, figures["verdicts"])
    figures["with_loops"] = _measure(bench, whole, main, floor, slow_rounds, figures["verdicts"])
    return figures | _claim(figures)


def _choose_processes(bench: Bench, batch: Batch) -> tuple[int, Figures]:
    """With how many processes LiveCodeBench's evaluator is fastest here."""
    counts = PROCESS_COUNTS if bench.size.peers else (bench.processors,)
    sides = {str(count): bench.livecodebench(count) for count in counts}
    turns = {name: salted(side.judge, batch) for name, side in sides.items()}
    judged = bench.take_turns("LiveCodeBench's processes", turns, 1 if len(turns) == 1 else 2)
    tried = {name: round(min(once.seconds for once in found), 3) for name, found in judged.items()}
    return int(min(tried, key=tried.__getitem__)), tried


def _warm(sides: dict[str, Judging], batch: Batch, bench: Bench) -> None:
    """Let everybody judge something first: boxes for numpy are made, suites uploaded, modules imported."""
    bench.say("reward batch: warming up")
    for judge in sides.values():
        judge(make_trivial(4, 2))
    bench.service().judge(salt(batch, 0))
    bench.library().judge(salt(batch, 0))


def _measure(
    bench: Bench, batch: Batch, sides: dict[str, Judging], floor: Floor, rounds: int, verdicts: Figures
) -> Figures:
    """Walls of all sides and the floor, in turns; and what the sides said, by label."""
    _, answers = bench.library().run(salt(batch, 0))
    tests = [answer.tests for answer in answers]
    contenders: dict[str, Callable[[int], Judged | float]] = {
        name: salted(judge, batch) for name, judge in sides.items()
    }
    contenders["floor"] = lambda n: floor.measure(batch, tests)
    found = bench.take_turns(batch.name, contenders, rounds)
    floors = [value for value in found.pop("floor") if isinstance(value, float)]
    walls = {name: [value.seconds for value in values if isinstance(value, Judged)] for name, values in found.items()}
    verdicts[batch.name] = {
        name: _count_verdicts(batch, [value for value in values if isinstance(value, Judged)])
        for name, values in found.items()
    }
    own = [seconds * bench.processors for seconds in floors]
    record: Figures = {
        "tests_run": sum(tests),
        "seconds": {"floor": record_rounds(floors)},
        "processor_seconds": {"floor": record_rounds(own)},
    }
    for name, seconds in walls.items():
        record["seconds"][name] = record_rounds(seconds)
        record["processor_seconds"][name] = record_rounds(bench.spent[name])
        record |= record_ratio(f"{name}_to_floor", seconds, floors)
        record |= record_ratio(f"{name}_processor_time_to_floor", bench.spent[name], own)
    return record


def _count_verdicts(batch: Batch, rounds: list[Judged]) -> Figures:
    """Right verdicts: median over the rounds, and of the last round the wrong ones by label."""
    wrong = Counter(
        entry.program.label
        for entry, accepted in zip(batch.entries, rounds[-1].accepted, strict=True)
        if entry.is_right != accepted
    )
    right = statistics.median(judged.count_right(batch) for judged in rounds)
    return {"programs": len(batch.entries), "right": right, "wrong_by_label": dict(wrong)}


def _claim(figures: Figures) -> Figures:
    """The ratios that are claimed, from rounds that belong together."""
    short, whole = figures["without_loops"], figures["with_loops"]

    def overheads(name: str, kind: str = "seconds") -> list[float]:
        pairs = zip(short[kind][name]["rounds"], short[kind]["floor"]["rounds"], strict=True)
        return [max(spent - floor, LEAST_OVERHEAD * floor) for spent, floor in pairs]

    record = record_ratio("overhead_ratio_vs_livecodebench", overheads("livecodebench"), overheads("library"))
    record |= record_ratio(
        "overhead_ratio_of_service_vs_livecodebench", overheads("livecodebench"), overheads("service")
    )
    record |= record_ratio(
        "processor_overhead_ratio_vs_livecodebench",
        overheads("livecodebench", "processor_seconds"),
        overheads("library", "processor_seconds"),
    )
    seconds = short["seconds"]
    record |= record_ratio(
        "wall_ratio_vs_livecodebench", seconds["livecodebench"]["rounds"], seconds["library"]["rounds"]
    )
    return record | {
        "wall_ratio_to_floor_without_loops": short["library_to_floor"],
        "ratio_to_floor": whole["library_to_floor"],
    }


def measure_scale(bench: Bench) -> Figures:
    """The reward batch without looping programs, through services with more and more workers."""
    batch = without_loops(draw_reward_batch(bench.data, bench.size.groups))
    services = {count: bench.service(count) for count in bench.size.scales}
    for count, service in services.items():
        bench.say(f"more workers: warming up {count}")
        service.judge(salt(batch, 0))
    turns = {str(count): salted(service.judge, batch) for count, service in services.items()}
    found = bench.take_turns("more workers", turns)
    walls = {name: [judged.seconds for judged in rounds] for name, rounds in found.items()}
    record: Figures = {"processors": bench.processors, "seconds": {n: record_rounds(w) for n, w in walls.items()}}
    names = {2: "two_workers_vs_one", 4: "four_workers_vs_one"}
    for count in bench.size.scales[1:]:
        record |= record_ratio(names[count], walls["1"], walls[str(count)])
    return record
