"""Floods standard error, between lines to standard output, and with a line that has no end."""

import sys

while True:
    sys.stderr.write("x" * 100_000)
    sys.stdout.write("y")
