"""Finds a descriptor that it shouldn't have, or a way to write to its input."""

import ctypes
import fcntl
import mmap
import os

for name in sorted(map(int, os.listdir("/proc/self/fd"))):
    if name > 2 and os.path.exists(f"/proc/self/fd/{name}"):
        print(f"BREACH: descriptor {name} is open: {os.readlink(f'/proc/self/fd/{name}')}")
before = os.pread(0, 100, 0)


def attempt(name, call):
    try:
        call()
    except (OSError, ValueError, PermissionError):
        pass
    if os.pread(0, 100, 0) != before:
        print(f"BREACH: the input was changed by {name}")


def write(path, flags=os.O_RDWR):
    descriptor = os.open(path, flags)
    try:
        os.write(descriptor, b"changed")
    finally:
        os.close(descriptor)


attempt("fchmod", lambda: os.fchmod(0, 0o777))
attempt("write", lambda: os.write(0, b"changed"))
attempt("pwrite", lambda: os.pwrite(0, b"changed", 0))
attempt("ftruncate", lambda: os.ftruncate(0, 1))
attempt("truncate", lambda: os.truncate("/proc/self/fd/0", 1))
for path in ("/dev/stdin", "/proc/self/fd/0", f"/proc/{os.getpid()}/fd/0", "/dev/fd/0"):
    for flags in (os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
        attempt(f"open({path})", lambda path=path, flags=flags: write(path, flags))


def map_it():
    with mmap.mmap(0, len(before), mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as view:
        view[:7] = b"changed"


attempt("mmap", map_it)
attempt("fallocate", lambda: os.posix_fallocate(0, 0, 1 << 20))
attempt("punch", lambda: ctypes.CDLL(None).fallocate(0, 3, 0, ctypes.c_long(7)))
attempt("sendfile", lambda: os.sendfile(0, 0, 3, 4))
attempt("copy", lambda: os.copy_file_range(0, 0, 7, 7, 0))
if not fcntl.fcntl(0, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE:
    print("BREACH: the input isn't sealed")
