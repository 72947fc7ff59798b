"""Pushes its memory out to where it isn't counted: advice to swap, to reclaim, to lock, to share."""

import mmap

block = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block.write(b"x" * (4 << 20))
attempt("swapon", lambda: call(167, 224, b"/w/swap", 0))
attempt("process_madvise", lambda: call(440, 440, 0, 0, 0, 0, 0))
attempt("mlock", lambda: call(149, 228, 0, 4096))
attempt("mlockall", lambda: call(151, 230, 3))
