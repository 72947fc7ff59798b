"""What is taken away from a child before it runs anything: system calls, uid, limits.

The filter is installed once, in the runner, after it has its socket; children inherit it. It answers EPERM, so that a
program sees an error and not a mysterious death. It covers what namespaces, uid and capabilities leave open: the
kernel's doors that public judges were bitten by, and channels between tests.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
from typing import Any

PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 4, 38, 22, 2
PR_SET_CHILD_SUBREAPER = 36
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NEW_NAMESPACES = 0x7E020080  # CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET

# System call -> (x86-64, aarch64); None where the architecture lacks it.
Calls = dict[str, tuple[int | None, int | None]]
DENIED: Calls = {
    # channels out of the box, and between tests
    "socket": (41, 198), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "shmget": (29, 194), "shmctl": (31, 195), "shmat": (30, 196), "shmdt": (67, 197),
    "msgget": (68, 186), "msgctl": (71, 187), "msgrcv": (70, 188), "msgsnd": (69, 189),
    "semget": (64, 190), "semctl": (66, 191), "semtimedop": (220, 192), "semop": (65, 193),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183),
    "flock": (73, 32), "inotify_init": (253, None), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # memory that no process is charged for: a pipe that holds a byte of a huge page holds all of it; and contexts for
    # asynchronous files, of which the machine has one number for all
    "vmsplice": (278, 75), "io_setup": (206, 0),
    # what would stay on the scratch folder itself, for the next test to read
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "file_setattr": (469, 469),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "kcmp": (312, 272), "process_madvise": (440, 440), "migrate_pages": (256, 238), "move_pages": (279, 239),
    # the kernel's rarely used doors
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "personality": (135, 92),
    "modify_ldt": (154, None), "lookup_dcookie": (212, 18), "syslog": (103, 116), "nfsservctl": (180, 42),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "acct": (163, 89),
    "swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58), "iopl": (172, None),
    "ioperm": (173, None), "uselib": (134, None), "_sysctl": (156, None),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
}  # fmt: skip
# Calls that take a process id: only 0, oneself. With the runner's own uid (bubblewrap without root) they'd reach pid 1.
# System call -> (x86-64, aarch64, index of the argument that must be 0).
SELF_ONLY = {
    "prlimit64": (302, 261, 0), "sched_setaffinity": (203, 122, 0), "sched_setattr": (314, 274, 0),
    "sched_setscheduler": (144, 119, 0), "sched_setparam": (142, 118, 0), "setpriority": (141, 140, 1),
    "ioprio_set": (251, 30, 1),
}  # fmt: skip
# Calls that are denied with some values of one argument: (x86-64, aarch64, index of the argument, values).
# Locks and leases on files that all boxes read would tell who else runs: F_GETLK, F_OFD_*, F_SETLEASE, F_NOTIFY. A lock
# on what the program may write to is left (F_SETLK: sqlite needs it). Larger socket buffers (SO_SNDBUF, SO_RCVBUF and
# the forced ones) would be memory that no process is charged for. The core limit has to stay 1, see `set_limits`.
# Without root, all processes of one's uid (PRIO_USER, IOPRIO_WHO_USER) would be the runner too. ioctl: no typing into a
# terminal (TIOCSTI, TIOCLINUX), no flags on the scratch folder (FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR).
VALUES: dict[str, tuple[int, int, int, tuple[int, ...]]] = {
    "fcntl": (72, 25, 1, (5, 36, 37, 38, 1024, 1026)),
    "setsockopt": (54, 208, 2, (7, 8, 32, 33)),
    "setrlimit": (160, 164, 0, (resource.RLIMIT_CORE,)),
    "setpriority": (141, 140, 0, (os.PRIO_USER,)),
    "ioprio_set": (251, 30, 0, (3,)),
    "ioctl": (16, 29, 1, (0x5412, 0x541C, 0x40086602, 0x401C5820)),
}
MMAP, MAP_PRIVATE, MAP_ANONYMOUS, MAP_HUGETLB = (9, 222), 0x02, 0x20, 0x40000
OOM_PATH, OOM_SCORE = b"/proc/self/oom_score_adj", b"1000"
"""When the box's memory is gone, the kernel takes the test and not the runner."""
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# Looked up once: in a child, each object that is touched is a page that has to be copied.
_open, _write, _close, _WRITE_ONLY, _set_limit = os.open, os.write, os.close, os.O_WRONLY, resource.setrlimit
_setgroups, _setresgid, _setresuid = os.setgroups, os.setresgid, os.setresuid
_libc = ctypes.CDLL(None)
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


def prctl(option: int, value: int, pointer: int = 0) -> None:
    if _prctl(option, value, pointer, 0, 0) != 0:
        raise OSError(errno.EPERM, f"prctl({option}) failed")


Instruction = tuple[int, int, int, int]
"""Operation, jump if true, jump if false, operand."""


def load(offset: int) -> Instruction:
    """The BPF instruction that loads the word at `offset`."""
    return (0x20, 0, 0, offset)


def build_filter(machine: str) -> bytes:
    """The BPF program as bytes, for `machine` as `platform.machine()` names it."""
    column, audit = ARCHITECTURES[machine]
    number, arch, arguments = 0, 4, 16  # offsets in what the kernel shows the filter
    deny, absent = (0x06, 0, 0, ERRNO | errno.EPERM), (0x06, 0, 0, ERRNO | errno.ENOSYS)
    code = [load(arch), (0x15, 1, 0, audit), deny, load(number)]
    if machine == "x86_64":
        code += [(0x45, 0, 1, 0x40000000), deny]  # the x32 range reaches the same kernel under other numbers
    # Memory that nobody could be charged for: what is shared without a file stays when no process maps it, and huge
    # pages that the machine has put aside count as nobody's. First, and to its end: every program maps memory often.
    code += [(0x15, 0, 6, MMAP[column]), load(arguments + 8 * 3), (0x45, 2, 0, MAP_HUGETLB)]
    code += [(0x45, 0, 2, MAP_ANONYMOUS), (0x45, 1, 0, MAP_PRIVATE), deny, (0x06, 0, 0, ALLOW)]
    code += [(0x15, 0, 1, 435), absent]  # clone3 hides its flags behind a pointer; libc falls back to clone
    for numbers in DENIED.values():
        if (denied := numbers[column]) is not None:
            code += [(0x15, 0, 1, denied), deny]
    for intel, arm, index, values in VALUES.values():
        code += [(0x15, 0, 2 * len(values) + 2, (intel, arm)[column]), load(arguments + 8 * index)]
        for value in values:
            code += [(0x15, 0, 1, value), deny]
        code += [load(number)]
    code += forbid_core_limit(SELF_ONLY["prlimit64"][column], arguments, deny, number)
    for intel, arm, index in SELF_ONLY.values():
        own = (intel, arm)[column]
        code += [(0x15, 0, 4, own), load(arguments + 8 * index), (0x15, 1, 0, 0), deny, load(number)]
    code += [(0x15, 0, 4, (56, 220)[column]), load(arguments), (0x45, 0, 1, NEW_NAMESPACES), deny, load(number)]
    code += [(0x06, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def forbid_core_limit(own: int, arguments: int, deny: Instruction, number: int) -> list[Instruction]:
    """prlimit64 with RLIMIT_CORE and a new value: both halves of the pointer to it are looked at."""
    code = [(0x15, 0, 8, own), load(arguments + 8), (0x15, 0, 5, resource.RLIMIT_CORE)]
    code += [load(arguments + 16), (0x15, 0, 2, 0), load(arguments + 20), (0x15, 1, 0, 0), deny, load(number)]
    return code


def build_denial(calls: Calls) -> bytes:
    """The BPF program that denies these on this machine and allows all else: to go above the one of `build_filter`."""
    column = ARCHITECTURES[platform.machine()][0]
    code: list[Instruction] = [load(0)]
    for numbers in calls.values():
        if (denied := numbers[column]) is not None:
            code += [(0x15, 0, 1, denied), (0x06, 0, 0, ERRNO | errno.EPERM)]
    code.append((0x06, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


class Filter:
    """A BPF program, ready for the kernel."""

    def __init__(self, code: bytes) -> None:
        self._code = ctypes.create_string_buffer(code, len(code))
        self._program = ctypes.create_string_buffer(struct.pack("HP", len(code) // 8, ctypes.addressof(self._code)))

    def install(self) -> None:
        """Give up privileges and system calls for this process and all that it forks."""
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(self._program))


def install_filter() -> None:
    """Install the filter that every box has."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no system call filter for {machine}: x86_64 and aarch64 are supported")
    Filter(build_filter(machine)).install()


def set_dumpable(flag: bool) -> None:
    """Whether /proc/self belongs to the process's uid: needed by programs that open /dev/stdin, denied to the rest."""
    prctl(PR_SET_DUMPABLE, int(flag))


def adopt_orphans() -> None:
    """What a test's processes leave behind becomes this one's child, as if it were pid 1."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def set_thread_stacks(size: int = 8 << 20) -> None:
    """Threads get `size` of stack by default: libc would take the main stack's limit, which is huge here."""
    attributes = ctypes.create_string_buffer(64)
    _libc.pthread_attr_init(attributes)
    _libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
    if hasattr(_libc, "pthread_setattr_default_np"):
        _libc.pthread_setattr_default_np(attributes)


class Slot:
    """The identity that tests run under, and what this process was before: the zero point of its limits."""

    def __init__(self, uid: int, private: bool) -> None:
        self.uid: int | None = uid if os.geteuid() == 0 else None
        self.runner = os.getpid()
        self.private = private  # nobody else on the host has this uid, so the kernel may count its processes
        self.address_space = 0
        self.resident = 0
        self.oom_kills = 0
        self.succeeded = True
        self.scratch, self.place = "/w", b"/w"
        self.fence: Any = None  # a `fence.Fence` where the box has no namespaces
        self.networked = False  # others' sockets are counted with the test's

    def become(self, offset: int = 0) -> None:
        """Take the slot's uid for good. Without root the box's own uid is all there is."""
        if self.uid is not None:
            uid = self.uid + offset
            _setgroups(())
            _setresgid(uid, uid, uid)
            _setresuid(uid, uid, uid)


Rules = tuple[tuple[int, tuple[int, int]], ...]
"""Limits that the kernel holds: (resource, (soft, hard))."""


def set_limits() -> None:
    """Those that never change, for this process and all that it forks.

    A core limit of 1 and not 0: the kernel heeds no other one where `core_pattern` names a program of the host's.
    """
    for kind, limit in ((resource.RLIMIT_NOFILE, 512), (resource.RLIMIT_CORE, 1), (resource.RLIMIT_MEMLOCK, 0)):
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def find_rules(slot: Slot, limits: dict[str, Any], *, executes: bool = False) -> Rules:
    """Limits of one child. Soft CPU limit first, so that the end has a name (SIGXCPU); the watch is faster than both.
    The address space is only a backstop: it has room for thread stacks and for numpy's reservations.
    """
    cpu = max(1, int(limits["cpu"]) + 2)
    room = slot.address_space + limits["memory"] + max(limits["memory"], 1 << 30)
    if executes:  # another program's threads reserve as much stack each as the main one may grow to
        room += limits["processes"] * max(0, resource.getrlimit(resource.RLIMIT_STACK)[0])
    files = limits["output"] + 1
    rules: Rules = (
        (resource.RLIMIT_CPU, (cpu, cpu + 1)),
        (resource.RLIMIT_AS, (room, room)),
        (resource.RLIMIT_FSIZE, (files, files)),
    )
    if slot.private and slot.uid is not None:
        rules += ((resource.RLIMIT_NPROC, (limits["processes"],) * 2),)
    return rules


def give_up(slot: Slot, rules: Rules, offset: int, dumpable: bool) -> None:
    """In a child: what it may do, how much it may use, and who it is. `offset` is added to the slot's uid."""
    if slot.uid is None:
        set_dumpable(True)  # or what is below /proc/self would be closed to itself
    try:
        file = _open(OOM_PATH, _WRITE_ONLY)
        _write(file, OOM_SCORE)
        _close(file)
    except OSError:
        pass  # not every box lets its processes say so; the watch is there too
    for kind, pair in rules:
        _set_limit(kind, pair)
    slot.become(offset)
    if slot.uid is not None or not dumpable:
        set_dumpable(dumpable)  # a change of the uid takes it away
    if slot.fence is not None:
        slot.fence.enter()
