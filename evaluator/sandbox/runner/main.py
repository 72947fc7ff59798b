"""The loop: receive an order, fork, watch, prove the box empty, answer with facts.

Orders are small datagrams with descriptors beside them. The runner reads no byte of what the descriptors hold:
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
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from . import assertion, calls, confine, execution, fence, launch, series, streams, tools, watch
from .wire import FACTS, LIMITS

Work = Callable[[], Any]
"""What a forked child has to do. It doesn't return."""
SCRATCH = "/w"
DONE = FACTS.pack(0, 0.0, 0.0, 0, 0, False, True, True, False)
SKIPPED = FACTS.pack(0, 0.0, 0.0, 0, 0, True, True, True, False)
"""The answer to an order that was only to be carried out after a success."""
NOWHERE = (streams.NULL, streams.NULL, streams.NULL)

# Found once: what a child looks up by a module's name, it has to copy a page of a cache for.
_setsid, _chdir = os.setsid, os.chdir
_handle, _SIGINT, _interrupt = _signal.signal, _signal.SIGINT, _signal.default_int_handler
_give_up, _place, _watch_forks = confine.give_up, streams.place, launch.watch_forks
alive: list[Any] = [None]
"""Never freed in a child, which would have to copy it first. Nor is the connection, which would close its number:
another file's by then."""
alive[0] = (alive, globals(), sys.modules["__main__"])


def serve(connection: socket.socket) -> Work:
    """Serve until the worker hangs up. Returns in a forked child only: what it returns is the child's work."""
    plan = fence.find_plan(sys.argv)
    if plan is not None:
        around = fence.settle(plan)
    else:
        around = None
        watch.claim_namespace()
        if not watch.clean_leftovers(SCRATCH):
            raise SystemExit(f"what an earlier session left in {SCRATCH} can't be removed")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the only signal that Python would let through to process 1
    streams.open_streams()
    control = streams.reserve_numbers(connection)
    confine.set_dumpable(False)
    confine.set_thread_stacks()
    confine.set_limits()
    launch.preload()
    started = mmap.mmap(-1, mmap.PAGESIZE)  # shared with children until the moment they run a program
    confine.install_filter()
    order = json.loads(control.recv(65536))
    slot = confine.Slot(order["slot"], order["private"])
    slot.networked = around is not None or watch.has_network()
    if around is not None:
        slot.fence, slot.scratch, slot.place = around, around.scratch, around.scratch.encode()
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
            runner = Runner(orders, slot, order, descriptors, started)
            work = runner.perform()
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
    version = sys.version_info
    return {
        "python": f"{version.major}.{version.minor}.{version.micro}",
        "numpy": find_version("numpy"),
        "root": slot.uid is not None,
    }


def find_version(package: str) -> str | None:
    """By the name of its metadata's folder: `importlib.metadata` would bring a fifth of all that a fork has to copy."""
    for folder in sys.path:
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.startswith(f"{package}-") and name.endswith(".dist-info"):
                return name.removeprefix(f"{package}-").removesuffix(".dist-info")
    return None


def prepare(
    slot: confine.Slot,
    rules: confine.Rules,
    offset: int,
    dumpable: bool,
    descriptors: tuple[int, ...],
    started: mmap.mmap,
    number: int,
) -> None:
    """In the child: give up privileges, arrange descriptors. Whatever goes wrong, no second runner goes on."""
    try:
        _setsid()
        _handle(_SIGINT, _interrupt)
        _give_up(slot, rules, offset, dumpable)
        _place(descriptors)
        _chdir(slot.place)
        _watch_forks()
        started[number] = 1  # from here on, whatever happens is the program's doing
        started.close()
    except BaseException as error:
        launch.write_error(f"the runner could not start the program: {error!r}\n")
        os._exit(125)


class Child(NamedTuple):
    """One process that an order needs, all of it decided before the fork: what a child computes, it has to copy."""

    descriptors: tuple[int, ...]
    """What becomes its descriptors 0, 1, 2, …"""
    work: Work
    offset: int = 0
    """Added to the slot's uid."""
    dumpable: bool = True


class Runner:
    """One order."""

    __slots__ = ("descriptors", "ends", "limits", "order", "orders", "slot", "started")

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
        plan = self.plan()
        rules = confine.find_rules(self.slot, self.limits, executes=self.executes())
        observer = watch.Watch(self.slot, self.orders, self.limits, outputs)
        children: list[int] = []
        self.started[: len(plan)] = bytes(len(plan))
        alive[1:] = [self, plan, rules, observer]
        for descriptors, work, offset, dumpable in plan:
            pid = os.fork()
            if pid == 0:
                prepare(self.slot, rules, offset, dumpable, descriptors, self.started, len(children))
                return work
            children.append(pid)
        observer.wait(children[0], self.ends)
        if len(children) > 1 and observer.ended_with(children[0], assertion.HUNG_UP):
            observer.let_end(children[1])
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
        started = facts.limit is not None or facts.cancelled or 0 not in self.started[: len(facts.children)]
        clean = watch.clean(self.slot.scratch, self.slot)
        status = facts.statuses.get(program, 0)
        limit = LIMITS.index(facts.limit or "")
        memory = max(0, facts.memory)
        left = facts.limit is None and not facts.cancelled and any(pid not in facts.children for pid in facts.left)
        reply = FACTS.pack(status, facts.cpu, facts.wall, memory, limit, facts.cancelled, started, clean, left)
        self.orders.control.send(reply)

    def executes(self) -> bool:
        """Whether the order ends in another program than this interpreter."""
        return self.order.get("mode") == "command" or self.order.get("language", "python") != "python"

    def plan(self) -> list[Child]:
        """The children that this order needs, the one that is waited for first."""
        if self.order["op"] == "load":
            return [self.compile()]
        mode = self.order["mode"]
        if mode == "assertion":
            self.ends = tuple(end.detach() for end in socket.socketpair())
            return [self.tester(), self.assertion_program()]
        plans = {
            "script": self.script,
            "function": self.function,
            "series": self.series,
            "opening": self.opening,
            "command": self.command,
            "tool": self.tool,
            "execution": self.execution,
        }
        return [plans[mode]()]

    def compile(self) -> Child:
        source, artifact, messages = self.descriptors
        if self.order["language"] == "cpp":
            work = partial(tools.compile_native, 3, 4, 5)
        else:
            work = partial(launch.compile_program, 3, 4, 5, self.order["bundle"])
        return Child((messages, messages, messages, source, artifact, messages), work)

    def script(self) -> Child:
        artifact, stdin, stdout, stderr = self.descriptors
        return Child((stdin, stdout, stderr, artifact), partial(launch.run_script, 3, self.order["prelude"]))

    def function(self) -> Child:
        artifact, stdin, stdout, stderr, value = self.descriptors
        work = partial(calls.run_function, 3, self.order["prelude"], self.order["entry_point"], 4)
        return Child((stdin, stdout, stderr, artifact, value), work)

    def command(self) -> Child:
        artifact, stdin, stdout, stderr = self.descriptors
        work = partial(launch.run_command, 3, self.order["file"], self.order["command"])
        return Child((stdin, stdout, stderr, artifact), work)

    def series(self) -> Child:
        artifact, conversation = self.descriptors
        work = partial(series.serve, 3, self.order["prelude"], self.order["entry_point"], 4)
        return Child((*NOWHERE, artifact, conversation), work)

    def opening(self) -> Child:
        work = partial(series.compile_and_serve, 3, 4, 5, self.order["prelude"], self.order["entry_point"], 6)
        return Child((*NOWHERE, *self.descriptors), work)

    def tool(self) -> Child:
        artifact, stdin, stdout, stderr, *files, report = self.descriptors
        numbers = list(range(4, 4 + len(files)))
        arguments = [
            argument if isinstance(argument, str) else numbers[argument] for argument in self.order["arguments"]
        ]
        order = tools.Order(self.order["language"], arguments, self.order["report"])
        work = partial(tools.run_tool, 3, order, numbers, 4 + len(files))
        return Child((stdin, stdout, stderr, artifact, *files, report), work)

    def execution(self) -> Child:
        source, stdin, stdout, stderr, order, report = self.descriptors
        return Child((stdin, stdout, stderr, source, order, report), partial(execution.run_source, 3, 4, 5))

    def tester(self) -> Child:
        _, stdin, _, _, test, report = self.descriptors
        work = partial(assertion.run_tester, 3, 4, 5, self.order["entry_point"])
        # What the test code prints isn't a report.
        return Child((stdin, *NOWHERE[1:], self.ends[0], test, report), work, offset=1, dumpable=False)

    def assertion_program(self) -> Child:
        artifact, stdin, stdout, stderr, _, _ = self.descriptors
        work = partial(assertion.run_program, 3, self.order["prelude"], 4)
        return Child((stdin, stdout, stderr, artifact, self.ends[1]), work)
