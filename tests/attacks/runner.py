"""Harms process 1, which runs the tests, or looks into it."""

import ctypes
import os
import resource
import signal

libc = ctypes.CDLL(None, use_errno=True)
PIDFD_SEND_SIGNAL, PIDFD_OPEN, PIDFD_GETFD, SYSLOG = 424, 434, 438, 103
MACHINE = os.uname().machine


def attempt(name, call):
    try:
        result = call()
    except (OSError, ValueError):
        return
    if not isinstance(result, int) or result >= 0:
        print(f"BREACH: {name}")


for entry in ("mem", "environ", "maps", "auxv", "stack", "syscall", "io", "timers"):
    attempt(f"/proc/1/{entry} can be opened", lambda entry=entry: open(f"/proc/1/{entry}", "rb").read(1) and 0)
for entry in ("fd", "map_files", "fdinfo"):
    attempt(f"/proc/1/{entry} can be listed", lambda entry=entry: os.listdir(f"/proc/1/{entry}") and 0)
for entry in ("cwd", "root", "exe"):
    attempt(f"/proc/1/{entry} can be followed", lambda entry=entry: os.readlink(f"/proc/1/{entry}") and 0)
attempt("/proc/1/oom_score_adj can be written", lambda: os.open("/proc/1/oom_score_adj", os.O_WRONLY))
attempt("/proc/1/comm can be written", lambda: os.write(os.open("/proc/1/comm", os.O_WRONLY), b"x"))
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
attempt("ptrace attaches", lambda: libc.ptrace(PTRACE_ATTACH, 1, 0, 0))
attempt("ptrace seizes", lambda: libc.ptrace(PTRACE_SEIZE, 1, 0, 0))
attempt("process_vm_readv", lambda: libc.process_vm_readv(1, None, 0, None, 0, 0))
attempt("prlimit", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)) and 0)
attempt("setpriority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19) or 0)
attempt("sched_setaffinity", lambda: os.sched_setaffinity(1, {0}) or 0)
attempt("sched_setscheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)) or 0)
attempt("SCHED_FIFO", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) or 0)
attempt("a better priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5) or 0)
attempt("uid 0", lambda: os.setuid(0) or 0)
attempt("gid 0", lambda: os.setgid(0) or 0)
attempt("groups", lambda: os.setgroups([0]) or 0)
attempt("chroot", lambda: os.chroot("/w") or 0)
attempt("mount", lambda: libc.mount(b"none", b"/w", b"tmpfs", 0, None))
attempt("umount", lambda: libc.umount2(b"/w", 2))
for kind in ("NEWNS", "NEWUSER", "NEWPID", "NEWNET", "NEWIPC", "NEWUTS", "NEWCGROUP"):
    number = {"NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000}.get(kind)
    number = number or {"NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}[kind]
    attempt(f"unshare {kind}", lambda number=number: libc.unshare(number))
attempt("sethostname", lambda: libc.sethostname(b"x", 1))
attempt("shared memory", lambda: libc.shmget(1234, 4096, 0o1666))
attempt("a message queue", lambda: libc.msgget(1234, 0o1666))
attempt("a semaphore", lambda: libc.semget(1234, 1, 0o1666))
attempt("a POSIX queue", lambda: libc.mq_open(b"/breach", os.O_CREAT | os.O_RDWR, 0o666, None))
attempt("a memfd", lambda: os.memfd_create("breach"))
attempt("io_uring", lambda: libc.syscall(425, 1, ctypes.create_string_buffer(120)))
attempt("bpf", lambda: libc.syscall(321 if MACHINE == "x86_64" else 280, 0, None, 0))
attempt("userfaultfd", lambda: libc.syscall(323 if MACHINE == "x86_64" else 282, 0))
attempt("keyctl", lambda: libc.syscall(250 if MACHINE == "x86_64" else 219, 0, -3, 1))
attempt("clone3", lambda: libc.syscall(435, None, 0))
attempt("raised limits", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999)) or 0)
handle = libc.syscall(PIDFD_OPEN, 1, 0)
if handle >= 0:
    attempt("pidfd_getfd", lambda: libc.syscall(PIDFD_GETFD, handle, 3, 0))
    libc.syscall(PIDFD_SEND_SIGNAL, handle, signal.SIGKILL, None, 0)
for number in signal.valid_signals():
    for target in (1, -os.getpgid(1) if os.getpgid(1) else 1):
        try:
            os.kill(target, number)
        except OSError:
            pass
try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
