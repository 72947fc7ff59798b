"""`microcoder rescore`, as the command line has it: options, and what their failures say."""

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from evaluator.livecodebench.generations import Extraction
from service.console import (
    FAILED,
    INTERRUPTED,
    UNAVAILABLE,
    USAGE,
    Profile,
    Sandbox,
    available_cpus,
    end,
    fail,
    interruptible,
    say,
)

if TYPE_CHECKING:
    from service.batch import Judging
    from service.rescore_run import Options

_PROBLEMS = "Problems in LiveCodeBench's format: a file, or a folder of them; may be repeated."


def rescore(
    generations: Annotated[
        Path | None, typer.Argument(help="A model's generations, in LiveCodeBench's format.")
    ] = None,
    problems: Annotated[list[Path] | None, typer.Option(help=_PROBLEMS)] = None,
    release: Annotated[str | None, typer.Option(help="Of a folder: release_v5, v5 or v2_v4.")] = None,
    out: Annotated[Path | None, typer.Option(show_default="NAME_rescored", help="Folder for results.")] = None,
    profile: Annotated[Profile, typer.Option(help="How outputs are compared.")] = Profile.MICROCODER,
    timeout: Annotated[float, typer.Option(min=0.01, help="CPU seconds of one test.")] = 6.0,
    workers: Annotated[int | None, typer.Option(min=1, show_default="one per CPU", help="Boxes at a time.")] = None,
    sandbox: Annotated[Sandbox, typer.Option(help="Kind of box.")] = Sandbox.AUTO,
    url: Annotated[str | None, typer.Option(show_default="judge here", help="Let this service judge.")] = None,
    api_key: Annotated[
        str | None, typer.Option(help="The service's key.", envvar="MICROCODER_API_KEY", show_envvar=True)
    ] = None,
    start_date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Contests from this day.")] = None,
    end_date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Contests up to this day.")] = None,
    platform: Annotated[list[str] | None, typer.Option(help="leetcode, atcoder, codeforces; may be repeated.")] = None,
    difficulty: Annotated[list[str] | None, typer.Option(help="easy, medium, hard; may be repeated.")] = None,
    extraction: Annotated[Extraction, typer.Option(help="Where programs come from.")] = Extraction.GIVEN,
    all_tests: Annotated[bool, typer.Option("--all-tests", help="Go on after a program's first failed test.")] = False,
    official: Annotated[
        bool, typer.Option("--official", help="Let LiveCodeBench's own evaluator judge too, beside ours.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the file's first problems.")] = None,
    only: Annotated[str | None, typer.Option(help="Only this case, QUESTION_ID#N; writes nothing.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="With --only: the texts of every test.")] = False,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="A B", help="Only compare two folders of results.")
    ] = None,
) -> None:
    """Judge a model's LiveCodeBench generations again, and account for every verdict that differs.

    \b
    microcoder rescore Model_eval_all.json --problems code_generation_lite/ --release release_v5

    Reads LiveCodeBench's own files, compressed or not. Writes results.jsonl, flips.jsonl, report.md, report.html, and
    *_eval.json and *_eval_all.json for LiveCodeBench's own scripts. The same command goes on with a run that was ended.

    Ends with 0 when everything is judged; 1 when something couldn't be, by our own fault; 2 for bad input; 3 when
    nothing can be judged (no boxes, no service); 130 after Ctrl-C.
    """
    from evaluator.livecodebench.rows import Selection
    from service.rescore_results import Rules
    from service.rescore_run import Options
    from service.rescoring import Source

    if compare is not None:
        _compare(*compare)
        return
    if generations is None or not problems:
        fail("Give a file of generations and --problems, or --compare A B.", USAGE)
    selection = Selection(start_date, end_date, frozenset(platform or ()), frozenset(difficulty or ()))
    chosen = ["--profile", profile] * (profile is not Profile.MICROCODER) + ["--timeout", f"{timeout:g}"] * (
        timeout != 6.0
    )
    chosen += ["--extraction", extraction] * (extraction is not Extraction.GIVEN)
    chosen += ["--sandbox", sandbox] * (sandbox is not Sandbox.AUTO) + (["--url", url] if url is not None else [])
    named = [word for path in problems for word in ("--problems", str(path))]
    options = Options(
        generations,
        Source(tuple(problems), release, selection),
        Rules(str(profile), timeout, not all_tests),
        extraction,
        out,
        workers or available_cpus(),
        limit,
        official,
        ["microcoder", "rescore", str(generations), *named, *chosen],
    )
    end(_run(options, url, api_key, str(sandbox), only, verbose))


def _run(
    options: "Options", url: str | None, api_key: str | None, sandbox: str, only: str | None, verbose: bool
) -> int:
    """Everything; the exit status."""
    from microcoder_client import MicrocoderError

    from evaluator.errors import EvaluatorError, InvalidSubmission
    from service.batch import Interrupted
    from service.rescore_case import judge_case
    from service.rescore_results import OtherRun
    from service.rescore_run import rescore as rescore_all

    interrupt = threading.Event()

    def open_judging() -> "AbstractContextManager[Judging]":
        return _open_judging(url, api_key, sandbox, options.workers)

    try:
        with interruptible(interrupt):
            if only is not None:
                with open_judging() as judging:
                    verdict = judge_case(options, only, judging, _console(), verbose)
                return FAILED if verdict == "internal_error" else 0
            summary = rescore_all(options, open_judging, _console(), interrupt)
    except (InvalidSubmission, OtherRun) as error:
        return _say(error, USAGE)
    except Interrupted:
        return _say("Interrupted: what was judged is written; the same command goes on from there.", INTERRUPTED)
    except (EvaluatorError, MicrocoderError) as error:
        return _say(error, UNAVAILABLE)
    except BrokenPipeError:
        os._exit(FAILED)  # whoever read our output has gone
    except OSError as error:
        return _say(f"{error.filename or options.folder}: {error.strerror}.", USAGE)
    _console().print(
        f"Written to {options.folder}: report.html, report.md, results.jsonl, flips.jsonl, and", soft_wrap=True
    )
    _console().print(f"{', '.join(Path(file).name for file in summary.files)}.", soft_wrap=True)
    return FAILED if summary.unjudged else 0


def _compare(left: Path, right: Path) -> None:
    from evaluator.errors import InvalidSubmission
    from service.rescore_comparison import compare_folders

    try:
        compare_folders(left, right, _console())
    except InvalidSubmission as error:
        fail(error, USAGE)


@contextlib.contextmanager
def _open_judging(url: str | None, api_key: str | None, sandbox: str, workers: int) -> "Iterator[Judging]":
    """Boxes here, or a service."""
    from service.batch import LocalJudging, RemoteJudging

    if url is None:
        with contextlib.closing(LocalJudging(sandbox, workers)) as local:
            yield local
        return
    from microcoder_client import Client

    from evaluator.errors import InvalidSubmission

    try:
        client = Client(url, api_key, patience=60)
    except ValueError as error:
        raise InvalidSubmission(f"--url: {error}") from None
    with client:
        client.health()
        yield RemoteJudging(client)


def _console() -> Console:
    return Console(highlight=False)


def _say(sentence: object, status: int) -> int:
    say(sentence)
    return status
