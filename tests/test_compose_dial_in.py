"""The compose file whose boxes dial in, brought up for real: no container has a Docker socket."""

import contextlib
import os
import time
from collections.abc import Iterator

import httpx
import pytest
from docker.api import APIClient
from microcoder_client import Submission, assertion_test, functional_test, stdin_test

from tests.requirements_helper import require
from tests.test_compose import (
    Project,
    build_images,
    containers_of,
    find_obstacle,
    free_port,
    image_is_here,
    wait_for_workers,
)

pytestmark = pytest.mark.compose

BOXES = 4


@pytest.fixture(scope="module")
def daemon() -> Iterator[APIClient]:
    """The Docker daemon."""
    require("compose", find_obstacle())
    with contextlib.closing(APIClient(version="auto")) as client:
        yield client


@pytest.fixture(scope="module")
def project(daemon: APIClient) -> Iterator[Project]:
    """The service, up with one worker and four boxes; down at the end, and then nothing may be left."""
    build_images(daemon)
    name = f"microcoder-test-dial-in-{os.getpid()}"
    project = Project(name=name, port=free_port(), file="docker/compose-dial-in.yml")
    if not image_is_here(daemon, project.redis_image):
        project.redis_image = "microcoder-redis:latest"
    try:
        try:
            project.compose("up", "--detach", "--no-build", "--scale", f"box={BOXES}")
            wait_for_api(project)
            wait_for_workers(project, 1)
        except AssertionError as error:
            logs = project.compose("logs", "--tail", "40", check=False)
            raise AssertionError(f"{error}\n{logs}") from None
        yield project
    finally:
        project.compose("down", "--volumes", "--timeout", "30", check=False)
        assert containers_of(daemon, project) == []


def wait_for_api(project: Project, seconds: float = 60) -> None:
    """Return when the port answers."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            httpx.get(f"{project.url}/health", trust_env=False)
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the API hasn't answered"
            time.sleep(0.3)


def test_programs_are_judged_and_the_worker_is_killed_meanwhile(project, daemon):
    submissions = [
        Submission("print(int(input()) * 2)", suite=[stdin_test("4", "8")]),
        Submission("while True: pass", suite=[stdin_test("4", "8")], limits={"cpu_seconds": 0.5}),
        Submission("x = bytearray(400 << 20)", suite=[stdin_test("", "")], limits={"memory_bytes": 100 << 20}),
        Submission("def add(a, b): return a + b", entry_point="add", suite=[functional_test([1, 2], 3)]),
        Submission("def add(a, b): return a + b", suite=[assertion_test("assert add(1, 2) == 3")]),
        Submission("import numpy; print(numpy.arange(3).sum())", suite=[stdin_test("", "3")]),
    ]
    with project.client() as client:
        judgements = client.evaluate(submissions)
        id = client.submit(
            [f"import time; time.sleep(0.2); print(input())  # {number}" for number in range(20)],
            suite=[stdin_test("a", "a"), stdin_test("b", "b")],
        )
        time.sleep(1)
        [worker] = containers_of(daemon, project, "worker")
        os.kill(worker["State"]["Pid"], 9)
        evaluation = client.fetch(id, wait=60)
        while not evaluation.finished:
            evaluation = client.fetch(id, wait=60)

    verdicts = [str(judgement.verdict) for judgement in judgements]
    assert verdicts == ["accepted", "time_limit", "memory_limit", "accepted", "accepted", "accepted"]
    assert judgements[0].runtime.sandbox == "dial-in"
    assert judgements[0].runtime.image
    assert {str(judgement.verdict) for judgement in evaluation.judgements} == {"accepted"}
    boxes = containers_of(daemon, project, "box")
    assert [box["RestartCount"] for box in boxes] == [0] * BOXES, "each outlived the worker that it had called"


def test_no_container_has_the_docker_socket_and_the_worker_is_an_ordinary_user(project, daemon):
    for facts in containers_of(daemon, project):
        host = facts["HostConfig"]
        assert not [mount for mount in facts["Mounts"] if "docker" in mount["Destination"]]
        assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and not host["Privileged"]
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
    [worker] = containers_of(daemon, project, "worker")
    assert worker["Config"]["User"] == "10001:10001"
    assert not worker["HostConfig"]["CapAdd"]


def test_the_boxes_are_locked(project, daemon):
    boxes = containers_of(daemon, project, "box")
    assert len(boxes) == BOXES
    for facts in boxes:
        host = facts["HostConfig"]
        assert (host["NetworkMode"], host["IpcMode"], host["PidMode"]) == ("none", "none", "")
        assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == {"SETUID", "SETGID", "KILL"}
        assert host["Memory"] == host["MemorySwap"] == 4608 << 20
        assert host["PidsLimit"] == 4160
        assert set(host["Tmpfs"]) == {"/w", "/dev/mqueue"} and "nr_inodes=4000" in host["Tmpfs"]["/w"]
        mounts = {mount["Destination"]: mount["RW"] for mount in facts["Mounts"]}
        assert mounts == {"/run/microcoder": False, "/dev/zero": True}
    told = httpx.get(f"{project.url}/health", trust_env=False).json()
    assert told["workers"] == 1
