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
    "__spec__", "__subclasses__", "__del__", "__main__", "__file__", "__stdin__", "__stdout__", "__stderr__",
    "breakpoint", "builtins", "compile", "delattr", "eval", "exec", "globals", "open", "setattr", "vars",
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
MANY_NAMES = 256
"""From here on, arguments of instructions take two of them."""


def imports_of(code: types.CodeType) -> frozenset[str]:
    """The modules that it names anywhere."""
    return frozenset(name for part in list_parts(code) for name in _named(part, _IMPORT))


def is_harmless(code: types.CodeType) -> bool:
    """Whether nothing in it can outlast a test."""
    parts = list_parts(code)
    names = frozenset(name for part in parts for name in (*part.co_names, *part.co_varnames, *part.co_freevars))
    imported = frozenset(name for part in parts for name in _named(part, _IMPORT))
    if not imported <= MODULES or names & TRACES or any(len(part.co_names) >= MANY_NAMES for part in parts):
        return False
    if "numpy" in imported and names & NUMPY_TRACES:
        return False
    known = [vars(sys.modules[name]) for name in imported if name in sys.modules]
    stored = {name for part in parts for kind in _STORES for name in _named(part, kind)}
    return not any(name in scope for scope in known for name in stored)


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
