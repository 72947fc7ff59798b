"""Whether a program leaves no trace in its process, so that its tests may run there one after another.

Decided on compiled code, before anything runs, and by names alone: cheap, and careful rather than clever. Whoever gets
around it gains nothing (see `series.py`): a rejection is repeated in a fresh process, and an accepted output is right.
So this is about fidelity: a test must not find what an earlier one left behind.
"""

import opcode
import sys
import types
from collections.abc import Iterator

MODULES = frozenset({
    "__future__", "abc", "array", "bisect", "cmath", "collections", "collections.abc", "copy", "dataclasses",
    "datetime", "enum", "fractions", "functools", "heapq", "io", "itertools", "json", "math", "numbers", "numpy",
    "operator", "queue", "re", "statistics", "string", "sys", "textwrap", "time", "types", "typing",
})  # fmt: skip
"""Modules that a program can use without leaving something in them, but for the names below."""
TRACES = frozenset({
    # names that reach everything
    "__builtins__", "__class__", "__closure__", "__code__", "__dict__", "__globals__", "__import__", "__loader__",
    "__spec__", "__setattr__", "__delattr__", "__subclasses__",
    "__del__", "__main__", "__file__", "__stdin__", "__stdout__", "__stderr__",
    "breakpoint", "builtins", "compile", "delattr", "eval", "exec", "globals", "open", "setattr", "vars",
    "getattr", "__getattribute__", "attrgetter", "methodcaller", "get_field", "vformat", "get_type_hints",
    "gi_frame", "f_back", "f_globals", "f_builtins", "tb_frame", "cr_frame", "ag_frame", "_getframe",
    # files and streams, which are only imitated
    "close", "detach", "fileno", "isatty", "peek", "raw", "reconfigure", "FileIO", "open_code",
    # state of sys
    "addaudithook", "argv", "displayhook", "excepthook", "meta_path", "modules", "path", "path_hooks", "setprofile",
    "setswitchinterval", "settrace", "unraisablehook",
    # state of other modules
    "purge", "register", "_cache",
})  # fmt: skip
NUMPY_TRACES = frozenset({
    "random", "seterr", "seterrcall", "set_printoptions", "set_string_function", "setbufsize", "load", "loadtxt",
    "fromfile", "genfromtxt", "memmap", "save", "savetxt", "test",
})  # fmt: skip
_IMPORT = opcode.opmap["IMPORT_NAME"]
_STORES = (opcode.opmap["STORE_ATTR"], opcode.opmap["DELETE_ATTR"])
_FREE = tuple(opcode.opmap[name] for name in ("LOAD_NAME", "STORE_NAME", "STORE_GLOBAL", "IMPORT_FROM"))
_LOAD_GLOBAL = opcode.opmap["LOAD_GLOBAL"]
_LOAD_NAME = opcode.opmap["LOAD_NAME"]
_ATTRIBUTES = tuple(opcode.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opcode.opmap)
_IMPORTS = (_IMPORT, opcode.opmap["IMPORT_FROM"])
_NAMED_STORES = (opcode.opmap["STORE_NAME"], opcode.opmap["STORE_GLOBAL"])
_MATCH_CLASS = opcode.opmap["MATCH_CLASS"]
_COMPILE = {"compile"}
MANY_NAMES = 256
"""From here on, arguments of instructions take two of them."""


def find_imports(parts: list[types.CodeType]) -> frozenset[str]:
    """The modules that they name anywhere."""
    return frozenset([name for part in parts for name in _named(part, _IMPORT)])


def is_harmless(parts: list[types.CodeType], imported: frozenset[str]) -> bool:
    """Whether nothing in these parts of a program, which import that, can outlast a test."""
    if not imported <= MODULES:
        return False
    names: set[str] = set()
    for part in parts:
        names.update(part.co_names, part.co_varnames, part.co_freevars)
        if len(part.co_names) >= MANY_NAMES:
            return False
        if _MATCH_CLASS in part.co_code[::2]:  # the names of its attributes are constants
            names.update(name for item in part.co_consts if type(item) is tuple for name in item if type(name) is str)
    found = names & TRACES
    if found and (found != _COMPILE or any(map(_compiles, parts))):
        return False
    if "numpy" in imported and names & NUMPY_TRACES:
        return False
    stored = {name for part in parts for kind in _STORES for name in _named(part, kind)}
    if not stored:
        return True
    if any(name in vars(sys.modules[module]) for module in imported if module in sys.modules for name in stored):
        return False
    return not _marks_imports(parts)


def _compiles(part: types.CodeType) -> bool:
    """Whether it uses the builtin `compile`, and not only `re.compile` or another method of that name."""
    if "compile" not in part.co_names:
        return "compile" in part.co_varnames or "compile" in part.co_freevars
    place = part.co_names.index("compile")
    words = part.co_code
    for kind, argument in zip(words[::2], words[1::2], strict=True):
        if (kind in _FREE and argument == place) or (kind == _LOAD_GLOBAL and argument >> 1 == place % 128):
            return True
    return False


def _marks_imports(parts: list[types.CodeType]) -> bool:
    """Whether they give an attribute to what bears the name of an import: `heapq.nlargest.calls = 1`."""
    known: set[str] = set()
    marked: set[str] = set()
    for part in parts:
        root, before = None, 0
        for kind, argument in zip(*[iter(part.co_code)] * 2, strict=True):
            if kind in _NAMED_STORES and before in _IMPORTS:
                known.add(part.co_names[argument])
            elif kind in _STORES and root is not None:
                marked.add(root)
            if kind in (_LOAD_GLOBAL, _LOAD_NAME):
                root = part.co_names[argument >> 1 if kind == _LOAD_GLOBAL else argument]
            elif kind and kind not in _ATTRIBUTES:
                root = None
            before = kind
    return not known.isdisjoint(marked)


def list_parts(code: types.CodeType) -> list[types.CodeType]:
    """The code and all that is inside it."""
    parts = [code]
    for part in parts:  # grows meanwhile
        parts += [constant for constant in part.co_consts if isinstance(constant, types.CodeType)]
    return parts


def _named(part: types.CodeType, kind: int) -> Iterator[str]:
    """The names that instructions of one kind have as their argument."""
    instructions = part.co_code
    place = instructions.find(kind)
    while place >= 0:
        if place % 2 == 0 and instructions[place + 1] < len(part.co_names):
            yield part.co_names[instructions[place + 1]]
        place = instructions.find(kind, place + 1)
