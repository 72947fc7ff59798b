"""Looks for a place outside scratch where anything can be written."""

import os

# Devices that keep nothing, a new terminal that ends with its descriptors, and the program's own output.
DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "stdout", "stderr"}


def may_write(path):
    if os.path.realpath(path).startswith(("/dev/", "/w/", "/memfd")) and not path.startswith("/dev/"):
        return False  # a link to what is looked at elsewhere
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        return True
    except OSError:
        return False


def may_create(folder):
    try:
        os.mkdir(f"{folder}/breach")
        return True
    except OSError:
        return False


with open("/proc/self/mounts") as mounts:
    places = {line.split()[1] for line in mounts}
for place in sorted(places - {"/w"}):
    if os.path.isdir(place) and may_create(place):
        print(f"BREACH: the mount {place} is writable")
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [name for name in folders if name not in ("w", "proc")]
    if os.access(folder, os.W_OK) and may_create(folder):
        print(f"BREACH: a folder made in {folder}")
    for name in files:
        path = f"{folder}/{name}"
        if os.access(path, os.W_OK) and may_write(path) and not (folder in ("/dev", "/dev/pts") and name in DEVICES):
            print(f"BREACH: {path} is writable")
for top in ("/proc/sys", "/proc/irq", "/proc/fs", "/proc/driver", "/proc/bus"):
    for folder, _, files in os.walk(top):
        for name in files:
            if may_write(f"{folder}/{name}"):
                print(f"BREACH: {folder}/{name} is writable")
for name in os.listdir("/proc"):
    if not name.isdigit() and os.path.isfile(f"/proc/{name}") and may_write(f"/proc/{name}"):
        print(f"BREACH: /proc/{name} is writable")
if may_write("/proc/sys/kernel/core_pattern"):
    print("BREACH: core_pattern is writable")
