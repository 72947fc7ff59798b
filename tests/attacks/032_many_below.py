"""Many processes, each far below the limit, together far above it."""

import time

for _ in range(8):
    if not os.fork():
        block = b"x" * (60 << 20)
        time.sleep(60)
time.sleep(60)
