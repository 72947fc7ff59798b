"""The names that contest judges put before a program: `from collections import *` and the like.

They are made once, in the runner. A child binds those that its program mentions: to bind all is to copy every page that
one of them lies on, which took longer than most tests. Where a program may reach a name that it doesn't mention, it
gets them all.
"""

import __future__

import sys
import types
from typing import Any

MODULES = (
    "string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics", "itertools",
    "functools", "operator", "io", "sys", "json", "builtins", "typing",
)  # fmt: skip
REACHING = frozenset({
    "__builtins__", "__dict__", "__getattribute__", "__globals__", "__import__", "__main__", "compile", "currentframe",
    "dataclass", "dir", "eval", "exec", "f_builtins", "f_globals", "get_type_hints", "getmembers", "globals",
    "import_module", "locals", "modules", "program", "vars", "_getframe",
})  # fmt: skip
"""Who mentions one of these may look up a name that stands nowhere in its code."""
RECURSION_LIMIT = 50_000
names: dict[str, Any] = {}
"""All of them, once they are made."""


def make() -> None:
    """In the runner, before anything is forked."""
    imports = "".join(f"from {module} import *\n" for module in MODULES) + f"import {', '.join(MODULES)}\n"
    exec(imports, names)
    del names["__builtins__"]


def find_names(parts: list[types.CodeType]) -> tuple[str, ...] | None:
    """Those that the parts of a program use. None: they may use any."""
    mentioned: set[str] = set()
    for part in parts:
        mentioned.update(part.co_names)
        if part.co_flags & __future__.annotations.compiler_flag:
            return None  # its annotations are texts, which are evaluated when somebody asks
    return None if mentioned & REACHING else tuple(sorted(mentioned & names.keys()))


def bind(scope: dict[str, Any], wanted: tuple[str, ...] | None = None) -> None:
    """Give a program its names, all of them by default, and the recursion limit that comes with them."""
    if wanted is None:
        scope.update(names)
    else:
        for name in wanted:
            scope[name] = names[name]
    sys.setrecursionlimit(RECURSION_LIMIT)
