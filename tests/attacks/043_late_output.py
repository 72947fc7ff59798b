"""Ends while its children go on writing to its output."""

reader, writer = os.pipe()
for _ in range(3):
    if not os.fork():
        os.write(writer, b"x")
        os.read(os.pipe()[0], 1)
        os.write(1, b"late\n")
        os._exit(0)
os.read(reader, 3)
print("in time")
