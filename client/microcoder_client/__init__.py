"""The thin client of the MicroCoder evaluator: `Client` and `AsyncClient`, functions to build tests, the errors."""

from .async_client import AsyncClient
from .cases import Submission, Suite, TestCase, assertion_test, functional_test, stdin_test
from .client import Client
from .exceptions import (
    AnswerNotUnderstood,
    ConnectionFailed,
    DeadlineExceeded,
    EvaluationUnknown,
    KeyRefused,
    MicrocoderError,
    RequestRefused,
    RewardUnavailable,
    ServiceError,
    ServiceOverloaded,
    UnreadableTests,
)
from .judgements import Evaluation, Judgement, Match, Problem, Runtime, Suspicion, TestResult
from .retries import Backoff

__version__ = "0.1.0"

__all__ = [
    "AnswerNotUnderstood",
    "AsyncClient",
    "Backoff",
    "Client",
    "ConnectionFailed",
    "DeadlineExceeded",
    "Evaluation",
    "EvaluationUnknown",
    "Judgement",
    "KeyRefused",
    "Match",
    "MicrocoderError",
    "Problem",
    "RequestRefused",
    "RewardUnavailable",
    "Runtime",
    "ServiceError",
    "ServiceOverloaded",
    "Submission",
    "Suite",
    "Suspicion",
    "TestCase",
    "TestResult",
    "UnreadableTests",
    "assertion_test",
    "functional_test",
    "stdin_test",
]
