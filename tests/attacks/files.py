"""Reads what isn't its own: the paths on its input, and whatever bears our names."""

import os
import sys

for path in sys.stdin.read().splitlines():
    try:
        if os.path.isdir(path):
            print(f"BREACH: {path} can be listed: {os.listdir(path)[:5]}")
        else:
            with open(path, "rb") as file:
                print(f"BREACH: {path} can be read: {file.read(20)!r}")
    except OSError:
        pass
OURS = {"evaluator", "microcoder", "microcoder_client", "judge.py", "bubblewrap.py", ".git"}
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders.remove("proc")
    for name in OURS.intersection(folders + files):
        print(f"BREACH: {folder}/{name} is in sight")
