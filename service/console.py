"""What the commands that judge have in common: their choices, exit statuses, and how they are interrupted and ended."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from enum import StrEnum
from types import FrameType
from typing import NoReturn

import typer
from rich.console import Console

FAILED, USAGE, UNAVAILABLE, INTERRUPTED = 1, 2, 3, 130
"""Exit statuses; what each means is said by the command."""
errors = Console(stderr=True, highlight=False)


class Sandbox(StrEnum):
    """Kinds of box."""

    AUTO = "auto"
    DOCKER = "docker"
    BUBBLEWRAP = "bubblewrap"
    DIAL_IN = "dial-in"
    CONFINED = "confined"


class Profile(StrEnum):
    """Ways to compare outputs."""

    MICROCODER = "microcoder"
    LIVECODEBENCH = "livecodebench"
    EXACT = "exact"


def say(sentence: object) -> None:
    """What went wrong, on stderr."""
    errors.print(f"microcoder: {sentence}", markup=False, soft_wrap=True)


def fail(sentence: object, status: int) -> NoReturn:
    """Say it and end."""
    say(sentence)
    raise typer.Exit(status)


def end(status: int) -> NoReturn:
    """End with this status, without waiting for a program that still runs in a box: the box ends with us."""
    if any(thread.name.startswith(("judge", "official")) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    raise typer.Exit(status)


@contextlib.contextmanager
def interruptible(interrupt: threading.Event) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the judging in order; a second Ctrl-C ends it as it is."""

    def stop(number: int, frame: FrameType | None) -> None:
        interrupt.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def available_cpus() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
