"""Everything that this package raises on purpose.

    MicrocoderError
    ├── ConnectionFailed         nothing answered, and kept not answering
    ├── DeadlineExceeded         the answer didn't come in time; the evaluation was cancelled
    ├── RequestRefused           the service won't do it as asked (4xx): the caller's to mend; `problem` says what
    │   ├── KeyRefused           401, 403: the API key is missing or wrong
    │   └── EvaluationUnknown    404: no evaluation of that id, or it has expired
    ├── ServiceError             the service's own trouble
    │   ├── ServiceOverloaded    429, 503: it stayed full until the deadline; `retry_after` says when to come back
    │   └── AnswerNotUnderstood  the answer isn't one of this service's: wrong URL, a proxy, or an older service
    ├── UnreadableTests          rewards: a dataset's row holds no tests in a form that is known
    └── RewardUnavailable        rewards: there is none to be had, and the framework has no place for a missing one

A program that fails is a return value (a `Judgement`), never an exception. Every message is a sentence that says what
to do.
"""

from .judgements import Problem


class MicrocoderError(Exception):
    """Base of all."""


class ConnectionFailed(MicrocoderError):
    """No connection, or it broke, for longer than the client is patient."""


class DeadlineExceeded(MicrocoderError):
    """The total deadline passed before the evaluation was done."""


class RequestRefused(MicrocoderError):
    """The service read the request and refused it. `problem` is its explanation (RFC 9457)."""

    def __init__(self, message: str, problem: Problem) -> None:
        """Keep the problem beside the sentence."""
        super().__init__(message)
        self.problem = problem


class KeyRefused(RequestRefused):
    """The API key is missing or wrong."""


class EvaluationUnknown(RequestRefused):
    """The service has no evaluation of that id."""


class ServiceError(MicrocoderError):
    """The service answered, and the answer is of no use."""


class ServiceOverloaded(ServiceError):
    """The service stayed full. `retry_after` is its own estimate in seconds, if it gave one."""

    def __init__(self, message: str, retry_after: float | None) -> None:
        """Keep the estimate beside the sentence."""
        super().__init__(message)
        self.retry_after = retry_after


class AnswerNotUnderstood(ServiceError):
    """What came back isn't what this service says."""


class UnreadableTests(MicrocoderError):
    """A dataset's row, or a column's value, holds no tests in a form that `microcoder_client.rewards` knows."""


class RewardUnavailable(MicrocoderError):
    """A reward wasn't to be had, for no fault of the program, in a framework that has no place for a missing one."""
