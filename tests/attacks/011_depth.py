"""Ten thousand levels of folders with names of 255 bytes, so that no path reaches the bottom."""

import time

for _ in range(10_000):
    os.mkdir("x" * 255)
    os.chdir("x" * 255)
time.sleep(30)
