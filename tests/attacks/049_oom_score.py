"""Asks the kernel to take anyone but itself when memory is gone."""

for pid in ("self", "1", str(os.getppid())):
    attempt(f"oom_score_adj of {pid}", lambda pid=pid: write(f"/proc/{pid}/oom_score_adj", b"-1000"))
    attempt(f"oom_adj of {pid}", lambda pid=pid: write(f"/proc/{pid}/oom_adj", b"-17"))
with open("/proc/self/oom_score_adj") as file:
    print("score:", file.read().strip())
