"""A training by configuration: `python -m trainer.train --config trainer/configs/NAME.yaml`.

Without the address of a service it starts one beside itself. On several GPUs: `accelerate launch -m trainer.train …`,
with the address of a service.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from trainer.baselines import ALGORITHMS
from trainer.embedded_service import NoService, service_at

FAILED, USAGE, OUT = 1, 2, 3


def main(arguments: list[str] | None = None) -> int:
    """Train; the exit status: 0, 1 without a service, 2 for a bad configuration, 3 after an outage, resumable."""
    options = _parse(arguments)
    # Late: `--help` and a mistyped option need no torch.
    from trainer.arguments import read_config
    from trainer.grpo import NoRewards
    from trainer.runs import BadRun, make_trainer, read_source

    changes: dict[str, Any] = {"output_dir": str(options.out)}
    if options.max_steps is not None:
        changes["max_steps"] = options.max_steps
    try:
        source = read_source(options.config)
        config = read_config(options.config, algorithm=options.algorithm, **changes)
    except (ValueError, OSError) as error:
        return _fail(error, USAGE)
    try:
        with service_at(options.url) as url:
            trainer = make_trainer(source, config, url)
            if trainer.accelerator.is_main_process:
                _note(options.out, config, options.config, source.model)
            trainer.train(resume_from_checkpoint=str(options.resume) if options.resume else None)
            trainer.save_model(str(options.out / "model"))
            trainer.save_state()
    except NoService as error:
        return _fail(error, FAILED)
    except BadRun as error:
        return _fail(error, USAGE)
    except NoRewards as error:
        return _fail(error, OUT)
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainer.train", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, required=True, help="a YAML file, such as those in trainer/configs/")
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), help="default: the file's, else microcoder")
    parser.add_argument("--max-steps", type=int, help="updates of the parameters; default: the file's")
    parser.add_argument("--out", type=Path, default=Path("run"), help="folder for logs, tables and checkpoints: run")
    parser.add_argument("--url", help="of the service that judges; default: MICROCODER_URL, else one is started here")
    parser.add_argument("--resume", type=Path, help="a checkpoint's folder")
    return parser.parse_args(arguments)


def _note(out: Path, config: Any, path: Path, model: str) -> None:
    """What a report says about a run: how it was made, and where its temperature came from."""
    out.mkdir(parents=True, exist_ok=True)
    plan = config.make_plan()
    told = {
        "algorithm": config.algorithm,
        "configuration": path.name,
        "model": model,
        "temperatures": list(plan.temperatures),
        "temperature_origin": plan.origin,
        "seed": config.seed,
        "completions": config.generation_batch_size,
        "group": config.num_generations,
        "limit": config.max_completion_length,
        "updates_per_generation": config.updates_per_generation,
    }
    (out / "run.json").write_text(json.dumps(told, indent=2) + "\n", "utf-8")


def _fail(error: Exception, status: int) -> int:
    print(error, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
