"""A line of a hundred megabytes, without its end."""

import sys

for _ in range(100):
    sys.stdout.write("x" * (1 << 20))
