"""A demonstration that learning happens, on a CPU, with rewards from the real service: `python -m trainer.demo`.

A quarter of a million parameters learn a toy (trainer/toy/chains.py): a supervised warm-up, then reinforcement by the
algorithms side by side, and as sabotage a run whose verdicts are dealt at random. The share of held-out problems that
is solved has to rise, and not to rise under sabotage.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from trainer.baselines import ALGORITHMS
from trainer.embedded_service import NoService, service_at

SHOWN = ("grpo", "dapo-paper", "microcoder")
RISE = 0.15
"""What a run has to gain, and less than a third of which a sabotaged one may."""


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0 when every run rose and no sabotaged one did, 1 when not or without a service, 130 after Ctrl-C."""
    options = _parse(arguments)
    start = time.monotonic()
    try:
        with service_at(options.url) as url:
            results = _run(options, url)
    except NoService as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped: nothing was written.", file=sys.stderr)
        return 130
    found = {**_arrange(results, options.algorithms), "seconds": round(time.monotonic() - start, 1)}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if options.png:
        _draw(results, options.png)
    risen = all(result["after"] - result["before"] >= RISE for result in results if not result["shuffled"])
    flat = all(result["after"] - result["before"] < RISE / 3 for result in results if result["shuffled"])
    verdict = "Learning shows." if risen and flat else "It does not show what it should: see the lines above."
    print(f"{verdict} {found['seconds']:.0f} s.")
    return 0 if risen and flat else 1


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainer.demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="runs of each algorithm: 1")
    parser.add_argument("--json", type=Path, help="file for the results and curves")
    parser.add_argument("--png", type=Path, help="file for a picture of the curves")
    parser.add_argument("--url", help="of the service that judges; default: MICROCODER_URL, else one is started here")
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS), default=list(SHOWN), metavar="NAME")
    parser.add_argument("--generations", type=int, default=60, help="of 256 completions, with 4 updates each: 60")
    add_warm_up(parser)
    parser.add_argument("--processes", type=int, default=2, help="runs at a time: 2")
    options = parser.parse_args(arguments)
    if min(options.seeds, options.generations, options.warm_up, options.processes) < 1:
        parser.error("seeds, generations, warm-up steps and processes are 1 or more.")
    return options


def add_warm_up(parser: argparse.ArgumentParser) -> None:
    """What every command takes that warms models up for itself."""
    parser.add_argument("--warm-up", type=int, default=1000, help="supervised steps before, at most: 1000")
    parser.add_argument("--until", type=float, default=0.45, help="pass rate that ends the warm-up: 0.45")


def _run(options: argparse.Namespace, url: str) -> list[dict[str, Any]]:
    """All runs, the sabotaged one last."""
    from trainer.toy.course import Course, prepare_base, take_course

    seeds = range(1, options.seeds + 1)
    with tempfile.TemporaryDirectory(prefix="microcoder-demo-") as folder:
        warm_up = {"until": options.until, "url": url}
        bases = [partial(prepare_base, f"{folder}/{seed}", seed, options.warm_up, **warm_up) for seed in seeds]
        folders = run_together(bases, options.processes, lambda base: print(f"seed {Path(base).name}  warmed up"))
        changes = {"max_steps": 4 * options.generations}
        plans = [(name, seed, False) for seed in seeds for name in options.algorithms]
        plans.append((options.algorithms[-1], 1, True))
        courses = [
            Course(folders[seed - 1], url, name, seed, changes, shuffled=shuffled) for name, seed, shuffled in plans
        ]
        return run_together([partial(take_course, course) for course in courses], options.processes, _say)


def run_together(tasks: Sequence[Callable[[], Any]], processes: int, hear: Callable[[Any], None]) -> list[Any]:
    """What the tasks return, in order; so many run at a time, each in a process, and each result is told when due.

    What stops this process, an exception or Ctrl-C, stops the tasks too.
    """
    found = []
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_leave_interrupts_to_the_parent)
    with pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            for future in futures:
                found.append(future.result())
                hear(found[-1])
        except BaseException:
            for future in futures:
                future.cancel()
            for process in active_children():
                process.terminate()
            raise
    return found


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _say(result: dict[str, Any]) -> None:
    name = f"{result['algorithm']}, shuffled rewards" if result["shuffled"] else result["algorithm"]
    change = result["after"] - result["before"]
    print(
        f"seed {result['seed']}  {name:28} {result['before']:.3f} -> {result['after']:.3f}  ({change:+.3f})", flush=True
    )


def _arrange(results: list[dict[str, Any]], algorithms: Sequence[str]) -> dict[str, Any]:
    """The results by seed: on top those of the last algorithm named, MicroCoder-GRPO where nothing else was asked."""
    honest = [result for result in results if not result["shuffled"]]
    seeds = []
    for seed in sorted({result["seed"] for result in honest}):
        own = {result["algorithm"]: result for result in honest if result["seed"] == seed}
        top = own[algorithms[-1]]
        seeds.append({"seed": seed, "before": top["before"], "after": top["after"], "algorithms": own})
    return {"seeds": seeds, "sabotage": [result for result in results if result["shuffled"]]}


def _draw(results: list[dict[str, Any]], path: Path) -> None:
    from trainer.curves import draw_panels, smooth

    measures = {
        "accuracy": "accuracy of what was generated",
        "entropy": "entropy, nats",
        "diversity": "diversity",
        "completions/mean_length": "mean length, tokens",
        "truncation/truncated": "truncated of 256",
        "seconds/evaluation": "seconds of evaluation",
    }
    panels: dict[str, dict[str, list[list[tuple[float, float]]]]] = {}
    for result in results:
        label = "shuffled rewards" if result["shuffled"] else result["algorithm"]
        for measure, name in measures.items():
            curve = list(enumerate(smooth(result["curves"][measure], 5), start=1))
            panels.setdefault(name, {}).setdefault(label, []).append([(float(x), y) for x, y in curve])
    draw_panels(panels, path, title="The toy, one line a seed (means of 5 generations)", x="generation")


if __name__ == "__main__":
    sys.exit(main())
