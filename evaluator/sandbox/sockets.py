"""Listening sockets by which a box reaches its worker."""

import os
import socket
from pathlib import Path


def listen_at(directory: Path, name: str, *, mode: int = 0o666, waiting: int = 1) -> socket.socket:
    """Listen at `directory/name`, by way of a descriptor: a socket's path may have 107 characters only.

    `mode` says who may call, `waiting` how many may wait beside the first until they are taken.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{name}")
        (directory / name).chmod(mode)
        listener.listen(waiting)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener
