"""LiveCodeBench's own code as a grader: its package in an environment of its own, a process for each of our threads.

What it does there is in `livecodebench_child.py`. It judges standard input and function calls; assertion tests it
doesn't have. It runs programs with its own process's rights; so that process stands under bubblewrap, with a read-only
view of this machine, a small /tmp and no network.
"""

import json
import math
import threading
from pathlib import Path
from typing import Any

from benchmarks.labelled import Labelled, Problem
from benchmarks.referees import Outcome
from evaluator.livecodebench import official
from evaluator.livecodebench.official import PACKAGE, OfficialFailed, confine, prepare_environment
from evaluator.livecodebench.official import write_sample as write_tests
from evaluator.model import TestKind, Verdict

CHILD = Path(__file__).with_name("livecodebench_child.py")
GRACE_SECONDS = 60
"""Beyond its own global timeout, for a process that must be killed."""
REASON_CHARACTERS = 400


CANARY = {"input_output": json.dumps({"inputs": ["1\n"], "outputs": ["2\n"], "fn_name": None})}


class LiveCodeBench:
    """Judges by LiveCodeBench's own code. Called from several threads."""

    names: tuple[str, ...] = ("livecodebench",)
    package = PACKAGE

    def __init__(self, python: Path | None = None) -> None:
        """Prepare the environment, and see that it judges a program.

        Raises:
            OfficialFailed: the packages can't be installed, or don't work.
            SandboxUnavailable: there is no bubblewrap.
        """
        self._command = confine(python if python is not None else prepare_environment(), CHILD)
        self._local = threading.local()
        self._processes: list[Process] = []
        probe = {"sample": CANARY, "code": "print(int(input()) + 1)", "timeout": 10, "seconds": 30}
        answer = self._mine().ask(probe, 30 + GRACE_SECONDS)
        if not answer["accepts"]:
            self.close()
            raise OfficialFailed(
                f"LiveCodeBench's code doesn't run here ({answer['says']}); name evaluators without livecodebench."
            )

    def judge(self, problem: Problem) -> dict[str, list[Outcome] | str]:
        """The outcomes, one a program, or the reason why the problem is left out."""
        [name] = self.names
        kinds = {test.kind for test in problem.tests}
        if TestKind.ASSERTION in kinds:
            return {name: "it has no assertion tests"}
        if any(item.is_answer and item.text.strip() for item in problem.submissions):
            return {name: "it is given programs here, not whole answers"}
        sample = write_sample(problem)
        seconds = math.ceil(problem.limits.cpu_seconds)
        return {name: [self._judge_one(item, sample, seconds, len(problem.tests)) for item in problem.submissions]}

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()

    def _judge_one(self, item: Labelled, sample: dict[str, str], timeout: int, tests: int) -> Outcome:
        whole = (timeout + 1) * tests + 5  # as LiveCodeBench's check_correctness
        request = {"sample": sample, "code": item.text, "timeout": timeout, "seconds": whole}
        answer = self._mine().ask(request, whole + GRACE_SECONDS)
        verdict = Verdict.ACCEPTED if answer["accepts"] else Verdict.WRONG_ANSWER
        return Outcome(item.id, item.label, str(verdict), " ".join(answer["says"].split())[:REASON_CHARACTERS])

    def _mine(self) -> "Process":
        """The process of the thread that asks."""
        if not hasattr(self._local, "process"):
            self._local.process = Process(self._command)
            self._processes.append(self._local.process)
        process: Process = self._local.process
        return process


def write_sample(problem: Problem) -> dict[str, str]:
    """The problem as LiveCodeBench's evaluation takes it."""
    return write_tests(problem.tests, problem.entry_point.rpartition(".")[2] if problem.entry_point else None)


class Process(official.Process):
    """LiveCodeBench's environment at work, or another child that answers in its way."""

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One answer. That it died or hung, twice, is one too."""
        answer = super().ask(request, seconds)
        return {"accepts": False, "says": "its process died or hung, twice"} if answer is None else answer
