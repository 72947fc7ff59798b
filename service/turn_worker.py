"""RQ's worker, narrowed: it takes turns from one queue, runs one function, and nothing else.

Whoever can write to Redis can make it judge a program in a box, not run code here: a job's function is compared with
the one name, never imported; nothing but JSON is ever read; callbacks, webhooks, dependants and limits of a job are
passed over; no command is taken over publish and subscribe.
"""

import math
import uuid
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from rq import Queue, SimpleWorker
from rq.exceptions import DeserializationError, StopRequested
from rq.job import Job
from rq.registry import FailedJobRegistry, StartedJobRegistry
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty
from rq.utils import now
from rq.worker import WorkerStatus
from rq.worker_registration import clean_worker_registry

from service.heart import Heart
from service.settings import Settings
from service.turns import TURN


class Taking(Protocol):
    """What is done with a turn."""

    @property
    def stopping(self) -> bool:
        """Whether no further turn is to be taken."""

    def take(self, evaluation: str, turn: str) -> None:
        """Work on the evaluation for a while."""

    def recover(self) -> list[str] | None:
        """Take back what dead workers held. None: another worker is doing it."""

    def stop(self) -> None:
        """Begin nothing more."""


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

    def check(self) -> None:
        """Raise `ForeignJob` unless this is a turn."""
        if self.func_name != TURN or len(self.args) != 1 or not isinstance(self.args[0], str):
            raise ForeignJob("The queue holds a job that isn't a turn. Who else writes to this Redis?")

    def _execute(self) -> None:
        self.check()
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

    def __init__(self, client: Any, settings: Settings, turns: Taking, heart: Heart) -> None:
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

    def execute_job(self, job: Any, queue: Any) -> None:
        """Take the turn.

        RQ's own way writes some forty records of a job, which nobody reads here: what happens to a turn stands in the
        evaluation's record. So RQ forgets the turn when it is taken. A job that is no turn goes RQ's way, to failure.
        """
        try:
            job.check()
        except (ForeignJob, DeserializationError):
            super().execute_job(job, queue)
            return
        with self.connection.pipeline(transaction=False) as pipeline:
            pipeline.lrem(queue.intermediate_queue.key, 1, job.id)
            pipeline.delete(job.key)
            pipeline.execute()
        self._state = WorkerStatus.BUSY
        self._heart.beat_for_rq = self.heartbeat
        try:
            job.perform()
        finally:
            self._heart.beat_for_rq = None
            self._state = WorkerStatus.IDLE
            if self._turns.stopping:
                self._stop_requested = True

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Tell RQ that this worker lives. Often enough, not around each turn."""
        recent = self.last_heartbeat is not None and (now() - self.last_heartbeat).total_seconds() < 2
        if pipeline is not None or not recent:
            super().heartbeat(timeout, pipeline)

    def set_state(self, state: Any, pipeline: Any = None) -> None:
        """Tell RQ what this worker does, where that is new."""
        if pipeline is not None or state != self.get_state():
            super().set_state(state, pipeline)

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
