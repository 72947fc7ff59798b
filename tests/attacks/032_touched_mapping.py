"""Private mappings, touched page by page, with and without transparent huge pages."""

import mmap

blocks = []
while True:
    block = mmap.mmap(-1, 16 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(mmap.MADV_HUGEPAGE)
    for offset in range(0, len(block), mmap.PAGESIZE):
        block[offset] = 1
    blocks.append(block)
