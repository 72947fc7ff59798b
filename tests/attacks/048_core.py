"""Crashes with much memory in hand, and asks for a core dump first."""

import ctypes
import resource

attempt("a higher limit", lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30)))
attempt("dumpable", lambda: LIBC.prctl(4, 1, 0, 0, 0) and 1 / 0)
block = b"x" * (50 << 20)
print("limit:", *resource.getrlimit(resource.RLIMIT_CORE), flush=True)
ctypes.string_at(0)
