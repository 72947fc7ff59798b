"""Opens sockets of container engines, devices, and looks for the host's processes and IPC."""

for path in (
    "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
    "/run/podman/podman.sock", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/sda",
    "/dev/vda", "/dev/nvidia0", "/dev/dri", "/dev/net/tun", "/dev/loop-control", "/dev/vhost-vsock", "/dev/hwrng",
):  # fmt: skip
    attempt(path, lambda path=path: os.open(path, os.O_RDONLY))
print("processes:", sum(name.isdigit() for name in os.listdir("/proc")))
with open("/proc/sysvipc/shm") as table:
    print("segments:", len(table.readlines()) - 1)
