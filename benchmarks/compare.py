"""How fast are we, beside others, on the same work? `python -m benchmarks.compare [--json OUT] [--runs N] [--quick]`

Contenders take turns, a round after another, so that a change of the machine's speed meets all of them; what is
claimed is a ratio made within a round, and its median over the rounds. How each is measured stands in
`docs/performance.md`, and in the first lines of the modules: `workloads`, `library`, `served`, `peers`.

The exit code is 0 when everything that was asked for was measured, whatever the figures. It is 2 when the input or the
sandbox can't be used, or when a part couldn't be measured: then its keys are missing, and `skipped` says why.
"""

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import microcoder_client
from rich.console import Console
from rich.status import Status

from benchmarks import performance_tables as tables
from benchmarks.agreement import positive_integer
from benchmarks.bench import QUICK, Bench, Figures, Size
from benchmarks.labelled import BadInput
from benchmarks.peers.sides import CannotRun
from benchmarks.reward_step import measure_reward_batch, measure_scale
from benchmarks.small_work import measure_numpy, measure_service, measure_small_workloads, measure_trivial
from benchmarks.waiting import measure_latency, measure_queue
from benchmarks.workloads import SEED, SOURCES
from evaluator.errors import EvaluatorError
from evaluator.livecodebench.official import OfficialFailed
from service.redis_server import RedisUnavailable

DATA = Path(__file__).parents[2] / "shared" / "data" / "labelled"
PARTS: dict[str, Callable[[Bench], Figures]] = {
    "trivial": measure_trivial,
    "service": measure_service,
    "numpy": measure_numpy,
    "latency": measure_latency,
    "queue": measure_queue,
    "workloads": measure_small_workloads,
    "scale": measure_scale,
    "reward_batch": measure_reward_batch,
}
"""By name, in the order in which they run. `service` also gives the speed-ups under `trivial`."""
OPTIONAL = ("prime_code", "sandboxfusion")
"""Peers that most machines lack: leaving them out isn't a failure."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write what was asked for."""
    options = _parse(arguments)
    console = Console(stderr=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is stopped, as after Ctrl-C
    try:
        _check(options)
        document = measure(options, console) if options.show is None else _read(options.show)
    except (BadInput, OfficialFailed) as error:
        return _fail(console, error)
    except KeyboardInterrupt:
        return _fail(console, "Interrupted: --json has the parts that were done.", 130)
    tables.show(document, Console(width=None if sys.stdout.isatty() else 140))
    _write(document, options.json)
    if options.markdown is not None:
        tables.place(tables.write_markdown(document), options.markdown)
    missing = {name: why for name, why in document["skipped"].items() if not name.endswith(OPTIONAL)}
    for name, why in missing.items():
        console.print(f"compare: {name} couldn't be measured. {why}", highlight=False, markup=False, soft_wrap=True)
    return 2 if missing else 0


def measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Every part that was asked for; what a part can't measure is among the skipped."""
    size = QUICK if options.quick else Size()
    if options.runs is not None:
        size = replace(size, rounds=options.runs, slow_rounds=options.runs)
    document: dict[str, Any] = {"quick": options.quick, "seed": SEED, "parts": options.only, "machine": _machine()}
    document["size"] = {name: getattr(size, name) for name in Size.__dataclass_fields__}
    with (
        Progress(console) as progress,
        Bench(size, options.data, options.sandbox, options.sandboxfusion_url, progress.say) as bench,
    ):
        for name in options.only:
            started, load = time.monotonic(), os.getloadavg()[0]
            progress.begin(name)
            try:
                found = PARTS[name](bench)
            except (
                CannotRun, BadInput, OfficialFailed, EvaluatorError, RedisUnavailable,
                microcoder_client.MicrocoderError,
            ) as error:  # fmt: skip
                bench.skipped[name] = str(error)
                continue
            merge(document, found if name == "service" else {name: found})
            document[name]["took_seconds"] = round(time.monotonic() - started, 1)
            document[name]["load"] = [round(load, 2), round(os.getloadavg()[0], 2)]
            _write(document | {"skipped": bench.skipped}, options.json)
        document["skipped"] = bench.skipped
    return document


def _read(path: Path) -> dict[str, Any]:
    """An earlier run.

    Raises:
        BadInput: it isn't there, or is none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: can't be read ({error}); name a file that --json wrote.") from None
    if not isinstance(document, dict) or not {"quick", "machine", "size", "skipped"} <= document.keys():
        raise BadInput(f"{path}: isn't what --json writes; name such a file.")
    return document


def _write(document: Figures, path: Path | None) -> None:
    """Write the figures so far: a long measurement that is interrupted leaves what it has."""
    if path is not None:
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def merge(into: dict[str, Any], found: Figures) -> None:
    """Add figures, section by section."""
    for name, figures in found.items():
        into.setdefault(name, {}).update(figures)


def _machine() -> Figures:
    return {
        "processors": len(os.sched_getaffinity(0)), "python": platform.python_version(),
        "kernel": platform.release(), "architecture": platform.machine(),
    }  # fmt: skip


class Progress:
    """One line at a terminal that says what is being done; elsewhere a line for each part."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = console.status("starting") if console.is_terminal else None
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """What is being done now."""
        if self._status is not None:
            self._status.update(f"[{time.monotonic() - self._started:.0f} s] {text}".replace("[", "\\["))

    def begin(self, name: str) -> None:
        """A part begins."""
        self._console.print(f"{time.monotonic() - self._started:5.0f} s  {name}", highlight=False)

    def __enter__(self) -> "Progress":
        """Show it."""
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Take it away."""
        if self._status is not None:
            self._status.stop()


# The command


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__.split("\n\n")[1])
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every figure here")
    parser.add_argument("--markdown", type=Path, metavar="OUT", help="put the tables between this file's markers")
    parser.add_argument("--runs", type=positive_integer, metavar="N", help="rounds; default: 5, and 2 with --quick")
    parser.add_argument("--quick", action="store_true", help="little work and few rounds: a minute and a half")
    parser.add_argument(
        "--only", type=parts, default=list(PARTS), metavar="NAME,…", help=f"only these of {', '.join(PARTS)}"
    )
    parser.add_argument("--show", type=Path, metavar="JSON", help="measure nothing; show the figures of an earlier run")
    parser.add_argument("--data", type=Path, default=DATA, metavar="FOLDER", help="the labelled sets")
    parser.add_argument("--sandbox", default="bubblewrap", help="auto, docker, bubblewrap; default: bubblewrap")
    parser.add_argument("--sandboxfusion-url", metavar="URL", help="compare with the SandboxFusion that listens there")
    return parser.parse_args(arguments)


def parts(text: str) -> list[str]:
    """An argument: names of parts, in the order in which they run."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no part; choose from {', '.join(PARTS)}")
    if not names:
        raise argparse.ArgumentTypeError(f"name at least one of {', '.join(PARTS)}")
    return [name for name in PARTS if name in names]


def _check(options: argparse.Namespace) -> None:
    """See that what was given can be read and written, before the work.

    Raises:
        BadInput: it can't.
    """
    for path in (options.json, options.markdown):
        if path is not None and not path.absolute().parent.is_dir():
            raise BadInput(f"{path}: there is no such folder; make it first.")
    if options.markdown is not None:
        tables.check_place(options.markdown)
    missing = [name for name in SOURCES if not (options.data / name).is_file()]
    if options.show is None and {"reward_batch", "scale"} & set(options.only) and missing:
        raise BadInput(f"{options.data / missing[0]}: there is no such file; name the labelled sets with --data.")


def _fail(console: Console, sentence: object, status: int = 2) -> int:
    console.print(f"compare: {sentence}", highlight=False, markup=False, soft_wrap=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
