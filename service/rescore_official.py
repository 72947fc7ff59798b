"""`--official`: LiveCodeBench's own evaluator on the same programs and tests.

Its verdicts go to `official.jsonl`, and a run that goes on doesn't ask for them again.
"""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evaluator.livecodebench.generations import Answers
from evaluator.livecodebench.official import Official, OfficialVerdict, write_sample
from evaluator.livecodebench.private_tests import Undecodable
from service.batch import Interrupted
from service.rescore_results import Key, digest_of
from service.rescoring import Source, write_tests

OFFICIAL = "official.jsonl"
WAITING = 2
"""Programs, per process, that are prepared."""


class OfficialResults:
    """What LiveCodeBench's evaluator has said until now, by program; lines of other tests don't count."""

    def __init__(self, folder: Path, timeout: int) -> None:
        """Read what is there."""
        self.path = folder / OFFICIAL
        self.verdicts: dict[Key, OfficialVerdict] = {}
        self._timeout = timeout
        self._suites: dict[Key, str] = {}
        if self.path.exists():
            self._load()

    def has(self, key: Key, suite: str) -> bool:
        """Whether it has judged this program on these tests."""
        return self._suites.get(key) == suite

    def add(self, key: Key, suite: str, verdict: OfficialVerdict) -> None:
        """Write a verdict."""
        line = {"question_id": key.question_id, "program": key.digest, "suite": suite, "timeout": self._timeout}
        with self.path.open("a", encoding="ascii") as file:
            file.write(json.dumps({**line, **asdict(verdict)}) + "\n")
        self._remember(key, suite, verdict)

    def _remember(self, key: Key, suite: str, verdict: OfficialVerdict) -> None:
        self.verdicts[key] = verdict
        self._suites[key] = suite

    def _load(self) -> None:
        whole = 0
        with self.path.open("rb") as lines:
            for text in lines:
                if not text.endswith(b"\n"):
                    break
                whole += len(text)
                line = json.loads(text)
                if line["timeout"] == self._timeout:
                    verdict = OfficialVerdict(line["accepted"], line["results"], line["metadata"], line["seconds"])
                    self._remember(Key(line["question_id"], line["program"]), line["suite"], verdict)
        with self.path.open("r+b") as file:
            file.truncate(whole)


def judge_officially(
    answers: list[Answers],
    source: Source,
    results: OfficialResults,
    official: Official,
    workers: int,
    advance: Callable[[int], Any],
    interrupt: threading.Event,
) -> None:
    """Let LiveCodeBench's evaluator judge every program, `workers` at a time.

    Raises:
        Interrupted: what was judged until then is written.
    """
    pending: dict[Future[OfficialVerdict], tuple[Key, str]] = {}
    executor = ThreadPoolExecutor(workers, "official")

    def settle(room: int) -> None:
        while len(pending) > room:
            done, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            if interrupt.is_set():
                raise Interrupted
            for future in done:
                results.add(*pending.pop(future), future.result())
                advance(1)

    try:
        for key, suite, arguments in _iterate_programs(answers, source):
            if results.has(key, suite):
                advance(1)
                continue
            pending[executor.submit(official.judge, *arguments)] = key, suite
            settle(WAITING * workers)
        settle(0)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _iterate_programs(
    answers: list[Answers], source: Source
) -> Iterator[tuple[Key, str, tuple[dict[str, str], int, str]]]:
    by_id = {item.question_id: item for item in answers if item.question_id is not None}
    for problem in source.iterate(by_id):
        try:
            tests = problem.read_tests()
            suite = write_tests(tests).id
        except (Undecodable, ValueError):
            continue
        sample = write_sample(tests, problem.function)
        for text in dict.fromkeys(by_id[problem.id].programs):
            yield Key(problem.id, digest_of(text)), suite, (sample, len(tests), text)
