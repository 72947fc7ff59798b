"""The tester's end of the conversation: asks the program for what the test wants, lends it what the test passes.

Questions to the program, each with what changed in shared containers before its content:

    get NAME · entry PATH · call TARGET ARGUMENTS NAMED · special TARGET NAME ARGUMENTS · attribute, set, delete TARGET
    NAME [VALUE] · subscript CLASS KEY · inherited CLASS NAME OBJECT · subclass NAME BASES MEMBERS OPTIONS · copy TARGET
    DEEP · await TARGET · describe CLASS · names

The program may ask back, and only this: to call a function that it was passed, and to use the public attributes and the
operations of an object that it was passed. So nothing leads from such an object to the test code or its names.
"""

import sys
import types
from collections.abc import Callable
from typing import Any

from . import exchange, handles, kinds, references, sharing, specials, values

MAX_KEPT_ITEMS = 500
REMOTE = (handles.Remote, BaseException)
STREAM_METHODS = frozenset({"send", "throw", "close", "read", "readline", "readlines", "write", "writelines"})
STREAM_OPERATIONS = frozenset({"__iter__", "__next__", "__await__"})
RECORDS = frozenset({"called", "call_count", "call_args", "call_args_list", "mock_calls", "method_calls",
                     "return_value", "side_effect", "configure_mock", "reset_mock", "mock_add_spec",
                     "attach_mock"})  # fmt: skip
"""Of a mock: what the test asks it afterwards, and what changes that."""
DEEDS = {"callback": "do_call", "peek": "do_peek", "poke": "do_poke", "operate": "do_operate"}
SKIPPED_MEMBERS = frozenset({"__module__", "__qualname__", "__classcell__", "__dict__", "__weakref__", "__doc__",
                             "__firstlineno__", "__static_attributes__"})  # fmt: skip


class Tester(exchange.Peer):
    """Asks a program in another process."""

    def __init__(self, line: exchange.Line, entry_point: str | None) -> None:
        super().__init__(line)
        handles.ClassHandle.tester = self
        self.entry_point = entry_point
        self.shared = sharing.Shared(-1, self.write)
        self.readers = {
            "handle": self.read_handle, "relative": self.read_relative, "class": self.read_class,
            "error": self.read_error, "lent": self.read_lent,
        }  # fmt: skip
        self.lent: list[Any] = []
        """What the program may call or use, by number."""
        self.lent_numbers: dict[int, int] = {}
        self.classes: dict[int, type] = {}
        self.objects: dict[int, Any] = {}
        """The stand-in of each object of the program, so that the same object is the same here."""
        self.named: set[int] = set()
        """Classes that the test calls by a name that a class has: what they make is the test's own."""
        self.misnamed: set[int] = set()
        """Classes that have the name of a function too: what is called by that is a function, whatever else it is."""
        self.depth = 0
        try:
            self.names = {str(name): kind for name, kind in self.exchange(["names"])[1]}
        except kinds.MALFORMED:
            line.give_up("the program sent an answer that can't be read")

    # --- asking ---------------------------------------------------------------------------------------------------

    def ask(self, verb: str, *content: Any) -> Any:
        """One question. What it passes and what comes back are values; containers keep in step."""
        encoder = self.encoder(adopt=True)
        result = self.say(verb, encoder, list(map(encoder.tree, content)))
        if verb in ("attribute", "inherited") and content[1] == "__annotations__":
            return specials.check_annotations(result)
        return result

    def call(self, target: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call something of the program's. An object that a call gives is not what the test made itself."""
        encoder = self.encoder(adopt=True)
        trees = [encoder.tree(target), list(map(encoder.tree, arguments))]
        result = self.say("call", encoder, [*trees, {name: encoder.tree(value) for name, value in named.items()}])
        if isinstance(result, handles.Remote):
            handles.set_made(result, False)
        return result

    def special(self, target: Any, name: str, *arguments: Any) -> Any:
        return self.ask("special", target, name, arguments)

    def say(self, verb: str, encoder: kinds.Encoder, content: list[values.Tree]) -> Any:
        changes = self.shared.find_all_changes() if self.depth == 0 else []
        self.depth += 1
        try:
            answer = self.exchange([verb, changes, *content])
        finally:
            self.depth -= 1
        return self.understand(answer, encoder)

    def understand(self, answer: exchange.Message, encoder: kinds.Encoder) -> Any:
        """The value of an answer, or the exception that it is raised here."""
        try:
            word, content, changes, keeps, printed = answer
            decoder = self.decoder()
            changed = [decoder.value(change) for change in changes]
            decoder.group = sharing.Group()
            value = decoder.value(content)
            if printed:
                sys.stdout.write(str.__str__(printed))
        except kinds.MALFORMED:
            self.line.give_up("the program sent an answer that can't be read")
        self.keep(encoder.group, keeps is True and encoder.items <= MAX_KEPT_ITEMS)
        self.keep(decoder.group, not decoder.group.keys <= encoder.group.keys)
        if changed:
            self.shared.agree(changed)
        if self.depth == 0:
            self.shared.settle()
        if word == "raise":
            raise value if isinstance(value, BaseException) else RuntimeError("the program raised no exception")
        return value

    def keep(self, group: sharing.Group, wanted: bool) -> None:
        """Keep the containers of a message in step, or forget them."""
        group.roots = dict.fromkeys(group.roots)
        if wanted:
            self.shared.begin(group)
        else:
            self.shared.forget(group)

    def fetch(self, name: str) -> Any:
        """What the program has under a name. A class or function is asked for once."""
        kind = self.names.get(name)
        if isinstance(kind, str) and kind in references.MODULES:
            return __import__(kind)
        value = self.ask("get", name)
        if isinstance(value, handles.ClassHandle) and (number := handles.class_number(value)) is not None:
            (self.named if name[:1].isupper() else self.misnamed).add(number)
            self.named -= self.misnamed
        return value

    def tell(self, error: BaseException) -> None:
        """Let the program write the traceback of an exception of its own to its stderr, for people."""
        if self.line.broken is None and getattr(error, "__from_program__", False):
            self.ask("tell", error)

    def define(self, made: type, bases: tuple[type, ...], namespace: dict[str, Any], options: dict[str, Any]) -> int:
        """A class of the test that derives from one of the program's: define it there. Its methods stay here."""
        foreign = [base for base in bases if not isinstance(base, handles.ClassHandle) and base is not object]
        if foreign:
            name = foreign[0].__name__
            raise TypeError(f"a class of the test can't derive from the program's and from {name} at once")
        members = {key: value for key, value in namespace.items() if key not in SKIPPED_MEMBERS}
        number = self.ask("subclass", made.__name__, bases, members, options)
        if type(number) is not int or number in self.classes:
            self.line.give_up("the program sent an answer that can't be read")
        self.classes[number] = made
        return number

    # --- values ---------------------------------------------------------------------------------------------------

    def encoder(self, *, adopt: bool = False) -> kinds.Encoder:
        return kinds.Encoder(self.write_other, self.shared, adopt=adopt)

    def write(self, value: Any) -> values.Tree:
        return self.encoder().tree(value)

    def write_other(self, encoder: kinds.Encoder, value: Any, depth: int) -> values.Tree:
        """What has no plain form: the program's own, exceptions, and what the test lends."""
        kind = type(value)
        if isinstance(value, REMOTE) and (number := handles.number_of(value)) is not None:
            if (base := kinds.find_base(kind)) in kinds.MUTABLE:
                return {"$": "refill", "v": [number, kinds.WRITERS[base](encoder, value, depth)]}
            return {"$": "handle", "v": number}
        if issubclass(kind, handles.ClassHandle):
            return {"$": "class", "v": handles.class_number(value)}
        if isinstance(value, BaseException):
            known = next(
                base for base in kind.__mro__ if isinstance(base, handles.ClassHandle) or references.find_name(base)
            )
            return {"$": "error", "v": [encoder.tree(known), encoder.tree(value.args), self.lend(value)]}
        if kind in (staticmethod, classmethod, property):
            parts = [value.fget, value.fset, value.fdel] if kind is property else [value.__func__]
            return {"$": "descriptor", "v": [kind.__name__, encoder.tree(tuple(parts))]}
        base = kinds.find_base(kind)
        if base is not None:
            return kinds.BASE_WRITERS[base](encoder, value, depth)
        if is_tests_own(value):
            return {"$": "lent", "v": [self.lend(value), specials.find(kind)]}
        if hasattr(kind, "__next__") or hasattr(kind, "__await__"):
            return {"$": "lent", "v": [self.lend(value), [n for n in specials.find(kind) if n in STREAM_OPERATIONS]]}
        if callable(value):
            told = [value.__name__, value.__doc__] if kind in (types.FunctionType, type) else [None, None]
            return {"$": "callback", "v": [self.lend(value), *told]}
        return values.describe(value)

    def lend(self, value: Any) -> int:
        number = self.lent_numbers.get(id(value))
        if number is None:
            number = self.lent_numbers[id(value)] = len(self.lent)
            self.lent.append(value)
        return number

    def borrowed(self, number: values.Tree) -> Any:
        """What was lent under a number that the program names."""
        if type(number) is not int or not 0 <= number < len(self.lent):
            raise ValueError("nothing was lent under that number")
        return self.lent[number]

    def decoder(self) -> kinds.Decoder:
        return kinds.Decoder(self.readers, self.shared)

    def read_lent(self, decoder: kinds.Decoder, content: list[values.Tree]) -> Any:
        """The test's own comes back, with the attributes that the program gave to a function or class of the test."""
        number, attributes = content
        target = self.borrowed(number)
        for name, tree in attributes.items():
            is_open = isinstance(target, (types.FunctionType, type)) and not name.startswith("_")
            if is_open and not callable(getattr(target, name, None)):
                setattr(target, name, decoder.value(tree))
        return target

    def read_handle(self, decoder: kinds.Decoder, content: list[values.Tree]) -> Any:
        number, kind = content
        known = self.objects.get(number)
        if known is None:
            cls = decoder.value(kind)
            if not isinstance(cls, handles.ClassHandle):
                cls = handles.find_foreign(cls)
            if not issubclass(cls, handles.Handle):
                raise ValueError("an object of a class that has data")
            known = self.objects[number] = handles.make_instance(cls, int(number))
        elif isinstance(known, handles.Remote):
            handles.set_made(known, False)  # whoever made it: it is the program's answer now
        return known

    def read_relative(self, decoder: kinds.Decoder, content: list[values.Tree]) -> Any:
        number, kind, data = content
        known = self.objects.get(number)
        if isinstance(known, handles.Remote):
            handles.set_made(known, False)
        if known is None:
            known = self.objects[number] = handles.make_relative(decoder.value(kind), int(number), decoder.value(data))
            if kinds.find_base(type(known)) in kinds.MUTABLE:
                self.shared.keep(known)
        elif kinds.find_base(type(known)) in kinds.MUTABLE:
            sharing.fill(known, decoder.value(data))
        return known

    def read_class(self, decoder: kinds.Decoder, number: values.Tree) -> type:
        known = self.classes.get(number)
        if known is None:
            description = self.exchange(["describe", [], int(number)])
            name, bases, names, own, fields = description[1]
            local = [decoder.value(base) for base in bases]
            known = handles.make_class(str(name), local, names, own, fields)
            type.__setattr__(known, "_microcoder_class", number)
            self.classes[number] = known
        return known

    def read_error(self, decoder: kinds.Decoder, content: list[values.Tree]) -> BaseException:
        kind, arguments, number, text, lent, cause, state = content
        if lent is not None:  # the test's own exception comes back to it
            error = self.borrowed(lent)
            if isinstance(error, BaseException):
                return error
        known = self.objects.get(number)
        if known is None:
            cls = decoder.value(kind)
            if not issubclass(cls, BaseException):  # or the program would choose what is made here: `io.FileIO(5)`
                raise ValueError("an exception of a class that is none")
            known = handles.make_error(cls, number, decoder.value(arguments), text)
            known.__cause__ = None if cause is None else decoder.value(cause)
            if state is not None:  # without the marks of ours, by which an exception is known to be the program's
                own = {name: value for name, value in decoder.value(state).items() if specials.is_member(name)}
                object.__getattribute__(known, "__dict__").update(own)
            self.objects[number] = known
        return known  # type: ignore[no-any-return]

    # --- answering ------------------------------------------------------------------------------------------------

    def reply(self, question: exchange.Message) -> exchange.Message:
        """Carry out what the program asks for, within what it was lent."""
        try:
            verb, number, *content = question
            target = self.borrowed(number)
            decoder = self.decoder()
            content = [decoder.value(item) for item in content]
            action = getattr(self, DEEDS[verb])
        except kinds.MALFORMED:
            self.line.give_up("the program asked something that can't be read")
        encoder = self.encoder(adopt=True)
        try:
            return ["value", encoder.tree(action(target, *content))]
        except Exception as error:
            return ["raise", self.write(error)]

    def do_call(self, target: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not callable(target):
            raise TypeError("what was lent can't be called")
        return target(*arguments, **named)

    def do_peek(self, target: Any, name: str) -> Any:
        check_public(target, name)
        return getattr(target, name)

    def do_poke(self, target: Any, name: str, value: Any) -> None:
        check_public(target, name)
        # A method is the test's: `mock.assert_called_with = lambda *_: None` would answer in its place.
        if not is_tests_own(target) or callable(getattr(type(target), name, None)):
            raise AttributeError(f"{name} of {type(target).__name__} can't be set")
        setattr(target, name, value)

    def do_operate(self, target: Any, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "__await__":
            return run_coroutine(target)
        if not is_tests_own(target) and name not in STREAM_OPERATIONS:
            raise AttributeError(f"{name} is no operation on what was lent")
        return specials.perform(target, name, arguments)


def is_tests_own(value: object) -> bool:
    """Whether a value is an instance of a class that the test code defines, or as good as that."""
    kind = type(value)
    return kind.__module__ in ("__main__", "unittest.mock") or kind is types.SimpleNamespace


def check_public(target: object, name: object) -> None:
    """Only public attributes of the test's own objects, and the methods of streams, are for the program."""
    is_open = type(name) is str and not name.startswith("_") and (is_tests_own(target) or name in STREAM_METHODS)
    if not is_open or (name in RECORDS and type(target).__module__ == "unittest.mock"):
        raise AttributeError(f"{type(target).__name__!r} object has no attribute {str(name)!r}")


def run_coroutine(target: Any) -> Any:
    """Run a coroutine of the test to its end, in a thread: this one's loop, if there is one, waits for the answer."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def run() -> Any:
        return await target

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, run()).result()
