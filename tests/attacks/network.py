"""Talks to anything outside: every kind of socket."""

import socket

for family in range(46):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind)
            print(f"BREACH: a socket of family {family}, kind {kind}")
        except OSError:
            pass
try:
    socket.create_connection(("127.0.0.1", 1), timeout=1)
    print("BREACH: connected")
except ConnectionRefusedError:
    print("BREACH: the loopback answers")
except OSError:
    pass
with open("/proc/net/dev") as interfaces:
    names = [line.split(":")[0].strip() for line in interfaces if ":" in line]
if set(names) - {"lo"}:
    print(f"BREACH: network interfaces {names}")
