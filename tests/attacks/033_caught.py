"""Asks for more memory than there is, catches the error, frees what it had, and answers."""

try:
    block = bytearray(1 << 40)
except MemoryError:
    block = None
print("caught")
