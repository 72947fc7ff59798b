"""Assertion tests in two processes: the test code in one, the program in the other.

The tester executes the test code. Names that the program defines are found through a conversation: a call goes over
with plain arguments and comes back as a plain value, so whatever the program returns is data before an assertion looks
at it. The program's process never holds the test code, and has no descriptor of the tester's report; the tester's
memory is closed to it (not dumpable, and another uid where the box has root).

Messages are length-prefixed JSON. Tester asks: ["names"], ["get", name], ["call", target, args, kwargs],
["attribute", handle, name], ["iterate", handle]. The program answers ["value", v, arguments], ["raise", type, v], or,
in the middle of a call, asks back: ["callback", number, args].
"""

import builtins
import io
import os
import select
import struct
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from . import launch, values

MAX_MESSAGE = 256 << 20
MAX_REPORT = 20_000
MODULES = frozenset({
    "math", "cmath", "re", "string", "itertools", "functools", "collections", "random", "datetime", "heapq", "bisect",
    "operator", "json", "copy", "typing", "statistics", "decimal", "fractions",
})  # fmt: skip


class ProgramEnded(Exception):
    """The program's process ended before the test code did."""


class ProgramError(Exception):
    """Stands for an exception class of the program's own."""


class Line:
    """One end of the conversation."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def send(self, tree: values.Tree) -> None:
        data = values.dump(tree)
        launch.write_all(self.descriptor, struct.pack("<Q", len(data)) + data)

    def wait(self) -> None:
        """Until the other end speaks or hangs up."""
        select.select([self.descriptor], [], [])

    def receive(self) -> values.Tree:
        (size,) = struct.unpack("<Q", self.read(8))
        if size > MAX_MESSAGE:
            raise ProgramEnded("a message is too large")
        return values._loads(self.read(size))

    def read(self, size: int) -> bytes:
        parts = []
        while size:
            part = os.read(self.descriptor, min(size, 1 << 20))
            if not part:
                raise ProgramEnded("the program ended before the test did")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


# --- the tester's side -------------------------------------------------------------------------------------------


class Handle:
    """An object that lives in the program: what is done to it is done there. It equals no plain value."""

    __slots__ = ("_number", "_tester", "_type_name")

    def __init__(self, tester: "Tester", number: int, type_name: str) -> None:
        self._tester, self._number, self._type_name = tester, number, type_name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._tester.ask("call", self._number, arguments, named)

    def __getattr__(self, name: str) -> Any:
        return self._tester.ask("attribute", self._number, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tester.ask("iterate", self._number))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Handle):
            return self._number == other._number or self._tester.ask("method", self._number, "__eq__", (other,)) is True
        return False

    def __contains__(self, member: object) -> bool:
        return member in list(self)  # the members come over as data: an object that claims to hold all holds none

    def __hash__(self) -> int:
        return hash(self._number)

    def __repr__(self) -> str:
        return f"<{self._type_name} of the program>"


def _forward(name: str) -> Callable[..., Any]:
    def method(self: Handle, *arguments: Any) -> Any:
        return self._tester.ask("method", self._number, name, arguments)

    return method


def _compare(name: str) -> Callable[[Handle, object], bool]:
    def method(self: Handle, other: object) -> bool:
        if not isinstance(other, Handle):
            raise TypeError(f"an object of the program can't be compared with {other!r}: only its data could be")
        return self._tester.ask("method", self._number, name, (other,)) is True

    return method


for _name in (
    "__len__", "__getitem__", "__setitem__", "__delitem__", "__str__", "__add__", "__sub__", "__mul__", "__truediv__",
    "__bool__", "__int__", "__float__", "__next__", "__neg__", "__enter__", "__exit__", "__abs__", "__mod__",
    "__floordiv__", "__pow__", "__and__", "__or__", "__xor__",
):  # fmt: skip
    setattr(Handle, _name, _forward(_name))
for _name in ("__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Handle, _name, _compare(_name))


class Names(dict[str, Any]):
    """The test code's globals: its own names first, then the program's."""

    def __init__(self, tester: "Tester") -> None:
        super().__init__(__name__="__main__", __builtins__=builtins)
        self.tester = tester

    def __missing__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.tester.names:
            raise KeyError(name)
        return self.tester.fetch(name)


class Tester:
    """Executes test code against a program in another process."""

    def __init__(self, line: Line, entry_point: str | None) -> None:
        self.line = line
        self.callbacks: list[Callable[..., Any]] = []
        # A builtin that the program shadows is the program's only where it is the very thing under test: else a
        # program with an `abs` of its own would decide what `abs(result - 1.5) < 1e-6` says.
        self.names = {
            name: kind
            for name, kind in self.ask_raw(["names"])
            if isinstance(name, str) and (name == entry_point or not hasattr(builtins, name))
        }

    def fetch(self, name: str) -> Any:
        kind = self.names[name]
        if isinstance(kind, str) and kind in MODULES:
            return __import__(kind)
        return self.ask("get", name)

    def decode(self, tree: values.Tree) -> Any:
        tags = {"handle": lambda _, content: Handle(self, int(content[0]), str(content[1])[:100])}
        iterators = {"iterator": lambda decoder, content: iter(decoder.value(content))}
        return values.Decoder({**tags, **iterators}).value(tree)

    def encode(self, value: Any) -> values.Tree:
        return values.Encoder(self.opaque).tree(value)

    def opaque(self, value: Any) -> values.Tree:
        if isinstance(value, Handle):
            return {"$": "handle", "v": value._number}
        if callable(value):
            self.callbacks.append(value)
            return {"$": "callback", "v": len(self.callbacks) - 1}
        return values.describe(value)

    def ask(self, verb: str, *content: Any) -> Any:
        """One question. Arguments that the program changed in place are changed here too."""
        arguments = next((item for item in content if isinstance(item, tuple)), ())
        return self.answer(self.ask_raw([verb, *map(self.encode, content)], whole=True), arguments)

    def ask_raw(self, message: list[values.Tree], whole: bool = False) -> values.Tree:
        self.line.send(message)
        while True:
            reply = self.line.receive()
            if reply[0] != "callback":
                return reply if whole else reply[1]
            self.line.send(self.call_back(reply))

    def call_back(self, message: list[values.Tree]) -> list[values.Tree]:
        try:
            result = self.callbacks[message[1]](*self.decode(message[2]))
            return ["value", self.encode(result)]
        except Exception as error:
            return ["raise", type(error).__name__, self.encode(error.args)]

    def answer(self, reply: list[values.Tree], arguments: tuple[Any, ...]) -> Any:
        if reply[0] == "raise":
            raise self.exception(reply)
        if len(reply) > 2 and reply[2] is not None:
            for mine, changed in zip(arguments, self.decode(reply[2]), strict=False):
                mirror(mine, changed)
        return self.decode(reply[1])

    def exception(self, reply: list[values.Tree]) -> BaseException:
        kind = getattr(builtins, str(reply[1]), None)
        content = self.decode(reply[2])
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            kind, content = ProgramError, (f"{reply[1]}: {content}",)
        try:
            error = kind(*content) if isinstance(content, tuple) else kind(str(content))
        except TypeError:
            error = kind()
        error.__from_program__ = True  # type: ignore[attr-defined]
        return error


def mirror(mine: Any, changed: Any) -> None:
    """Bring a mutable argument to the state that the program left it in."""
    if type(mine) is list and type(changed) is list:
        mine[:] = changed
    elif (type(mine) is dict and type(changed) is dict) or (type(mine) is set and type(changed) is set):
        mine.clear()
        mine.update(changed)


def run_tester(conversation: int, test: int, report: int, entry_point: str | None) -> NoReturn:
    """Body of the tester. It writes `passed` only after the test code has run to its end."""
    source = launch.read_all(test)
    try:
        code = compile(source, "<test>", "exec", dont_inherit=True)
        tester = Tester(Line(conversation), entry_point)
        names = Names(tester)
        exec(code, names)
        outcome, text = "passed", ""
    except BaseException as error:
        ours = not getattr(error, "__from_program__", False)
        outcome = "assertion" if isinstance(error, AssertionError) and ours else "error"
        outcome = "ended" if isinstance(error, (ProgramEnded, BrokenPipeError, ConnectionResetError)) else outcome
        text = explain(error, source)
    launch.write_all(report, values.dump([outcome, text]))
    launch._exit(0)


def explain(error: BaseException, source: bytes) -> str:
    """The failing line of the test and the error, without our frames."""
    trace = error.__traceback__
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<test>":
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = source.decode("utf-8", "replace").splitlines()
    where = f"line {line} of the test: {lines[line - 1].strip()[:500]}\n" if line and line <= len(lines) else ""
    text = "".join(traceback.format_exception_only(type(error), error))
    return (where + text)[:MAX_REPORT]


# --- the program's side ------------------------------------------------------------------------------------------


class Servant:
    """Answers the tester's questions about the program's names."""

    def __init__(self, line: Line, module: types.ModuleType) -> None:
        self.line = line
        self.scope = module.__dict__
        self.objects: list[Any] = []

    def serve(self) -> None:
        while True:
            try:
                message = self.line.receive()
            except (ProgramEnded, OSError):
                return
            if message[0] == "names":
                self.line.send(["value", [[name, module_name(value)] for name, value in self.scope.items()]])
                continue
            self.line.send(self.reply(message[0], message[1:]))

    def reply(self, verb: str, content: list[values.Tree]) -> list[values.Tree]:
        try:
            content = [self.decode(item) for item in content]
            arguments = next((item for item in content if type(item) is tuple), ())
            result = getattr(self, verb)(*content)
            changed = None
            if any(type(item) in (list, dict, set) for item in arguments):
                changed = self.encode(arguments)
            return ["value", self.encode(result), changed]
        except BaseException as error:
            if isinstance(error, SystemExit):
                launch.finish(launch.exit_status(error.code))
            remember(error)
            return ["raise", type(error).__name__, self.safe(error.args)]

    def safe(self, arguments: tuple[Any, ...]) -> values.Tree:
        try:
            return self.encode(arguments)
        except BaseException:
            return {"$": "tuple", "v": []}

    def get(self, name: str) -> Any:
        return self.scope[name]

    def call(self, target: int, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return self.objects[target](*arguments, **named)

    def method(self, target: int, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "__str__":
            return str(self.objects[target])
        if name == "__bool__":
            return bool(self.objects[target])
        method = getattr(self.objects[target], name, None)
        if method is None:  # as the operator would say; `list` asks for a length that needn't be there
            raise TypeError(f"{type(self.objects[target]).__name__!r} object has no {name}")
        return method(*arguments)

    def attribute(self, target: int, name: str) -> Any:
        return getattr(self.objects[target], name)

    def iterate(self, target: int) -> list[Any]:
        return list(self.objects[target])

    def encode(self, value: Any) -> values.Tree:
        return values.Encoder(self.opaque).tree(value)

    def opaque(self, value: Any) -> values.Tree:
        self.objects.append(value)
        return {"$": "handle", "v": [len(self.objects) - 1, type(value).__name__]}

    def decode(self, tree: values.Tree) -> Any:
        tags = {
            "handle": lambda _, content: self.objects[content],
            "callback": lambda _, content: self.callback(content),
        }
        return values.Decoder(tags).value(tree)

    def callback(self, number: int) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.line.send(["callback", number, self.encode(arguments)])
            reply = self.line.receive()
            if reply[0] == "raise":
                kind = getattr(builtins, reply[1], Exception)
                raise kind(*self.decode(reply[2]))
            return self.decode(reply[1])

        return call


def module_name(value: object) -> str | None:
    name = getattr(value, "__name__", None) if type(value) is type(sys) else None
    return name if isinstance(name, str) else None


def remember(error: BaseException) -> None:
    """The program's own traceback goes to its stderr, for people."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in ("<launch>", "<values>", "<assertion>"):
        trace = trace.tb_next
    out = io.StringIO()
    traceback.print_exception(type(error), error, trace, file=out, limit=-20)
    launch.write_error(out.getvalue()[-4000:])


def run_program(artifact: int, prelude: bool, conversation: int) -> NoReturn:
    """Body of the program's process: load it, then answer."""
    line = Line(conversation)
    line.wait()  # from here on the tester is closed to this process, even where both have one uid
    module, code, _ = launch.load_program(artifact, "program", prelude)
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        launch.finish(launch.report(error) or 1)
    Servant(line, module).serve()
    launch.finish(0)
