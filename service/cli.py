"""`microcoder`: the command line. Each command parses, calls, prints; what it calls is in modules of its own.

Expected failures are one sentence on stderr and an exit status, never a trace. Statuses are in `docs/commands.md`.
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.console import Console

import evaluator
from service.console import (
    FAILED,
    INTERRUPTED,
    UNAVAILABLE,
    USAGE,
    Profile,
    Sandbox,
    available_cpus,
    end,
    errors,
    fail,
    interruptible,
    say,
)
from service.rescore_command import rescore

app = typer.Typer(
    help="Judges programs that language models wrote: as a service, or a file at a time.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
SandboxOption = Annotated[
    Sandbox | None,
    typer.Option(show_default="auto", help="Kind of box: `auto` takes Docker where it works, else bubblewrap."),
]


def main() -> None:
    """The entry point."""
    app(prog_name="microcoder")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"microcoder {evaluator.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command(short_help="Run the whole service on this machine.")
def serve(
    host: Annotated[str | None, typer.Option(show_default="127.0.0.1", help="Where to listen.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, show_default="8000", help="0 takes a free one.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, show_default="one per CPU", help="Worker processes; 0: only the API.")
    ] = None,
    sandbox: SandboxOption = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(help="A key that clients must present; may be repeated. MICROCODER_API_KEYS hides it from `ps`."),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine without a key.")] = False,
) -> None:
    """Run the whole service here: API, workers, and a private Redis unless REDIS_URL names one.

    Ctrl-C (or SIGTERM) stops everything in order. Ends with 0 when stopped so, with 1 when it can't start.
    Everything else is configured by MICROCODER_… variables, see docs/commands.md.
    """
    from service.lifeline import follow_parent

    follow_parent()
    from service.redis_server import RedisUnavailable
    from service.settings import InvalidSettings, check_binding, load_settings
    from service.supervisor import CannotServe, Supervisor

    try:
        settings = load_settings(
            host=host,
            port=port,
            sandbox=None if sandbox is None else str(sandbox),
            api_keys=tuple(api_key) if api_key else None,
            insecure=insecure or None,
        )
        check_binding(settings)
        count = available_cpus() if workers is None else workers
        Supervisor(settings, count, lambda line: print(line, flush=True)).run()
    except (InvalidSettings, CannotServe, RedisUnavailable) as error:
        fail(error, FAILED)


@app.command(short_help="Run one worker against a Redis.")
def worker(
    redis_url: Annotated[str | None, typer.Option(show_default="REDIS_URL", help="The service's Redis.")] = None,
    sandbox: SandboxOption = None,
) -> None:
    """Run one worker against a Redis: start as many as there are CPUs, on any number of machines.

    SIGTERM or Ctrl-C: it finishes the submission in hand and ends with 0. Ends with 1 when it can't make boxes.
    """
    from service.lifeline import follow_parent

    follow_parent()
    from service.settings import InvalidSettings, load_settings

    try:
        settings = load_settings(redis_url=redis_url, sandbox=None if sandbox is None else str(sandbox))
        assert settings.redis
    except InvalidSettings as error:
        fail(error, FAILED)
    from service.worker import run_worker

    raise typer.Exit(run_worker(settings))


@app.command(short_help="Judge a file of submissions.")
def evaluate(
    file: Annotated[Path, typer.Argument(help="JSON Lines, a submission a line; `-` reads from stdin.")],
    url: Annotated[str | None, typer.Option(show_default="judge here", help="Let this service judge.")] = None,
    api_key: Annotated[
        str | None, typer.Option(help="The service's key.", envvar="MICROCODER_API_KEY", show_envvar=True)
    ] = None,
    out: Annotated[Path | None, typer.Option(show_default="stdout", help="Where judgements go.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, show_default="one per CPU", help="Boxes at a time.")] = None,
    sandbox: SandboxOption = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0.01, show_default="6", help="CPU seconds of one test, where a line says nothing."),
    ] = None,
    profile: Annotated[
        Profile | None,
        typer.Option(show_default="microcoder", help="How outputs are compared, where a line says nothing."),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast/--no-fail-fast", help="Stop a submission at its first failed test.")
    ] = True,
) -> None:
    """Judge a file of submissions: JSON Lines in, JSON Lines out, in the same order.

    \b
    {"id": 1, "source": "print(int(input()) * 2)",
     "tests": [{"input": "4", "expected": "8"}], "expected_verdict": "accepted"}

    One of `source`, `program` and `answer` (a model's whole answer), and `tests`, each with `input`, `expected` and
    `kind` (`stdin`, `functional`, `assertion`; `functional` where there is an `entry_point`, else `stdin`). May have:
    `id`, `entry_point`, `prelude`, `limits`, `policy`, `fail_fast`, `reward`, `expected_verdict`.

    Ends with 0 when every line is judged (and agrees with its `expected_verdict`); 1 when one disagrees or is an
    `internal_error`; 2 for a bad line or command; 3 when nothing can be judged (no boxes, no service); 130 after
    Ctrl-C.
    """
    from service.batch import Defaults, read_items
    from service.tables import Progress, Tally

    defaults = Defaults(
        limits={} if timeout is None else {"cpu_seconds": timeout},
        policy={} if profile is None else {"profile": str(profile)},
        fail_fast=fail_fast,
    )
    tally, interrupt = Tally(), threading.Event()
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(_reading(file))
        target = stack.enter_context(_writing(out))
        count = workers or available_cpus()
        # Before anything is said: a Ctrl-C that answers our first sentence must not be lost.
        stack.enter_context(interruptible(interrupt))
        judging = stack.enter_context(_judging(url, api_key, str(sandbox or Sandbox.AUTO), count))
        progress = stack.enter_context(Progress(errors, _count_lines(file)))

        def write(document: dict[str, Any]) -> None:
            target.write(json.dumps(document) + "\n")
            target.flush()
            tally.add(document)

        items = read_items(lines, defaults)
        status, sentence = _run(items, judging, min(count, judging.most), write, progress.advance, interrupt)
    if tally.judged or not sentence:
        tally.show(errors)
    if sentence:
        say(sentence)
    elif tally.disagreements or tally.internal_errors:
        status = FAILED
    end(status)


def _run(*arguments: Any) -> tuple[int, str]:
    """Judge; the status and sentence of what ended it early, if something did."""
    from microcoder_client import MicrocoderError

    from evaluator.errors import EvaluatorError
    from service.batch import BadLine, Interrupted, run
    from service.settings import InvalidSettings

    try:
        run(*arguments)
    except (BadLine, InvalidSettings) as error:
        return USAGE, str(error)
    except Interrupted:
        return INTERRUPTED, "Interrupted: what was judged until then is written."
    except (EvaluatorError, MicrocoderError) as error:
        return UNAVAILABLE, str(error)
    except BrokenPipeError:
        os._exit(FAILED)  # whoever read our output has gone, and there is nobody to say anything to
    return 0, ""


@contextlib.contextmanager
def _judging(url: str | None, api_key: str | None, sandbox: str, workers: int) -> Iterator[Any]:
    """Boxes here, or a service that answers."""
    from microcoder_client import Client, MicrocoderError

    from evaluator.errors import SandboxUnavailable
    from service.batch import LocalJudging, RemoteJudging

    try:
        if url is None:
            local = LocalJudging(sandbox, workers)
        else:
            client = Client(url, api_key, patience=60)
            health = client.health()
            if health["status"] != "ok":
                say(f"The service says: {health.get('detail', health['status'])}")
    except (SandboxUnavailable, MicrocoderError) as error:
        fail(error, UNAVAILABLE)
    except ValueError as error:
        fail(error, USAGE)
    if url is None:
        with contextlib.closing(local):
            yield local
    else:
        with client:
            yield RemoteJudging(client)


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[IO[bytes]]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        fail(f"Can't read {file}: {error.strerror}.", USAGE)
    with opened:
        yield opened


@contextlib.contextmanager
def _writing(out: Path | None) -> Iterator[IO[str]]:
    if out is None or str(out) == "-":
        yield sys.stdout
        return
    try:
        opened = out.open("w", encoding="ascii")
    except OSError as error:
        fail(f"Can't write {out}: {error.strerror}.", USAGE)
    with opened:
        yield opened


def _count_lines(file: Path) -> int | None:
    """How many lines will be judged; None for a pipe."""
    if not file.is_file():
        return None
    with file.open("rb") as lines:
        return sum(1 for line in lines if line.strip())


app.command(short_help="Judge a model's LiveCodeBench generations again.")(rescore)


@app.command(short_help="Say what works here, and what to do about the rest.")
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False) -> None:
    """Say what works on this machine, and what to do about what doesn't.

    Ends with 0 when at least one kind of box and one Redis work, else with 1.
    """
    from service.doctor import examine, is_usable
    from service.tables import show_findings

    if as_json:
        findings = list(examine())
        document = {"usable": is_usable(findings), "findings": [asdict(finding) for finding in findings]}
        print(json.dumps(document, indent=2))
    else:
        console = Console(highlight=False)
        with errors.status("Looking, and starting a box of each kind…"):
            findings = list(examine())
        show_findings(console, findings, is_usable(findings))
    raise typer.Exit(0 if is_usable(findings) else FAILED)


if __name__ == "__main__":
    main()
