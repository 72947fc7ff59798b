"""Sleeps for ever."""

import time

while True:
    time.sleep(3600)
