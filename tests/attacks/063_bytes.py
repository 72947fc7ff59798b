"""Bytes that are no text: every value, invalid UTF-8, NUL, terminal escapes, surrogates."""

import sys

os.write(1, bytes(range(256)) + b"\xff\xfe\xed\xa0\x80\x00\x1b[2J\x1b]0;x\x07\r\n")
sys.stdout.write("\udcff")
