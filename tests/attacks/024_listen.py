"""Binds a port and listens, and connects to what an earlier or a concurrent program may have left there."""

import asyncio
import socket


async def serve():
    await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 18765)


attempt("connect", lambda: socket.create_connection(("127.0.0.1", 18765), timeout=5))
attempt("bind", lambda: socket.socket().bind(("127.0.0.1", 18765)))
attempt("bind IPv6", lambda: socket.socket(socket.AF_INET6).bind(("::1", 18765)))
attempt("a Unix socket", lambda: socket.socket(socket.AF_UNIX).bind("/w/socket"))
attempt("a server", lambda: asyncio.run(serve()))
with open("/proc/net/tcp") as table:
    print("sockets:", len(table.readlines()) - 1)
