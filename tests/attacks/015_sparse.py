"""A sparse file of a terabyte, by truncate, seek and fallocate."""

file = os.open("sparse", os.O_RDWR | os.O_CREAT)
attempt("ftruncate", lambda: os.ftruncate(file, 1 << 40))
attempt("write behind a hole", lambda: os.pwrite(file, b"x", 1 << 40))
attempt("fallocate", lambda: os.posix_fallocate(file, 0, 1 << 40))
attempt("the output", lambda: os.ftruncate(1, 1 << 40))
print("size:", os.fstat(file).st_size)
