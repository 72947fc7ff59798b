"""One generation again: `--only QUESTION_ID#N`, and with `--verbose` everything that it reads and writes."""

from dataclasses import replace
from typing import Any

from rich.console import Console

from evaluator.errors import InvalidSuite
from evaluator.livecodebench.documents import UnreadableFile
from evaluator.livecodebench.private_tests import Undecodable
from evaluator.livecodebench.rows import Problem
from evaluator.model import TestCase, Verdict
from service.batch import Judging
from service.rescore_limit import hold, judge_alone
from service.rescore_results import Key, digest_of
from service.rescore_run import Options, read_answers
from service.rescoring import Work, make_work, write_tests

SHOWN = 2_000
"""Characters of a text that are shown."""


def split_case(case: str) -> tuple[str, int]:
    """`abc311_c#0` is the first generation of abc311_c; without a number the first is meant.

    Raises:
        UnreadableFile: it is no name of a case.
    """
    id, mark, number = case.rpartition("#")
    if not mark:
        return case, 0
    if not id or not number.isdecimal():
        raise UnreadableFile(f"--only takes QUESTION_ID#N, such as abc311_c#0; not {case!r}.")
    return id, int(number)


def judge_case(options: Options, case: str, judging: Judging, console: Console, verbose: bool) -> str:
    """Judge it, show it, and return its verdict.

    Raises:
        UnreadableFile: there is no such case.
    """
    id, number = split_case(case)
    answers = next((item for item in read_answers(options) if item.question_id == id), None)
    if answers is None or number >= len(answers.programs):
        raise UnreadableFile(f"{options.generations} has no generation {case}.")
    problem = next(options.source.iterate([id]), None)
    if problem is None:
        raise UnreadableFile(f"The problem {id} isn't among the problems that are given and selected.")
    text = answers.programs[number]
    try:
        tests = problem.read_tests()
        work = _make_work(options, problem, tests, text)
    except (Undecodable, InvalidSuite) as error:
        raise UnreadableFile(f"The tests of {id} can't be used: {error}") from None
    document: dict[str, Any] = {"verdict": Verdict.NO_CODE, "tests": []}
    outputs: dict[int, str | None] = {}
    if text.strip():
        document = _judge(options, work, judging)
        outputs = _collect_outputs(options, problem, tests, text, judging) if verbose else {}
    say = _Printer(console, verbose)
    fields = problem.fields
    say.line(f"{id}#{number}  {fields['question_title']}  ({fields['platform']}, {fields['difficulty']})")
    if answers.published:
        word = "accepted" if answers.published[number] else "rejected"
        say.line(f"published: {word}  {answers.remarks[number] if verbose else ''}")
    say.text("program", text)
    for test in document["tests"]:
        say.test(test, tests[test["index"]], outputs.get(test["index"]))
    say.line(f"verdict: {document['verdict']}  {document.get('detail') or ''}")
    return str(document["verdict"])


def _judge(options: Options, work: Work, judging: Judging) -> dict[str, Any]:
    """Under the same rule for the time limit as in a whole run; nothing else runs here."""
    rules = options.rules

    def judge() -> dict[str, Any]:
        return hold(judging.judge([work.item])[0], rules.cpu_seconds, rules.fail_fast)

    return judge_alone(judge, rules.cpu_seconds)[-1]


def _make_work(options: Options, problem: Problem, tests: tuple[TestCase, ...], text: str) -> Work:
    return make_work(Key(problem.id, digest_of(text)), text, problem, write_tests(tests), options.rules)


def _collect_outputs(
    options: Options, problem: Problem, tests: tuple[TestCase, ...], text: str, judging: Judging
) -> dict[int, str | None]:
    """What the program answers to each test: with no expected output, the output comes back."""
    asked = tuple(replace(test, expected=None) for test in tests)
    rules = replace(options.rules, fail_fast=False)
    work = make_work(Key(problem.id, digest_of(text)), text, problem, write_tests(asked), rules)
    return {test["index"]: test.get("output") for test in judging.judge([work.item])[0]["tests"]}


class _Printer:
    """Shows a case."""

    def __init__(self, console: Console, verbose: bool) -> None:
        self._console = console
        self._verbose = verbose

    def line(self, text: str) -> None:
        self._console.print(_printable(text.rstrip()), markup=False, soft_wrap=True)

    def text(self, name: str, text: str | None) -> None:
        """A text under its name, where much is to be shown."""
        if not self._verbose or text is None:
            return
        more = f"\n… {len(text) - SHOWN:,} characters more" if len(text) > SHOWN and name != "program" else ""
        shown = text if name == "program" else text[:SHOWN]
        body = "\n".join(f"    {line}" for line in (shown + more).splitlines())
        self._console.print(f"  {name}:\n{_printable(body)}", markup=False, soft_wrap=True)

    def test(self, result: dict[str, Any], test: TestCase, output: str | None) -> None:
        match = result.get("match") or {}
        how = f" by the rung '{match['rung']}'" if match.get("rung") else ""
        costs = f"{result['cpu_seconds']:.3f} s, {result['memory_bytes'] / (1 << 20):.0f} MiB"
        detail = f": {result['detail']}" if result.get("detail") else ""
        if result["verdict"] == "skipped":
            self.line(f"test {result['index']}: skipped")
            return
        self.line(f"test {result['index']}: {result['verdict']}{how} ({costs}){detail}")
        self.text("input", test.input)
        self.text("expected", test.expected)
        self.text("found", output)
        self.text("stderr", result.get("stderr"))


def _printable(text: str) -> str:
    """Without half surrogate pairs."""
    return text.encode("utf-8", "replace").decode()
