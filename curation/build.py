"""`python -m curation.build RECIPE.yaml --out DIR`: a corpus out of a recipe."""

import contextlib
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from microcoder_client import Client, MicrocoderError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from curation.card import find_surprises, write_card, write_margins
from curation.endpoints import BadEndpoint
from curation.exports import export, strip_measured
from curation.fan import Interrupted
from curation.judging import Judging, LocalJudging, RemoteJudging
from curation.manifest import compare_manifests, read_manifest, write_manifest
from curation.pipeline import Done, run_stages
from curation.recipe import BadRecipe, Recipe, read_recipe
from curation.registry import Workshop, make_stages
from curation.stage import Ledger
from curation.tallies import count_all
from evaluator.errors import InvalidSubmission, SandboxUnavailable

FAILED, USAGE, UNAVAILABLE, INTERRUPTED = 1, 2, 3, 130
"""Exit statuses: the bytes aren't those of the manifest; a bad recipe, source or command; nothing can be judged."""
console = Console(stderr=True, highlight=False)


def build(
    recipe: Annotated[Path, typer.Argument(help="A recipe in YAML; some are in curation/recipes.")],
    out: Annotated[Path, typer.Option(help="Folder of the build. What is done there isn't done again.")],
    data: Annotated[
        Path | None, typer.Option(show_default="as the recipe says", help="Folder that the recipe's paths start from.")
    ] = None,
    url: Annotated[str | None, typer.Option(show_default="judge here", help="Let this service judge.")] = None,
    api_key: Annotated[
        str | None, typer.Option(help="The service's key.", envvar="MICROCODER_API_KEY", show_envvar=True)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, show_default="one per CPU; 4 with --url", help="Problems judged at a time.")
    ] = None,
    sandbox: Annotated[str, typer.Option(help="Kind of box: auto, docker or bubblewrap.")] = "auto",
    check: Annotated[
        Path | None, typer.Option(help="A manifest: say whether this build gave the same bytes.", show_default="none")
    ] = None,
) -> None:
    """Build a corpus: collect, process, filter, verify, select; with a data card and a manifest.

    Ctrl-C ends it in order; the same command goes on where it was. Ends with 0 when the corpus is built, 1 when its
    bytes aren't those of --check, 2 for a bad recipe or source, 3 when nothing can be judged, 130 after Ctrl-C.
    """
    interrupt = threading.Event()
    try:
        followed = read_recipe(recipe)
        wanted = None if check is None else read_manifest(check)
        base = data if data is not None else recipe.parent / followed.data
        opening = Opening(url, api_key, sandbox, workers)
        with interruptible(interrupt), contextlib.closing(opening), reserved(out):
            shop = Workshop(followed, base, out, opening.open, opening.workers, interrupt)
            with Bars() as bars:
                done = run_stages(make_stages(shop), out / "stages", bars, interrupt)
            manifest = finish(out, followed, done)
    except BadEndpoint as error:
        fail(error, UNAVAILABLE)
    except InvalidSubmission as error:
        fail(error, USAGE)
    except (SandboxUnavailable, MicrocoderError) as error:
        fail(error, UNAVAILABLE)
    except ValueError as error:
        fail(error, USAGE)
    except Interrupted:
        fail("Interrupted: the same command goes on from here.", INTERRUPTED)
    for sentence in find_surprises(followed, done):
        console.print(f"Not as expected: {sentence}", markup=False)
    console.print(
        f"Built {out}: {manifest['kept'][done[-1].name]:,} problems; the card is {out / 'README.md'}.", markup=False
    )
    if wanted is not None and (sentences := compare_manifests(wanted, manifest)):
        fail(f"Not the bytes of {check}: {' '.join(sentences)}", FAILED)


def finish(out: Path, recipe: Recipe, done: list[Done]) -> dict[str, dict[str, int]]:
    """Write the corpus, its card, the measured reports and the manifest."""
    last = done[-1]
    split = (problem if "split" in problem.notes else problem.with_note("split", "train") for problem in last.iterate())
    rows = export(split, out)
    write_card(out, recipe, done, count_all(map(strip_measured, last.iterate())), rows)
    write_margins(out, last.iterate())
    return write_manifest(out, recipe, done)


class Opening:
    """Opens what judges when a stage first asks for it: a build whose verification is done needs none."""

    def __init__(self, url: str | None, api_key: str | None, sandbox: str, workers: int | None) -> None:
        """Boxes of this kind here, or the service at `url`."""
        self._url, self._api_key, self._sandbox = url, api_key, sandbox
        self.workers = workers or (4 if url is not None else count_cpus())
        self._judging: Judging | None = None

    def open(self) -> Judging:
        """The one way to judge of this build.

        Raises:
            SandboxUnavailable: there can be no boxes here.
            MicrocoderError: the service doesn't answer.
        """
        if self._judging is None:
            if self._url is None:
                self._judging = LocalJudging(self._sandbox, self.workers)
            else:
                client = Client(self._url, self._api_key, patience=60)
                client.health()
                self._judging = RemoteJudging(client)
        return self._judging

    def close(self) -> None:
        """Close it."""
        if self._judging is not None:
            self._judging.close()


class Bars:
    """A bar for the stage that runs, on a terminal; and a line for each that is done, anywhere."""

    def __init__(self) -> None:
        """Prepare."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task: TaskID | None = None

    def begin(self, stage: str, total: int | None) -> None:
        """A new bar."""
        self._task = self._progress.add_task(stage, total=total)

    def advance(self, stage: str) -> None:
        """One problem more."""
        if self._task is not None:
            self._progress.advance(self._task)

    def end(self, stage: str, ledger: Ledger, repeated: bool) -> None:
        """Replace the bar by a line."""
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        came, kept = sum(ledger.came.values()), sum(ledger.kept.values())
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in list(ledger.reasons().items())[:4])
        done = "" if repeated else " (done before)"
        said = f"{stage:<14} {came:>7,} came, {kept:>7,} kept{done}{'; dropped: ' + reasons if reasons else ''}"
        console.print(said, markup=False, soft_wrap=True)

    def __enter__(self) -> "Bars":
        """Show them."""
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Take them away."""
        self._progress.stop()


@contextlib.contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """The folder of a build, made if need be, for this process alone.

    Raises:
        BadRecipe: another build is at work there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadRecipe(f"Another build is at work in {folder}: wait for it, or name another folder.") from None
        yield


@contextlib.contextmanager
def interruptible(interrupt: threading.Event) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the work in order; a second Ctrl-C ends it as it is."""

    def stop(number: int, frame: FrameType | None) -> None:
        interrupt.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before: dict[int, Callable[..., object] | int | None] = {
        number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def count_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fail(sentence: object, status: int) -> NoReturn:
    """Say it and end."""
    console.print(f"curation: {sentence}", markup=False, soft_wrap=True)
    if any(thread.name.startswith("judge") for thread in threading.enumerate()):
        sys.stderr.flush()
        os._exit(status)  # without waiting for a program that still runs in a box: the box ends with us
    raise typer.Exit(status)


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command(context_settings={"help_option_names": ["-h", "--help"]})(build)

if __name__ == "__main__":
    app(prog_name="python -m curation.build")
