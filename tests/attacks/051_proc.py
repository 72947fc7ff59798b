"""Walks /proc and /sys for what is sensitive, and writes where the kernel listens."""

for path in (
    "/proc/1/environ", "/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list",
    "/proc/sched_debug", "/sys/kernel/debug/tracing", "/sys/firmware/efi", "/proc/acpi/wakeup", "/proc/vmallocinfo",
    "/proc/slabinfo", "/proc/pagetypeinfo", "/proc/kpagecount", "/sys/kernel/security/lockdown",
):  # fmt: skip
    attempt(path, lambda path=path: read(path))
for path in (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger",
    "/proc/sys/kernel/hostname", "/proc/self/exe", "/proc/1/exe", "/proc/1/oom_score_adj", "/proc/irq/default_smp_affinity",
    "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/kernel/uevent_helper", "/sys/power/state",
):  # fmt: skip
    attempt(f"write {path}", lambda path=path: os.write(os.open(path, os.O_WRONLY), b"0"))
with open("/proc/self/mountinfo") as mounts:
    sources = sorted(
        {line.split(" - ")[1].split()[1] for line in mounts} - {"tmpfs", "proc", "devpts", "sysfs", "overlay", "cgroup"}
    )
words = ("home", "work", "root", "tmp/", "microcoder")
print("host paths in sources:", *[source for source in sources if any(word in source for word in words)])
