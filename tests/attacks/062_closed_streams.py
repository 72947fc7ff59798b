"""Closes its streams, writes to what is closed, and puts others in their place."""

print("first", flush=True)
saved = os.dup(1)
os.close(1)
attempt_failed = False
try:
    os.write(1, b"lost")
except OSError as error:
    attempt_failed = error.errno == errno.EBADF
os.dup2(2, 1)
os.write(1, b"to stderr\n")
os.dup2(saved, 1)
os.write(1, b"second %d\n" % attempt_failed)
os.close(2)
os.close(0)
