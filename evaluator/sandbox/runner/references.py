"""Types and functions that both processes of an assertion test have: they pass by name."""

import sys
import types
from typing import Any

MODULES = frozenset({
    "math", "cmath", "re", "string", "itertools", "functools", "collections", "random", "datetime", "heapq", "bisect",
    "operator", "json", "copy", "typing", "statistics", "decimal", "fractions", "numpy",
})  # fmt: skip
"""Modules that are the same on both sides: what a program means by such a name, a test may have without it."""
REFERABLE = MODULES | {
    "builtins", "collections.abc", "abc", "enum", "dataclasses", "json.decoder", "queue", "asyncio.exceptions",
    "concurrent.futures._base", "array", "numbers", "io", "_io", "_operator", "_functools", "_collections", "_heapq",
    "_bisect", "_random", "_struct", "struct", "zlib", "binascii",
}  # fmt: skip
"""Modules whose types and functions pass by name. None has a type with an equality that anyone could abuse."""
REACHING = frozenset({
    # text becomes code
    "compile", "eval", "exec", "get_type_hints", "CodeType", "ForwardRef",
    # what is open here, and files
    "input", "open", "open_code", "FileIO", "load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap",
    "DataSource", "dump", "save", "savez", "savez_compressed", "savetxt",
    # names and attributes, which lead anywhere
    "attrgetter", "delattr", "dir", "getattr", "globals", "locals", "methodcaller", "setattr", "vars",
    "global_enum", "update_abstractmethods",
    "breakpoint",
})  # fmt: skip
"""What they have that does more than reckon with what it is given: it stays in the program. Test code calls what the
program has under a name, often with what the program gave it: `decode(encode(text))`."""
LIBRARIES = frozenset({
    "Crypto", "Levenshtein", "PIL", "aiohttp", "attr", "attrs", "bs4", "cryptography", "cv2", "dateutil", "ddt",
    "deepdiff", "dirty_equals", "django", "faker", "flask", "freezegun", "hamcrest", "httpx", "hypothesis", "jax",
    "keras", "lxml", "matplotlib", "mock", "more_itertools", "networkx", "nltk", "nose", "nose2", "numba", "numpy",
    "openpyxl", "pandas", "parameterized", "polars", "psutil", "pyarrow", "pydantic", "pyfakefs", "pytest",
    "pytest_asyncio", "pytz", "regex", "requests", "requests_mock", "responses", "scipy", "seaborn", "selenium",
    "shapely", "skimage", "sklearn", "sortedcontainers", "sqlalchemy", "statsmodels", "sympy", "tensorflow",
    "testfixtures", "toolz", "torch", "tqdm", "unittest2", "xarray", "yaml",
})  # fmt: skip
"""What a test means by such a name is never the program, also where it isn't installed: a program with an
`assert_frame_equal` of its own would be asked whether it is right."""
BUILTIN_TYPES = {value: name for name, value in vars(types).items() if isinstance(value, type) and name[0].isupper()}


def find_name(value: Any) -> list[str] | None:
    """`[module, name]` of a type or function that both sides have."""
    kind = type(value)
    if not (isinstance(value, type) or kind in (types.FunctionType, types.BuiltinFunctionType)):
        if kind.__module__ != "typing":
            return None
        name = getattr(value, "_name", None)
        return ["typing", name] if type(name) is str and vars(sys.modules["typing"]).get(name) is value else None
    if kind is type and value in BUILTIN_TYPES and BUILTIN_TYPES[value] not in REACHING:
        return ["types", BUILTIN_TYPES[value]]
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(name) is not str or module not in REFERABLE or "<" in name:
        return None
    if name in REACHING or (not isinstance(value, type) and ("." in name or name.startswith("_"))):
        return None
    owner = sys.modules.get(module)
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return [module, name] if owner is value else None


def resolve(module: str, name: str) -> Any:
    """The type or function of that name: of the modules that are the same everywhere, and of no others.

    Raises:
        ValueError: there is no such thing.
    """
    if module == "types":
        kind = getattr(types, name, None)
        if isinstance(kind, type) and kind in BUILTIN_TYPES and name not in REACHING:
            return kind
    elif module in REFERABLE:
        __import__(module)
        found: Any = sys.modules[module]
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None and (find_name(found) == [module, name]):
            return found
    raise ValueError(f"there is no {module}.{name} to refer to")
