"""The vocabulary of a run for its own sake: what is asked for, and what comes back. Nothing is judged."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Execution:
    """A run for its own sake: there is no test, and all that the program writes is the answer.

    Names of files are relative to the working directory and stay beneath it.
    """

    input: str = ""
    arguments: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    """(name, content in base 64) of what stands there before."""
    fetch: tuple[str, ...] = ()
    """Names of what comes back afterwards, if it is there."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """All that an execution wrote: whole, or, of a program that went over its limit of output, the beginning."""

    stdout: bytes
    stderr: bytes
    files: tuple[tuple[str, bytes], ...] = ()
