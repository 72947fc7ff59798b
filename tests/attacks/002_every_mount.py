"""Walks the mounts and writes to each: by creating, appending, truncating, renaming, linking, touching."""

with open("/proc/self/mounts") as mounts:
    places = sorted({line.split()[1] for line in mounts})
taken = set()
for place in places:
    for deed in (
        lambda: os.mkdir(f"{place}/breach"),
        lambda: write(f"{place}/breach.txt"),
        lambda: os.symlink("/", f"{place}/breach.link"),
        lambda: os.utime(place, (1, 1)),
        lambda: os.chmod(place, 0o777),
        lambda: os.setxattr(place, "user.breach", b"x"),
    ):
        try:
            deed()
            taken.add(place)
        except OSError:
            pass
print("changed:", *sorted(taken))
attempt("/dev/pts", lambda: os.utime("/dev/pts", (1, 1)))
attempt("a system library", lambda: write("/usr/lib/os-release"))
attempt("the interpreter", lambda: write(os.path.realpath("/proc/self/exe")))
attempt("a new file in /usr/bin", lambda: write("/usr/bin/breach"))
attempt("a new file in /", lambda: write("/breach"))
attempt("a new file in /opt", lambda: write("/opt/breach"))
attempt("the core pattern", lambda: write("/proc/sys/kernel/core_pattern"))
