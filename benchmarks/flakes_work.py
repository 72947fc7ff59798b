"""The judging processes of `flakes`: each with a judge and a box of its own, fed from one queue."""

import multiprocessing
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from typing import Any

from benchmarks.labelled import INVALID_REQUEST, Labelled, Problem
from benchmarks.peers.sides import CannotRun
from evaluator.errors import InvalidSubmission, SandboxUnavailable
from evaluator.extraction import extract_code
from evaluator.judge import Judge
from evaluator.model import Program, Submission
from evaluator.sandbox.pool import open_pool
from evaluator.suites import read_suite, write_suite

END_PATIENCE = 60.0
Case = tuple[Problem, Labelled]


@dataclass(frozen=True, slots=True)
class Answer:
    """A judgement: its own verdict, then that of every test; and the CPU seconds of each."""

    number: int
    verdicts: tuple[str, ...]
    cpu_seconds: tuple[float, ...]


class Crew:
    """Processes that judge the same cases as often as they are asked to."""

    def __init__(self, cases: list[Case], workers: int, sandbox: str) -> None:
        """Start them, and wait for their boxes.

        Raises:
            CannotRun: there is no sandbox.
        """
        context = multiprocessing.get_context("spawn")
        self._tasks: Any = context.Queue()
        self._answers: SimpleQueue[Answer | str | None] = context.SimpleQueue()
        self._workers = [
            context.Process(target=work, args=(cases, self._tasks, self._answers, sandbox), daemon=True)
            for _ in range(workers)
        ]
        for worker in self._workers:
            worker.start()
        for _ in self._workers:
            said = self._answers.get()
            if isinstance(said, str):
                self.close()
                raise CannotRun(said)

    def judge(self, order: Iterable[int]) -> Iterator[Answer]:
        """Judge the cases of these numbers; answers come as they are made."""
        numbers = list(order)
        for number in numbers:
            self._tasks.put(number)
        for _ in numbers:
            answer = self._answers.get()
            if not isinstance(answer, Answer):
                raise CannotRun(str(answer))
            yield answer

    def close(self) -> None:
        """End them."""
        for _ in self._workers:
            self._tasks.put(None)
        for worker in self._workers:
            worker.join(END_PATIENCE)
            if worker.is_alive():
                worker.kill()
        self._tasks.close()


def work(cases: list[Case], tasks: Any, answers: "SimpleQueue[Answer | str | None]", sandbox: str) -> None:
    """Body of a process: judge what comes, until None does."""
    try:
        pool = open_pool(sandbox)
    except SandboxUnavailable as error:
        answers.put(str(error))
        return
    with closing(pool):
        judge = Judge(pool)
        answers.put(None)
        while (number := tasks.get()) is not None:
            answers.put(judge_case(judge, number, *cases[number]))


def judge_case(judge: Judge, number: int, problem: Problem, item: Labelled) -> Answer:
    """Judge a labelled program as a user's."""
    source = extract_code(item.text) if item.is_answer else item.text
    program = None if source is None else Program(source, entry_point=problem.entry_point, prelude=problem.prelude)
    try:
        suite = read_suite(write_suite(problem.tests, problem.checker))
        judgement = judge.judge(Submission(program, suite.id, problem.limits, problem.policy), suite)
    except InvalidSubmission:
        return Answer(number, (INVALID_REQUEST,), ())
    verdicts = (str(judgement.verdict), *(str(result.verdict) for result in judgement.tests))
    return Answer(number, verdicts, tuple(result.cpu_seconds for result in judgement.tests))
