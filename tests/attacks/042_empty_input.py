"""Reads an input that has ended, again and again."""

import sys

ends = 0
for _ in range(1000):
    ends += os.read(0, 100) == b""
    ends += sys.stdin.read() == ""
try:
    input()
except EOFError:
    print("ends:", ends)
