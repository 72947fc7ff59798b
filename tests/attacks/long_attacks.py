"""Attacks that take longer than the ordinary tests may: `make attacks` runs them.

Seen from the host, as in `test_attacks_host.py`.
"""

import os
import tempfile
from pathlib import Path

import pytest

from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call
from tests.boxes_helper import Room
from tests.hosts_helper import (
    describe_tree,
    eventually,
    find_cgroup,
    find_runner,
    list_children,
    list_descriptors,
    read_attack,
    read_status,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a box from outside")
TESTS, ROUND = 10_000, 500
WRITERS = (
    "002_every_mount",
    "012_unremovable",
    "016_shared_places",
    "018_setuid",
    "019_overlay",
    "051_proc",
    "057_leftovers",
)
NOT_FILES = ("proc", "sys", "dev", "w", "run")


def test_the_tree_of_a_box_is_unchanged(room: Room):
    """2, 4, 6, 18, 19: every file that a box sees, by inode, rights, owner, size and time of change."""
    root = find_runner(room) / "root"
    leave_out = frozenset(str(root / name) for name in NOT_FILES)
    before = describe_tree(root, leave_out)
    assert len(before) > 1000
    for name in WRITERS:
        room.run(read_attack(name), cpu_seconds=30)
    room.run(read_attack("004_names_of_ours"), "/usr/bin/env\n/etc/ld.so.cache\n/usr/lib")
    room.run("pass")
    after = describe_tree(root, leave_out)
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert not changed, sorted(changed)[:20]


def test_ten_thousand_tests_leave_nothing(room: Room):
    """44, 94: what the worker and the box have open, hold and run, after ten thousand tests with zombies among them."""
    worker, runner = Path(f"/proc/{room.worker}"), find_runner(room)
    artifact = room.box.load(Program("import os\nif input() == 'z': os.fork() or os._exit(0)\nprint(1)"), Limits())
    temporary = Path(tempfile.gettempdir())

    def measure() -> dict[str, int]:
        group = find_cgroup(runner, "pids") if room.kind == "docker" else None
        return {
            "the worker's descriptors": len(list_descriptors(worker)),
            "the runner's descriptors": len(list_descriptors(runner)),
            "the runner's children": len(list_children(runner)),
            "the worker's threads": int(read_status(worker)["Threads"]),
            "mounts": len((runner / "mountinfo").read_text().splitlines()),
            "processes": len(room.processes()),
            "the cgroup's processes": int((group / "pids.current").read_text()) if group else 1,
            "temporary folders": sum(1 for _ in temporary.glob("microcoder-box-*")),
            "files in scratch": len(os.listdir(runner / "root/w")),
        }

    def run(rounds: int) -> None:
        for _ in range(rounds):
            calls = [Call(b"z\n" if index % 100 == 0 else b"x\n") for index in range(ROUND)]
            for run in room.box.run_all(artifact, calls, Limits()):
                assert run.stdout == b"1\n" and run.limit is None

    run(1)
    assert eventually(lambda: measure()["the runner's children"] == 0)
    before, resident = measure(), [int(read_status(process)["VmRSS"].split()[0]) for process in (worker, runner)]
    run(TESTS // ROUND)
    assert eventually(lambda: {**measure(), "temporary folders": 0} == {**before, "temporary folders": 0}), measure()
    assert measure()["temporary folders"] <= before["temporary folders"] + 2, "other workers may start boxes now"
    grown = [int(read_status(process)["VmRSS"].split()[0]) for process in (worker, runner)]
    assert all(now - then < 5_000 for now, then in zip(grown, resident, strict=True)), (resident, grown)
    artifact.close()
