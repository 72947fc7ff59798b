"""Leaves links under every name that a supervisor may want to write to, all of which lead to files of others."""

import sys

victims = sys.stdin.read().split()
names = [
    "program.py", "run.sh", "stdout", "stderr", "meta", "meta.txt", "compile.sh", "a.out", "box", "input", "output",
    "result", "result.json", "feedback", "report", "checker.py", "answer", "solution.py", "test.py", ".runner",
]  # fmt: skip
for name in names:
    if os.path.lexists(name):
        os.unlink(name)
    os.symlink(victims[len(name) % len(victims)], name)
os.mkdir("folder")
for number, victim in enumerate(victims):
    os.symlink(victim, f"folder/{number}")
    os.symlink(os.path.dirname(victim), f"to-{number}")
print("links:", len(os.listdir()))
