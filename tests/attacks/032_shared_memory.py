"""Memory that no process is charged for: shared mappings whose pages others touch, memfds, huge pages, /dev/zero."""

import mmap

attempt("shared mapping", lambda: mmap.mmap(-1, 1 << 20))
attempt("memfd", lambda: os.memfd_create("x"))
attempt("memfd_secret", lambda: call(447, 447, 0))
attempt("huge pages", lambda: mmap.mmap(-1, 2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000))
attempt("shared huge pages", lambda: mmap.mmap(-1, 2 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 0x40000))
attempt("System V", lambda: call(29, 194, 0, 1 << 20, 0o1666))
file = os.open("/dev/zero", os.O_RDWR)
attempt("/dev/zero", lambda: mmap.mmap(file, 1 << 20, mmap.MAP_SHARED))
