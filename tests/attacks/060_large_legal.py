"""No attack: one megabyte, then ten, as the input says, of honest output."""

import sys

for _ in range(int(input()) << 16):
    sys.stdout.write("0123456789abcde\n")
