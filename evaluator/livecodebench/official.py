"""LiveCodeBench's own evaluator, beside ours: its package in an environment of its own, made on demand.

What it does there is in `official_child.py`. It runs programs with its own process's rights; so that process stands
under bubblewrap, with a read-only view of this machine, a small /tmp and no network.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.errors import EvaluatorError
from evaluator.model import TestCase
from evaluator.sandbox.bubblewrap import find_bwrap

PACKAGE = "nvidia-livecodebench==26.3"
NEEDED = ("numpy", "tqdm")
"""What its evaluation imports; its other dependencies are for generating."""
CHILD = Path(__file__).with_name("official_child.py")
GRACE_SECONDS = 60
"""Beyond its own global timeout, for a process that must be killed."""
TMP_BYTES = 256 << 20
_TMP = "/tmp"  # noqa: S108 — a fresh one, under bubblewrap


class OfficialFailed(EvaluatorError):
    """LiveCodeBench's package can't be installed, or doesn't work. The message says what to do."""


@dataclass(frozen=True)
class OfficialVerdict:
    """What LiveCodeBench makes of a program: right when every test's result is above 0."""

    accepted: bool
    results: list[Any]
    metadata: dict[str, Any]
    seconds: float


def prepare_environment() -> Path:
    """Make the environment that holds LiveCodeBench's package, once, and return its Python.

    Raises:
        OfficialFailed: the packages can't be installed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "microcoder" / "livecodebench-26.3"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([*pip, "--no-deps", PACKAGE], check=True)
        subprocess.run([*pip, *NEEDED], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise OfficialFailed(
            f"{PACKAGE} can't be installed into {folder} ({error}): do without LiveCodeBench's own evaluator, or see "
            "that pip reaches a package index."
        ) from None
    (folder / "complete").touch()
    return python


def write_sample(tests: tuple[TestCase, ...], function: str | None) -> dict[str, str]:
    """A problem as LiveCodeBench's evaluator takes it."""
    inputs, outputs = [test.input for test in tests], [test.expected for test in tests]
    return {"input_output": json.dumps({"inputs": inputs, "outputs": outputs, "fn_name": function})}


class Official:
    """Judges by LiveCodeBench's own code, with a process for each thread that asks."""

    def __init__(self, timeout: int) -> None:
        """Prepare the environment, and see that it judges a program.

        Raises:
            OfficialFailed: the packages can't be installed, or don't work.
            SandboxUnavailable: there is no bubblewrap.
        """
        self._command = confine(prepare_environment())
        self._timeout = timeout
        self._local = threading.local()
        self._processes: list[Process] = []
        sample = {"input_output": json.dumps({"inputs": ["1\n"], "outputs": ["2\n"], "fn_name": None})}
        answer = self.judge(sample, 1, "print(int(input()) + 1)")
        if not answer.accepted:
            self.close()
            raise OfficialFailed(f"LiveCodeBench's code doesn't run here ({answer.metadata}): leave --official out.")

    def judge(self, sample: dict[str, str], tests: int, source: str) -> OfficialVerdict:
        """Judge one program."""
        whole = (self._timeout + 1) * tests + 5  # as LiveCodeBench's check_correctness
        request = {"sample": sample, "code": source, "timeout": self._timeout}
        start = time.monotonic()
        answer = self._mine().ask(request, whole + GRACE_SECONDS)
        if answer is None:
            lost = {"error_code": -5, "error_message": "TestRunnerError", "error": "its process died or hung, twice"}
            return OfficialVerdict(False, [-1], lost, time.monotonic() - start)
        results = answer["results"]
        accepted = all(isinstance(result, int | float) and result > 0 for result in results)
        return OfficialVerdict(accepted, results, answer["metadata"], answer["seconds"])

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()

    def _mine(self) -> "Process":
        """The process of the thread that asks."""
        if not hasattr(self._local, "process"):
            self._local.process = Process(self._command)
            self._processes.append(self._local.process)
        process: Process = self._local.process
        return process


def confine(python: Path, child: Path = CHILD) -> list[str]:
    """The command that starts a child in its environment, under bubblewrap.

    Raises:
        SandboxUnavailable: there is none.
    """
    environment = str(python.parents[1])  # shown even where it lies in /tmp
    rights = ["--cap-drop", "ALL"] if os.geteuid() == 0 else ["--unshare-user"]
    return [
        find_bwrap(), *rights, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--die-with-parent",
        "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--size", str(TMP_BYTES), "--tmpfs", _TMP,
        "--ro-bind", environment, environment, "--chdir", _TMP,
        "--", str(python), "-P", "-c", child.read_text("utf-8"),
    ]  # fmt: skip


class Process:
    """LiveCodeBench's environment at work; started anew when it dies of a program."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """One answer. A process that died or hung is asked again, afresh; None: that happened twice."""
        for _ in range(2):
            process = self._process if self._process is not None else self._start()
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                answer: dict[str, Any] = json.loads(_read_line(process, time.monotonic() + seconds))
            except (OSError, ValueError):
                self.close()
                continue
            return answer
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        names = ("PATH", "HOME", "LANG")
        environment = {name: os.environ[name] for name in names if name in os.environ} | {"OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        return self._process

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
