"""What the truncation mask does, on the toy with a limit that truncates: `python -m trainer.mechanism`.

The same seeds are trained with every rate of masking, so that runs pair up, and tested at the limit of the training and
at twice that. It shows the mechanism, not which algorithm is better: "no difference" is an answer.
"""

import argparse
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from trainer.demo import run_together
from trainer.embedded_service import NoService, service_at
from trainer.intervals import Interval, mean_interval

LATE = 5
"""Generations at the end of a run that count for its truncation and length."""


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0, or 1 when there is no service."""
    options = _parse(arguments)
    start = time.monotonic()
    try:
        with service_at(options.url) as url:
            results = _run(options, url)
    except NoService as error:
        print(error, file=sys.stderr)
        return 1
    rows = {rate: summarise([one for one in results if one["rate"] == rate]) for rate in options.rates}
    pairs = {rate: compare(results, options.rates[0], rate) for rate in options.rates[1:]}
    print(write_table(rows, pairs, options.rates[0]))
    if options.json:
        told = {"limit": options.limit, "seeds": options.seeds, "generations": options.generations, "runs": results}
        told["seconds"] = round(time.monotonic() - start, 1)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    if options.png:
        from trainer.curves import draw_intervals

        panels = {
            measure: [(f"{rate:g}", *found[measure]) for rate, found in rows.items()]
            for measure in rows[options.rates[0]]
        }
        draw_intervals(panels, options.png, title=f"Means of {options.seeds} paired seeds, 95 % intervals", x="rate ρ")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainer.mechanism", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6, help="for each rate, the same ones: 6")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.0, 0.2, 1.0], help="of masking: 0 0.2 1")
    parser.add_argument("--limit", type=int, default=44, help="tokens of a completion: 44")
    parser.add_argument("--window", type=int, default=8, help="of the repeat test, in tokens: 8")
    parser.add_argument("--generations", type=int, default=25, help="of 256 completions: 25")
    parser.add_argument("--warm-up", type=int, default=600, help="supervised steps before: 600")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time: 2")
    parser.add_argument("--json", type=Path, help="file for every run's figures and curves")
    parser.add_argument("--png", type=Path, help="file for a picture")
    parser.add_argument("--url", help="of the service that judges; default: MICROCODER_URL, else one is started here")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, url: str) -> list[dict[str, Any]]:
    from trainer.toy.course import Course, prepare_base, take_course

    changes = {
        "max_steps": 4 * options.generations,
        "max_completion_length": options.limit,
        "truncation_window": options.window,
    }
    limits = (options.limit, 2 * options.limit)
    with tempfile.TemporaryDirectory(prefix="microcoder-mechanism-") as folder:
        # One warm-up for all: seeds differ in prompts and samples, rates in nothing else.
        base = run_together([partial(prepare_base, f"{folder}/1", 1, options.warm_up)], 1, lambda _: None)[0]
        plans = [(seed, rate) for seed in range(1, options.seeds + 1) for rate in options.rates]
        courses = [
            Course(base, url, "microcoder", seed, {**changes, "truncation_rate": rate}, limits=limits)
            for seed, rate in plans
        ]
        found = run_together([partial(take_course, course) for course in courses], options.processes, _say)
    return [{**result, "rate": rate} for result, (_, rate) in zip(found, plans, strict=True)]


def _say(result: dict[str, Any]) -> None:
    tests = ", ".join(f"{one['before']:.3f} -> {one['after']:.3f} at {one['limit']}" for one in result["limits"])
    print(f"seed {result['seed']}: {tests}", flush=True)


def measure_run(result: dict[str, Any]) -> dict[str, float]:
    """The figures of one run. The mask's rate is over all its generations, NaN where nothing was eligible."""
    curves = result["curves"]
    eligible, masked = sum(curves["truncation/eligible"]), sum(curves["truncation/masked"])
    late = {name: sum(curves[name][-LATE:]) / len(curves[name][-LATE:]) for name in curves}
    return {
        "masked of eligible": masked / eligible if eligible else float("nan"),
        "truncated of 256": late["truncation/truncated"],
        "mean length": late["completions/mean_length"],
        **{f"solved at {one['limit']}": one["after"] for one in result["limits"]},
    }


def summarise(results: list[dict[str, Any]]) -> dict[str, Interval]:
    """Each figure's mean over the seeds of one rate, with its interval."""
    measured = [measure_run(result) for result in results]
    return {name: mean_interval([one[name] for one in measured]) for name in measured[0]}


def compare(results: list[dict[str, Any]], base: float, rate: float) -> dict[str, Interval]:
    """What a rate changes, seed by seed: the mean difference to the base rate, with its interval."""
    of_base, of_rate = (
        {result["seed"]: measure_run(result) for result in results if result["rate"] == one} for one in (base, rate)
    )
    names = next(iter(of_base.values()))
    return {name: mean_interval([of_rate[seed][name] - of_base[seed][name] for seed in of_base]) for name in names}


def write_table(rows: dict[float, dict[str, Interval]], pairs: dict[float, dict[str, Interval]], base: float) -> str:
    """Markdown: the means by rate, then the paired differences to the first."""
    names = list(next(iter(rows.values())))
    lines = [f"| ρ | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    lines += [f"| {rate:g} | {' | '.join(map(_write, row.values()))} |" for rate, row in rows.items()]
    lines += [
        f"| {rate:g} − {base:g}, paired | {' | '.join(map(_write, row.values()))} |" for rate, row in pairs.items()
    ]
    return "\n".join(lines)


def _write(interval: Interval) -> str:
    middle, low, high = interval
    return f"{middle:.3g} [{low:.3g}, {high:.3g}]"


if __name__ == "__main__":
    sys.exit(main())
