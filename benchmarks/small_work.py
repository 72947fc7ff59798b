"""What small things cost: a trivial test in every way, the service's part in it, numpy, a workload of each kind."""

from collections.abc import Callable

from benchmarks import throughput
from benchmarks.bench import Bench, Figures, record_ratio, record_rounds, salted, timed
from benchmarks.peers.sides import RequestPerTest, Subprocesses
from benchmarks.workloads import Batch, make_numpy, make_small_workloads, make_trivial, salt
from evaluator.sandbox.pool import BACKENDS

TESTS = 15
PART = 8
"""An interpreter for each test is so slow that it gets one program of so many; rates are compared."""
FEW_TESTS = 3


def measure_trivial(bench: Bench) -> Figures:
    """One test against a bare fork, and tests in a series against a fork for each."""
    bench.say("trivial: a box of each kind against a bare fork")
    figures = throughput.measure(bench.size.fork_tests, max(bench.size.rounds, 3))
    floor = figures.pop("fork")
    record: Figures = {"fork_ms": record_rounds(floor), "ratio_to_fork": {}, "ms": {}}
    for name, values in figures.items():
        ratio = record_ratio("ratio", values, floor)
        record["ms"][name] = record_rounds(values)
        if name == "subprocess":
            record["subprocess_to_fork"] = ratio["ratio"]
        else:
            record["ratio_to_fork"] |= {name: ratio["ratio"], f"{name}_rounds": ratio["ratio_rounds"]}
    for name in BACKENDS:
        if name not in figures:
            bench.skipped[f"trivial.ratio_to_fork.{name}"] = (
                f"No box of {name} can be had here; microcoder doctor tells."
            )
    for tests, key in ((TESTS, "batched_speedup"), (FEW_TESTS, f"batched_speedup_at_{FEW_TESTS}_tests")):
        batch = make_trivial(max(16, bench.size.programs // 4), tests)
        walls = _modes(bench, f"trivial, {tests} tests a program", batch, 1)
        record |= record_ratio(key, walls["forks"], walls["series"])
        count = len(batch.entries) * tests
        record["ms"] |= {
            f"library_{name}_{tests}": record_rounds(1000 * second / count for second in seconds)
            for name, seconds in walls.items()
        }
    return record


def _modes(bench: Bench, title: str, batch: Batch, workers: int) -> dict[str, list[float]]:
    """Seconds through the library in both modes, in turns."""
    library = bench.library(workers)
    contenders = {
        "series": salted(timed(library.judge), batch),
        "forks": salted(timed(library.judge_in_forks), batch),
    }
    for run in contenders.values():
        run(0)
    return bench.take_turns(title, contenders)


def measure_service(bench: Bench) -> Figures:
    """Trivial tests through the library, through the service, and by interpreters per test and per request."""
    batch = make_trivial(bench.size.programs, TESTS)
    part = Batch(batch.name, batch.entries[: max(4, len(batch.entries) // PART)])
    library, service = bench.library(), bench.service()
    restated = bench.open(RequestPerTest())
    plain = bench.open(Subprocesses(bench.processors))
    contenders: dict[str, tuple[Batch, Callable[[Batch], float]]] = {
        "library": (batch, timed(library.judge)),
        "library_forks": (batch, timed(library.judge_in_forks)),
        "service": (batch, timed(service.judge)),
        "request_per_test": (part, timed(restated.judge)),
        "subprocess": (part, timed(plain.judge)),
    }
    real = None
    if bench.sandboxfusion_url:
        real = bench.try_to_open("trivial.speedup_vs_sandboxfusion", lambda: RequestPerTest(bench.sandboxfusion_url))
    else:
        bench.skipped["trivial.speedup_vs_sandboxfusion"] = "No --sandboxfusion-url was given."
    if real is not None:
        contenders["sandboxfusion"] = (part, timed(real.judge))
    for work, run in contenders.values():
        run(salt(Batch(work.name, work.entries[:2]), 0))
    found = bench.take_turns("trivial tests", {name: salted(run, work) for name, (work, run) in contenders.items()})
    costs = {name: [seconds / contenders[name][0].tests for seconds in rounds] for name, rounds in found.items()}
    record: Figures = {"tests": {name: work.tests for name, (work, _) in contenders.items()}}
    record["ms_a_test"] = {name: record_rounds(1000 * cost for cost in rounds) for name, rounds in costs.items()}
    share = record_ratio("share_of_library", costs["library"], costs["service"])
    trivial: Figures = {}
    for peer in ("request_per_test", "subprocess", "sandboxfusion"):
        if peer in costs:
            trivial |= record_ratio(f"speedup_vs_{peer}", costs[peer], costs["service"])
            trivial |= record_ratio(f"library_speedup_vs_{peer}", costs[peer], costs["library"])
    return {"service": record | share, "trivial": trivial}


def measure_numpy(bench: Bench) -> Figures:
    """Programs with numpy against trivial ones, once a box has numpy."""
    library = bench.library(1)
    copies = max(8, bench.size.copies)
    bench.say("numpy: the first program")
    first = library.judge(make_numpy(1, 1)).seconds
    batches = {"trivial": make_trivial(copies, 10), "numpy": make_numpy(copies, 10)}
    contenders: dict[str, Callable[[int], float]] = {}
    for name, batch in batches.items():
        contenders[f"{name}_forks"] = salted(timed(library.judge_in_forks), batch)
        contenders[f"{name}_series"] = salted(timed(library.judge), batch)
    for run in contenders.values():
        run(0)
    found = bench.take_turns("numpy", contenders)
    record: Figures = {
        "first_program_seconds": round(first, 3),
        "ms_a_test": {n: record_rounds(1000 * s / (copies * 10) for s in rounds) for n, rounds in found.items()},
    }
    record |= record_ratio("ratio_to_trivial", found["numpy_forks"], found["trivial_forks"])
    return record | record_ratio("ratio_to_trivial_batched", found["numpy_series"], found["trivial_series"])


def measure_small_workloads(bench: Bench) -> Figures:
    """Milliseconds a program, for each small workload and side."""
    library, peer, plain = bench.library(), bench.livecodebench(bench.processors), Subprocesses(bench.processors)
    bench.open(plain)
    record: Figures = {}
    for batch in make_small_workloads(bench.size.copies):
        few = Batch(batch.name, batch.entries[: max(2, len(batch.entries) // PART)])
        if batch.name == "loop":
            batch = few
        sides: dict[str, Callable[[Batch], float]] = {
            "library": timed(library.judge),
            "library_forks": timed(library.judge_in_forks),
            "livecodebench": timed(peer.judge),
            "subprocess": timed(plain.judge),
        }
        one = Batch(batch.name, batch.entries[:1])
        if batch.name != "loop":
            for run in sides.values():
                run(salt(one, 0))
        works = {name: few if name == "subprocess" else batch for name in sides}
        turns = {name: salted(run, works[name]) for name, run in sides.items()}
        seconds = bench.take_turns(batch.name, turns, bench.size.slow_rounds)
        found = {name: [s / len(works[name].entries) for s in rounds] for name, rounds in seconds.items()}
        record[batch.name] = {
            "tests": len(batch.entries[0].problem.tests),
            "ms_a_program": {n: record_rounds(1000 * s for s in rounds) for n, rounds in found.items()},
        }
        for mode in ("library", "library_forks"):
            name = "speedup_vs_livecodebench" if mode == "library" else "speedup_of_forks_vs_livecodebench"
            record[batch.name] |= record_ratio(name, found["livecodebench"], found[mode])
    return record
