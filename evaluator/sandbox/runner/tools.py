"""Programs that answer by their exit status and by a file: checkers of suites. And the compiler of native ones.

Each runs in a child of its own, so that somebody is there afterwards to bring back what it wrote.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from . import launch, streams
from .wire import COMPILED

CRASHED = 70  # as `sandbox/base.py` names it
COMPILER = ["g++", "-std=gnu++17", "-O2", "-pipe", "-w"]
REMEDY = "build its image with WITH_COMPILER=1, or, for boxes by bubblewrap, install it on this machine."
SOURCES = (".cc", ".cpp", ".cxx", ".c++", ".C")
BINARY = "a.out"


class Order(NamedTuple):
    """How a tool is called."""

    language: str
    arguments: list[str | int]
    """A number is a descriptor: the tool gets the path that opens it."""
    report: str | None


def run_tool(artifact: int, order: Order, files: list[int], report: int) -> NoReturn:
    """Run it, bring back its report, and end as it ended."""
    arguments = [path if isinstance(path, str) else f"/proc/self/fd/{path}" for path in order.arguments]
    if order.report is not None:
        os.makedirs(os.path.dirname(order.report) or ".", exist_ok=True)
    if order.language == "python":
        status = attend(lambda: run_python(artifact, arguments))
    else:
        for file in files:
            os.set_inheritable(file, True)
        status = attend(lambda: os.execve(artifact, ["tool", *arguments], os.environ))
    if order.report is not None:
        copy_file(order.report, report)
    end_alike(status)


def run_python(artifact: int, arguments: list[str]) -> NoReturn:
    """As under `python tool.py arguments`, but an exception has an exit status of its own: 1 may be an answer."""
    module, code, _, _ = launch.load_program(artifact, "__main__", with_prelude=False)
    sys.argv = [launch.NAME, *arguments]
    status = 0
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        status = launch.report(error)
    except BaseException as error:
        launch.report(error)
        status = CRASHED
    launch.finish(status, tidy=True)


def compile_native(source: int, artifact: int, messages: int) -> NoReturn:
    """Body of the compiling child: files in, one binary out. What the compiler says is already going to `messages`."""
    files = json.loads(streams.read_all(source))["files"]
    launch.write_files(files)
    sources = [f"./{name}" if name[0] in "-@" else name for name in files if name.endswith(SOURCES)]  # no options
    environment = {**os.environ, "TMPDIR": os.getcwd()}
    command = [*COMPILER, "-o", BINARY, *sources]
    status = attend(lambda: os.execvpe(command[0], command, environment))
    if status == 0:
        copy_file(BINARY, artifact)
        os._exit(COMPILED)
    end_alike(status)


def attend(work: Callable[[], object]) -> int:
    """Run `work` in a child and wait for its end. Returns the wait status."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except FileNotFoundError:
            launch.write_error(f"This box has no {COMPILER[0]}: {REMEDY}\n")
        finally:
            os._exit(CRASHED)
    return os.waitpid(pid, 0)[1]


def copy_file(path: str, descriptor: int) -> None:
    """What is in a regular file that may not be there."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    while data := os.read(file, 1 << 20):
        streams.write_all(descriptor, data)
    os.close(file)


def end_alike(status: int) -> NoReturn:
    """End as the child did."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
