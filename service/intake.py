"""From the wire to the vocabulary: a request becomes submissions and suites, or is refused with the fields named.

Pure: no Redis, no event loop. What is checked here is what the schemas can't know: the limits that this service sets,
whether the tests of an inline suite can be read, and whether an answer holds a program.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from evaluator.checkers import read_checker
from evaluator.errors import InvalidSubmission
from evaluator.extraction import extract_code
from evaluator.model import Limits, Policy, Prelude, Program, RewardScheme, Submission, TestCase, TestOrder
from evaluator.suites import suite_id, write_suite
from service.fingerprints import fingerprint
from service.schemas import EvaluationIn, LimitsIn, PolicyIn, SubmissionIn, SuiteIn
from service.settings import Settings

Errors = list[tuple[str, str]]
DEFAULT_LIMITS, DEFAULT_POLICY = Limits(), Policy()


class Refused(Exception):
    """Fields that can't be used, each with a sentence."""

    def __init__(self, errors: Errors) -> None:
        """Keep the pairs of field and sentence."""
        super().__init__(errors)
        self.errors = errors


@dataclass(frozen=True)
class InlineSuite:
    """A suite that came inside the request."""

    id: str
    data: bytes = field(repr=False)
    tests: int


@dataclass(frozen=True)
class Intake:
    """A request that can be accepted. What it asks for twice is judged once.

    `submissions` has each only once, with its fingerprint; `order` says for each submission of the request which of
    them it is. `digest` is equal for requests that ask for the same.
    """

    submissions: dict[bytes, Submission]
    order: list[int]
    suites: dict[str, InlineSuite]
    digest: str

    @classmethod
    def of(cls, submissions: list[Submission], suites: dict[str, InlineSuite]) -> "Intake":
        """What is to be judged for these submissions."""
        marks = [fingerprint(submission) for submission in submissions]
        unique = dict(zip(marks, submissions, strict=True))
        places = {mark: place for place, mark in enumerate(unique)}
        return cls(unique, [places[mark] for mark in marks], suites, hashlib.sha256(b"".join(marks)).hexdigest())

    @property
    def suite_ids(self) -> list[str]:
        """Every suite that is needed, once."""
        return list(dict.fromkeys(item.suite_id for item in self.submissions.values() if item.execution is None))


def prepare(request: EvaluationIn, settings: Settings) -> Intake:
    """What `request` asks for.

    Raises:
        Refused: some of it can't be used.
    """
    return _Reader(request, settings).read()


class _Reader:
    """Reads one request, and gathers what is wrong with it."""

    def __init__(self, request: EvaluationIn, settings: Settings) -> None:
        self._request = request
        self._settings = settings
        self._errors: Errors = []
        self._suites: dict[str, InlineSuite] = {}
        self._ids: dict[int, str] = {}
        self._contents: dict[tuple[Any, ...], str] = {}
        self._policies: dict[int, Policy] = {}
        self._known_limits: dict[int, Limits] = {}

    def read(self) -> Intake:
        request, settings = self._request, self._settings
        items = request.all()
        if len(items) > settings.max_submissions:
            text = (
                f"There are {len(items)}, and at most {settings.max_submissions} fit into one evaluation: send several."
            )
            raise Refused([("submissions", text)])
        if request.limits is not None:
            self._check_limits("limits", request.limits)
        submissions = [self._submission(name, item) for name, item in items]
        if self._errors:
            raise Refused(self._errors)
        return Intake.of(submissions, self._suites)

    def _submission(self, name: str, item: SubmissionIn) -> Submission:
        shared = self._request
        suite, suite_name = (item.suite, f"{name}.suite") if item.suite is not None else (shared.suite, "suite")
        if suite is None:
            self._errors.append((f"{name}.suite", "There is none: give one here, or one for the whole evaluation."))
        if item.limits is not None:
            self._check_limits(f"{name}.limits", item.limits)
        limits = item.limits or shared.limits
        policy_name, policy = (f"{name}.policy", item.policy) if item.policy is not None else ("policy", shared.policy)
        fail_fast = item.fail_fast if item.fail_fast is not None else shared.fail_fast
        return Submission(
            program=self._program(name, item),
            suite_id=self._suite(suite_name, suite) if suite is not None else "",
            limits=self._limits(limits),
            policy=self._policy(policy_name, policy) if policy is not None else DEFAULT_POLICY,
            fail_fast=True if fail_fast is None else fail_fast,
            reward=item.reward or shared.reward or RewardScheme.ALL_OR_NOTHING,
            test_order=item.test_order or shared.test_order or TestOrder.SUITE,
        )

    def _program(self, name: str, item: SubmissionIn) -> Program | None:
        if item.program is not None:
            given = item.program
            self._check_size(f"{name}.program.source", given.source)
            return Program(given.source, given.language, given.entry_point, given.prelude)
        answer = item.answer or ""
        self._check_size(f"{name}.answer", answer)
        code = extract_code(answer, whole_text=item.whole_text_if_unfenced)
        if code is None:
            return None
        return Program(code, entry_point=item.entry_point, prelude=item.prelude or Prelude.AUTO)

    def _limits(self, limits: LimitsIn | None) -> Limits:
        if limits is None:
            return DEFAULT_LIMITS
        known = self._known_limits.get(id(limits))
        if known is None:
            known = self._known_limits[id(limits)] = Limits(**limits.model_dump())
        return known

    def _policy(self, name: str, policy: PolicyIn) -> Policy:
        known = self._policies.get(id(policy))
        if known is None:
            try:
                known = Policy(**policy.model_dump())
            except InvalidSubmission as error:
                self._errors.append((name, str(error)))
                known = Policy()
            self._policies[id(policy)] = known
        return known

    def _suite(self, name: str, suite: SuiteIn) -> str:
        if suite.id is not None:
            return suite.id
        known = self._ids.get(id(suite))  # a suite that all share is read once
        if known is None:  # and so is one that is written out for each program of its problem
            content = (repr(suite.checker), *((t.kind, t.input, t.expected, t.name) for t in suite.tests or ()))
            known = self._contents.get(content)
            if known is None:
                known = self._contents[content] = self._inline_suite(name, suite)
            self._ids[id(suite)] = known
        return known

    def _inline_suite(self, name: str, suite: SuiteIn) -> str:
        tests = suite.tests or []
        if len(tests) > self._settings.max_tests:
            self._errors.append(
                (f"{name}.tests", f"There are {len(tests)}; at most {self._settings.max_tests} may be.")
            )
            return ""
        cases = [TestCase(test.kind, test.input, test.expected, test.name) for test in tests]
        try:
            checker = None if suite.checker is None else read_checker(suite.checker)
        except InvalidSubmission as error:
            self._errors.append((f"{name}.checker", str(error)))
            return ""
        try:
            data = write_suite(cases, checker)
        except InvalidSubmission as error:
            self._errors.append((f"{name}.tests", str(error)))
            return ""
        bound = self._settings.max_inline_suite_bytes
        if len(data) > bound:
            text = (
                f"It takes {len(data)} bytes, and {bound} fit into a request: upload it with PUT /v1/suites/{{sha256}} "
                "and name it by its id."
            )
            self._errors.append((name, text))
            return ""
        identity = suite_id(data)
        self._suites[identity] = InlineSuite(identity, data, len(tests))
        return identity

    def _check_size(self, name: str, text: str) -> None:
        size, bound = len(text.encode("utf-8", "replace")), self._settings.max_source_bytes
        if size > bound:
            self._errors.append((name, f"It takes {size} bytes; at most {bound} may be."))

    def _check_limits(self, name: str, limits: LimitsIn) -> None:
        bounds: list[tuple[str, Any, float]] = [
            ("cpu_seconds", limits.cpu_seconds, self._settings.max_cpu_seconds),
            ("wall_seconds", limits.wall_seconds, 3 * self._settings.max_cpu_seconds + 1),
            ("memory_bytes", limits.memory_bytes, self._settings.max_memory_bytes),
        ]
        for field_name, value, bound in bounds:
            if value is not None and value > bound:
                self._errors.append((f"{name}.{field_name}", f"It may be at most {bound:g} on this service."))
