"""Stops itself, deaf to every signal that can be ignored."""

import signal

for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGSTOP)
