"""The kernel's rarely used doors, each by its number."""

N = None
CALLS = {
    "syslog": (103, 116, 3, N, 0), "perf_event_open": (298, 241, bytes(128), 0, -1, -1, 0), "bpf": (321, 280, 0, N, 0),
    "userfaultfd": (323, 282, 1), "add_key": (248, 217, b"user", b"x", b"x", 1, -3), "keyctl": (250, 219, 0, -3, 1),
    "request_key": (249, 218, b"user", b"x", N, 0), "io_uring_setup": (425, 425, 1, bytes(120)),
    "io_uring_enter": (426, 426, 0, 0, 0, 0, N, 0), "io_uring_register": (427, 427, 0, 0, N, 0),
    "kexec_load": (246, 104, 0, 0, N, 0), "kexec_file_load": (320, 294, 0, 0, 0, N, 0), "init_module": (175, 105, N, 0, N),
    "finit_module": (313, 273, 0, b"", 0), "delete_module": (176, 106, b"x", 0), "quotactl": (179, 60, 0, N, 0, N),
    "swapon": (167, 224, b"/w", 0), "swapoff": (168, 225, b"/w"), "personality": (135, 92, 0x40000),
    "reboot": (169, 142, 0, 0, 0, N), "acct": (163, 89, N), "sethostname": (170, 161, b"x", 1),
    "setdomainname": (171, 162, b"x", 1), "fanotify_init": (300, 262, 0, 0), "inotify_init1": (294, 26, 0),
    "migrate_pages": (256, 238, 0, 0, N, N), "move_pages": (279, 239, 0, 0, N, N, N, 0), "lookup_dcookie": (212, 18, 0, N, 0),
    "vhangup": (153, 58),
}  # fmt: skip
for name, arguments in CALLS.items():
    attempt(name, lambda arguments=arguments: call(*arguments))
if os.uname().machine == "x86_64":
    for name, number in (
        ("modify_ldt", 154),
        ("iopl", 172),
        ("ioperm", 173),
        ("x32 getpid", 0x40000027),
        ("x32 socket", 0x40000029),
    ):
        attempt(name, lambda number=number: call(number, number, 3, 0, 0))
