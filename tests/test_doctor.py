"""The doctor: each thing that can forbid a box is named with its remedy, and what works is tried for real."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from evaluator.errors import SandboxUnavailable
from evaluator.sandbox.bubblewrap import BubblewrapBackend, explain_failure
from evaluator.sandbox.obstacles import allow_in_apparmor
from service.doctor import (
    Finding,
    Group,
    State,
    cgroups,
    confined,
    container,
    daemon,
    is_usable,
    redis_server,
    trial,
    user_namespaces,
)
from service.tables import show_findings


def setting(root: Path, name: str, value: str) -> None:
    path = root / "proc/sys" / name.replace(".", "/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value + "\n")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user.max_user_namespaces", "0"),
        ("kernel.unprivileged_userns_clone", "0"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ],
)
def test_the_setting_that_forbids_user_namespaces_is_named_with_what_lifts_it(tmp_path, name, value) -> None:
    setting(tmp_path, name, value)

    finding = user_namespaces(tmp_path, is_root=False, attempt=lambda: False)

    assert finding.state is State.MISSING
    assert finding.found == f"forbidden by {name} = {value}"
    lifted = "apparmor_parser -r /etc/apparmor.d/microcoder-bwrap" if "apparmor" in name else f"sysctl -w {name}="
    assert lifted in finding.remedy
    refusal = explain_failure(b"bwrap: No permissions to create new namespace", "", tmp_path, is_root=False)
    assert refusal.startswith("bubblewrap can't make a box here: bwrap: No permissions")
    assert f"forbidden by {name} = {value}. " in refusal and lifted in refusal


def test_the_apparmor_profile_names_this_bwrap_and_is_written_by_one_command(tmp_path) -> None:
    command = allow_in_apparmor("/opt/bwrap").replace("/etc/apparmor.d", str(tmp_path)).partition(" && ")[0]

    subprocess.run(["sh", "-c", command], check=True)

    profile = (tmp_path / "microcoder-bwrap").read_text()
    assert profile == "abi <abi/4.0>,\nprofile microcoder-bwrap /opt/bwrap flags=(unconfined) {\n  userns,\n}\n"


WHOLE = {
    "SecurityOptions": ["name=seccomp,profile=default"], "CgroupVersion": "2", "MemoryLimit": True, "SwapLimit": True,
    "PidsLimit": True, "Runtimes": {"runc": {}},
}  # fmt: skip
DAEMONS = {
    "rootless without delegation": ({"SecurityOptions": ["name=seccomp", "name=rootless"], "PidsLimit": False,
        "MemoryLimit": False}, "no limit of memory, processes", "Delegate=cpu cpuset io memory pids"),
    "rootless on version 1": ({"SecurityOptions": ["name=seccomp", "name=rootless"], "CgroupVersion": "1",
        "PidsLimit": False}, "no limit of processes", "systemd.unified_cgroup_hierarchy=1"),
    "no memory controller": ({"MemoryLimit": False, "SwapLimit": False}, "no limit of memory, swap",
        "cgroup_enable=memory swapaccount=1"),
    "no seccomp": ({"SecurityOptions": []}, "knows no seccomp", "The runner's own filter"),
    "no runtime": ({"Runtimes": {"runc": {}, "crun": {}}}, "no runtime runsc (it has crun, runc)",
        "runsc install --runtime runsc -- --host-uds=open"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAEMONS)
def test_what_a_daemon_cant_hold_is_named_with_the_command_that_mends_it(case) -> None:
    changes, found, remedy = DAEMONS[case]
    runtime = "runsc" if case == "no runtime" else ""
    answers, obstacle = daemon(WHOLE | changes, runtime)
    assert answers.found == ("answers, rootless" if "rootless" in case else "answers")
    assert obstacle.state is State.MISSING and not obstacle.decisive
    assert found in obstacle.found and remedy in obstacle.remedy
    assert len(list(daemon(WHOLE, ""))) == 1


def test_apparmor_is_suspected_even_where_an_empty_user_namespace_can_be_made(tmp_path) -> None:
    setting(tmp_path, "kernel.apparmor_restrict_unprivileged_userns", "1")

    assert user_namespaces(tmp_path, is_root=False, attempt=lambda: True).state is State.MISSING


def test_user_namespaces_that_no_setting_forbids_are_blamed_on_the_container(tmp_path) -> None:
    finding = user_namespaces(tmp_path, is_root=False, attempt=lambda: False)

    assert "seccomp=unconfined" in finding.remedy


def test_root_needs_no_user_namespace_and_others_are_told_when_they_may(tmp_path) -> None:
    assert user_namespaces(tmp_path, is_root=True).state is State.NOTE
    assert user_namespaces(tmp_path, is_root=False, attempt=lambda: True).state is State.WORKS


def test_a_container_is_recognised_by_what_its_engine_leaves(tmp_path) -> None:
    assert container(tmp_path).found == "no"
    (tmp_path / ".dockerenv").touch()
    assert container(tmp_path).found == "yes"


def test_the_version_of_cgroups_is_told(tmp_path) -> None:
    groups = tmp_path / "sys/fs/cgroup"
    assert cgroups(tmp_path).found == "none"
    for controller in ("memory", "pids"):
        (groups / controller).mkdir(parents=True)
    assert cgroups(tmp_path).found == "version 1"
    (groups / "unified").mkdir()
    assert cgroups(tmp_path).found.startswith("hybrid")
    (groups / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert (cgroups(tmp_path).found, cgroups(tmp_path).state) == ("version 2", State.NOTE)


def test_a_controller_that_is_missing_is_named_with_what_switches_it_on(tmp_path) -> None:
    groups = tmp_path / "sys/fs/cgroup"
    groups.mkdir(parents=True)
    (groups / "cgroup.controllers").write_text("cpu pids\n")
    finding = cgroups(tmp_path)
    assert (finding.state, finding.found) == (State.MISSING, "cgroups without the controllers memory")
    assert "`cgroup_enable=memory swapaccount=1`" in finding.remedy
    (groups / "cgroup.controllers").unlink()
    (groups / "memory").mkdir()
    assert "without the controllers pids" in cgroups(tmp_path).found


def test_a_box_that_cant_start_is_reported_with_the_backends_own_sentence() -> None:
    class Broken:
        name = "broken"

        def start(self):
            raise SandboxUnavailable("Plug it in.")

    [finding] = trial(Group.BUBBLEWRAP, Broken())

    assert (finding.state, finding.remedy) == (State.MISSING, "Plug it in.")


def test_a_real_box_runs_a_program_and_tells_its_numpy() -> None:
    ran, tried, numpy, compilers = trial(Group.BUBBLEWRAP, BubblewrapBackend())

    assert ran.state is State.WORKS
    assert ran.found.startswith("ran print(1) under Python 3")
    assert (tried.subject, tried.state, tried.decisive) == ("self-test", State.WORKS, True)
    assert tried.found.startswith("16 probes passed")
    assert numpy.state is State.WORKS
    assert compilers.state is State.NOTE


def test_a_box_that_fails_its_self_test_works_for_nobody(monkeypatch) -> None:
    monkeypatch.setattr("evaluator.sandbox.bubblewrap.SCRATCH_BYTES", 2 << 30)

    findings = list(trial(Group.BUBBLEWRAP, BubblewrapBackend()))

    [failed] = [finding for finding in findings if finding.decisive]
    assert (failed.subject, failed.state, failed.found) == ("self-test: scratch", State.MISSING, "it has 2048 MiB")
    assert "size=64m" in failed.remedy
    assert not is_usable([*findings, Finding(Group.REDIS, "it", State.WORKS, "", decisive=True)])


def test_confined_boxes_are_looked_at_and_decide_only_where_they_were_asked_for(monkeypatch) -> None:
    monkeypatch.setattr("evaluator.sandbox.confined.ask_landlock", lambda: (4, 0))
    [finding] = confined({})
    assert (finding.state, finding.decisive) == (State.NOTE, False)
    assert "this kernel's Landlock is version 4, 6 is needed" in finding.remedy
    [finding] = confined({"MICROCODER_SANDBOX": "confined"})
    assert (finding.state, finding.decisive) == (State.MISSING, True)


def test_a_redis_url_that_nobody_answers_at_is_reported() -> None:
    [finding] = redis_server({"REDIS_URL": "redis://127.0.0.1:1/0"})

    assert finding.state is State.MISSING
    assert "mend REDIS_URL" in finding.remedy


def test_a_redis_url_that_is_none_is_reported() -> None:
    [finding] = redis_server({"REDIS_URL": "http://here"})

    assert finding.state is State.MISSING


def test_a_redis_that_answers_works(redis_url) -> None:
    [finding] = redis_server({"REDIS_URL": redis_url})

    assert finding.state is State.WORKS


def test_without_a_url_a_private_server_is_started_and_leaves_nothing() -> None:
    binary, server = redis_server({})

    assert binary.state is State.WORKS
    assert server.state is State.WORKS


def test_one_kind_of_box_and_one_redis_are_enough() -> None:
    def finding(group: Group, state: State) -> Finding:
        return Finding(group, "it", state, "", decisive=True)

    docker, bubblewrap = finding(Group.DOCKER, State.MISSING), finding(Group.BUBBLEWRAP, State.WORKS)

    assert is_usable([docker, bubblewrap, finding(Group.REDIS, State.WORKS)])
    assert not is_usable([docker, bubblewrap, finding(Group.REDIS, State.MISSING)])
    assert not is_usable([docker, finding(Group.REDIS, State.WORKS)])


def test_the_command_prints_json_and_a_status_that_says_whether_the_service_can_run() -> None:
    environment = {**os.environ, "REDIS_URL": "redis://127.0.0.1:1/0"}
    command = [sys.executable, "-m", "service.cli", "doctor", "--json"]

    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    report = json.loads(ended.stdout)
    assert report["usable"] is False
    assert {"group", "subject", "state", "found", "remedy", "decisive"} == set(report["findings"][0])


def test_the_table_shows_what_was_found_and_what_to_do() -> None:
    console = Console(file=io.StringIO(), width=60)
    missing = Finding(Group.DOCKER, "daemon", State.MISSING, "doesn't answer", "Start it.")

    show_findings(console, [Finding(Group.MACHINE, "system", State.WORKS, "Linux"), missing], usable=False)

    shown = console.file.getvalue()
    assert "✓" in shown and "✗" in shown
    assert "→ Start it." in shown
    assert "can't run here yet" in shown
