"""Looks for the words on its input, written backwards there, in its own memory and in everyone else's."""

import os
import re
import sys

# A pattern of one-letter classes: so the words themselves lie nowhere in this program's memory.
PATTERN = re.compile(b"|".join(b"".join(b"[%c]" % ord(c) for c in word[::-1]) for word in sys.stdin.read().split()))
own = str(os.getpid())
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for entry in ("cmdline", "environ", "comm", "stat", "status"):
        try:
            with open(f"/proc/{pid}/{entry}", "rb") as file:
                text = file.read()
        except OSError:
            continue
        if PATTERN.search(text):
            print(f"BREACH: /proc/{pid}/{entry} tells a secret")
    try:
        with open(f"/proc/{pid}/maps") as maps:
            regions = [line.split() for line in maps]
        memory = open(f"/proc/{pid}/mem", "rb", buffering=0)
        memory.seek(int(regions[0][0].split("-")[0], 16))
        memory.read(8)
    except (OSError, IndexError):
        continue
    if pid != own:
        print(f"BREACH: the memory of process {pid} can be read")
    for span, modes, *_ in regions:
        start, end = (int(part, 16) for part in span.split("-"))
        if not modes.startswith("rw"):
            continue
        try:
            memory.seek(start)
            content = memory.read(min(end - start, 64 << 20))
        except (OSError, ValueError, OverflowError):
            continue
        if PATTERN.search(content):
            print(f"BREACH: a region of process {pid} holds a secret")
print("searched")
