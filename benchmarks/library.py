"""Ours through the library: worker processes with a judge each, which take programs from one queue."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from typing import Any

from benchmarks.peers.sides import CannotRun, Judged
from benchmarks.workloads import Batch
from evaluator.errors import SandboxUnavailable
from evaluator.judge import Judge
from evaluator.model import Limits, Policy, Program, Submission, Suite, Verdict
from evaluator.sandbox.pool import open_pool
from evaluator.suites import read_suite, write_suite

START_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Task:
    """One program of a batch, as a worker is sent it."""

    number: int
    run: int
    program: Program
    suite: bytes
    rules: tuple[Limits, Policy]
    series: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it. `tests` is how many ran."""

    number: int
    verdict: str
    tests: int


class Library:
    """Worker processes that wait. Their boxes are open before anything is measured."""

    def __init__(self, workers: int, sandbox: str = "bubblewrap") -> None:
        """Start them.

        Raises:
            CannotRun: there is no sandbox.
        """
        context = multiprocessing.get_context("spawn")
        self._tasks: Any = context.Queue()  # with a thread that feeds it: the answers are read meanwhile
        self._answers: SimpleQueue[Answer | str | None] = context.SimpleQueue()
        self._run = 0
        self._workers = [
            context.Process(target=work, args=(self._tasks, self._answers, sandbox), daemon=True)
            for _ in range(workers)
        ]
        for worker in self._workers:
            worker.start()
        for _ in self._workers:
            said = self._answers.get()
            if isinstance(said, str):
                self.close()
                raise CannotRun(said)

    def judge(self, batch: Batch) -> Judged:
        """Judge it as users do."""
        return self.run(batch)[0]

    def judge_in_forks(self, batch: Batch) -> Judged:
        """Judge it with a child for each test."""
        return self.run(batch, series=False)[0]

    def run(self, batch: Batch, *, series: bool = True) -> tuple[Judged, list[Answer]]:
        """Judge it, and say of each program how many tests ran. The clock counts that each worker reads its suites."""
        self._run += 1
        suites = {id(entry.problem): write_suite(entry.problem.tests, entry.problem.checker) for entry in batch.entries}
        start = time.perf_counter()
        for number, entry in enumerate(batch.entries):
            problem = entry.problem
            program = Program(entry.program.text, entry_point=problem.entry_point, prelude=problem.prelude)
            rules = (problem.limits, problem.policy)
            self._tasks.put(Task(number, self._run, program, suites[id(problem)], rules, series))
        answers: list[Answer] = []
        while len(answers) < len(batch.entries):
            answer = self._answers.get()
            assert isinstance(answer, Answer), answer
            answers.append(answer)
        seconds = time.perf_counter() - start
        answers.sort(key=lambda answer: answer.number)
        if broken := [answer for answer in answers if answer.verdict == Verdict.INTERNAL_ERROR]:
            raise CannotRun(f"{len(broken)} programs ended with an internal error: nothing was measured.")
        return Judged(seconds, tuple(answer.verdict == Verdict.ACCEPTED for answer in answers)), answers

    def close(self) -> None:
        """End the workers."""
        for _ in self._workers:
            self._tasks.put(None)
        for worker in self._workers:
            worker.join(START_PATIENCE)
            if worker.is_alive():
                worker.kill()
        self._tasks.close()


def work(tasks: Any, answers: "SimpleQueue[Answer | str | None]", sandbox: str) -> None:
    """Body of a worker process: judge what comes, until None does."""
    try:
        pool = open_pool(sandbox)
    except SandboxUnavailable as error:
        answers.put(str(error))
        return
    with closing(pool):
        judges = {series: Judge(pool, series=series) for series in (True, False)}
        suites: dict[bytes, Suite] = {}
        run = 0
        answers.put(None)
        for task in receive(tasks):
            if task.run != run:
                suites, run = {}, task.run
            if task.suite not in suites:
                suites[task.suite] = read_suite(task.suite)
            suite = suites[task.suite]
            limits, policy = task.rules
            judgement = judges[task.series].judge(Submission(task.program, suite.id, limits, policy), suite)
            tests = sum(result.verdict is not Verdict.SKIPPED for result in judgement.tests)
            answers.put(Answer(task.number, str(judgement.verdict), tests))


def receive(tasks: Any) -> Iterator[Task]:
    """The tasks, until None comes."""
    while (task := tasks.get()) is not None:
        yield task


def count_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))
