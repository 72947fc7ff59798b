"""Passes a message to another program at the same time: by locks, leases, notices, keys, IPC, shared files."""

import fcntl
import struct

LOCK = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
file = os.open("/usr/bin/env", os.O_RDONLY)
attempt("flock", lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
attempt("seeing a lock", lambda: fcntl.fcntl(file, fcntl.F_GETLK, LOCK))
attempt("write lock", lambda: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
attempt("open description lock", lambda: fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)))
attempt("seeing one", lambda: fcntl.fcntl(file, 36, LOCK))
attempt("lease", lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK))
attempt("notice", lambda: fcntl.fcntl(os.open("/usr/bin", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS))
attempt("inotify", lambda: call(294, 26, 0))
attempt("key", lambda: call(248, 217, b"user", b"x", b"x", 1, -4))
attempt("shmget", lambda: call(29, 194, 7, 4096, 0o1666))
attempt("msgget", lambda: call(68, 186, 7, 0o1666))
attempt("semget", lambda: call(64, 190, 7, 1, 0o1666))
attempt("mq_open", lambda: call(240, 180, b"x", os.O_CREAT | os.O_RDWR, 0o666, None))
attempt("/dev/mqueue", lambda: write("/dev/mqueue/x"))
attempt("/dev/shm", lambda: write("/dev/shm/x"))
attempt("vsock", lambda: __import__("socket").socket(40, 1))
attempt("abstract socket", lambda: __import__("socket").socket(1, 1))
before = os.stat("/usr/bin/env").st_atime_ns
os.read(file, 1)
print("access time moves:", os.stat("/usr/bin/env").st_atime_ns != before)
