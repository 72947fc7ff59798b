"""Looks into the runner and its siblings: by debugger, by their memory, by their descriptors, by their page maps."""

import signal

if not (sibling := os.fork()):
    signal.pause()
runner = os.getppid()
for name, pid in (("runner", runner), ("sibling", sibling)):
    attempt(f"ptrace attach {name}", lambda pid=pid: call(101, 117, 16, pid, 0, 0))
    attempt(f"ptrace seize {name}", lambda pid=pid: call(101, 117, 0x4206, pid, 0, 0))
    attempt(f"process_vm_readv {name}", lambda pid=pid: call(310, 270, pid, None, 0, None, 0, 0))
    attempt(f"process_vm_writev {name}", lambda pid=pid: call(311, 271, pid, None, 0, None, 0, 0))
    handle = os.pidfd_open(pid)
    attempt(f"pidfd_getfd {name}", lambda handle=handle: call(438, 438, handle, 0, 0))
    attempt(f"kcmp {name}", lambda pid=pid: call(312, 272, pid, os.getpid(), 0, 0, 0))
for entry in ("mem", "environ", "maps", "auxv", "stack", "syscall", "pagemap", "io", "personality"):
    attempt(f"/proc/1/{entry}", lambda entry=entry: read(f"/proc/1/{entry}"))
attempt("write to the runner's memory", lambda: os.open("/proc/1/mem", os.O_RDWR))
attempt("trace oneself", lambda: call(101, 117, 0, 0, 0, 0))
