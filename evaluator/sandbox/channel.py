"""The worker's end of a box: speaks the runner's protocol over a socket, whatever the box is made of.

Descriptors go from the worker to the box only. Inputs are sealed memfds opened read-only; outputs are fresh memfds that
the worker keeps and reads, up to the limit, after the runner has answered.
"""

import contextlib
import json
import marshal
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from evaluator.errors import BoxLost, SandboxUnavailable
from evaluator.model import Limits, Program, Runtime
from evaluator.model import TestKind as Kind
from evaluator.sandbox.base import Artifact, Call, CompileFailure, Launcher, Limit, Run
from evaluator.sandbox.commands import bundle_files, deadline_of, encode_source, mode_of, spell_limits, wants_prelude
from evaluator.sandbox.dialogue import Series
from evaluator.sandbox.memfds import read_output, reopen, seal, seal_input
from evaluator.sandbox.runner.wire import COMPILED, FACTS, HARMLESS, LIMITS, NOT_COMPILED, NUMPY, ORDERS, WRITTEN
from evaluator.sandbox.slots import Slot, reserve_slot

MODULES = (
    "wire", "harmless", "prelude", "streams", "values", "confine", "fence", "watch", "launch", "tools",
    "exchange", "sharing", "references", "kinds", "specials", "handles", "tester", "names",
    "pytest_standin", "pytest_session", "collection", "foreign", "servant", "assertion",
    "nodes", "calls", "series", "execution", "main",
)  # fmt: skip
"""The runner's modules, in the order of their imports."""

STARTUP_SECONDS = 60.0
MAX_AGE = 20_000
"""Tests after which a box is replaced, whatever its health."""
MAX_STDERR = 64 * 1024
COMPILE_LIMITS = Limits(cpu_seconds=10, memory_bytes=1 << 30)


def bundle_runner() -> bytes:
    """The runner's source, as `boot.py` wants it."""
    folder = Path(__file__).parent / "runner"
    return json.dumps({name: (folder / f"{name}.py").read_text("utf-8") for name in MODULES}).encode()


class LoadedProgram(Artifact):
    """A compiled program (or the source for a command) in a sealed memfd."""

    def __init__(self, descriptor: int, launcher: Launcher, program: Program, flags: int = 0) -> None:
        self.descriptor = descriptor
        self.launcher = launcher
        self.program = program
        self.harmless = bool(flags & HARMLESS)
        self.heavy_imports = ("numpy",) if flags & NUMPY else ()

    def close(self) -> None:
        """Free the memfd. Harmless when called twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    __del__ = close  # who keeps many (checkers) needn't keep count


class Reply(NamedTuple):
    """What the runner says of a run."""

    status: int
    cpu: float
    wall: float
    memory: int
    limit: Limit | None
    left_processes: bool = False

    @property
    def signal(self) -> int | None:
        """The signal that ended it."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None

    @property
    def exit_code(self) -> int | None:
        """None after a signal."""
        return None if os.WIFSIGNALED(self.status) else os.waitstatus_to_exitcode(self.status)


class Pending:
    """A run that the box has been told of: the outputs to read when it answers."""

    def __init__(self, limits: Limits, stdout: int, stderr: int, extra: int | None, mode: str) -> None:
        self.limits = limits
        self.stdout = stdout
        self.stderr = stderr
        self.extra = extra
        self.mode = mode

    def close(self) -> None:
        for descriptor in (self.stdout, self.stderr, *([] if self.extra is None else [self.extra])):
            os.close(descriptor)


class RunnerBox:
    """A box whose runner is at the other end of `connection`. `destroy` ends what the box is made of."""

    def __init__(
        self, connection: socket.socket, destroy: Callable[[], None], *, sandbox: str, image: str | None
    ) -> None:
        self._connection = connection
        self._destroy = destroy
        self._age = 0
        self._healthy = True
        self._closed = False
        self._reply = Reply(0, 0.0, 0.0, 0, None)
        connection.settimeout(STARTUP_SECONDS)
        self._slot: Slot | None = None
        facts = self._greet()
        self.runtime = Runtime(sandbox=sandbox, python=facts["python"], numpy=facts["numpy"], image=image)

    def _greet(self) -> dict[str, Any]:
        try:
            self._slot = reserve_slot()
            modules = seal_input(bundle_runner())
            try:
                socket.send_fds(self._connection, [b"modules"], [modules])
            finally:
                os.close(modules)
            self._connection.send(json.dumps({"slot": self._slot.number, "private": True}).encode())
            facts: dict[str, Any] = json.loads(self._receive_message(STARTUP_SECONDS))
            return facts
        except (OSError, ValueError, BoxLost, SandboxUnavailable) as error:
            self.close()
            raise SandboxUnavailable(f"The box started but its runner did not answer: {error}") from error

    def preload(self, modules: Iterable[str]) -> None:
        """Import modules in the runner, so that its children have them already."""
        self._send({"op": "preload", "modules": list(modules)}, [])
        self._receive(STARTUP_SECONDS)

    def load(
        self, program: Program, limits: Limits = COMPILE_LIMITS, launcher: Launcher = Launcher.COMPILED
    ) -> LoadedProgram | CompileFailure:
        """Compile in the box; the code comes back in a memfd that no one reads here."""
        if launcher is Launcher.COMMAND:
            return LoadedProgram(seal_input(encode_source(program.source)), launcher, program)
        bundle = program.language != "python" or bool(program.files)
        source = seal_input(bundle_files(program) if bundle else encode_source(program.source))
        artifact = os.memfd_create("artifact", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        messages = os.memfd_create("messages", os.MFD_CLOEXEC)
        try:
            order = {"op": "load", "limits": spell_limits(limits), "language": program.language, "bundle": bundle}
            self._send(order, [source, artifact, messages])
            return self._read_compiled(program, artifact, messages, self._receive(deadline_of(limits)))
        finally:
            for descriptor in (source, artifact, messages):
                os.close(descriptor)

    def _read_compiled(
        self, program: Program, artifact: int, messages: int, reply: Reply
    ) -> LoadedProgram | CompileFailure:
        """What a child that compiled left behind."""
        flags = -1 if reply.limit is not None or reply.exit_code is None else reply.exit_code - COMPILED
        if 0 <= flags <= HARMLESS + NUMPY:
            seal(artifact)
            return LoadedProgram(reopen(artifact), Launcher.COMPILED, program, flags)
        text = read_output(messages, MAX_STDERR).decode("utf-8", "replace")
        return CompileFailure(text or _describe_end(reply))

    def run(self, artifact: Artifact, call: Call, limits: Limits) -> Run:
        """One run."""
        return next(self.run_all(artifact, [call], limits))

    def run_all(
        self, artifact: Artifact, calls: Iterable[Call], limits: Limits, *, stop_on_failure: bool = False
    ) -> Iterator[Run]:
        """Two orders are under way at most: one runs, one waits in the socket, so that the box is never idle."""
        assert isinstance(artifact, LoadedProgram)
        source = iter(calls)
        pending: deque[Pending] = deque()
        try:
            more, first = True, True
            while more or pending:
                while more and len(pending) < 2:
                    call = next(source, None)
                    if call is None:
                        more = False
                    else:
                        pending.append(self._start(artifact, call, limits, stop_on_failure and not first))
                        first = False
                if pending:
                    run = self._collect(pending.popleft())
                    yield run
                    if stop_on_failure and not (run.limit is None and run.exit_code == 0):
                        return
        finally:
            self._cancel(pending)

    def run_series(self, artifact: Artifact, calls: Sequence[Call], limits: Limits) -> Generator[Run, None, None]:
        """Tests in one child, while all goes well."""
        assert isinstance(artifact, LoadedProgram)
        code = reopen(artifact.descriptor)
        try:
            series = self._begin_series("series", artifact.program, calls[0].function, limits, [code])
        finally:
            os.close(code)
        yield from series.run_all(calls)

    def open_series(
        self, program: Program, function: str | None, limits: Limits
    ) -> tuple[LoadedProgram | CompileFailure, Series | None]:
        """Compile a program and, if it leaves no trace, go on in the same child: a fork less."""
        source = seal_input(encode_source(program.source))
        artifact = os.memfd_create("artifact", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        messages = os.memfd_create("messages", os.MFD_CLOEXEC)
        try:
            series = self._begin_series("opening", program, function, limits, [source, artifact, messages])
            start = series.receive_start(COMPILE_LIMITS.wall)
            if start is not None:
                seal(artifact)  # before anything of the program runs: it runs when its first test comes
                return LoadedProgram(reopen(artifact), Launcher.COMPILED, program, start[0] - COMPILED), series
            series.close()
            return self._read_compiled(program, artifact, messages, self._reply), None
        finally:
            for descriptor in (source, artifact, messages):
                os.close(descriptor)

    def _begin_series(
        self, mode: str, program: Program, function: str | None, limits: Limits, descriptors: list[int]
    ) -> Series:
        # Each test's own limits are held by the series, which has less patience than any; memory is watched as ever.
        ample = {**spell_limits(limits), "cpu": 3600.0, "wall": 3600.0}
        if mode == "opening":
            ample |= {name: max(ample[name], value) for name, value in spell_limits(COMPILE_LIMITS).items()}
        order: dict[str, Any] = {"op": "run", "mode": mode, "limits": ample, "entry_point": function}
        order["prelude"] = wants_prelude(program, function is not None)
        ours, theirs = socket.socketpair()
        try:
            self._send(order, [*descriptors, theirs.fileno()])
        except BoxLost:
            ours.close()
            raise
        finally:
            theirs.close()

        def finish(kill: bool) -> None:
            if kill:
                self._send({"op": "cancel"}, [])
            self._reply = self._receive(deadline_of(limits))

        return Series(ours, limits, finish)

    def _start(self, artifact: LoadedProgram, call: Call, limits: Limits, after_success: bool) -> Pending:
        order = {
            "op": "run",
            "limits": spell_limits(limits),
            "after_success": after_success,
            **mode_of(artifact.program, artifact.launcher, call),
        }
        code = reopen(artifact.descriptor)
        stdin = seal_input(call.input)
        stdout = os.memfd_create("stdout", os.MFD_CLOEXEC)
        stderr = os.memfd_create("stderr", os.MFD_CLOEXEC)
        given = [code, stdin]
        extra = None
        if order["mode"] in ("function", "assertion", "tool", "execution"):
            extra = os.memfd_create("result", os.MFD_CLOEXEC)
        given += map(seal_input, call.files if call.test_code is None else (call.test_code,))
        pending = Pending(limits, stdout, stderr, extra, order["mode"])
        sent = [code, stdin, stdout, stderr, *given[2:], *([] if extra is None else [extra])]
        try:
            self._send(order, sent)
        except BoxLost:
            pending.close()
            raise
        finally:
            for descriptor in given:
                os.close(descriptor)
        return pending

    def _collect(self, pending: Pending) -> Run:
        try:
            reply = self._receive(2 * deadline_of(pending.limits))
            limit = pending.limits.output_bytes
            stdout = read_output(pending.stdout, limit)
            truncated = max(os.fstat(output).st_size for output in (pending.stdout, pending.stderr)) > limit
            extra = None if pending.extra is None else read_output(pending.extra, limit + 1)
            whole = pending.mode == "execution"
            run = Run(
                exit_code=reply.exit_code,
                signal=reply.signal,
                cpu_seconds=reply.cpu,
                wall_seconds=reply.wall,
                memory_bytes=reply.memory,
                limit=reply.limit,
                stdout=stdout,
                stderr=read_output(pending.stderr, limit if whole else MAX_STDERR, end=not whole),
                truncated=truncated or (extra is not None and len(extra) > limit),
                left_processes=reply.left_processes,
            )
        finally:
            pending.close()
        if extra is None:
            return run
        return _with_result(run, pending.mode, extra)

    def _cancel(self, pending: deque[Pending]) -> None:
        """End what is under way without waiting for it to end by itself."""
        try:
            if pending and self._healthy:
                self._send({"op": "cancel"}, [])
                for waiting in pending:
                    self._receive(deadline_of(waiting.limits))
        except BoxLost:
            pass  # `reset` answers False now; the caller's own error, if there is one, matters more
        finally:
            while pending:
                pending.popleft().close()

    def _send(self, order: dict[str, Any], descriptors: list[int]) -> None:
        try:
            socket.send_fds(self._connection, [marshal.dumps(order, ORDERS)], descriptors)
        except OSError as error:
            self._healthy = False
            raise BoxLost(f"The box is gone: {error}") from error
        self._age += 1

    def _receive_message(self, timeout: float) -> bytes:
        try:
            self._connection.settimeout(timeout)
            message = self._connection.recv(65536)
        except TimeoutError as error:
            self._healthy = False
            raise BoxLost(f"The box has not answered for {timeout:.0f} seconds.") from error
        except OSError as error:
            self._healthy = False
            raise BoxLost(f"The box is gone: {error}") from error
        if not message:
            self._healthy = False
            raise BoxLost("The box ended in the middle of its work.")
        return message

    def _receive(self, timeout: float) -> Reply:
        message = self._receive_message(timeout)
        try:
            status, cpu, wall, memory, limit, _, started, clean, left = FACTS.unpack(message)
            reply = Reply(status, cpu, wall, memory, Limit(LIMITS[limit]) if limit else None, bool(left))
        except (struct.error, IndexError) as error:
            self._healthy = False
            raise BoxLost("The box answered something that isn't an answer.") from error
        if not clean:
            self._healthy = False
        if not started:
            self._healthy = False
            raise BoxLost("The box could not start the program: a fault of ours or of the machine.")
        return reply

    def reset(self) -> bool:
        """After every run the runner has proven the box empty; what is left to check is health, age, and life."""
        return self._healthy and not self._closed and self._age < MAX_AGE and self._lives()

    def _lives(self) -> bool:
        """Whether the runner is there and silent. One that has hung up, or speaks unasked, is not."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        self._healthy = not poll.poll(0)
        return self._healthy

    def close(self) -> None:
        """Hang up: the runner ends, and with it, as pid 1, everything in the box."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._connection.close()
        self._destroy()
        if self._slot is not None:
            self._slot.release()  # only now: the box's processes are gone


def _describe_end(reply: Reply) -> str:
    if reply.limit is not None:
        return f"The compiler went over its limit ({reply.limit})."
    return f"The compiler ended with status {reply.exit_code}, signal {reply.signal}."


def _with_result(run: Run, mode: str, extra: bytes) -> Run:
    """Add what came on the private descriptor."""
    if mode == "execution" and extra == NOT_COMPILED and run.exit_code == 1:
        return replace(run, failure="compile")
    if mode != Kind.ASSERTION:
        written = mode == "function" and extra.startswith(WRITTEN)
        return replace(run, value=extra[len(WRITTEN) if written else 0 :] or None, written=written)
    outcome, text = "ended", ""
    with contextlib.suppress(ValueError):  # nothing, or not all of it: the tester was ended
        outcome, text = json.loads(extra)
    stderr = run.stderr + text.encode("utf-8", "surrogatepass")
    return replace(run, failure=None if outcome == "passed" else outcome, stderr=stderr)
