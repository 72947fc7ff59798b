"""What a grader that starts an interpreter for each test runs there, and how it reads the answer.

A whole program runs as it is. For a function call the program is followed by a few lines that read the arguments, one
JSON value a line, call the function and print what it returned as JSON. Outputs are compared token by token, values
by `==`.
"""

import json
from typing import Any

PRELUDE = (
    "import collections, heapq, bisect, math, itertools, functools, string, re, random, operator, sys\n"
    "from typing import *\nfrom collections import *\nfrom heapq import *\nfrom bisect import *\nfrom math import *\n"
    "from itertools import *\nfrom functools import *\n"
)
CALL = """
if True:
    import json, sys
    _arguments = [json.loads(line) for line in sys.stdin.read().split("\\n") if line.strip()]
    print()
    print(json.dumps({call}(*_arguments)))
"""


def build_source(source: str, entry_point: str | None, has_prelude: bool) -> str:
    """The text that the interpreter is given."""
    if entry_point is None:
        return PRELUDE + source if has_prelude else source
    owner, dot, name = entry_point.rpartition(".")
    call = f"{owner}(){dot}{name}" if owner else name
    return (PRELUDE if has_prelude else "") + source + CALL.format(call=call)


def is_right(output: str, expected: str, entry_point: str | None) -> bool:
    """Whether what the interpreter printed is what was expected."""
    if entry_point is None:
        return output.split() == expected.split()
    try:
        return bool(json.loads(output.rstrip("\n").rpartition("\n")[2]) == json.loads(expected))
    except ValueError:
        return False


def describe(entry: Any) -> dict[str, Any]:
    """An entry of a batch, as peers in other processes are sent it."""
    problem = entry.problem
    return {
        "source": build_source(entry.program.text, problem.entry_point, problem.prelude == "contest"),
        "entry_point": problem.entry_point,
        "tests": [[test.input, test.expected] for test in problem.tests],
        "seconds": problem.limits.cpu_seconds,
    }
