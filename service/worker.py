"""The worker: a process that owns boxes, takes turns from the queue, judges, and writes what it found.

The only module of the service that imports the sandbox or the judge. It runs one function and nothing else: whoever can
write to Redis can make it judge a program in a box, not run code here. Serialized objects other than JSON are never
read, callbacks and webhooks of a job are never followed.

It may be killed at any moment: what it had in hand is judged by another, and reported once. SIGTERM: it finishes the
submission in hand (or gives it back when that takes too long) and exits with 0.
"""

import contextlib
import logging
import math
import signal
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar, Protocol

import redis
from evaluator.sandbox.pool import open_pool
from evaluator.suites import read_suite
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from rq import Queue, SimpleWorker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.registry import FailedJobRegistry, StartedJobRegistry
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty
from rq.utils import now
from rq.worker import WorkerStatus
from rq.worker_registration import clean_worker_registry

from evaluator.errors import SandboxUnavailable
from evaluator.judge import Judge
from evaluator.model import Judgement, Reason, Submission, Suite, Verdict
from service.claims import Claim, Claims, Hold
from service.encoding import dump_judgement, first_rung
from service.heart import Heart
from service.logs import configure_logging
from service.settings import Settings
from service.turns import TURN

DONE, FAILED = 0, 1
REDIS_PATIENCE = 60.0
"""Seconds that a finished judgement waits for Redis to come back."""

logger = logging.getLogger(__name__)


def run_worker(settings: Settings) -> int:
    """Work until SIGTERM or SIGINT; returns the exit status. To be called in the main thread of its own process."""
    configure_logging(settings.log_level)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop_early)
    try:
        pool = open_pool(settings.sandbox)
    except SandboxUnavailable as error:
        logger.error("event=no_sandbox message=%s", error)
        return FAILED
    with contextlib.closing(pool):
        client = redis.Redis.from_url(
            settings.redis,
            socket_timeout=15,
            socket_connect_timeout=5,
            retry=Retry(ConstantBackoff(0.1), 2),
        )
        with client:
            claims = Claims(client, settings)
            heart = Heart(uuid.uuid4().hex, claims, settings, pool.runtime)
            return _work(client, settings, TurnTaker(claims, heart, Judge(pool), settings), heart)


def _stop_early(number: int, frame: FrameType | None) -> None:
    """SIGTERM before there is anything to finish."""
    raise SystemExit(DONE)


def _work(client: Any, settings: Settings, turns: "TurnTaker", heart: Heart) -> int:
    """Work, through any number of restarts of Redis, until told to stop."""
    heart.start()
    try:
        while True:
            try:
                TurnWorker(client, settings, turns, heart).work()
            except redis.RedisError as error:
                logger.error("event=redis_away error=%s message=%s", type(error).__name__, error)
            if turns.stopping:
                break
            time.sleep(1)
    except StopRequested:
        pass
    finally:
        heart.stop()
    return FAILED if turns.failed else DONE


def run(evaluation: str) -> None:
    """What a turn names. A worker of RQ's own can't do it."""
    raise RuntimeError(f"Evaluation {evaluation} can only be worked on by `microcoder worker`, not by `rq worker`.")


class Judging(Protocol):
    """What a turn needs of the judge."""

    def judge(
        self, submission: Submission, suite: Suite, *, cancelled: Callable[[], bool], progress: Callable[[], None]
    ) -> Judgement:
        """Run the suite."""


class SuiteLost(Exception):
    """A suite that an unfinished evaluation needs is gone from Redis."""


class SuiteCache:
    """Decoded suites, the least recently used dropped first. Counts their bytes as uploaded."""

    def __init__(self, read: Callable[[str], bytes | None], budget: int) -> None:
        """`read` gets a suite's bytes; at most `budget` bytes are kept, or one suite."""
        self._read = read
        self._budget = budget
        self._suites: OrderedDict[str, tuple[Suite, int]] = OrderedDict()

    def get(self, id: str) -> Suite:
        """The suite.

        Raises:
            SuiteLost: it isn't stored.
        """
        if id in self._suites:
            self._suites.move_to_end(id)
            return self._suites[id][0]
        data = self._read(id)
        if data is None:
            raise SuiteLost(id)
        suite = read_suite(data)
        self._suites[id] = (suite, len(data))
        while len(self._suites) > 1 and sum(size for _, size in self._suites.values()) > self._budget:
            self._suites.popitem(last=False)
        return suite


class TurnTaker:
    """Takes turns: judges an evaluation's submissions one at a time, for a while."""

    def __init__(self, claims: Claims, heart: Heart, judge: Judging, settings: Settings) -> None:
        """Judge with `judge`, tell of it through `heart`."""
        self._claims = claims
        self._heart = heart
        self._judge = judge
        self._settings = settings
        self._suites = SuiteCache(claims.read_suite, settings.worker_cache_bytes)
        self._stop_at: float | None = None
        self.failed = False

    @property
    def stopping(self) -> bool:
        """Whether no further submission is to be begun."""
        return self._stop_at is not None

    def stop(self) -> None:
        """Begin nothing more; what is in hand has a little time left."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self._settings.shutdown_grace_seconds

    def take(self, evaluation: str, turn: str) -> None:
        """Judge for about `turn_seconds`, then queue again for the rest."""
        self._heart.take_turn(evaluation, turn)
        end = time.monotonic() + self._settings.turn_seconds
        number = 0
        while not self.stopping and (number == 0 or time.monotonic() < end):
            number += 1
            claim = self._claims.claim(evaluation, f"{self._heart.worker}:{turn}:{number}")
            if claim is None:
                break
            self._heart.take(claim)
            try:
                self._settle(claim)
            finally:
                self._heart.take(None)
        self._heart.take_turn("", "")
        self._claims.end_turn(evaluation, turn)

    def recover(self) -> list[str] | None:
        """Take back what dead workers held. None: another worker is doing it."""
        found = self._claims.recover()
        if found:
            logger.warning("event=recovered claims=%d first=%s", len(found), found[0])
        return found

    def _settle(self, claim: Claim) -> None:
        began = time.monotonic()
        try:
            judgement = self._judgement(claim)
        except SandboxUnavailable as error:
            logger.error("event=sandbox_gone evaluation=%s index=%d message=%s", claim.evaluation, claim.index, error)
            self.failed = True
            self.stop()
            self._claims.give_back(claim)
            return
        if judgement.verdict is Verdict.CANCELLED and (hold := self._heart.look(0)) is not Hold.CANCELLED:
            if hold is Hold.KEPT:  # interrupted because this worker shall end
                self._claims.give_back(claim)
            return
        short, tests = dump_judgement(judgement)
        first = _patiently(lambda: self._claims.store(claim, short, tests))
        logger.info(
            "event=judged evaluation=%s index=%d verdict=%s rung=%s ms=%d attempt=%d first=%s",
            claim.evaluation,
            claim.index,
            judgement.verdict,
            first_rung(judgement.tests),
            (time.monotonic() - began) * 1000,
            claim.attempt,
            "yes" if first else "no",
        )

    def _judgement(self, claim: Claim) -> Judgement:
        """The job boundary: whatever goes wrong with one submission is ours, is logged, and harms no other."""
        try:
            suite = _patiently(lambda: self._suites.get(claim.submission.suite_id))
            self._heart.progress()
            return self._judge.judge(
                claim.submission, suite, cancelled=self._is_unwanted, progress=self._heart.progress
            )
        except (SandboxUnavailable, redis.RedisError):
            raise
        except SuiteLost:
            detail = "Its suite is gone from the store: upload the suite and send the submission again."
        except Exception as error:
            logger.exception("event=judge_failed evaluation=%s index=%d", claim.evaluation, claim.index)
            detail = f"The evaluator failed ({type(error).__name__}); the worker's log says more. Send it again."
        return Judgement(Verdict.INTERNAL_ERROR, None, detail=detail, reason=Reason.WORKER_LOST)

    def _is_unwanted(self) -> bool:
        if self._stop_at is not None and time.monotonic() > self._stop_at:
            return True
        return self._heart.look() is not Hold.KEPT


def _patiently(act: Callable[[], Any]) -> Any:
    """Do it, and again while Redis is away, so that a restart of Redis doesn't cost a judgement."""
    deadline = time.monotonic() + REDIS_PATIENCE
    while True:
        try:
            return act()
        except (redis.ConnectionError, redis.TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


class ForeignJob(Exception):
    """Something in the queue isn't a turn."""


class TurnJob(Job):
    """A job that can only be a turn: `handler` is called, whatever else Redis says of it is passed over."""

    handler: ClassVar[Callable[[str, str], None]]
    success_callback = None
    failure_callback = None
    stopped_callback = None

    def __init__(self, id: str | None = None, connection: Any = None, serializer: Any = None) -> None:
        """JSON only, whatever `serializer` says."""
        super().__init__(id, connection, JSONSerializer)

    def restore(self, raw_data: Any) -> Any:
        """Read the record, without what could lead elsewhere."""
        super().restore(raw_data)
        self.webhooks = []
        self._dependency_ids = []
        self.rate_limit_key = None
        self.repeats_left = None

    def _execute(self) -> None:
        if self.func_name != TURN or len(self.args) != 1 or not isinstance(self.args[0], str):
            raise ForeignJob("The queue holds a job that isn't a turn. Who else writes to this Redis?")
        type(self).handler(self.args[0], self.id)


class NoDeathPenalty(BaseDeathPenalty):
    """An alarm in the middle of the judge would do harm; the heart watches the time instead."""

    def setup_death_penalty(self) -> None:
        """Nothing."""

    def cancel_death_penalty(self) -> None:
        """Nothing."""


class TurnWorker(SimpleWorker):
    """RQ's worker, run in this process, listening on one queue (so that no turn is lost between pop and start)."""

    death_penalty_class = NoDeathPenalty
    max_connection_wait_time = 5.0
    log_result_lifespan = False

    def __init__(self, client: Any, settings: Settings, turns: TurnTaker, heart: Heart) -> None:
        """Take turns of the one queue."""
        job_class = type("BoundTurnJob", (TurnJob,), {"handler": staticmethod(turns.take)})
        queue = Queue(settings.queue, connection=client, serializer=JSONSerializer, job_class=job_class)
        super().__init__(
            [queue],
            name=uuid.uuid4().hex,
            connection=client,
            serializer=JSONSerializer,
            job_class=job_class,
            maintenance_interval=2,
            worker_ttl=17,  # RQ waits for a job for 15 seconds less
            log_job_description=False,
        )
        self._lease = math.ceil(settings.lease_seconds)
        self._turns = turns
        self._heart = heart

    def perform_job(self, job: Any, queue: Any, execution: Any) -> bool:
        """Take the turn while the heart keeps RQ's records of it fresh."""
        self._heart.beat_for_rq = lambda: self.maintain_heartbeats(job, execution)
        try:
            return bool(super().perform_job(job, queue, execution))
        finally:
            self._heart.beat_for_rq = None
            if self._turns.stopping:
                self._stop_requested = True

    def get_heartbeat_ttl(self, job: Any, working_time: float = 0.0) -> int:
        """Seconds after which RQ takes a silent turn for abandoned."""
        return self._lease + 3

    def clean_registries(self) -> None:
        """Recover what dead workers left: ours first, then RQ's records, read as turns only."""
        recovered = self._turns.recover()
        for queue in self.queues if recovered is not None else ():
            StartedJobRegistry(queue=queue, job_class=self.job_class).cleanup()
            FailedJobRegistry(queue=queue, job_class=self.job_class).cleanup()
            clean_worker_registry(queue)
            queue.intermediate_queue.cleanup(self, queue)
        self.last_cleaned_at = now()  # type: ignore[assignment]  # RQ infers None from its first value

    def clean_group_registries(self) -> None:
        """There are no groups."""

    def subscribe(self) -> None:
        """Take no commands over publish and subscribe."""

    def request_stop(self, signum: Any, frame: Any) -> None:
        """SIGTERM: begin nothing more."""
        self._turns.stop()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def _shutdown(self) -> None:
        if self.get_state() != WorkerStatus.BUSY:
            raise StopRequested
        self._stop_requested = True
