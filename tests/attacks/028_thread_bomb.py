"""Starts threads without end."""

import threading
import time

threading.stack_size(32768)
while True:
    try:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    except RuntimeError:
        time.sleep(0.01)
