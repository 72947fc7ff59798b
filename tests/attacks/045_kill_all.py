"""Kills everything: all processes, its parent, process 1, its group, the numbers of the host's processes."""

import signal

for number in signal.valid_signals() - {0, signal.SIGSTOP, signal.SIGKILL, signal.SIGCHLD}:
    signal.signal(number, signal.SIG_IGN)
attempt("the runner's group", lambda: os.killpg(0, signal.SIGCONT))
hits = 0
for pid in range(2, 70_000):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
            hits += 1
        except ProcessLookupError:
            pass
print("others hit:", hits)
for number in signal.valid_signals():
    for target in (1, os.getppid()):
        try:
            os.kill(target, number)
        except OSError:
            pass
        try:
            call(234, 131, target, target, number)
        except OSError:
            pass
attempt("everyone else", lambda: os.kill(-1, signal.SIGKILL))
print("alive")
