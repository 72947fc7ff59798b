"""Raises its own limits, its priority, its class of scheduling; takes processors; turns the clocks."""

import resource
import time

for name in ("CPU", "AS", "FSIZE", "NOFILE", "CORE", "MEMLOCK", "NICE", "RTPRIO"):
    kind = getattr(resource, f"RLIMIT_{name}", {"NICE": 13, "RTPRIO": 14}.get(name))
    hard = resource.getrlimit(kind)[1]
    higher = 40 if hard == 0 else hard + 1
    attempt(f"RLIMIT_{name}", lambda kind=kind, higher=higher: resource.setrlimit(kind, (higher, higher)))
attempt("RLIMIT_CORE to 0", lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
attempt("SCHED_FIFO", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt(
    "SCHED_DEADLINE", lambda: call(314, 274, 0, (48).to_bytes(4, "little") + (6).to_bytes(4, "little") + bytes(40), 0)
)
attempt("nice -20", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
attempt("ioprio of realtime", lambda: call(251, 30, 1, 0, 1 << 13))
attempt("clock_settime", lambda: time.clock_settime(time.CLOCK_REALTIME, 0))
attempt("settimeofday", lambda: call(164, 170, bytes(16), None))
attempt("adjtimex", lambda: call(159, 171, bytes(208)))
attempt("limits of the runner", lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)))
attempt("affinity of the runner", lambda: os.sched_setaffinity(1, {0}))
attempt("timers", lambda: __import__("signal").setitimer(0, 1000))
