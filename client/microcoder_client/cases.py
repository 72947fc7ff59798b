"""What is sent: test cases, suites of them, and submissions.

A suite travels once and is named by the SHA-256 of its bytes: one JSON object a line, the fields in a fixed order,
ASCII only. So two clients that build the same tests name the same suite.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class TestCase:
    """One input and, optionally, what is expected for it. Build it with one of the three functions below."""

    __test__ = False  # pytest would take the name for a test class

    kind: Literal["stdin", "functional", "assertion"]
    input: str
    expected: str | None = None
    name: str | None = None


def stdin_test(input: str, expected: str | None = None, *, name: str | None = None) -> TestCase:
    """The program reads `input` from standard input and must print `expected`. Without it, its output comes back."""
    return TestCase("stdin", input, expected, name)


_NOTHING = object()


def functional_test(arguments: Sequence[Any], expected: Any = _NOTHING, *, name: str | None = None) -> TestCase:
    """The entry point is called with `arguments` and must return `expected`; both are JSON values.

    `None` is a value to expect; leave `expected` out to get back what the function returned.
    """
    if isinstance(arguments, (str, bytes)):
        raise TypeError("arguments must be a list with one item per argument: write ['text'], not 'text'.")
    lines = "\n".join(_json(argument) for argument in arguments)
    return TestCase("functional", lines, None if expected is _NOTHING else _json(expected), name)


def assertion_test(code: str, *, name: str | None = None) -> TestCase:
    """`code` is Python that uses the program's names; the test passes when it runs to its end."""
    return TestCase("assertion", code, None, name)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True)
class Suite:
    """Ordered test cases as they travel. `id` is the SHA-256 of `data`."""

    data: bytes = field(repr=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        """Name it."""
        object.__setattr__(self, "id", hashlib.sha256(self.data).hexdigest())

    @classmethod
    def of(cls, tests: Iterable[TestCase], checker: Mapping[str, Any] | None = None) -> "Suite":
        """The suite of these tests, in this order.

        Args:
            checker: what decides whether an output is right where several are, as `docs/checkers.md` has it; such as
                `{"name": "float_tolerance", "absolute_tolerance": 1e-6}`.
        """
        header = b"" if checker is None else _json({"checker": dict(checker)}).encode("ascii") + b"\n"
        return cls(header + b"".join(_line(test) for test in tests))


def _line(test: TestCase) -> bytes:
    fields: dict[str, str] = {"kind": test.kind, "input": test.input}
    if test.expected is not None:
        fields["expected"] = test.expected
    if test.name is not None:
        fields["name"] = test.name
    return _json(fields).encode("ascii") + b"\n"


SuiteLike = Suite | Sequence[TestCase]
"""A suite, or the tests of one. Build the `Suite` yourself when you use it often: it is hashed once then."""


@dataclass(frozen=True)
class Submission:
    """A program (`source`), or a model's whole `answer` to take the program from, and how to judge it.

    What is None here is what the call says, and else the service's default. Limits and policy are taken whole: one that
    is given here isn't mixed with the call's.
    """

    source: str | None = None
    answer: str | None = None
    whole_text_if_unfenced: bool = False
    """An answer without any code block is itself the program."""
    entry_point: str | None = None
    """For functional tests: `function` or `Class.method`."""
    language: str | None = None
    prelude: str | None = None
    suite: SuiteLike | None = None
    limits: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] | None = None
    fail_fast: bool | None = None
    reward: str | None = None
    test_order: str | None = None

    def __post_init__(self) -> None:
        """Refuse what can't be judged."""
        if (self.source is None) == (self.answer is None):
            raise ValueError("A submission has either a source or an answer: give exactly one of the two.")

    @property
    def wire(self) -> dict[str, Any]:
        """As the service reads it, but for the suite."""
        program: dict[str, Any] = {"entry_point": self.entry_point, "prelude": self.prelude}
        if self.source is not None:
            program = {"program": given({"source": self.source, "language": self.language, **program})}
        else:
            program = {"answer": self.answer, "whole_text_if_unfenced": self.whole_text_if_unfenced or None, **program}
        rules = ("limits", "policy", "fail_fast", "reward", "test_order")
        return given({**program, **{name: getattr(self, name) for name in rules}})


def given(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without the fields that are None: what isn't given isn't sent."""
    return {key: value for key, value in body.items() if value is not None}


def suite_of(tests: SuiteLike) -> Suite:
    """The suite itself, whichever way it was given."""
    return tests if isinstance(tests, Suite) else Suite.of(tests)
