"""A daemon that holds standard output open and goes on writing to it."""

import time

reader, writer = os.pipe()
if not os.fork():
    os.setsid()
    os.write(writer, b"x")
    while True:
        os.write(1, b"")
        time.sleep(0.01)
os.read(reader, 1)
print("done")
