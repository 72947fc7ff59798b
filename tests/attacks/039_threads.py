"""Burns every core in threads and processes, while the main one sleeps."""

import threading
import time


def burn():
    while True:
        sum(range(10**6))


for _ in range(4):
    threading.Thread(target=burn, daemon=True).start()
    if not os.fork():
        burn()
time.sleep(3600)
