"""LiveCodeBench's own grader at work: started by `livecodebench_grader` in an environment that has its package.

Requests come on standard input, answers go to standard output, one JSON object a line. Each program is judged by
LiveCodeBench's `run_test`, unchanged, in a process forked for it alone, as its `check_correctness` does, with the same
time for all tests together. Its runner is no sandbox: so this process stands in one (`livecodebench_grader` makes it),
and each child has a session, a folder and limits of its own.
"""

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from typing import Any

import numpy
from livecodebench.evaluation.compute_code_generation_metrics import run_test  # type: ignore[import-not-found]

ADDRESS_SPACE = 4 << 30
PROCESSES = 512
FILE_BYTES = 64 << 20


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in sys.stdin.buffer:
        answers.write(json.dumps(judge(**json.loads(line))) + "\n")
        answers.flush()


def judge(sample: dict[str, str], code: str, timeout: int, seconds: float) -> dict[str, Any]:
    """Judge one program: whether LiveCodeBench accepts it, and what it says."""
    folder = tempfile.mkdtemp(prefix="livecodebench-")
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            confine(folder, int(seconds) + 1)
            answer = grade(sample, code, timeout)
            os.write(theirs, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    deadline = time.monotonic() + seconds
    try:
        said = read_until(ours, deadline)
        is_late = time.monotonic() >= deadline
    finally:
        os.close(ours)
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        shutil.rmtree(folder, ignore_errors=True)
    try:
        answer = json.loads(said)
    except ValueError:
        how = "was stopped by the global timeout" if is_late else f"ended without an answer (wait status {status})"
        return {"accepts": False, "says": f"its process {how}"}
    return {"accepts": answer["accepts"] is True, "says": str(answer["says"])}


def confine(folder: str, seconds: int) -> None:
    """Give this child its own session, folder and limits, and nothing to read from or write to."""
    os.setsid()
    empty = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(empty, descriptor)
    os.chdir(folder)
    limits = {
        resource.RLIMIT_AS: ADDRESS_SPACE, resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NPROC: PROCESSES, resource.RLIMIT_CORE: 0,
    }  # fmt: skip
    for name, limit in limits.items():
        resource.setrlimit(name, (limit, limit))


def grade(sample: dict[str, str], code: str, timeout: int) -> dict[str, Any]:
    """What LiveCodeBench makes of the program: it is right when every test's result is above 0."""
    try:
        results, metadata = run_test(sample, test=code, debug=False, timeout=timeout)
    except BaseException as error:  # as in its own child: no result is a rejection
        return {"accepts": False, "says": f"its process ended: {type(error).__name__}"}
    plain = [item.item(0) if isinstance(item, numpy.ndarray) else item for item in results]
    if bool(numpy.all(numpy.array(plain) > 0)):
        return {"accepts": True, "says": "every test passed"}
    words = [str(metadata[key]) for key in ("error_code", "error_message", "error") if key in metadata]
    if "output" in metadata:
        words.append(f"expected {metadata.get('expected')}, found {metadata['output']}")
    return {"accepts": False, "says": f"test {len(plain) - 1}: {' '.join(words)}"}


def read_until(descriptor: int, deadline: float) -> bytes:
    """All that comes until the end of the pipe or the deadline."""
    data = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            break
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            break
        data += piece
    return data


if __name__ == "__main__":
    main()
