"""The paper's aspects at the scale of the toy, one at a time or all: `python -m trainer.ablate ASPECT`.

Each variant is trained with the same seeds from the same warmed-up model. A toy may show that an effect
exists; it ranks nothing.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trainer.aspects import ASPECTS, Variant
from trainer.demo import add_warm_up, run_together
from trainer.embedded_service import NoService, service_at
from trainer.paired import compare, summarise, write_table

CURVES = {
    "accuracy": "accepted of what was generated",
    "completions/mean_length": "mean length, tokens",
    "diversity": "diversity",
    "truncation/truncated": "truncated of 256",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one aspect, or all; 0, or 1 when there is no service."""
    parser = argparse.ArgumentParser(prog="python -m trainer.ablate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("aspect", choices=[*ASPECTS, "all"], help="variants that aspects share are trained once")
    add_options(parser, seeds=3, generations=20)
    options = parser.parse_args(arguments)
    chosen = list(ASPECTS) if options.aspect == "all" else [options.aspect]
    return run_comparisons({name: ASPECTS[name] for name in chosen}, options, limits=(64,))


def add_options(parser: argparse.ArgumentParser, *, seeds: int, generations: int) -> None:
    """What every comparison of variants takes."""
    parser.add_argument("--seeds", type=int, default=seeds, help=f"of each variant, the same ones: {seeds}")
    parser.add_argument(
        "--generations",
        type=int,
        default=generations,
        help=f"of 256 completions: {generations}",
    )
    add_warm_up(parser)
    parser.add_argument("--processes", type=int, default=2, help="runs at a time: 2")
    parser.add_argument(
        "--out", type=Path, default=Path("toy"), help="folder for tables, pictures and trainings; those there stay: toy"
    )
    parser.add_argument("--url", help="of the service that judges; default: MICROCODER_URL, else one is started here")


def run_comparisons(
    comparisons: Mapping[str, Sequence[Variant]], options: argparse.Namespace, *, limits: tuple[int, ...]
) -> int:
    """Train all variants, print a table for each comparison, write what was asked for.

    0, 1 without a service, 130 after Ctrl-C.

    Args:
        comparisons: by name; the first variant of each is what the others are compared with.
        options: those of `add_options`.
        limits: of the held-out tests, in tokens.
    """
    start = time.monotonic()
    distinct: dict[str, Variant] = {}
    for variant in (variant for variants in comparisons.values() for variant in variants):
        distinct.setdefault(variant.key, variant)
    plans = [(variant, seed) for variant in distinct.values() for seed in range(1, options.seeds + 1)]
    book = RunBook(options.out / "runs.jsonl", [options.generations, options.warm_up, options.until, *limits])
    missing = [plan for plan in plans if book.find(*plan) is None]
    try:
        if missing:
            with service_at(options.url) as url, tempfile.TemporaryDirectory(prefix="microcoder-base-") as folder:
                _train(missing, options, limits, url, folder, book)
    except NoService as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"Stopped. What was trained is in {book.path}; the same command goes on.", file=sys.stderr)
        return 130
    for name, variants in comparisons.items():
        results = [
            {**(book.find(variant, seed) or {}), "label": variant.label}
            for variant in variants
            for seed in range(1, options.seeds + 1)
        ]
        table = write_table(summarise(results), compare(results), name)
        print(f"{table}\n")
        _write(name, results, table, options.out)
    print(f"{len(missing)} trainings, {time.monotonic() - start:.0f} s. Pictures are in {options.out}.")
    return 0


class RunBook:
    """Results of trainings, a line each, written as they come: a comparison that was stopped goes on where it was."""

    def __init__(self, path: Path, settings: list[Any]) -> None:
        """Read what is there. `settings`: what results of the same variant and seed may differ by."""
        self.path = path
        self._settings = settings
        self._known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                with contextlib.suppress(json.JSONDecodeError):  # a last line that was cut off
                    entry = json.loads(line)
                    self._known[entry["key"]] = entry["result"]

    def find(self, variant: Variant, seed: int) -> dict[str, Any] | None:
        """The result of a training; None: it has none yet."""
        return self._known.get(self._name(variant, seed))

    def add(self, variant: Variant, seed: int, result: dict[str, Any]) -> None:
        """Write a result down."""
        key = self._name(variant, seed)
        self._known[key] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "result": result}) + "\n")

    def _name(self, variant: Variant, seed: int) -> str:
        return json.dumps([variant.key, seed, *self._settings])


def _train(
    plans: list[tuple[Variant, int]],
    options: argparse.Namespace,
    limits: tuple[int, ...],
    url: str,
    folder: str,
    book: RunBook,
) -> None:
    """Every variant with its seed, in order."""
    from trainer.toy.course import Course, prepare_base, take_course

    # One warm-up for all: seeds differ in prompts and samples, variants in nothing else.
    prepare = partial(prepare_base, f"{folder}/1", 1, options.warm_up, until=options.until, url=url)
    base = run_together([prepare], 1, lambda _: None)[0]
    tasks, waiting = [], iter(plans)
    for variant, seed in plans:
        parts = variant.options.get("steps_per_generation", 4)
        changes = {"max_steps": parts * options.generations, **variant.options}
        course = Course(base, url, variant.algorithm, seed, changes, limits=limits, **variant.rest)
        tasks.append(partial(take_course, course))

    def keep(result: dict[str, Any]) -> None:
        variant, seed = next(waiting)
        book.add(variant, seed, result)
        _say(f"{variant.label}, seed {seed}", result)

    run_together(tasks, options.processes, keep)


def _say(name: str, result: dict[str, Any]) -> None:
    tests = ", ".join(f"{one['before']:.3f} -> {one['after']:.3f} at {one['limit']}" for one in result["limits"])
    print(f"{name}: {tests}", flush=True)


def _write(name: str, results: list[dict[str, Any]], table: str, folder: Path) -> None:
    from trainer.curves import draw_intervals, draw_panels, smooth

    (folder / f"{name}.md").write_text(table + "\n", "utf-8")
    means = summarise(results)
    measures = [key for key in next(iter(means.values())) if key != "entropy"]
    points = {key: [(label, *found[key]) for label, found in means.items()] for key in measures}
    seeds = len(results) // len(means)
    draw_intervals(points, folder / f"{name}.png", title=f"{name}: means of {seeds} paired seeds, 95 % intervals")
    panels: dict[str, dict[str, list[list[tuple[float, float]]]]] = {}
    for label in means:
        own = [run["curves"] for run in results if run["label"] == label]
        for key, title in CURVES.items():
            mean = [sum(values) / len(values) for values in zip(*(curves[key] for curves in own), strict=True)]
            curve = [(float(at), value) for at, value in enumerate(smooth(mean, 3), start=1)]
            panels.setdefault(title, {})[label] = [curve]
    path = folder / f"{name}-curves.png"
    draw_panels(panels, path, title=f"{name}: means of {seeds} seeds and 3 generations", x="generation")


if __name__ == "__main__":
    sys.exit(main())
