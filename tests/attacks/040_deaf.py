"""Ignores the signals of limits and burns on."""

import signal

for number in (signal.SIGXCPU, signal.SIGALRM, signal.SIGTERM, signal.SIGPROF, signal.SIGVTALRM, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
