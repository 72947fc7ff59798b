"""No attack: reserves much address space and touches little, as numpy and other runtimes do."""

import mmap
import threading

import numpy

reserved = mmap.mmap(-1, 900 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
threads = [threading.Thread(target=numpy.dot, args=(numpy.eye(100), numpy.eye(100))) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("reserved", len(reserved) >> 20, "MiB; sum", int(numpy.arange(10).sum()))
