"""Burns processor time in children that nobody waits for: SIGCHLD is ignored, so the kernel adds them to no one."""

import signal
import time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if not os.fork():
        while time.process_time() < 0.2:
            pass
        os._exit(0)
    try:
        os.wait()
    except OSError:
        pass
