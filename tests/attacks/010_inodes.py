"""Makes a million empty files, by several processes at once."""

import itertools

for worker in range(8):
    if not os.fork():
        for number in itertools.count():
            try:
                os.mkdir(f"{worker}-{number}")
                open(f"{worker}-{number}/file", "w").close()
            except OSError:
                os._exit(0)
while True:
    os.wait()
