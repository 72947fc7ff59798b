"""What a machine's settings forbid or leave out, and the exact command that mends it.

Read from /proc and /sys beneath a root, and from what a Docker daemon tells of itself, so that each case can be told
without having that machine.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
NAMESPACE_SETTINGS = (
    ("user.max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    ("kernel.unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    (APPARMOR, "1", ""),
)
"""Setting, the value that forbids user namespaces, and what lifts it."""
DELEGATE = (
    "mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' "
    "> /etc/systemd/system/user@.service.d/delegate.conf && systemctl daemon-reload"
)
BOOT = "add `cgroup_enable=memory swapaccount=1` to the kernel's command line and boot again"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that is not as boxes need it."""

    found: str
    """A clause."""
    remedy: str
    """A sentence."""

    def describe(self) -> str:
        """Both, as sentences."""
        return f"{self.found[0].upper()}{self.found[1:]}. {self.remedy}"


def find_namespace_obstacle(root: Path = Path("/"), bwrap: str = "/usr/bin/bwrap") -> Obstacle | None:
    """The setting that forbids an ordinary user's user namespaces; None where none does."""
    for name, bad, command in NAMESPACE_SETTINGS:
        if read_setting(root, name) == bad:
            found = f"user namespaces are forbidden by {name} = {bad}"
            if name == APPARMOR:
                return Obstacle(found, f"Give bwrap a profile that allows them; as root: {allow_in_apparmor(bwrap)}")
            return Obstacle(found, f"As root: {command}")
    return None


def allow_in_apparmor(bwrap: str) -> str:
    """The command that lets this one program make user namespaces (Ubuntu 23.10 and later restrict all others)."""
    profile = f"abi <abi/4.0>,\\nprofile microcoder-bwrap {bwrap} flags=(unconfined) {{\\n  userns,\\n}}\\n"
    path = "/etc/apparmor.d/microcoder-bwrap"
    return f"printf '{profile}' > {path} && apparmor_parser -r {path}"


def read_setting(root: Path, name: str) -> str:
    """A sysctl's value; empty where the kernel doesn't know it."""
    try:
        return (root / "proc/sys" / name.replace(".", "/")).read_text().strip()
    except OSError:
        return ""


def describe_cgroups(root: Path = Path("/")) -> tuple[str, Obstacle | None]:
    """Which cgroups the kernel offers, and what is missing for Docker to hold a box's limits."""
    groups = root / "sys/fs/cgroup"
    try:
        controllers = set((groups / "cgroup.controllers").read_text().split())
        kind = "version 2"
    except OSError:
        kind = "hybrid (controllers in version 1)" if (groups / "unified").is_dir() else "version 1"
        controllers = {name for name in ("memory", "pids") if (groups / name).is_dir()}
        if not controllers and kind == "version 1":
            return "none", Obstacle("no cgroups are mounted", "Docker boxes need them; the others are watched anyway.")
    missing = sorted({"memory", "pids"} - controllers)
    if not missing:
        return kind, None
    remedy = f"As root, {BOOT}." if "memory" in missing else "Use a kernel with CONFIG_CGROUP_PIDS."
    return kind, Obstacle(f"cgroups without the controllers {', '.join(missing)}", remedy)


def is_rootless(info: Mapping[str, Any]) -> bool:
    """Whether a Docker daemon runs as an ordinary user. `info` is what it says of itself (`docker info`)."""
    return any(option.startswith("name=rootless") for option in info.get("SecurityOptions") or ())


def find_daemon_obstacles(info: Mapping[str, Any], runtime: str = "") -> Iterator[Obstacle]:
    """What a Docker daemon can't hold of a box's limits, and what lets it. It would start boxes nevertheless."""
    options = " ".join(info.get("SecurityOptions") or ())
    limits = {"MemoryLimit": "memory", "SwapLimit": "swap", "PidsLimit": "processes"}
    missing = [name for field, name in limits.items() if info.get(field) is False]
    if missing:
        if not is_rootless(info):
            remedy = f"As root, {BOOT}."
        elif str(info.get("CgroupVersion")) == "2":
            remedy = f"The controllers aren't delegated to this user; as root: {DELEGATE}; then log in again."
        else:
            remedy = (
                "A rootless daemon holds none under cgroups of version 1: add `systemd.unified_cgroup_hierarchy=1` to "
                "the kernel's command line and boot again."
            )
        found = f"the daemon holds no limit of {', '.join(missing)}; the runner's own watch is all there is"
        yield Obstacle(found, remedy)
    if "name=seccomp" not in options:
        remedy = "The runner's own filter is in force all the same; use a daemon and a kernel with seccomp."
        yield Obstacle("the daemon knows no seccomp", remedy)
    known = info.get("Runtimes") or {}
    if runtime and runtime not in known:
        remedy = (
            f"For gVisor, as root: runsc install --runtime {runtime} -- --host-uds=open && systemctl reload docker. "
            "Or unset MICROCODER_BOX_RUNTIME."
        )
        yield Obstacle(f"the daemon has no runtime {runtime} (it has {', '.join(sorted(known))})", remedy)
