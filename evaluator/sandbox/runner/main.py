"""The loop: receive an order, fork, watch, prove the box empty, answer with facts.

Orders are small JSON datagrams with descriptors beside them. The runner reads no byte of what the descriptors hold:
they are read in the forked child only, so that no later test can find an earlier one's data in inherited memory.

    hello  {slot, private}                                -> what runs here
    preload {modules}                 imports, in the runner itself, what programs to come will import
    load   {limits, language, bundle} source, artifact, messages
    run    {mode, limits, prelude, entry_point, command, after_success}
                                      artifact, stdin, stdout, stderr [, value | test, report | file…, report]
                                      source, stdin, stdout, stderr, order, report (an execution)
                                      artifact, conversation (a series)
                                      source, artifact, messages, conversation (a series from its source)
    cancel                            ends the run that is going on and all that wait; unanswered itself
"""

import _signal  # type: ignore[import-not-found]
import gc
import json
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import assertion, calls, confine, execution, launch, series, tools, watch

Work = Callable[[], Any]
"""What a forked child has to do. It doesn't return."""
SCRATCH = "/w"
DONE = b"{}"
SKIPPED = b'{"cancelled":true}'  # the answer to an order that was only to be carried out after a success
OOM_SCORE = b"1000"  # when the box's memory is gone, the kernel takes the test and not the runner


def serve(control: socket.socket) -> Work:
    """Serve until the worker hangs up. Returns in a forked child only: what it returns is the child's work."""
    if os.getpid() != 1:
        raise SystemExit("the runner must be pid 1 of its own process namespace")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the only signal that Python would let through to process 1
    confine.set_dumpable(False)
    confine.set_thread_stacks()
    confine.install_filter()
    launch.preload()
    order = json.loads(control.recv(65536))
    slot = confine.Slot(order["slot"], order["private"])
    started = mmap.mmap(-1, mmap.PAGESIZE)  # shared with children until the moment they run a program
    description = json.dumps(describe(slot)).encode()  # imports, so before what is there is frozen
    launch.forget_runner()  # here and not in each child: what a child doesn't touch, it needn't copy
    settle(slot)
    control.send(description)
    orders = watch.Orders(control)
    while True:
        order, descriptors = orders.receive()
        if order["op"] == "cancel":
            continue  # it came too late: the run had ended
        if order["op"] == "preload":
            launch.import_all(order["modules"])
            settle(slot)
            control.send(DONE)
            continue
        if order["op"] == "cancelled" or (order.get("after_success") and not slot.succeeded):
            control.send(SKIPPED)
        else:
            work = Runner(orders, slot, order, descriptors, started).perform()
            if work is not None:
                return work  # a child: it has arranged its descriptors anew
        for descriptor in descriptors:
            os.close(descriptor)


def settle(slot: confine.Slot) -> None:
    """What is there now is there to stay: no collection looks at it again, and a child's use counts from here."""
    gc.collect()
    gc.freeze()
    measure_self(slot)


def measure_self(slot: confine.Slot) -> None:
    """The zero points: this process's address space, and the resident memory that a child starts with."""
    fields = watch.read("/proc/self/statm").split()
    slot.address_space = int(fields[0]) * watch.PAGE
    child = os.fork()
    if child == 0:
        os._exit(0)
    slot.resident = os.wait4(child, 0)[2].ru_maxrss * 1024


def describe(slot: confine.Slot) -> dict[str, Any]:
    import importlib.metadata

    try:
        numpy = importlib.metadata.version("numpy")
    except importlib.metadata.PackageNotFoundError:
        numpy = None
    version = sys.version_info
    return {"python": f"{version.major}.{version.minor}.{version.micro}", "numpy": numpy, "root": slot.uid is not None}


class Runner:
    """One order."""

    def __init__(
        self,
        orders: watch.Orders,
        slot: confine.Slot,
        order: dict[str, Any],
        descriptors: list[int],
        started: mmap.mmap,
    ) -> None:
        self.orders = orders
        self.slot = slot
        self.order = order
        self.limits = order["limits"]
        self.descriptors = descriptors
        self.started = started
        self.ends: tuple[int, ...] = ()  # numbers, not objects: an object would close its number when it is collected

    def perform(self) -> Work | None:
        """Fork what the order needs and watch it. In the child, return its work; in the runner, answer."""
        written = slice(1, 3) if self.order["op"] == "load" else slice(2, 4)
        outputs = [*self.descriptors[written], *self.descriptors[4:][-1:]]  # the last is a result, where there is one
        if self.order.get("mode") in ("series", "opening"):
            outputs = []  # the worker holds its streams
        observer = watch.Watch(self.slot, self.orders, self.limits, outputs, SCRATCH)
        children: list[int] = []
        plan = self.plan()
        self.started[: len(plan)] = bytes(len(plan))
        for prepare in plan:
            pid = os.fork()
            if pid == 0:
                return self.child(prepare, len(children))
            children.append(pid)
        for end in self.ends:
            os.close(end)  # or the tester would never learn that the program has ended
        observer.wait(children[0])
        facts = observer.sweep()
        facts.children = children
        signalled = any(os.WIFSIGNALED(status) for status in facts.statuses.values())
        if facts.limit is None and signalled and watch.count_oom_kills() > self.slot.oom_kills:
            facts.limit = "memory"
        if facts.limit is not None:
            self.slot.oom_kills = watch.count_oom_kills()
        self.slot.succeeded = facts.limit is None and facts.statuses.get(children[-1], 0) == 0
        self.answer(facts, children[-1])
        return None

    def answer(self, facts: watch.Facts, program: int) -> None:
        status = facts.statuses.get(program, 0)
        killed = os.WIFSIGNALED(status)
        reply = {
            "exit": None if killed else os.waitstatus_to_exitcode(status),
            "signal": os.WTERMSIG(status) if killed else None,
            "cpu": facts.cpu,
            "wall": facts.wall,
            "memory": max(0, facts.memory),
            "limit": facts.limit,
            "cancelled": facts.cancelled,
            "started": facts.limit is not None or facts.cancelled or 0 not in self.started[: len(facts.children)],
            "clean": watch.clean(SCRATCH, self.slot),
        }
        self.orders.control.send(json.dumps(reply).encode())

    def plan(self) -> list[Callable[[], Work]]:
        """The children that this order needs, the one that is waited for first: functions that return their work."""
        if self.order["op"] == "load":
            return [self.compile]
        mode = self.order["mode"]
        if mode == "assertion":
            self.ends = tuple(end.detach() for end in socket.socketpair())
            return [self.tester, self.assertion_program]
        plans = {
            "script": self.script,
            "function": self.function,
            "series": self.series,
            "opening": self.opening,
            "command": self.command,
            "tool": self.tool,
            "execution": self.execution,
        }
        return [plans[mode]]

    def child(self, prepare: Callable[[], Work], number: int) -> Work:
        """In the child: give up privileges, then hand over. Whatever goes wrong, no second runner goes on."""
        try:
            os.setsid()
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)  # without the enumerations of `signal`
            confine.set_dumpable(True)
            self.resist_nothing()
            confine.apply_limits(self.slot, self.limits, executes=self.executes())
            self.orders.control.close()
            work = prepare()
            self.started[number] = 1  # from here on, whatever happens is the program's doing
            self.started.close()
            return work
        except BaseException as error:
            launch.write_error(f"the runner could not start the program: {error!r}\n")
            os._exit(125)

    def executes(self) -> bool:
        """Whether the order ends in another program than this interpreter."""
        return self.order.get("mode") == "command" or self.order.get("language", "python") != "python"

    def resist_nothing(self) -> None:
        try:
            file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
            os.write(file, OOM_SCORE)
            os.close(file)
        except OSError:
            pass  # not every box lets its processes say so; the watch is there too

    def enter(
        self,
        stdin: int,
        stdout: int,
        stderr: int,
        keep: tuple[int, ...] = (),
        offset: int = 0,
        dumpable: bool = True,
    ) -> Sequence[int]:
        """Uid, standard descriptors, scratch as the working directory. Returns the kept descriptors' new numbers."""
        self.slot.become(offset)
        confine.set_dumpable(dumpable)
        kept = launch.place(stdin, stdout, stderr, keep)
        os.chdir(SCRATCH)
        return kept

    def compile(self) -> Work:
        source, artifact, messages = self.descriptors
        source, artifact, messages = self.enter(messages, messages, messages, (source, artifact, messages))
        if self.order["language"] == "cpp":
            return lambda: tools.compile_native(source, artifact, messages)
        bundle = self.order["bundle"]
        return lambda: launch.compile_program(source, artifact, messages, bundle)

    def script(self) -> Work:
        artifact, stdin, stdout, stderr = self.descriptors
        (artifact,) = self.enter(stdin, stdout, stderr, (artifact,))
        return self.ready(launch.run_script, artifact, self.order["prelude"])

    def function(self) -> Work:
        artifact, stdin, stdout, stderr, value = self.descriptors
        artifact, value = self.enter(stdin, stdout, stderr, (artifact, value))
        return self.ready(calls.run_function, artifact, self.order["prelude"], self.order["entry_point"], value)

    def command(self) -> Work:
        artifact, stdin, stdout, stderr = self.descriptors
        (artifact,) = self.enter(stdin, stdout, stderr, (artifact,))
        name, command = self.order["file"], self.order["command"]
        return lambda: launch.run_command(artifact, name, command)

    def series(self) -> Work:
        artifact, conversation = self.descriptors
        null = os.open("/dev/null", os.O_RDWR)
        artifact, conversation = self.enter(null, null, null, (artifact, conversation))
        return lambda: series.serve(artifact, self.order["prelude"], self.order["entry_point"], conversation)

    def opening(self) -> Work:
        source, artifact, messages, conversation = self.descriptors
        null = os.open("/dev/null", os.O_RDWR)
        kept = self.enter(null, null, null, (source, artifact, messages, conversation))
        source, artifact, messages, conversation = kept
        order = self.order["prelude"], self.order["entry_point"]
        return lambda: series.compile_and_serve(source, artifact, messages, *order, conversation)

    def tool(self) -> Work:
        artifact, stdin, stdout, stderr, *files, report = self.descriptors
        artifact, *files, report = self.enter(stdin, stdout, stderr, (artifact, *files, report))
        arguments = [argument if isinstance(argument, str) else files[argument] for argument in self.order["arguments"]]
        order = tools.Order(self.order["language"], arguments, self.order["report"])
        return self.ready(tools.run_tool, artifact, order, files, report)

    def execution(self) -> Work:
        source, stdin, stdout, stderr, order, report = self.descriptors
        source, order, report = self.enter(stdin, stdout, stderr, (source, order, report))
        return self.ready(execution.run_source, source, order, report)

    def tester(self) -> Work:
        _, stdin, _, _, test, report = self.descriptors
        line = self.ends[0]
        sink = os.open("/dev/null", os.O_WRONLY)  # what the test code prints isn't a report
        line, test, report = self.enter(stdin, sink, sink, (line, test, report), offset=1, dumpable=False)
        return self.ready(assertion.run_tester, line, test, report, self.order["entry_point"])

    def assertion_program(self) -> Work:
        artifact, stdin, stdout, stderr, _, _ = self.descriptors
        artifact, line = self.enter(stdin, stdout, stderr, (artifact, self.ends[1]))
        return self.ready(assertion.run_program, artifact, self.order["prelude"], line)

    def ready(self, function: Callable[..., Any], *arguments: object) -> Work:
        """Streams anew, then the work as a call without arguments."""
        launch.open_streams()
        return lambda: function(*arguments)
