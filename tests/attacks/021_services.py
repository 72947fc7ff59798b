"""Connects to what listens on the host: addresses and paths on its input; and to services by their compose names."""

import socket
import sys

for number, line in enumerate(sys.stdin.read().splitlines()):
    kind, _, where = line.partition(" ")
    if kind == "tcp":
        attempt(f"{number} tcp", lambda where=where: socket.create_connection(("127.0.0.1", int(where)), timeout=5))
    elif kind == "path":
        attempt(f"{number} path", lambda where=where: socket.socket(socket.AF_UNIX).connect(where))
        attempt(f"{number} stat", lambda where=where: os.stat(where))
    else:
        attempt(f"{number} abstract", lambda where=where: socket.socket(socket.AF_UNIX).connect("\0" + where))
for name in ("redis", "api", "worker", "host.docker.internal", "localhost"):
    attempt(name, lambda name=name: socket.create_connection((name, 6379), timeout=5))
