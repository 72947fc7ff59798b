"""First code in a box: takes the runner's modules over the socket, then runs them. Holds no secret.

    python -s -P boot.py SOCKET

SOCKET is the path of a listening Unix socket (the box dials the worker) or the number of an inherited descriptor.
At end of file the box ends.
"""

import json
import os
import resource
import socket
import sys
import types

STACK_BYTES = 1 << 30  # deep recursion: the main stack grows to here; what is touched counts as the program's memory
PACKAGE = "microcoder_runner"


def raise_stack_limit() -> None:
    """The kernel lays out a process by the stack limit it was executed with, so: set it and execute once more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    want = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    if soft == resource.RLIM_INFINITY or soft < want:
        resource.setrlimit(resource.RLIMIT_STACK, (want, hard))
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def connect(where: str) -> socket.socket:
    """The control socket. Every message is one datagram, so nothing has to be framed."""
    if where.isdigit():
        return socket.socket(fileno=int(where))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(where)
    return connection


def receive_modules(connection: socket.socket) -> dict[str, str]:
    """The first message carries a memfd with `{module name: source}`, in the order of their imports."""
    message, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
    if not message:
        sys.exit(0)
    with open(descriptors[0], "rb") as file:
        modules: dict[str, str] = json.loads(file.read())
    return modules


def install(modules: dict[str, str]) -> types.ModuleType:
    """Execute the modules as one package and return the last, `main`."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = []
    sys.modules[PACKAGE] = package
    module = package
    for name, source in modules.items():
        module = types.ModuleType(f"{PACKAGE}.{name}")
        module.__package__ = PACKAGE
        sys.modules[module.__name__] = module
        setattr(package, name, module)
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    return module


if __name__ == "__main__":
    raise_stack_limit()
    control = connect(sys.argv[1])
    # The loop returns in a forked child only, with what the child has to do: so a program's frames lie right above
    # this line, and nothing of the runner's is on its stack.
    install(receive_modules(control)).serve(control)()
