"""Reads the machine's secrets: password hashes, root's home, other users, the engine's socket, the runner's environment."""

for path in (
    "/etc/shadow", "/etc/gshadow", "/etc/passwd-", "/root/.ssh", "/root/.bashrc", "/home/user", "/var/lib/docker",
    "/var/run/docker.sock", "/run/secrets", "/proc/1/environ", "/proc/1/mem", "/proc/1/maps",
):  # fmt: skip
    attempt(path, lambda path=path: read(path))
for path in ("/proc/1/fd", "/proc/1/root", "/proc/1/cwd", "/proc/1/map_files", "/var/lib/docker"):
    attempt(f"list {path}", lambda path=path: os.listdir(path))
