"""What a GPU, or a CPU, makes of the trainer: `trainer/gpu_check.sh`, which needs no network and takes minutes.

A toy model of some ten million parameters is warmed up and trained on the device, with rewards from a service on this
machine; then a few updates of the same are made on the CPU, to compare. With the folder of a model (SmolLM2, say) that
is trained too, on the easy problems.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trainer.embedded_service import NoService, service_at

SIZES = {"hidden": 384, "layers": 6, "heads": 6}
UPDATES_A_GENERATION = 4
PHASES = ("generation", "evaluation", "update")
HERE = Path(__file__).parent / "configs"


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0, or 1 when there is no service."""
    options = _parse(arguments)
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    found: dict[str, Any] = {"device": name, "torch": torch.__version__, "steps": options.steps or _steps(device)}
    start = time.monotonic()
    try:
        with service_at(options.url) as url, tempfile.TemporaryDirectory(prefix="microcoder-gpu-") as folder:
            found |= _check_toy(options, folder, url, device, found["steps"])
            if options.model:
                found["model"] = _check_model(options.model, folder, url, device, found["steps"])
    except NoService as error:
        print(error, file=sys.stderr)
        return 1
    found["seconds"] = round(time.monotonic() - start, 1)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu_check.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    _draw(found, options.out / "gpu_check.png")
    print(write_summary(found))
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trainer/gpu_check.sh", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu_check"), help="folder for figures and curve: gpu_check")
    parser.add_argument("--model", type=Path, help="a folder with a model to train too, such as SmolLM2")
    parser.add_argument("--steps", type=int, help="updates; default: 30 on a GPU, 8 on a CPU")
    parser.add_argument("--warm-up", type=int, help="supervised steps before; default: 400 on a GPU, 20 on a CPU")
    parser.add_argument("--url", help="of the service that judges; default: MICROCODER_URL, else one is started here")
    return parser.parse_args(arguments)


def _steps(device: str) -> int:
    return 30 if device == "cuda" else 2 * UPDATES_A_GENERATION


def _check_toy(options: argparse.Namespace, folder: str, url: str, device: str, steps: int) -> dict[str, Any]:
    """Warm up, train, and train a little on the CPU."""
    from trainer.toy.course import Course, prepare_base, take_course

    begun = time.monotonic()
    warm_up = options.warm_up or (400 if device == "cuda" else 20)
    base = prepare_base(f"{folder}/base", 1, warm_up, device=device, sizes=SIZES)
    warmed = time.monotonic() - begun
    changes = {"use_cpu": device == "cpu", "bf16": device == "cuda", "max_steps": steps}
    result = take_course(Course(base, url, "microcoder", 1, changes))
    found: dict[str, Any] = {"warm_up_seconds": round(warmed, 1), "toy": result}
    if device == "cuda":
        changes = {"use_cpu": True, "bf16": False, "max_steps": UPDATES_A_GENERATION}
        found["cpu"] = take_course(Course(base, url, "microcoder", 1, changes))
    return found


def _check_model(folder: Path, scratch: str, url: str, device: str, steps: int) -> dict[str, Any]:
    """Train a real model on the easy problems, on the device; seconds and rewards by generation."""
    from trainer.arguments import read_config
    from trainer.runs import RunSource, make_trainer
    from trainer.toy.course import read_curves

    changes: dict[str, Any] = {"use_cpu": device == "cpu", "bf16": device == "cuda", "report_to": "none"}
    changes |= {"save_strategy": "no"}
    config = read_config(HERE / "smollm2-cpu.yaml", output_dir=f"{scratch}/model", max_steps=steps, **changes)
    trainer = make_trainer(RunSource(str(folder), str(HERE / "easy-problems.jsonl")), config, url)
    trainer.train()
    return {"name": folder.name, "curves": read_curves(trainer)}


def seconds_by_phase(curves: dict[str, list[float]]) -> dict[str, float]:
    """Means over the generations but the first, which waits for kernels and caches, where there are more."""
    parts = {phase: curves[f"seconds/{phase}"] for phase in PHASES}
    return {phase: sum(values[1:] or values) / len(values[1:] or values) for phase, values in parts.items()}


def write_summary(found: dict[str, Any]) -> str:
    """A table of seconds a generation, by phase, and what was learnt."""
    rows = {f"toy, {found['device']}": found["toy"]["curves"]}
    if "cpu" in found:
        rows["toy, CPU"] = found["cpu"]["curves"]
    if "model" in found:
        rows[f"{found['model']['name']}, {found['device']}"] = found["model"]["curves"]
    lines = [f"| seconds a generation | {' | '.join(PHASES)} | all |", "| --- | --- | --- | --- | --- |"]
    for name, curves in rows.items():
        seconds = seconds_by_phase(curves)
        cells = " | ".join(f"{value:.2f}" for value in seconds.values())
        lines.append(f"| {name} | {cells} | {sum(seconds.values()):.2f} |")
    if "cpu" in found:
        fast, slow = (sum(seconds_by_phase(found[name]["curves"]).values()) for name in ("toy", "cpu"))
        lines.append(f"A generation and its updates are {slow / fast:.1f} times as fast as on one thread of the CPU.")
    toy = found["toy"]
    lines.append(
        f"Held-out pass rate of the toy in {found['steps']} updates: {toy['before']:.3f} -> {toy['after']:.3f}. "
        f"{found['seconds']:.0f} s in all, {found['warm_up_seconds']:.0f} of them for the warm-up."
    )
    return "\n".join(lines)


def _draw(found: dict[str, Any], path: Path) -> None:
    from trainer.curves import draw_panels

    runs = {"toy": found["toy"]["curves"]} | (
        {found["model"]["name"]: found["model"]["curves"]} if "model" in found else {}
    )
    panels = {
        name: {
            run: [[(float(place), value) for place, value in enumerate(curves[measure], start=1)]]
            for run, curves in runs.items()
        }
        for measure, name in (("accuracy", "accuracy"), ("seconds/generation", "seconds of generation"))
    }
    draw_panels(panels, path, title=found["device"], x="generation")


if __name__ == "__main__":
    sys.exit(main())
