"""Ours through the whole HTTP service: `microcoder serve` in a process of its own, and a client beside it.

Programs are posted as a trainer posts them: a batch is one evaluation, its suites are uploaded once and named by their
hash from then on, answers come without their tests (`detail: summary`). Nothing is remembered between runs: the result
cache is off, and every run has program texts of its own besides (`workloads.salt`). Duplicates inside a request may be
judged once; the reward batch has about one in a hundred, all other workloads have none.
"""

import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from microcoder_client import Client, Submission, Suite

from benchmarks.peers.sides import CannotRun, Judged
from benchmarks.referees import given
from benchmarks.workloads import Batch, Entry
from evaluator.model import Limits, Policy
from evaluator.suites import write_suite

START_PATIENCE = 90.0
END_PATIENCE = 60.0
CACHE_OFF = {"MICROCODER_RESULT_CACHE_BYTES": "0"}


class Service:
    """A running service with so many workers, and a client of it."""

    def __init__(self, workers: int, sandbox: str = "bubblewrap", *, redis_url: str | None = None) -> None:
        """Start it.

        Raises:
            CannotRun: it doesn't become ready.
        """
        self._stack = ExitStack()
        log = os.memfd_create("log")  # not a pipe, which would be full some time
        self._stack.callback(os.close, log)
        environment = {name: value for name, value in os.environ.items() if "REDIS_URL" not in name} | CACHE_OFF
        if redis_url is not None:
            environment["REDIS_URL"] = redis_url
        command = [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--workers", str(workers)]
        self._process = subprocess.Popen(
            [*command, "--sandbox", sandbox], env=environment, stdout=subprocess.PIPE, stderr=log, text=True,
            start_new_session=True,
        )  # fmt: skip
        self._stack.callback(self._end)
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_PATIENCE)
        found = re.search(r"http://\S+", self._process.stdout.readline()) if ready else None
        if found is None:
            said = os.pread(log, 1 << 16, 0).decode("utf-8", "replace").strip().splitlines()
            self.close()
            raise CannotRun(f"The service doesn't start: {said[-1] if said else 'it says nothing'}")
        self.url = found[0]
        self.client = self._stack.enter_context(Client(self.url))
        self._suites: dict[int, tuple[Entry, Suite]] = {}

    @property
    def memory_bytes(self) -> int:
        """Resident memory of the process that is the API."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def submissions(self, batch: Batch) -> list[Submission]:
        """The batch as it is posted. Suites are made once: a trainer keeps them."""
        return [
            Submission(
                source=entry.program.text,
                entry_point=entry.problem.entry_point,
                prelude=str(entry.problem.prelude),
                suite=self._suite(entry),
                limits=given(entry.problem.limits, Limits()),
                policy=given(entry.problem.policy, Policy()),
            )
            for entry in batch.entries
        ]

    def _suite(self, entry: Entry) -> Suite:
        problem = entry.problem
        if id(problem) not in self._suites:
            self._suites[id(problem)] = entry, Suite(write_suite(problem.tests, problem.checker))
        return self._suites[id(problem)][1]

    def judge(self, batch: Batch) -> Judged:
        """Post the batch and wait for its end."""
        submissions = self.submissions(batch)
        start = time.perf_counter()
        judgements = self.client.evaluate(submissions, detail="summary")
        seconds = time.perf_counter() - start
        if broken := [judgement for judgement in judgements if judgement.verdict == "internal_error"]:
            raise CannotRun(f"{len(broken)} programs ended with an internal error: nothing was measured.")
        return Judged(seconds, tuple(judgement.verdict == "accepted" for judgement in judgements))

    def close(self) -> None:
        """Stop it."""
        self._stack.close()

    def _end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
