"""Answers and rows in, scores out: what every trainer's reward function rests on.

`CodeScorer` blocks, `AsyncCodeScorer` is to be awaited; everything else is in `BaseScorer`. A reward that couldn't be
had, because the service is out of reach or failed (`internal_error`), is None: never 0, and never the program's fault.
What the service refuses (a wrong key, a limit that it doesn't allow) is raised: trying again won't help.
"""

import asyncio
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from microcoder_client.async_client import AsyncClient
from microcoder_client.cases import Submission
from microcoder_client.client import Client
from microcoder_client.exceptions import (
    ConnectionFailed,
    DeadlineExceeded,
    EvaluationUnknown,
    RewardUnavailable,
    ServiceError,
    UnreadableTests,
)
from microcoder_client.judgements import INTERNAL_ERROR, Judgement
from microcoder_client.retries import Backoff
from microcoder_client.rewards.columns import TaskReader
from microcoder_client.rewards.completions import read_answer

OUTAGES = (ConnectionFailed, DeadlineExceeded, ServiceError, EvaluationUnknown)
RESTARTS = 3
"""How often a batch is posted again when the service, restarted without its Redis, has forgotten it."""
DEFAULT_URL = "http://127.0.0.1:8000"
BATCH_SUBMISSIONS, BATCH_CHARACTERS = 1024, 8 << 20
"""What one evaluation holds at most: well below what the service takes by default."""

_logger = logging.getLogger("microcoder_client")


@dataclass(frozen=True, slots=True)
class Score:
    """A reward and its verdict. `reward` None: leave the sample out, nothing was learnt about it."""

    reward: float | None
    verdict: str
    detail: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether every test was passed."""
        return self.verdict == "accepted"

    def require(self) -> float:
        """The reward, for frameworks that have no place for a missing one.

        Raises:
            RewardUnavailable: there is none.
        """
        if self.reward is None:
            raise RewardUnavailable(
                f"There is no reward ({self.verdict}: {self.detail or 'no reason was given'}). Nothing is wrong with "
                "the program: see how the evaluator is doing, and go on from the last checkpoint."
            )
        return self.reward


@dataclass(frozen=True)
class Plan:
    """What is asked of the service: each different submission once, and which of them each answer is."""

    submissions: list[Submission]
    order: list[int]

    def batches(self, scores: Mapping[int, Score]) -> Iterator[list[int]]:
        """The submissions that have no reward yet, in portions that the service takes."""
        batch: list[int] = []
        size = 0
        for index, submission in enumerate(self.submissions):
            if index in scores and scores[index].reward is not None:
                continue
            length = len(submission.answer or "")
            if batch and (len(batch) == BATCH_SUBMISSIONS or size + length > BATCH_CHARACTERS):
                yield batch
                batch, size = [], 0
            batch.append(index)
            size += length
        if batch:
            yield batch

    def spread(self, scores: Mapping[int, Score]) -> list[Score]:
        """A score for every answer."""
        return [scores[place] for place in self.order]


class BaseScorer:
    """Everything but the sending. Not to be used by itself."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        fraction: bool = False,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        prelude: str | None = None,
        whole_text_if_unfenced: bool = False,
        answer_prefix: str = "",
        column: str | None = None,
        max_tests: int | None = None,
        attempts: int = 1,
        deadline: float = 1800.0,
        patience: float = 120.0,
        concurrency: int = 128,
        backoff: Backoff | None = None,
    ) -> None:
        """Score with the service at `url`. It is first spoken to when there is something to score.

        Args:
            url: of the service; else `MICROCODER_URL` from the environment, else this machine, port 8000.
            api_key: else `MICROCODER_API_KEY` from the environment.
            fraction: the reward is the fraction of tests that were passed, all of which are run then. Without it, 1
                for all tests and 0 for fewer.
            limits: what one test may use, such as `{"cpu_seconds": 4}`.
            policy: how outputs are compared, such as `{"profile": "livecodebench"}`.
            prelude: names that programs find unimported: `none`, `contest`, or `auto` (the default).
            whole_text_if_unfenced: an answer without any code block is itself the program.
            answer_prefix: put before each answer: `<think>\n` where the prompt's template opens the thinking, so that
                an answer cut off within it isn't taken for one.
            column: the column that holds the tests, when several could.
            max_tests: of each row, keep so many at most: those with the longest inputs.
            attempts: how often a reward that isn't to be had is asked for.
            deadline: seconds that one batch may take, retries of the client included.
            patience: seconds without any answer after which the service is out of reach.
            concurrency: evaluations at once, of an `AsyncCodeScorer` on one event loop.
            backoff: pauses between attempts, and between the client's retries.
        """
        self._url, self._api_key = url, api_key
        self._program = {"prelude": prelude, "whole_text_if_unfenced": whole_text_if_unfenced}
        self._prefix = answer_prefix
        self._rules: dict[str, Any] = {"limits": limits, "policy": policy, "detail": "summary"}
        if fraction:
            self._rules |= {"reward": "fraction", "fail_fast": False}
        self._reader = TaskReader(column, max_tests)
        if attempts < 1:
            raise ValueError(f"attempts is {attempts}: a reward has to be asked for at least once.")
        self._attempts, self._concurrency = attempts, concurrency
        self._backoff = backoff or Backoff()
        self._settings: dict[str, Any] = {"deadline": deadline, "patience": patience, "backoff": self._backoff}

    def _connection(self) -> dict[str, Any]:
        """What a client is made of. The environment is read late, so that importing a module decides nothing."""
        url = self._url or os.environ.get("MICROCODER_URL") or DEFAULT_URL
        return {"url": url, "api_key": self._api_key or os.environ.get("MICROCODER_API_KEY"), **self._settings}

    def _plan(self, answers: Sequence[Any], rows: Sequence[Any]) -> Plan:
        if len(answers) != len(rows):
            raise ValueError(f"There are {len(answers)} answers and {len(rows)} rows: give one row an answer.")
        places: dict[tuple[str, str, str | None], int] = {}
        submissions: list[Submission] = []
        order: list[int] = []
        for number, (completion, row) in enumerate(zip(answers, rows, strict=True)):
            answer = self._prefix + read_answer(completion)
            try:
                task = self._reader.read(row)
            except UnreadableTests as error:
                raise UnreadableTests(f"Row {number}: {error}") from None
            mark = (answer, task.suite.id, task.entry_point)
            if mark not in places:
                places[mark] = len(submissions)
                entry_point, suite = task.entry_point, task.suite
                submissions.append(Submission(answer=answer, entry_point=entry_point, suite=suite, **self._program))  # type: ignore[arg-type]
            order.append(places[mark])
        return Plan(submissions, order)

    def _note(self, error: Exception, count: int) -> list[Score]:
        """What an outage means for so many answers."""
        _logger.warning("%d rewards aren't to be had: %s", count, error)
        return [Score(None, INTERNAL_ERROR, str(error))] * count


def read_score(judgement: Judgement) -> Score:
    """What a judgement means for a trainer."""
    return Score(judgement.reward, judgement.verdict, judgement.detail)


class CodeScorer(BaseScorer):
    """Scores answers, for use by any number of threads, and in processes that were forked.

    scorer = CodeScorer("http://127.0.0.1:8000")
    score = scorer(answer, row)  # score.reward, score.verdict
    """

    _client: Client | None = None
    _process = 0

    def __call__(self, answer: Any, tests: Any) -> Score:
        """The score of one answer. `tests`: its row, or the value of the column that holds the tests."""
        return self.score([answer], [tests])[0]

    def score(self, answers: Sequence[Any], rows: Sequence[Any]) -> list[Score]:
        """A score for each answer, in order.

        Raises:
            UnreadableTests: a row's tests aren't in a form that is known.
            RequestRefused: the service won't do it as asked.
        """
        plan, scores = self._plan(answers, rows), dict[int, Score]()
        for attempt in range(self._attempts):
            batches = list(plan.batches(scores))
            if batches and attempt:
                time.sleep(self._backoff.pause(attempt))
            for batch in batches:
                scores.update(zip(batch, self._evaluate([plan.submissions[index] for index in batch]), strict=True))
        return plan.spread(scores)

    def _evaluate(self, submissions: list[Submission]) -> list[Score]:
        for restarts in range(RESTARTS + 1):
            try:
                return [read_score(judgement) for judgement in self._connect().evaluate(submissions, **self._rules)]
            except OUTAGES as error:
                if not isinstance(error, EvaluationUnknown) or restarts == RESTARTS:
                    return self._note(error, len(submissions))
        raise AssertionError("the last round returns")

    _lock = threading.Lock()

    def _connect(self) -> Client:
        """This process's client: connections can't be shared with the process that it was forked from."""
        with self._lock:
            if self._client is None or self._process != os.getpid():
                self._client, self._process = Client(**self._connection()), os.getpid()
            return self._client

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None and self._process == os.getpid():
            self._client.close()
        self._client = None


@dataclass(frozen=True)
class _Line:
    """What belongs to one event loop."""

    client: AsyncClient
    places: asyncio.Semaphore


class AsyncCodeScorer(BaseScorer):
    """Scores answers from any event loop; each has connections of its own.

    score = await AsyncCodeScorer("http://127.0.0.1:8000")(answer, row)
    """

    _lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] | None = None

    async def __call__(self, answer: Any, tests: Any) -> Score:
        """The score of one answer. `tests`: its row, or the value of the column that holds the tests."""
        return (await self.score([answer], [tests]))[0]

    async def score(self, answers: Sequence[Any], rows: Sequence[Any]) -> list[Score]:
        """A score for each answer, in order; see `CodeScorer.score`."""
        plan, scores = self._plan(answers, rows), dict[int, Score]()
        for attempt in range(self._attempts):
            batches = list(plan.batches(scores))
            if batches and attempt:
                await asyncio.sleep(self._backoff.pause(attempt))
            found = await asyncio.gather(
                *(self._evaluate([plan.submissions[index] for index in batch]) for batch in batches)
            )
            for batch, part in zip(batches, found, strict=True):
                scores.update(zip(batch, part, strict=True))
        return plan.spread(scores)

    async def _evaluate(self, submissions: list[Submission]) -> list[Score]:
        line = self._connect()
        for restarts in range(RESTARTS + 1):
            try:
                async with line.places:
                    judgements = await line.client.evaluate(submissions, **self._rules)
                return [read_score(judgement) for judgement in judgements]
            except OUTAGES as error:
                if not isinstance(error, EvaluationUnknown) or restarts == RESTARTS:
                    return self._note(error, len(submissions))
        raise AssertionError("the last round returns")

    def _connect(self) -> _Line:
        loop = asyncio.get_running_loop()
        if self._lines is None:
            self._lines = weakref.WeakKeyDictionary()
        if loop not in self._lines:
            self._lines[loop] = _Line(AsyncClient(**self._connection()), asyncio.Semaphore(self._concurrency))
        return self._lines[loop]

    async def close(self) -> None:
        """Close this event loop's connections."""
        if self._lines is not None and (line := self._lines.pop(asyncio.get_running_loop(), None)) is not None:
            await line.client.close()


ScorerT = TypeVar("ScorerT", bound=BaseScorer)
SHARED: dict[tuple[type[BaseScorer], str], BaseScorer] = {}
"""The scorers of functions that trainers call by name."""
_sharing = threading.Lock()


def shared(kind: type[ScorerT], options: Mapping[str, Any] | None = None) -> ScorerT:
    """This process's scorer with these options, which must be such that JSON can carry them. Made once, kept."""
    mark = kind, json.dumps(options or {}, sort_keys=True, default=dict)
    with _sharing:
        if mark not in SHARED:
            SHARED[mark] = kind(**json.loads(mark[1]))
        scorer = SHARED[mark]
    assert isinstance(scorer, kind)
    return scorer


async def close_shared() -> None:
    """Close what this process's shared scorers have open in this event loop; a later score connects again."""
    with _sharing:
        scorers = [scorer for scorer in SHARED.values() if isinstance(scorer, AsyncCodeScorer)]
    for scorer in scorers:
        await scorer.close()
