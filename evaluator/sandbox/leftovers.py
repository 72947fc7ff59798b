"""What workers that died left behind: containers that never started, directories of sockets nobody called.

A box that had called its worker ends by itself with the connection; this is for the moments before.
"""

import contextlib
import logging
import os
import shutil
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker.api import APIClient
from docker.errors import APIError, DockerException, NotFound

logger = logging.getLogger(__name__)

OWNER = "microcoder.owner"
"""Label of a box: the process that made it, see `describe_owner`."""
OWNER_CONTAINER = "microcoder.owner-container"
"""Label of a box: the container that this process runs in, if it does."""
DIRECTORY_PREFIX = "microcoder-box-"
LEFTOVER_SECONDS = 600.0
REMOVAL_SECONDS = 20


def remove_container(daemon: APIClient, container: str) -> None:
    """Remove a container and wait until it is gone. Its own automatic removal may be under way."""
    try:
        daemon.remove_container(container, force=True)
    except NotFound:
        return
    except (DockerException, OSError) as error:
        if not (isinstance(error, APIError) and error.status_code == 409):
            logger.warning("event=box_not_removed container=%s message=%s", container[:12], error)
            return
        with contextlib.suppress(DockerException, OSError):
            daemon.wait(container, timeout=REMOVAL_SECONDS, condition="removed")


def describe_owner() -> str:
    """This process, so that another on this machine can tell whether it still lives."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()} {os.getpid()} {_start_time(os.getpid())}"


def label_owner(*, in_container: bool) -> dict[str, str]:
    """The labels of a container that this process makes."""
    return {OWNER: describe_owner(), OWNER_CONTAINER: socket.gethostname() if in_container else ""}


def _start_time(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def sweep_containers(daemon: APIClient) -> None:
    """Remove the containers of workers that are no more. Failing to is no reason not to work."""
    try:
        for facts in daemon.containers(all=True, filters={"label": OWNER}):
            if not _owner_lives(daemon, facts):
                logger.info("event=leftover_box_removed container=%s", facts["Id"][:12])
                remove_container(daemon, facts["Id"])
    except (DockerException, OSError) as error:
        logger.warning("event=sweep_failed message=%s", error)


def _owner_lives(daemon: APIClient, facts: Mapping[str, Any]) -> bool:
    """Whether the process that made a box is alive; where that can't be known, whether the box is young or running."""
    boot, namespace, pid, started = facts["Labels"][OWNER].split(" ")
    our_boot, our_namespace, *_ = describe_owner().split(" ")
    if boot != our_boot:
        return False
    if namespace == our_namespace:
        return bool(_start_time(int(pid)) == started)
    container = facts["Labels"].get(OWNER_CONTAINER)
    if container:
        try:
            owner = daemon.inspect_container(container)
        except NotFound:
            return False
        # The same container with another process namespace has been restarted since.
        return bool(owner["State"]["Running"]) and container != socket.gethostname()
    return bool(facts["State"] == "running") or time.time() - float(facts["Created"]) < LEFTOVER_SECONDS


def sweep_directories(place: Path) -> None:
    """Remove this user's directories of sockets that are too old to belong to a box that starts now."""
    for directory in place.glob(f"{DIRECTORY_PREFIX}*"):
        with contextlib.suppress(OSError):
            facts = directory.lstat()
            if facts.st_uid == os.geteuid() and time.time() - facts.st_mtime > LEFTOVER_SECONDS:
                shutil.rmtree(directory)
