"""The program's end of the conversation: answers what `tester.py` asks about the program's names and objects.

It runs in the program's process, where everything may be patched; nothing here protects the verdict. What protects it
is that only data leaves this process, and that the tester believes no more of it than a call's result.
"""

import _thread
import copy
import io
import os
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from . import exchange, foreign, kinds, launch, sharing, specials, values

OURS = frozenset(f"<{name}>" for name in ("launch", "values", "assertion", "servant", "foreign", "exchange", "kinds",
                                          "sharing", "specials"))  # fmt: skip
HIDDEN = frozenset({"__dict__", "__weakref__", "__module__", "__new__", "__slots__", "__qualname__"})
MAX_CAUSES = 5


class Servant(exchange.Peer):
    """Answers the tester's questions about the program's names."""

    def __init__(self, line: exchange.Line, module: types.ModuleType) -> None:
        super().__init__(line)
        self.module = module
        self.shared = sharing.Shared(1, self.write)
        self.readers: dict[str, Callable[..., Any]] = {
            "handle": lambda _, number: self.objects[number],
            "class": lambda _, number: self.objects[number],
            "refill": self.read_refill,
            "error": self.read_error,
            "descriptor": lambda decoder, content: foreign.DESCRIPTORS[content[0]](*decoder.value(content[1])),
            "callback": lambda _, content: self.borrow_function(*content),
            "lent": lambda _, content: self.borrow(*content),
        }
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.borrowed: dict[int, Any] = {}
        """Stand-ins for what the test lent, by number, so that the same object is the same here."""
        self.lock = _thread.RLock()
        self.depth = 0
        self.loop: Any = None
        self.printed = 0

    def serve(self) -> None:
        while True:
            try:
                question = self.line.receive()
            except exchange.ProgramEnded:
                return
            self.line.send(self.reply(question))

    def ask(self, verb: str, number: int, *content: Any) -> Any:
        """Ask the tester for something that it lent. One thread at a time."""
        if self.depth == 0:
            raise RuntimeError("the test isn't waiting: what it lent can be used during a call only")
        with self.lock:
            answer = self.exchange([verb, number, *map(self.write, content)])
        value = self.decoder().value(answer[1])
        if answer[0] == "raise":
            raise value
        return value

    # --- answering ------------------------------------------------------------------------------------------------

    def reply(self, question: exchange.Message) -> exchange.Message:
        verb, changes, *content = [*question, []] if len(question) == 1 else question
        if verb == "names":
            return ["value", [[name, module_name(value)] for name, value in list(self.scope.items())]]
        if verb == "describe":
            return ["value", self.describe(self.objects[content[0]])]
        self.depth += 1
        asked = sharing.Group()
        try:
            word, tree, shown = "value", *self.carry_out(verb, changes, content, asked)
        except BaseException as error:
            word, tree, shown = "raise", self.write_error(self.encoder(), error), sharing.Group()
        self.depth -= 1
        changes, keeps = self.settle(asked, shown)
        return [word, tree, changes, keeps, self.collect_output()]

    def carry_out(
        self, verb: str, changes: list[values.Tree], content: list[values.Tree], asked: sharing.Group
    ) -> tuple[values.Tree, sharing.Group]:
        """The answer to a question. `asked` takes up the containers in it; those in the answer come back beside it."""
        decoder = self.decoder()
        for change in changes:
            decoder.value(change)
        decoder.group = asked
        arguments = [self.read(decoder, item) for item in content]
        if asked.keys:
            self.shared.begin(asked)
        encoder = kinds.Encoder(self.write_other, self.shared, adopt=verb in ("attribute", "get"))
        tree = encoder.tree(getattr(self, f"do_{verb.replace(' ', '_')}")(*arguments))
        encoder.group.roots = dict.fromkeys(encoder.group.roots)
        return tree, encoder.group

    def settle(self, asked: sharing.Group, shown: sharing.Group) -> tuple[list[values.Tree], bool]:
        """What has changed in containers that both sides hold, and whether those of the question stay shared."""
        try:
            # Inside of a call of a call only its own: the outer one's may be large, and in the middle of a change.
            changes = self.shared.find_changes([asked]) if self.depth > 0 else self.shared.find_all_changes()
            keeps = self.shared.is_held(asked)
            if not keeps:
                self.shared.forget(asked)
            if shown.keys - asked.keys:
                self.shared.begin(shown)
            if self.depth == 0:
                self.shared.settle()
            return changes, keeps
        except Exception:
            return [], False  # what can't be written can't have changed for the test

    @property
    def scope(self) -> dict[str, Any]:
        return self.module.__dict__

    def read(self, decoder: kinds.Decoder, tree: values.Tree) -> Any:
        """One part of a question: a tree, or the arguments of a call, which are several."""
        if type(tree) is list:
            return [decoder.value(item) for item in tree]
        if type(tree) is dict and "$" not in tree:
            return {name: decoder.value(item) for name, item in tree.items()}
        return decoder.value(tree)

    def collect_output(self) -> str:
        """What was printed since the last answer: a test may look at it."""
        try:
            launch.flush(sys.stdout)
            size = os.fstat(1).st_size
            data = os.pread(1, size - self.printed, self.printed) if size > self.printed else b""
        except OSError:
            return ""
        self.printed += len(data)
        return data.decode("utf-8", "replace")

    def do_get(self, name: str) -> Any:
        try:
            return self.scope[name]
        except KeyError:
            raise NameError(f"name {name!r} is not defined") from None

    def do_set_global(self, name: str, value: Any) -> None:
        self.scope[name] = value

    def do_delete_global(self, name: str) -> None:
        del self.scope[name]

    def do_entry(self, path: str) -> Any:
        """The entry point: `function`, `Class.method` on a fresh instance, or `function` where `Solution` has it."""
        owner, _, name = path.rpartition(".")
        if not owner and name not in self.scope and hasattr(self.scope.get("Solution"), name):
            owner = "Solution"
        return getattr(self.do_get(owner)(), name) if owner else self.do_get(name)

    def do_call(self, target: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        return target(*arguments, **named)

    def do_special(self, target: Any, name: str, arguments: tuple[Any, ...]) -> Any:
        return specials.perform(target, name, arguments)

    def do_attribute(self, target: Any, name: str) -> Any:
        return getattr(target, name)

    def do_set(self, target: Any, name: str, value: Any) -> None:
        setattr(target, name, value)

    def do_delete(self, target: Any, name: str) -> None:
        delattr(target, name)

    def do_subscript(self, target: Any, key: Any) -> Any:
        return target[key]

    def do_inherited(self, owner: type, name: str, target: Any) -> Any:
        """What `super()` finds: the member of that class, not of the object's own."""
        found = next(vars(base)[name] for base in owner.__mro__ if name in vars(base))
        return found.__get__(target, type(target)) if hasattr(type(found), "__get__") else found

    def do_subclass(self, name: str, bases: tuple[type, ...], members: dict[str, Any], options: dict[str, Any]) -> Any:
        made = types.new_class(name, bases, options, lambda namespace: namespace.update(members))
        return self.number(made)

    def do_tell(self, error: BaseException) -> None:
        """The program's own traceback goes to its stderr, for people: of the exception that ended the test."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in OURS:
            trace = trace.tb_next
        out = io.StringIO()
        traceback.print_exception(type(error), error, trace, file=out, limit=-20)
        launch.write_error(out.getvalue()[-4000:])

    def do_copy(self, target: Any, deep: bool) -> Any:
        return copy.deepcopy(target) if deep else copy.copy(target)

    def do_await(self, target: Any) -> Any:
        """Run something awaitable to its end."""
        import asyncio

        async def run() -> Any:
            return await target

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(run())

    # --- values ---------------------------------------------------------------------------------------------------

    def encoder(self) -> kinds.Encoder:
        return kinds.Encoder(self.write_other, self.shared)

    def write(self, value: Any) -> values.Tree:
        return self.encoder().tree(value)

    def number(self, value: Any) -> int:
        """The number under which the tester knows an object. Objects are kept, so that no other gets its number."""
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return number

    def write_other(self, encoder: kinds.Encoder, value: Any, depth: int) -> values.Tree:
        kind = type(value)
        if issubclass(kind, foreign.Foreign):
            return {"$": "lent", "v": [foreign.number_of(value), {}]}
        if kind is types.FunctionType and (lent := foreign.CALLBACKS.get(value)) is not None:
            return {
                "$": "lent",
                "v": [lent, {name: encoder.tree(item, depth + 1) for name, item in vars(value).items()}],
            }
        if issubclass(kind, type):
            return {"$": "class", "v": self.number(value)}
        if issubclass(kind, BaseException):
            return self.write_error(encoder, value)
        class_tree = encoder.tree(kind, depth + 1)
        base = kinds.find_base(kind)
        if base is None:
            return {"$": "handle", "v": [self.number(value), class_tree]}
        known = id(value) in self.numbers
        tree = {"$": "relative", "v": [self.number(value), class_tree, write_data(encoder, base, value, depth)]}
        if not known and base in kinds.MUTABLE:
            self.shared.keep(value)
        return tree

    def write_error(self, encoder: kinds.Encoder, error: BaseException, causes: int = 0) -> values.Tree:
        """An exception: its class, arguments, text where its class is the program's, and what it was raised from."""
        try:
            kind: values.Tree = encoder.tree(type(error), 1)
            lent = vars(error).get("_microcoder_lent")
            cause = error.__cause__ if causes < MAX_CAUSES else None
            caused = None if cause is None else self.write_error(encoder, cause, causes + 1)
            is_own = kind["$"] == "class"
            text = str(error) if is_own else None
            state = None if is_own or not vars(error) else self.safe(encoder, vars(error))
            arguments = OSError.__reduce__(error)[1] if isinstance(error, OSError) and not is_own else error.args
            content = [kind, self.safe(encoder, arguments), self.number(error), text, lent, caused, state]
            return {"$": "error", "v": content}
        except BaseException:
            return {"$": "error", "v": [{"$": "named", "v": ["builtins", "RuntimeError"]}, *FAILED]}

    def safe(self, encoder: kinds.Encoder, part: Any) -> values.Tree:
        try:
            return encoder.tree(part)
        except Exception:
            return {"$": "tuple", "v": []}

    def describe(self, kind: Any) -> list[values.Tree]:
        """What the tester needs to know of a class to have one like it."""
        own = [name for name in vars(kind) if is_shown(name)]
        fields = vars(kind).get("_fields") if issubclass(kind, tuple) else None
        fields = list(fields) if type(fields) is tuple and all(type(name) is str for name in fields) else None
        bases = [self.write(base) for base in kind.__bases__]
        return [str(kind.__name__), bases, specials.find(kind), own, fields]

    def decoder(self) -> kinds.Decoder:
        return kinds.Decoder(self.readers, self.shared)

    def read_refill(self, decoder: kinds.Decoder, content: list[values.Tree]) -> Any:
        target = self.objects[content[0]]
        sharing.fill(target, decoder.value(content[1]))
        return target

    def read_error(self, decoder: kinds.Decoder, content: list[values.Tree]) -> BaseException:
        kind, arguments, lent = content
        made: Any = decoder.value(kind)
        try:
            error = made(*decoder.value(arguments))
        except TypeError:
            error = made.__new__(made)
        error._microcoder_lent = lent
        return error  # type: ignore[no-any-return]

    def borrow(self, number: int, names: list[str]) -> Any:
        """The stand-in for an object that the test lent, with these operations."""
        found = self.borrowed.get(number)
        if found is None:
            found = self.borrowed[number] = foreign.make_object(self, number, names)
        return found

    def borrow_function(self, number: int, name: str | None, text: str | None) -> Any:
        """The stand-in for a function or class that the test lent, with its name and documentation."""
        found = self.borrowed.get(number)
        if found is None:
            found = self.borrowed[number] = foreign.make_callback(self, number, name, text)
        return found


FAILED = (["an exception that can't be described"], None, None, None, None, None)


def write_data(encoder: kinds.Encoder, base: type, value: Any, depth: int) -> values.Tree:
    """The data of an instance of a plain type's subclass, by the plain type."""
    for kind in type(value).__mro__:
        if kind in kinds.WRITERS and kind not in kinds.BASE_WRITERS:
            return kinds.WRITERS[kind](encoder, value, depth)
    return kinds.BASE_WRITERS[base](encoder, value, depth)


def is_shown(name: object) -> bool:
    """Whether the tester is told that a class has a member of that name."""
    if type(name) is not str or name in HIDDEN:
        return False
    return specials.is_member(name)


def module_name(value: object) -> str | None:
    name = getattr(value, "__name__", None) if type(value) is type(sys) else None
    return name if isinstance(name, str) else None
