"""Files that resist their removal: without permissions, immutable, append-only, under a mount, with hostile names."""

import fcntl
import struct

IMMUTABLE, APPEND_ONLY, SETFLAGS = 0x10, 0x20, 0x40086602
os.makedirs("a/b/c/d")
open("a/b/c/d/file", "w").close()
for number, name in enumerate((b"\xff\xfe", b"a\nb", b"-rf", b" ", b"*", b"...", b"x" * 255)):
    os.mkdir(name)
    open(name + b"/%d" % number, "w").close()
for flag, name in ((IMMUTABLE, "immutable"), (APPEND_ONLY, "append-only")):
    open(name, "w").close()
    with open(name) as file:
        attempt(name, lambda file=file, flag=flag: fcntl.ioctl(file, SETFLAGS, struct.pack("L", flag)))
attempt("a mount over scratch", lambda: call(165, 40, b"none", b"/w", b"tmpfs", 0, None))
attempt("a bind mount", lambda: call(165, 40, b"/usr", b"/w/a", None, 4096, None))
for path in ("a/b/c/d", "a/b/c", "a/b", "a"):
    os.chmod(path, 0)
