"""What worker and runner must agree on, beside the orders themselves. Imported on both sides."""

import struct

# Exit statuses of the child that compiles.
COMPILED = 32
HARMLESS = 1
NUMPY = 2

# Orders are marshalled (the worker's, whom the runner trusts): version 2 is alike in all Pythons. Answers aren't.
ORDERS = 2
FACTS = struct.Struct("<iddqBBBBB")
"""Wait status, CPU and wall seconds, bytes of memory, index in LIMITS (0: none), cancelled, started, clean, and whether
processes lived on when the main one had ended."""
WRITTEN = b"!"
"""Before a call's result: the program had written to that descriptor itself."""
LIMITS = ("", "cpu", "wall", "memory", "output", "processes", "disk")

# A series: the worker sends LENGTH and an input; the child READY once (or its status), then per test REPLY, output and
# value.
LENGTH = struct.Struct("<I")
READY = b"R"
REPLY = struct.Struct("<iQQII")
"""Exit status, CPU nanoseconds, bytes of memory at most so far, lengths of the output and of the value."""

# What comes back of an execution: nothing; or that its source can't be compiled; or, for each file that was asked for,
# its length and its bytes, a length below zero where there is none.
NOT_COMPILED = b"C"
FETCHED = struct.Struct("<q")
