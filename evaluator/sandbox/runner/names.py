"""The names that test code finds: its own, then the program's; and modules that are nowhere but there."""

import builtins
import re
import sys
import types
from collections.abc import Sequence
from typing import Any

from . import references
from .tester import Tester

ALIASES = {"np": "numpy"}
TO_SYNTAX_TREE = 0x400  # ast.PyCF_ONLY_AST, without importing `ast`


class Names(dict[str, Any]):
    """The test code's globals: its own names first, then the program's."""

    def __init__(self, tester: Tester, source: bytes) -> None:
        super().__init__(__name__="__main__", __builtins__=builtins, __file__="test.py", __doc__=None)
        if b"import" in source:
            self["__builtins__"] = {**vars(builtins), "__import__": Importer(self)}
        self.tester = tester
        self.source = source
        self.cache: dict[str, Any] = {}

    def __missing__(self, name: str) -> Any:
        if name in self.cache:
            return self.cache[name]
        if name.startswith("__") or not self.belongs_to_program(name):
            raise KeyError(name)
        value = self.find(name)
        if callable(value):
            self.cache[name] = value
        return value

    def find(self, name: str) -> Any:
        """What the program has under a name. `candidate` is HumanEval's word for its entry point."""
        tester = self.tester
        if name in tester.names and (module := self.find_module(name)) is not None:
            return module
        candidates = () if tester.entry_point is None else ("candidate", tester.entry_point.rpartition(".")[2])
        if name not in tester.names and name in candidates:
            return tester.ask("entry", tester.entry_point)
        try:
            return tester.fetch(name)  # it may be there since a function was called
        except NameError:
            raise KeyError(name) from None

    def find_module(self, name: str) -> types.ModuleType | None:
        """The library's module, where the text uses a name as that: else a program with a `math` of its own would
        decide what `math.isclose(result, 1.5)` says."""
        wanted = ALIASES.get(name, name)
        if wanted not in references.MODULES or name == (self.tester.entry_point or "").partition(".")[0]:
            return None
        used = set(re.findall(rf"(?<![\w.]){name}\s*\.\s*(\w+)", self.source.decode("utf-8", "replace")))
        try:
            module: types.ModuleType = __import__(wanted)
        except ImportError:
            return None
        return module if used and all(hasattr(module, attribute) for attribute in used) else None

    def belongs_to_program(self, name: str) -> bool:
        """A builtin that the program shadows counts only where it is the very thing under test: else a program with an
        `abs` of its own would decide what `abs(result - 1.5) < 1e-6` says."""
        if not hasattr(builtins, name):
            return True
        if name not in self.tester.names:
            return False
        if self.tester.entry_point is not None:
            return name == self.tester.entry_point
        return find_subjects(self.source) == {name}


def find_subjects(source: bytes) -> set[str]:
    """The names that a test text takes from elsewhere, without exceptions: `sum` alone in `assert sum(10, 15) == 6`.

    The text alone decides. So a program gains nothing by what it defines.
    """
    tree: Any = compile(source, "<test>", "exec", TO_SYNTAX_TREE, dont_inherit=True)
    loaded: set[str] = set()
    bound: set[str] = set()
    pending = [tree]
    while pending:
        node = pending.pop()
        kind = type(node).__name__
        if kind == "Name":
            (loaded if type(node.ctx).__name__ == "Load" else bound).add(node.id)
        elif kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
            bound.add(node.name)
        elif kind == "arg":
            bound.add(node.arg)
        elif kind == "alias":
            bound.add(node.asname or node.name.partition(".")[0])
        for field in getattr(node, "_fields", ()):
            value = getattr(node, field, None)
            pending.extend(value if isinstance(value, list) else [value])
    subjects = loaded - bound
    return {name for name in subjects if not is_exception(getattr(builtins, name, None))}


def is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


class ProgramModule(types.ModuleType):
    """What `import solution` gives where no such module is installed: the program's names."""

    def __init__(self, name: str, names: Names) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__names = names

    def __getattr__(self, name: str) -> Any:
        names = self.__names
        if name == "__all__":
            found = names.tester.names
            # What the text has already is its own: a program with a `pytest` or a helper of its name would decide.
            return [n for n in found if not (n.startswith("_") or hasattr(builtins, n) or dict.__contains__(names, n))]
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        try:
            return names.cache[name] if name in names.cache else names.find(name)
        except KeyError:
            text = f"module {self.__name__!r} isn't installed here, and the program defines no name {name!r}"
            raise AttributeError(text) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or isinstance(value, types.ModuleType):
            super().__setattr__(name, value)
        else:
            self.__names.tester.ask("set global", name, value)
            self.__names.cache.pop(name, None)

    def __delattr__(self, name: str) -> None:
        self.__names.tester.ask("delete global", name)
        self.__names.cache.pop(name, None)


class Importer:
    """`import` as the test text has it, and no one else: a module that can't be imported otherwise is the program."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.original = builtins.__import__

    def __call__(
        self,
        name: str,
        scope: dict[str, Any] | None = None,
        local: dict[str, Any] | None = None,
        wanted: Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        if level > 0:
            return self.take_relative(name, wanted or ())
        try:
            return self.original(name, scope, local, wanted or (), 0)
        except ModuleNotFoundError as error:
            top = name.partition(".")[0]
            known = top in sys.stdlib_module_names or top in references.LIBRARIES
            if known or not f"{name}.".startswith(f"{error.name}."):
                raise  # a library isn't installed, or a module that is there misses another one
        leaf = self.take(name)
        return leaf if wanted else sys.modules[top]

    def take_relative(self, name: str, wanted: Sequence[str]) -> types.ModuleType:
        """`from .solution import f`, or `from . import solution`."""
        if name:
            return self.take(name)
        package = ProgramModule("package", self.names)
        for part in wanted:
            if part not in self.names.tester.names:
                setattr(package, part, self.take(part))
        return package

    def take(self, name: str) -> types.ModuleType:
        """The program under a module's name, and under those of the packages around it."""
        outer, _, last = name.rpartition(".")
        module = sys.modules.setdefault(name, ProgramModule(name, self.names))
        if outer:
            setattr(self.take(outer), last, module)
        return module
