"""Changes what is mounted, or leaves it: every call that mounts, unmounts, moves a root or opens by handle."""

NOTHING = None
attempt("chroot", lambda: call(161, 51, b"/w"))
attempt("pivot_root", lambda: call(155, 41, b"/w", b"/w"))
attempt("mount", lambda: call(165, 40, b"none", b"/w", b"tmpfs", 0, NOTHING))
attempt("umount2", lambda: call(166, 39, b"/proc", 2))
attempt("open_by_handle_at", lambda: call(304, 265, -100, NOTHING, 0))
attempt("name_to_handle_at", lambda: call(303, 264, -100, b"/", NOTHING, NOTHING, 0))
attempt("fsopen", lambda: call(430, 430, b"tmpfs", 0))
attempt("fsconfig", lambda: call(431, 431, 0, 0, NOTHING, NOTHING, 0))
attempt("fsmount", lambda: call(432, 432, 0, 0, 0))
attempt("fspick", lambda: call(433, 433, -100, b"/", 0))
attempt("open_tree", lambda: call(428, 428, -100, b"/", 1))
attempt("move_mount", lambda: call(429, 429, -100, b"/w", -100, b"/", 0))
attempt("mount_setattr", lambda: call(442, 442, -100, b"/", 0, NOTHING, 0))
for name, flag in (
    ("mount", 0x20000), ("cgroup", 0x2000000), ("uts", 0x4000000), ("ipc", 0x8000000), ("user", 0x10000000),
    ("pid", 0x20000000), ("net", 0x40000000), ("time", 0x80),
):  # fmt: skip
    attempt(f"unshare {name}", lambda flag=flag: call(272, 97, flag))
    attempt(f"clone {name}", lambda flag=flag: call(56, 220, flag | 17, 0, 0, 0, 0) or os._exit(0))
attempt("clone3", lambda: call(435, 435, NOTHING, 0))
attempt("setns", lambda: call(308, 268, os.open("/proc/self/ns/user", os.O_RDONLY), 0))
