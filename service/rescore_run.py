"""`microcoder rescore` from files to reports: read, judge, ask LiveCodeBench, explain, write, show."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evaluator.livecodebench.documents import UnreadableFile
from evaluator.livecodebench.generations import Answers, Extraction, assign_ids, read_generations
from evaluator.livecodebench.score_files import write_score_files, write_whole
from evaluator.model import Verdict
from service.batch import Judging
from service.rescore_flips import Explainer, write_changes
from service.rescore_page import write_page
from service.rescore_report import write_report
from service.rescore_results import Key, Results, Rules
from service.rescore_summary import Summary, make_records, summarise
from service.rescore_terminal import Bar, show_summary
from service.rescoring import Flow, Source, Survey, Work, iterate_work

if TYPE_CHECKING:
    from evaluator.livecodebench.official import OfficialVerdict

SUFFIXES = (".gz", ".zst", ".json", ".jsonl", "_eval_all", "_codegeneration_output", "_output")
"""What the names of written files leave out of the name of the generations."""


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    generations: Path
    source: Source
    rules: Rules
    extraction: Extraction = Extraction.GIVEN
    out: Path | None = None
    workers: int = 1
    limit: int | None = None
    official: bool = False
    command: list[str] = field(default_factory=list)
    """The command that re-runs one case, but for the case."""

    @property
    def stem(self) -> str:
        """The generations' name."""
        return stem_of(self.generations)

    @property
    def folder(self) -> Path:
        """Where everything is written."""
        return self.out if self.out is not None else Path(f"{self.stem}_rescored")


def stem_of(path: Path) -> str:
    """A file's name without what says how it is written."""
    name = path.name
    while suffix := next((suffix for suffix in SUFFIXES if name.endswith(suffix) and name != suffix), None):
        name = name.removesuffix(suffix)
    return name


def read_answers(options: Options) -> list[Answers]:
    """The generations, with ids, and no more problems than are asked for.

    Raises:
        UnreadableFile: generations or problems can't be read.
    """
    answers = read_generations(options.generations, options.extraction)
    if any(item.question_id is None for item in answers):
        assign_ids(options.generations, answers, [problem.id for problem in options.source.iterate()])
    return answers if options.limit is None else answers[: options.limit]


def rescore(
    options: Options,
    open_judging: Callable[[], AbstractContextManager[Judging]],
    console: Console,
    interrupt: threading.Event,
) -> Summary:
    """Do everything, and return the numbers.

    Raises:
        UnreadableFile: generations or problems can't be read.
        OtherRun: the folder holds results of other rules.
        Interrupted: what was judged until then is written, and the next run goes on.
        EvaluatorError, MicrocoderError: nothing (more) can be judged.
    """
    answers = read_answers(options)
    results = Results(options.folder, options.rules)
    survey = Survey()
    start = time.monotonic()
    with open_judging() as judging:
        runtime = _judge(options, answers, results, survey, judging, console, interrupt)
        seconds = time.monotonic() - start
        if not survey.problems:
            raise UnreadableFile(_say_none(options, survey))
        official, official_seconds = (
            _ask_officially(options, answers, console, interrupt) if options.official else ({}, None)
        )
        explainer = Explainer(
            answers,
            results.outcomes,
            official,
            options.rules,
            options.command,
            lambda work: _is_accepted(judging, work),
        )
        changes = explainer.explain_all(options.source)
    results.sort()
    write_changes(options.folder, changes)
    summary = summarise(
        options.stem, options.rules, answers, survey.problems, results.outcomes, official, changes, options.workers
    )
    summary.seconds, summary.runtime = seconds, runtime
    summary.judged_before = summary.programs - results.added
    summary.official_seconds = None if summary.judged_before else official_seconds
    summary.missing, summary.unusable = sorted(survey.missing), survey.unusable
    records = make_records(answers, survey.problems, results.outcomes)
    summary.files = [str(path) for path in write_score_files(options.folder, options.stem, records)]
    write_whole(options.folder / "report.md", write_report(summary))
    write_whole(options.folder / "report.html", write_page(summary))
    show_summary(console, summary)
    return summary


def _judge(
    options: Options,
    answers: list[Answers],
    results: Results,
    survey: Survey,
    judging: Judging,
    console: Console,
    interrupt: threading.Event,
) -> dict[str, Any]:
    """Judge what isn't judged; return where."""
    workers = min(options.workers, judging.most)
    total = sum(len(set(item.programs)) for item in answers)
    try:
        with Bar(console, "judging", total) as bar:

            def write(line: dict[str, Any]) -> None:
                results.add(line)
                bar.advance(1)

            flow = Flow(judging, workers, options.rules, write, interrupt)
            flow.judge_all(iterate_work(answers, options.source, options.rules, results, survey, bar.advance))
    finally:
        results.close()
    return _remember_runtime(options.folder / "runtime.json", flow.runtime)


def _remember_runtime(path: Path, runtime: dict[str, Any]) -> dict[str, Any]:
    """Where programs were judged; a run that judged nothing says what an earlier one said."""
    if runtime:
        write_whole(path, json.dumps(runtime) + "\n")
    elif path.exists():
        runtime = json.loads(path.read_text("utf-8"))
    return runtime


def _ask_officially(
    options: Options, answers: list[Answers], console: Console, interrupt: threading.Event
) -> tuple[dict[Key, "OfficialVerdict"], float | None]:
    """LiveCodeBench's own verdicts, and the seconds that they took where it has judged everything now."""
    from evaluator.livecodebench.official import Official, prepare_environment  # its boxes are for Linux
    from service.rescore_official import OfficialResults, judge_officially

    timeout = max(1, round(options.rules.cpu_seconds))
    results = OfficialResults(options.folder, timeout)
    is_fresh = not results.verdicts
    prepare_environment()
    start = time.monotonic()
    official = Official(timeout)
    try:
        with Bar(console, "LiveCodeBench", sum(len(set(item.programs)) for item in answers)) as bar:
            judge_officially(answers, options.source, results, official, options.workers, bar.advance, interrupt)
    finally:
        official.close()
    return results.verdicts, time.monotonic() - start if is_fresh else None


def _is_accepted(judging: Judging, work: Work) -> bool:
    return bool(judging.judge([work.item])[0]["verdict"] == Verdict.ACCEPTED)


def _say_none(options: Options, survey: Survey) -> str:
    if survey.unusable:
        return f"No problem of {options.generations} has tests that can be used: {next(iter(survey.unusable.values()))}"
    missing = f"{len(survey.missing)} of its problems aren't in these files" if survey.missing else "none is selected"
    return f"There is nothing to judge in {options.generations}: {missing}. See --problems, the dates and --platform."
