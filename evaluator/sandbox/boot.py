"""First code in a box: takes the runner's modules over the socket, then runs them. Holds no secret.

    python -s -P boot.py SOCKET
    python -s -P boot.py --dial DIRECTORY

SOCKET is the path of a listening Unix socket (the box dials the worker) or the number of an inherited descriptor.
At end of file the box ends.

A box that somebody else has started, and starts again more slowly each time that it ends, outlives its sockets: with
`--dial`, process 1 is a keeper that forks a fresh runner for each session. The runner calls a worker in DIRECTORY; when
the session has ended, the keeper ends whatever it has left, proves that nothing is, and forks the next.
"""

import json
import os
import resource
import signal
import socket
import sys
import time
import types

STACK_BYTES = 1 << 30  # deep recursion: the main stack grows to here; what is touched counts as the program's memory
PACKAGE = "microcoder_runner"
ENVIRONMENT = {
    "PATH": "/opt/python/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/w",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "MALLOC_ARENA_MAX": "1",
    "LD_BIND_NOW": "1",
    **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")},
}
"""What a box that dials in begins with, whatever its engine gave it: as `docker.BOX_ENVIRONMENT`."""
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds before the next session, by how many ended at once."""


def raise_stack_limit() -> None:
    """The kernel lays out a process by the stack limit it was executed with, so: set it and execute once more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    want = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    if soft == resource.RLIM_INFINITY or soft < want:
        resource.setrlimit(resource.RLIMIT_STACK, (want, hard))
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def keep(directory: str) -> socket.socket:
    """Be the keeper. Returns in a forked child only: the connection of its session."""
    if os.getpid() != 1:
        sys.exit("A box must be process 1 of its own namespace: start its container without --init and --pid.")
    if os.geteuid() != 0:
        sys.exit("A box that dials in must start as root, with SETUID, SETGID and KILL: tests get users of their own.")
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))  # process 1 has no default for it
    short = 0
    while True:
        began = time.monotonic()
        runner = os.fork()
        if runner == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            return dial(directory)
        while os.waitpid(-1, 0)[0] != runner:
            pass
        end_all()
        short = 0 if time.monotonic() - began > 1 else min(short + 1, len(PAUSES) - 1)
        time.sleep(PAUSES[short])


def end_all() -> None:
    """Kill and reap until the kernel says that no child is left: orphans become children of process 1."""
    try:
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                os.kill(-1, signal.SIGKILL)  # everybody in this namespace but process 1, which this is
                os.waitpid(-1, 0)
    except ChildProcessError:
        return


def dial(directory: str) -> socket.socket:
    """Call a worker that has room for one more: any of them, so that boxes spread."""
    while True:
        names = os.listdir(directory) if os.access(directory, os.R_OK | os.X_OK) else []
        for name in sorted(names, key=lambda name: os.urandom(4)):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.setblocking(False)
            try:
                connection.connect(f"{directory}/{name}")
            except OSError:
                connection.close()  # nobody listens any more, or enough boxes wait there
            else:
                connection.setblocking(True)
                return connection
        time.sleep(PAUSES[1])


def connect(where: str) -> socket.socket:
    """The control socket. Every message is one datagram, so nothing has to be framed."""
    if where.isdigit():
        return socket.socket(fileno=int(where))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(where)
    return connection


def receive_modules(connection: socket.socket) -> dict[str, str]:
    """The first message carries a memfd with `{module name: source}`, in the order of their imports."""
    try:
        message, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
    except ConnectionResetError:
        sys.exit(0)
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
    if sys.argv[1] == "--dial":
        flags = sys.orig_argv[1 : sys.orig_argv.index("--dial")]
        os.execve(sys.executable, [sys.executable, *flags, "--keep", sys.argv[2]], ENVIRONMENT)
    raise_stack_limit()
    control = keep(sys.argv[2]) if sys.argv[1] == "--keep" else connect(sys.argv[1])
    # The loop returns in a forked child only, with what the child has to do: so a program's frames lie right above
    # this line, and nothing of the runner's is on its stack.
    install(receive_modules(control)).serve(control)()
