"""Memory that no process is charged for: shared mappings whose pages others touch, memfds, huge pages, /dev/zero,
pipes that hold pages, contexts for asynchronous files."""

import mmap

attempt("shared mapping", lambda: mmap.mmap(-1, 1 << 20))
attempt("memfd", lambda: os.memfd_create("x"))
attempt("memfd_secret", lambda: call(447, 447, 0))
attempt("huge pages", lambda: mmap.mmap(-1, 2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000))
attempt("shared huge pages", lambda: mmap.mmap(-1, 2 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 0x40000))
attempt("System V", lambda: call(29, 194, 0, 1 << 20, 0o1666))
file = os.open("/dev/zero", os.O_RDWR)
attempt("/dev/zero", lambda: mmap.mmap(file, 1 << 20, mmap.MAP_SHARED))
attempt("pages in a pipe", lambda: call(278, 75, os.pipe()[1], None, 0, 0))
attempt("asynchronous files", lambda: call(206, 0, 60_000, bytes(8)))
