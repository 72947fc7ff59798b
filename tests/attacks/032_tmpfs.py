"""Keeps memory in scratch: files that are removed while they are open, and mapped."""

import mmap

held = []
for _ in range(16):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    os.unlink("file")
    try:
        os.posix_fallocate(file, 0, 16 << 20)
        held.append(mmap.mmap(file, 16 << 20))
    except OSError as error:
        print("refused:", errno.errorcode[error.errno])
        break
print("within 64 MiB:", len(held) <= 4)
