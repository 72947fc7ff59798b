"""Overflows the stack of the interpreter itself, below Python's recursion limit."""

import sys
import threading

sys.setrecursionlimit(10**9)
threading.stack_size(1 << 20)


def descend():
    return map(lambda _: next(descend()), [0])  # noqa: C417


thread = threading.Thread(target=lambda: next(descend()))
thread.start()
thread.join()
