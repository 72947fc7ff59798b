"""Makes device nodes, pipes and sockets where a supervisor may open a file."""

import socket
import stat

for name in ("stdout", "result", "program.py"):
    attempt(f"pipe {name}", lambda name=name: os.mkfifo(name))
attempt("block device", lambda: os.mknod("disk", 0o666 | stat.S_IFBLK, os.makedev(254, 0)))
attempt("character device", lambda: os.mknod("mem", 0o666 | stat.S_IFCHR, os.makedev(1, 1)))
attempt("node of a socket", lambda: os.mknod("socket", 0o666 | stat.S_IFSOCK))
attempt("bound socket", lambda: socket.socket(socket.AF_UNIX).bind("bound"))
