"""Ends in the way that its input names, after it has printed what is right."""

import atexit
import signal
import sys

how, _, number = input().partition(" ")
print("right", flush=True)
if how == "exit":
    sys.exit(int(number))
elif how == "_exit":
    os._exit(int(number))
elif how == "signal":
    signal.signal(int(number), signal.SIG_DFL) if int(number) != 9 else None
    os.kill(os.getpid(), int(number))
elif how == "abort":
    os.abort()
elif how == "atexit":
    atexit.register(os._exit, int(number))
elif how == "exec":
    os.execv("/bin/sh", ["sh", "-c", f"exit {number}"])
elif how == "raise":
    raise SystemExit(number)
