"""Leaves a file in every place that programs share by custom, and looks for one that was left there."""

import glob

PLACES = ("/dev/shm", "/tmp", "/var/tmp", "/run/lock", "/run", "/dev/mqueue", "/var/lock", "/var/spool", "/w", "/dev")
for place in PLACES:
    print(f"in {place}: {len(glob.glob(place + '/breach*'))}")
    attempt(place, lambda place=place: write(f"{place}/breach-{os.getpid()}"))
