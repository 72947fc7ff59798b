"""The temperature by an offline sweep: `python -m trainer.sweep --config trainer/configs/NAME.yaml --target 0.7`.

Accuracy bounds it first, then the lowest temperature whose diversity reaches the target is taken. The target is for one
model and one task: see what diversity has in trainings that went well, in the unit of this measure.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainer.algorithm.diversity import mean_diversity
from trainer.algorithm.temperatures import NoTemperature, SweepPoint, choose_temperature
from trainer.embedded_service import NoService, service_at

TEMPERATURES = tuple(round(0.2 * step, 1) for step in range(1, 11))


def main(arguments: list[str] | None = None) -> int:
    """Sample, judge, choose; 0, 1 for no service or no temperature, 2 for a bad configuration."""
    options = _parse(arguments)
    from trainer.arguments import read_config
    from trainer.runs import BadRun, load_model, load_problems, read_source

    try:
        source = read_source(options.config)
        config = read_config(options.config, output_dir=str(options.config.parent))
        model, tokenizer = load_model(source.model, config.seed, dtype="bfloat16" if config.bf16 else "float32")
        rows = load_problems(source.problems, config.seed)[: options.prompts]
    except (BadRun, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    limit = int(config.max_completion_length or 0)
    try:
        with service_at(options.url) as url:
            points = [
                measure(model.to(config.device), tokenizer, rows, url, temperature, options.count, limit, source.reward)
                for temperature in options.temperatures
            ]
    except NoService as error:
        print(error, file=sys.stderr)
        return 1
    return _conclude(options, points)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainer.sweep", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, required=True, help="what is to be trained")
    parser.add_argument("--target", type=float, help="diversity to begin with; without it nothing is chosen")
    parser.add_argument("--temperatures", type=float, nargs="+", default=list(TEMPERATURES), help="0.2 … 2.0")
    parser.add_argument("--prompts", type=int, default=200, help="the first so many problems: 200")
    parser.add_argument("--count", type=int, default=4, help="completions of each: 4")
    parser.add_argument("--url", help="of the service that judges; default: MICROCODER_URL, else one is started here")
    parser.add_argument("--json", type=Path, help="file for what was measured and chosen")
    parser.add_argument("--png", type=Path, help="file for a picture")
    options = parser.parse_args(arguments)
    if options.count < 2 or options.prompts < 1 or min(options.temperatures) <= 0:
        parser.error("diversity needs 2 completions or more of 1 prompt or more, at temperatures above 0.")
    return options


def measure(
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    url: str,
    temperature: float,
    count: int,
    limit: int,
    reward: dict[str, Any],
) -> SweepPoint:
    """Accuracy and diversity of completions at one temperature, judged by the service at `url`."""
    from trainer.sampling import judge, sample

    prompts = [row["prompt"] for row in rows]
    groups = sample(model, tokenizer, prompts, count=count, temperature=temperature, limit=limit, seed=1)
    right = judge(groups, rows, url, reward)
    special = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    diversity = mean_diversity([[completion.ids for completion in group] for group in groups], special)
    return SweepPoint(temperature, sum(map(sum, right)) / (count * len(rows)), diversity)


def _conclude(options: argparse.Namespace, points: list[SweepPoint]) -> int:
    """Print what was measured and what follows from it."""
    print("| T | accuracy | diversity |\n| --- | --- | --- |")
    for point in points:
        print(f"| {point.temperature:g} | {point.accuracy:.3f} | {point.diversity:.3f} |")
    status, chosen, told = 0, None, "No target was given: nothing is chosen."
    if options.target is not None:
        try:
            choice = choose_temperature(points, options.target)
            chosen, told = choice.temperature, choice.origin
        except NoTemperature as error:
            status, told = 1, str(error)
    print(told)
    if options.json:
        found = {"points": [asdict(point) for point in points], "temperature": chosen, "origin": told}
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if options.png:
        from trainer.curves import draw_panels

        ordered = sorted(points, key=lambda point: point.temperature)
        panels = {
            name: {name: [[(point.temperature, float(getattr(point, name))) for point in ordered]]}
            for name in ("accuracy", "diversity")
        }
        draw_panels(panels, options.png, title="Sweep of the temperature", x="T")
    return status


if __name__ == "__main__":
    sys.exit(main())
