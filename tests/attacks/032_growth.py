"""One process that grows."""

blocks = []
while True:
    blocks.append(bytearray(8 << 20))
