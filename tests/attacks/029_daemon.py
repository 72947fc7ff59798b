"""A daemon by the book: twice forked, in a session of its own, with every descriptor closed, deaf to signals."""

import signal
import time

reader, writer = os.pipe()
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    os.write(writer, b"x")
    os.closerange(0, 512)
    time.sleep(300)
os.read(reader, 1)
print("the daemon runs")
