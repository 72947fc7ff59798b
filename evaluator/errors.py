"""Everything that this package raises on purpose.

    EvaluatorError
    ├── InvalidSubmission      what was sent can't be judged: the caller's to mend
    │   └── InvalidSuite       a suite's bytes can't be read; says line and field
    ├── CheckerFailed          a suite's checker gave no answer; becomes `internal_error` too
    └── SandboxError           ours; becomes `internal_error`, never the program's verdict
        ├── SandboxUnavailable no box can be had here; says what to install or allow
        ├── BoxLost            a box died or answered nonsense in the middle of its work
        └── MachineFull        the kernel ended the program, which had memory left, because the machine had none

A program's own failure is a return value (a `Run`, a `Verdict`), never an exception.
"""


class EvaluatorError(Exception):
    """Base of all."""


class InvalidSubmission(EvaluatorError, ValueError):
    """The submission can't be judged as it is. The message names field and remedy."""


class InvalidSuite(InvalidSubmission):
    """The bytes are no suite. The message names line and field."""


class CheckerFailed(EvaluatorError):
    """The checker itself is at fault: it can't be compiled, or broke on an output that it should have judged."""


class SandboxError(EvaluatorError):
    """Our machinery failed."""


class SandboxUnavailable(SandboxError):
    """This machine can't make the box that was asked for. The message says what to do."""


class BoxLost(SandboxError):
    """The box ended, hung or broke the protocol."""


class MachineFull(SandboxError):
    """The machine has less memory than the program was promised."""
