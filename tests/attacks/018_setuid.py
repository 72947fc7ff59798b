"""Gains privileges by files: set-uid programs, file capabilities, a preloaded library, its own set-uid copy."""

import shutil
import subprocess


def status(pid="self"):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t") for line in file)


attempt("ld.so.preload", lambda: write("/etc/ld.so.preload", b"/w/evil.so"))
attempt("a copy", lambda: shutil.copy("/usr/bin/id", "id"))
attempt("set-uid bits", lambda: os.chmod("id", 0o6777))
attempt(
    "a file capability", lambda: os.setxattr("id", "security.capability", bytes.fromhex("0100000200300000" + "00" * 12))
)
own = f"uid={os.getuid()}"
print("own copy runs as oneself:", subprocess.run(["./id"], capture_output=True, text=True).stdout.startswith(own))
found = 0
for folder in ("/usr/bin", "/usr/sbin", "/bin", "/sbin"):
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = f"{folder}/{name}"
        try:
            if os.stat(path).st_mode & 0o6000 and os.path.basename(path) in (
                "su",
                "mount",
                "umount",
                "passwd",
                "newgrp",
            ):
                found += 1
                child = subprocess.Popen([path, "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                child.wait()
        except OSError:
            pass
for name in ("CapPrm", "CapEff", "CapAmb"):
    print(f"{name}: {int(status()[name], 16)}")
print("NoNewPrivs:", status()["NoNewPrivs"])
attempt("su", lambda: subprocess.run(["su", "-c", "id -u"], check=True, capture_output=True, stdin=subprocess.DEVNULL))
