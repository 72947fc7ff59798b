"""Leaves something for the next program of its uid in a home, a cache, a spool, a cached module; looks for such."""

import fcntl
import glob
import py_compile

for path in (
    "~/.cache/x",
    "~/.profile",
    "~/.local/lib/python3/site-packages/evil.pth",
    "/var/spool/cron/x",
    "/var/mail/x",
):
    path = os.path.expanduser(path)
    print(f"{path} is there:", os.path.exists(path))
    attempt(path, lambda path=path: os.makedirs(os.path.dirname(path), exist_ok=True) or write(path))
for name in ("user.breach", "system.posix_acl_access", "trusted.breach"):
    attempt(f"attribute {name}", lambda name=name: os.setxattr("/w", name, b"secret"))
print("attributes:", *os.listxattr("/w"))
attempt("flags of scratch", lambda: fcntl.ioctl(os.open("/w", os.O_RDONLY), 0x40086602, (0x40).to_bytes(8, "little")))
attempt("priority of the uid", lambda: os.setpriority(os.PRIO_USER, 0, 19))
for path in ("/dev/pts", "/dev/pts/ptmx", "/dev/shm", "/dev"):
    attempt(f"mode of {path}", lambda path=path: os.chmod(path, 0o700))
    attempt(f"times of {path}", lambda path=path: os.utime(path, (1, 1)))
with open("json.py", "w") as file:
    file.write("raise SystemExit('poisoned')")
py_compile.compile("json.py")
with open("sitecustomize.py", "w") as file:
    file.write("print('poisoned')")
print("left behind:", len(glob.glob("/w/**", recursive=True)))
