"""Problems that a model sometimes solves: `python -m trainer.selection --config C --problems IN --out OUT`.

A group whose completions are all right or all wrong teaches nothing. So the model tries each problem several times, the
service judges, and problems stay whose share of right answers is strictly between two bounds.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainer.embedded_service import NoService, service_at

BOUNDS = (0.1, 0.9)


def main(arguments: list[str] | None = None) -> int:
    """Measure and select; 0, 1 for no service or no problem left, 2 for bad input."""
    options = _parse(arguments)
    from trainer.arguments import read_config
    from trainer.runs import BadRun, load_model, load_problems, read_source

    try:
        source = read_source(options.config)
        config = read_config(options.config, output_dir=str(options.out.parent))
        rows = load_problems(options.problems, config.seed)
        model, tokenizer = load_model(source.model, config.seed, dtype="bfloat16" if config.bf16 else "float32")
    except (BadRun, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        with service_at(options.url) as url:
            rates = measure_rates(model.to(config.device), tokenizer, rows, url, options.count, config, source.reward)
    except NoService as error:
        print(error, file=sys.stderr)
        return 1
    kept = [{**row, "pass_rate": rate} for row, rate in zip(rows, rates, strict=True) if BOUNDS[0] < rate < BOUNDS[1]]
    options.out.write_text("".join(json.dumps(row) + "\n" for row in kept), "utf-8")
    print(f"{len(kept)} of {len(rows)} problems have a pass rate between {BOUNDS[0]} and {BOUNDS[1]}: {options.out}.")
    return 0 if kept else 1


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainer.selection", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, required=True, help="what is to be trained: model, temperature, limit")
    parser.add_argument("--problems", required=True, help="JSON Lines: `prompt`, and tests in columns the client knows")
    parser.add_argument("--out", type=Path, required=True, help="file for the problems that stay")
    parser.add_argument("--count", type=int, default=8, help="tries at each problem: 8")
    parser.add_argument("--url", help="of the service that judges; default: MICROCODER_URL, else one is started here")
    return parser.parse_args(arguments)


def measure_rates(
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    url: str,
    count: int,
    config: Any,
    reward: dict[str, Any],
) -> list[float]:
    """The share of right answers of each problem, sampled as the training samples."""
    from trainer.sampling import judge, sample, tell_progress

    groups = sample(
        model,
        tokenizer,
        [row["prompt"] for row in rows],
        count=count,
        temperature=config.temperature,
        limit=config.max_completion_length,
        seed=config.seed,
        batch=32,
        tell=tell_progress,
    )
    right = judge(groups, rows, url, reward)
    return [sum(group) / count for group in right]


if __name__ == "__main__":
    sys.exit(main())
