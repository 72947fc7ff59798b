"""The paper's aspects at the scale of the toy, one at a time: `python -m trainer.ablate ASPECT`.

Each variant is trained with the same seeds from the same warmed-up model. A toy may show that an effect
exists; it ranks nothing.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from trainer.demo import run_together
from trainer.embedded_service import NoService, service_at
from trainer.paired import compare, summarise, write_table

SHORT = {"max_completion_length": 44, "truncation_window": 8}
"""A limit that truncates."""


@dataclass(frozen=True)
class Variant:
    """One side of a comparison: what it changes of the toy's training, and the rest of a `Course`."""

    label: str
    options: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "microcoder"
    rest: dict[str, Any] = field(default_factory=dict)


def _batch(parts: int) -> dict[str, int]:
    """A generation of 256 completions in so many updates."""
    return {"per_device_train_batch_size": 256 // parts, "steps_per_generation": parts}


ASPECTS: dict[str, tuple[Variant, ...]] = {
    "evaluator": (
        Variant("microcoder"),
        Variant("exact", rest={"reward": {"policy": {"profile": "exact"}}}),
        Variant("fraction", rest={"reward": {"fraction": True}}),
    ),
    "temperature": (
        Variant("1.0"),
        Variant("0.6", {"temperatures": "0.6"}),
        Variant("1.4", {"temperatures": "1.4"}),
        Variant("0.6 then 1.0", {"temperatures": "0.6,1.0", "stage_length": 10}),
    ),
    "data": (
        Variant("all lengths"),
        Variant("2 and 3", rest={"lengths": (2, 3)}),
        Variant("5 and 6", rest={"lengths": (5, 6)}),
    ),
    "context": (
        Variant("64"),
        Variant("44", {"max_completion_length": 44}),
        Variant("28", {"max_completion_length": 28}),
    ),
    "mask": (
        Variant("none", {**SHORT, "truncation_rate": 0.0}),
        Variant("0.2", {**SHORT, "truncation_rate": 0.2}),
        Variant("1", {**SHORT, "truncation_rate": 1.0}),
        Variant("1, correct only", {**SHORT, "truncation_rate": 1.0, "truncation_reading": "correct_only"}),
        Variant("1, loops too", {**SHORT, "truncation_rate": 1.0, "repeat_test": "off"}),
        Variant("all", {**SHORT, "truncation_rate": 1.0, "truncation_reading": "any", "repeat_test": "off"}),
    ),
    "updates": (
        Variant("4 a generation"),
        Variant("1", _batch(1)),
        Variant("2", _batch(2)),
        Variant("8", _batch(8)),
    ),
    "kl-and-clip": (
        Variant("none, 0.28"),
        Variant("none, 0.2", {"epsilon_high": 0.2}),
        Variant("0.001, 0.2", {"epsilon_high": 0.2, "beta": 0.001}),
        Variant("0.1, 0.2", {"epsilon_high": 0.2, "beta": 0.1}),
    ),
}
"""By the paper's aspect: the variants, the first of which the others are compared with."""


def main(arguments: list[str] | None = None) -> int:
    """Run one aspect; 0, or 1 when there is no service."""
    parser = argparse.ArgumentParser(prog="python -m trainer.ablate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("aspect", choices=list(ASPECTS))
    add_options(parser, seeds=3)
    options = parser.parse_args(arguments)
    return run_variants(ASPECTS[options.aspect], options, limits=(64,), x=options.aspect)


def add_options(parser: argparse.ArgumentParser, *, seeds: int) -> None:
    """What every comparison of variants takes."""
    parser.add_argument("--seeds", type=int, default=seeds, help=f"of each variant, the same ones: {seeds}")
    parser.add_argument("--generations", type=int, default=20, help="of 256 completions: 20")
    parser.add_argument("--warm-up", type=int, default=600, help="supervised steps before: 600")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time: 2")
    parser.add_argument("--json", type=Path, help="file for every run's figures and curves")
    parser.add_argument("--png", type=Path, help="file for a picture")
    parser.add_argument("--url", help="of the service that judges; default: MICROCODER_URL, else one is started here")


def run_variants(variants: Any, options: argparse.Namespace, *, limits: tuple[int, ...], x: str) -> int:
    """Train all variants, print the table, write what was asked for; 0, or 1 when there is no service."""
    start = time.monotonic()
    try:
        with service_at(options.url) as url, tempfile.TemporaryDirectory(prefix="microcoder-base-") as folder:
            results = _train(variants, options, limits, url, folder)
    except NoService as error:
        print(error, file=sys.stderr)
        return 1
    means, differences = summarise(results), compare(results)
    print(write_table(means, differences, x))
    if options.json:
        told = {"x": x, "seconds": round(time.monotonic() - start, 1), "runs": results}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    if options.png:
        from trainer.curves import draw_intervals

        shown = [name for name in next(iter(means.values())) if name != "entropy"]
        panels = {name: [(label, *found[name]) for label, found in means.items()] for name in shown}
        draw_intervals(panels, options.png, title=f"Means of {options.seeds} paired seeds, 95 % intervals", x=x)
    return 0


def _train(
    variants: Any, options: argparse.Namespace, limits: tuple[int, ...], url: str, folder: str
) -> list[dict[str, Any]]:
    """Every variant with every seed, a variant after the other."""
    from trainer.toy.course import Course, prepare_base, take_course

    # One warm-up for all: seeds differ in prompts and samples, variants in nothing else.
    base = run_together([partial(prepare_base, f"{folder}/1", 1, options.warm_up)], 1, lambda _: None)[0]
    plans = [(variant, seed) for variant in variants for seed in range(1, options.seeds + 1)]
    tasks = []
    for variant, seed in plans:
        parts = variant.options.get("steps_per_generation", 4)
        changes = {"max_steps": parts * options.generations, **variant.options}
        course = Course(base, url, variant.algorithm, seed, changes, limits=limits, **variant.rest)
        tasks.append(partial(take_course, course))
    found = run_together(tasks, options.processes, _say)
    return [{**result, "label": variant.label} for result, (variant, _) in zip(found, plans, strict=True)]


def _say(result: dict[str, Any]) -> None:
    tests = ", ".join(f"{one['before']:.3f} -> {one['after']:.3f} at {one['limit']}" for one in result["limits"])
    print(f"seed {result['seed']}: {tests}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
