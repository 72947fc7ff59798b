"""Take a box, give it back; reset or destroy, and a spare that is made while the other works.

There is no third state: a box that can't be reset is destroyed and forgotten.
"""

import contextlib
import importlib
import logging
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

from evaluator.errors import BoxLost, SandboxUnavailable
from evaluator.model import Runtime
from evaluator.sandbox.base import Backend, Box
from evaluator.sandbox.probes import check_box

logger = logging.getLogger(__name__)

BACKENDS = {
    "docker": "evaluator.sandbox.docker:DockerBackend",
    "bubblewrap": "evaluator.sandbox.bubblewrap:BubblewrapBackend",
    "confined": "evaluator.sandbox.confined:ConfinedBackend",
    "dial-in": "evaluator.sandbox.dial_in:DialInBackend",
}
COUNTING = threading.Lock()
"""Held while boxes are counted: a pool and its branches, and the thread that makes a spare, count in one place."""


def load_backend(name: str) -> Backend:
    """The backend called `name`, imported only now: the bubblewrap way needs no Docker SDK.

    Raises:
        SandboxUnavailable: there is no such backend.
    """
    if name not in BACKENDS:
        raise SandboxUnavailable(f"There is no sandbox {name!r}: choose one of auto, {', '.join(BACKENDS)}.")
    module, _, attribute = BACKENDS[name].partition(":")
    backend: Backend = getattr(importlib.import_module(module), attribute)()
    return backend


class Pool:
    """Boxes of one backend, one at work and one spare."""

    def __init__(
        self, backend: Backend, first: Box | Runtime, *, spare: bool = True, preloads: tuple[str, ...] = ()
    ) -> None:
        """Start with a first box; or, with what is known of its kind, empty."""
        self._backend = backend
        self._preloads = preloads
        self._warm: Pool | None = None
        self._idle: list[Box] = [] if isinstance(first, Runtime) else [first]
        self._branches: list[Pool] = []
        self._wear = Counter(started=len(self._idle), ended=0)
        """Boxes of this pool and its branches, so far."""
        self.runtime = first if isinstance(first, Runtime) else first.runtime
        self._maker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spare") if spare else None
        self._spare: Future[Box] | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._order_spare()

    def take(self) -> Box:
        """A clean box that lives.

        Raises:
            SandboxUnavailable: none could be made.
        """
        while (waiting := self._next_waiting()) is not None:
            if waiting.reset():
                self._order_spare()
                return waiting
            self.drop(waiting)  # it died while nobody used it: that is no program's doing
        box = self._start()
        self._order_spare()
        return box

    def _start(self) -> Box:
        box = self._backend.start()
        self._note("started")
        if self._preloads:
            try:
                box.preload(self._preloads)
            except BoxLost as error:
                self.drop(box)
                raise SandboxUnavailable(f"A box ended while it imported {', '.join(self._preloads)}.") from error
        return box

    def _next_waiting(self) -> Box | None:
        """An idle box, else the spare one."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            spare, self._spare = self._spare, None
        if spare is not None:
            with contextlib.suppress(SandboxUnavailable):  # now it may be possible; if not, `take` says so
                return spare.result()
        return None

    def give(self, box: Box) -> None:
        """Take a box back: reset, or else destroyed."""
        if box.reset() and not self._closed:
            with self._lock:
                self._idle.append(box)
        else:
            self.drop(box)

    def drop(self, box: Box) -> None:
        """Destroy a box that was taken."""
        self._note("ended")
        box.close()

    @property
    def started(self) -> int:
        """Boxes that were made so far, those of branches included."""
        return self._wear["started"]

    @property
    def ended(self) -> int:
        """Boxes that were destroyed since they were no longer as new, those of branches included."""
        return self._wear["ended"]

    def _note(self, name: str) -> None:
        with COUNTING:
            self._wear[name] += 1

    def branch(self, preloads: tuple[str, ...] = ()) -> "Pool":
        """A pool of the same kind for other purposes, empty until a box is taken. It is closed with this one."""
        branch = Pool(self._backend, self.runtime, spare=False, preloads=preloads)
        branch._wear = self._wear
        self._branches.append(branch)
        return branch

    def warm(self, imports: tuple[str, ...]) -> "Pool":
        """The pool for programs with these heavy imports: this one, if there are none."""
        if not imports:
            return self
        if self._warm is None:
            self._warm = self.branch(imports)
        return self._warm

    def close(self) -> None:
        """Destroy every box."""
        self._closed = True
        for branch in self._branches:
            branch.close()
        if self._maker is not None:
            getattr(self._backend, "close", lambda: None)()  # a spare may be waited for, where boxes come by themselves
            self._maker.shutdown(wait=True)
        with self._lock:
            boxes, self._idle = self._idle, []
            spare, self._spare = self._spare, None
        for box in boxes:
            box.close()
        if spare is not None and spare.exception() is None:
            spare.result().close()

    def _order_spare(self) -> None:
        if self._maker is not None and self._spare is None and not self._closed:
            self._spare = self._maker.submit(self._start)


def open_pool(sandbox: str = "auto", *, spare: bool = True, self_test: bool = False) -> Pool:
    """A pool of the sandbox that was asked for. `auto` takes Docker where it works, else bubblewrap.

    With `self_test` a kind of box works only if its first passes every probe.

    Raises:
        SandboxUnavailable: none works here; the message says what each of them lacks.
    """
    names = ("docker", "bubblewrap") if sandbox == "auto" else (sandbox,)
    refusals: list[str] = []
    for name in names:
        try:
            backend = load_backend(name)
            return Pool(backend, _start_first(backend, self_test), spare=spare)
        except SandboxUnavailable as error:
            refusals.append(f"{name}: {error}")
            logger.info("sandbox %s is unavailable: %s", name, error)
    advice = "" if len(names) == 1 else " Run `microcoder doctor` to see what is missing."
    raise SandboxUnavailable("No sandbox can be had here. " + " ".join(refusals) + advice)


def _start_first(backend: Backend, self_test: bool) -> Box:
    box = backend.start()
    if self_test:
        try:
            check_box(box, backend.uncovered)
        except BaseException:
            box.close()
            raise
    return box
