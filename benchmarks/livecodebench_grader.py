"""LiveCodeBench's own code as a grader: its package in an environment of its own, a process for each of our threads.

What it does there is in `livecodebench_child.py`. It judges standard input and function calls; assertion tests it
doesn't have. It runs programs with its own process's rights; so that process stands under bubblewrap, with a read-only
view of this machine, a small /tmp and no network.
"""

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import threading
import time
import venv
from pathlib import Path
from typing import Any

from benchmarks.labelled import Labelled, Problem
from benchmarks.referees import Outcome
from evaluator.model import TestKind, Verdict
from evaluator.sandbox.bubblewrap import find_bwrap

PACKAGES = ("nvidia-livecodebench==26.3", "numpy", "tqdm")
CHILD = Path(__file__).with_name("livecodebench_child.py")
GRACE_SECONDS = 60
"""Beyond its own global timeout, for a process that must be killed."""
REASON_CHARACTERS = 400
TMP_BYTES = 256 << 20


CANARY = {"input_output": json.dumps({"inputs": ["1\n"], "outputs": ["2\n"], "fn_name": None})}


class EnvironmentFailed(Exception):
    """LiveCodeBench's package can't be installed, or doesn't work. The message says what to do."""


def prepare_environment() -> Path:
    """Make the environment that holds LiveCodeBench's package, once, and return its Python.

    Raises:
        EnvironmentFailed: the packages can't be installed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "microcoder" / "livecodebench-26.3"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if (folder / "complete").exists():
        return python
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([*pip, "--no-deps", PACKAGES[0]], check=True)
        subprocess.run([*pip, *PACKAGES[1:]], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise EnvironmentFailed(
            f"{PACKAGES[0]} can't be installed into {folder} ({error}); name evaluators without livecodebench, "
            "or see that pip reaches a package index."
        ) from None
    (folder / "complete").touch()
    return python


class LiveCodeBench:
    """Judges by LiveCodeBench's own code. Called from several threads."""

    names: tuple[str, ...] = ("livecodebench",)
    package = PACKAGES[0]

    def __init__(self, python: Path | None = None) -> None:
        """Prepare the environment, and see that it judges a program.

        Raises:
            EnvironmentFailed: the packages can't be installed, or don't work.
            SandboxUnavailable: there is no bubblewrap.
        """
        self._command = confine(python if python is not None else prepare_environment())
        self._local = threading.local()
        self._processes: list[Process] = []
        probe = {"sample": CANARY, "code": "print(int(input()) + 1)", "timeout": 10, "seconds": 30}
        answer = self._mine().ask(probe, 30 + GRACE_SECONDS)
        if not answer["accepts"]:
            self.close()
            raise EnvironmentFailed(
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


def confine(python: Path) -> list[str]:
    """The command that starts the child in its environment, under bubblewrap.

    Raises:
        SandboxUnavailable: there is none.
    """
    environment = str(python.parents[1])  # shown even where it lies in /tmp
    rights = ["--cap-drop", "ALL"] if os.geteuid() == 0 else ["--unshare-user"]
    return [
        find_bwrap(), *rights, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--die-with-parent",
        "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--size", str(TMP_BYTES), "--tmpfs", "/tmp",
        "--ro-bind", environment, environment, "--chdir", "/tmp",
        "--", str(python), "-P", "-c", CHILD.read_text("utf-8"),
    ]  # fmt: skip


def write_sample(problem: Problem) -> dict[str, str]:
    """The problem as LiveCodeBench's evaluation takes it."""
    function = problem.entry_point.rpartition(".")[2] if problem.entry_point else None
    tests = {
        "inputs": [test.input for test in problem.tests],
        "outputs": [test.expected for test in problem.tests],
        "fn_name": function,
    }
    return {"input_output": json.dumps(tests)}


class Process:
    """LiveCodeBench's environment at work; started anew when it dies of a program."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One answer. A process that died or hung is asked again, afresh; if that happens twice, it is the answer."""
        for _ in range(2):
            process = self._process if self._process is not None else self._start()
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                answer: dict[str, Any] = json.loads(self._read_line(process, time.monotonic() + seconds))
            except (OSError, ValueError):
                self.close()
                continue
            return answer
        return {"accepts": False, "says": "its process died or hung, twice"}

    def _start(self) -> subprocess.Popen[bytes]:
        names = ("PATH", "HOME", "LANG")
        environment = {name: os.environ[name] for name in names if name in os.environ} | {"OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
        return self._process

    @staticmethod
    def _read_line(process: subprocess.Popen[bytes], deadline: float) -> bytes:
        """A line, or what came of it before the end or the deadline (which is no JSON)."""
        assert process.stdout is not None
        line = b""
        while not line.endswith(b"\n") and (left := deadline - time.monotonic()) > 0:
            if not select.select([process.stdout], [], [], left)[0]:
                break
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                break
            line += piece
        return line

    def close(self) -> None:
        """Kill it and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.wait()
