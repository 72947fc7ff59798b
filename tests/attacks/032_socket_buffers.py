"""Keeps memory in the kernel: larger buffers of sockets and pipes; then as many full sockets as there may be."""

import fcntl
import socket
import time

left, right = socket.socketpair()
for name in ("SO_SNDBUF", "SO_RCVBUF"):
    attempt(name, lambda name=name: left.setsockopt(socket.SOL_SOCKET, getattr(socket, name), 1 << 26))
attempt("SO_SNDBUFFORCE", lambda: left.setsockopt(socket.SOL_SOCKET, 32, 1 << 26))
attempt("a pipe of 64 MiB", lambda: fcntl.fcntl(os.pipe()[0], 1031, 1 << 26))
for _ in range(8):
    if not os.fork():
        held = []
        try:
            while True:
                held.append(socket.socketpair())
                held[-1][0].setblocking(False)
                try:
                    while True:
                        held[-1][0].send(b"x" * 65536)
                except BlockingIOError:
                    pass
        except OSError:
            time.sleep(60)
time.sleep(60)
