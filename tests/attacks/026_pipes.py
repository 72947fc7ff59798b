"""No attack: what must go on working. A socket pair, a pipe, asyncio with a subprocess."""

import asyncio
import socket
import sys


async def ask():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(6 * 7)", stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0]


left, right = socket.socketpair()
left.send(b"through a pair")
print("pair:", right.recv(100).decode())
reader, writer = os.pipe()
os.write(writer, b"through a pipe")
print("pipe:", os.read(reader, 100).decode())
print("asyncio:", asyncio.run(ask()).decode().strip())
