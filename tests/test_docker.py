"""Boxes by Docker, seen from the host. What a box does inside is the contract's: tests/test_box_contract.py."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from docker.api import APIClient

from evaluator.errors import SandboxUnavailable
from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call
from evaluator.sandbox.docker import DockerBackend, DockerOptions
from evaluator.sandbox.leftovers import OWNER, OWNER_CONTAINER, describe_owner, sweep_containers
from tests.requirements_helper import require

pytestmark = pytest.mark.docker

ONE_BOX = """
import sys, time
from evaluator.sandbox.docker import DockerBackend
box = DockerBackend().start()
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture
def backend() -> DockerBackend:
    """The backend with its default options."""
    backend = DockerBackend()
    require("docker", backend.check())
    return backend


@pytest.fixture
def daemon(backend: DockerBackend) -> Iterator[APIClient]:
    """The daemon, asked without going through the backend."""
    with contextlib.closing(APIClient(version="auto")) as client:
        # Other test files keep a box of this process for the whole session: what is looked for is what this test made.
        client.kept = {facts["Id"] for facts in client.containers(all=True)}
        yield client


@pytest.fixture
def mute_image(daemon: APIClient) -> Iterator[str]:
    """An image in which there is no runner to start."""
    tag = f"microcoder-test-mute:{os.getpid()}"
    recipe = io.BytesIO(f"FROM {DockerOptions.read(os.environ).image}\nRUN rm /opt/microcoder/boot.py\n".encode())
    for _ in daemon.build(fileobj=recipe, tag=tag, rm=True, forcerm=True, decode=True):
        pass
    yield tag
    daemon.remove_image(tag, force=True)


def boxes_of(daemon: APIClient, owner: str) -> list[dict]:
    """The containers that a process made since the test began."""
    found = daemon.containers(all=True, filters={"label": f"{OWNER}={owner}"})
    return [facts for facts in found if facts["Id"] not in daemon.kept]


def wait_until(condition, seconds: float = 20) -> bool:
    """Whether `condition` came true in time."""
    deadline = time.monotonic() + seconds
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return true


def judge_hello(box) -> bytes:
    """What a small program prints in the box."""
    artifact = box.load(Program(source="print(input()[::-1])"), Limits())
    try:
        return box.run(artifact, Call(b"olleh\n"), Limits()).stdout
    finally:
        artifact.close()


def test_a_box_runs_a_program_and_names_its_image(backend, daemon):
    with contextlib.closing(backend.start()) as box:
        assert judge_hello(box) == b"hello\n"

        facts = daemon.inspect_image(DockerOptions.read(os.environ).image)
        assert box.runtime.sandbox == "docker"
        assert box.runtime.image in [facts["Id"], *(facts["RepoDigests"] or [])]


def test_the_container_is_locked(backend, daemon):
    with contextlib.closing(backend.start()):
        (container,) = boxes_of(daemon, describe_owner())
        facts = daemon.inspect_container(container["Id"])
        host = facts["HostConfig"]

        assert host["NetworkMode"] == "none"
        assert host["ReadonlyRootfs"] is True
        assert host["IpcMode"] == "none"
        assert host["Privileged"] is False
        assert host["CapDrop"] == ["ALL"]
        assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == {"SETUID", "SETGID", "KILL"}
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["PidsLimit"] == 4160
        assert host["Memory"] == host["MemorySwap"] == 4608 << 20
        assert host["OomKillDisable"] is not True
        assert host["AutoRemove"] is True
        assert host["LogConfig"]["Type"] == "none"
        assert set(host["Tmpfs"]) == {"/w", "/dev/mqueue"}
        assert "size=64m" in host["Tmpfs"]["/w"] and "nr_inodes=4000" in host["Tmpfs"]["/w"]
        assert {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]} == {"core": 1, "nofile": 1024}
        assert not host["Devices"] and not host["PortBindings"]
        mounts = {mount["Destination"]: (mount["Source"], mount["RW"]) for mount in facts["Mounts"]}
        assert mounts.pop("/dev/zero") == ("/dev/null", True)
        assert [(place, writable) for place, (_, writable) in mounts.items()] == [("/run/microcoder", False)]


def test_options_come_from_the_environment():
    options = DockerOptions.read({"MICROCODER_BOX_MEMORY": "1g", "MICROCODER_BOX_RUNTIME": "", "OTHER": "x"})

    assert options == DockerOptions(memory="1g")


def test_nothing_is_left_of_a_closed_box(backend, daemon, tmp_path, monkeypatch):
    backend = DockerBackend(DockerOptions(directory=str(tmp_path)))

    box = backend.start()
    try:
        assert os.listdir(tmp_path) == [], "the way to the worker is closed as soon as the runner has called"
    finally:
        box.close()

    assert boxes_of(daemon, describe_owner()) == []
    box.close()


def test_a_killed_worker_leaves_no_container(daemon):
    worker = subprocess.Popen([sys.executable, "-c", ONE_BOX], stdout=subprocess.PIPE, text=True)
    with worker:
        assert worker.stdout.readline() == "started\n"
        owner = next(
            labels[OWNER]
            for labels in (facts["Labels"] for facts in daemon.containers(filters={"label": OWNER}))
            if labels[OWNER].split()[2] == str(worker.pid)
        )
        worker.send_signal(signal.SIGKILL)
        worker.wait()

        assert wait_until(lambda: boxes_of(daemon, owner) == [])


def test_the_first_start_sweeps_what_dead_workers_left_and_nothing_else(backend, daemon):
    boot, namespace, *_ = describe_owner().split()
    image = DockerOptions.read(os.environ).image
    dead = f"{boot} {namespace} {os.getpid()} 1"
    earlier = f"another-boot {namespace} {os.getpid()} 1"
    elsewhere = f"{boot} pid:[1] 1 1"  # another container's process: not to be judged from here while it is young
    made = {
        owner: daemon.create_container(image, ["true"], labels={OWNER: owner})["Id"]
        for owner in (dead, earlier, elsewhere, describe_owner())
    }
    try:
        sweep_containers(daemon)

        left = {facts["Id"] for facts in daemon.containers(all=True)}
        assert {owner for owner, id in made.items() if id in left} == {elsewhere, describe_owner()}
    finally:
        for id in made.values():
            with contextlib.suppress(Exception):
                daemon.remove_container(id, force=True)


def test_a_leftover_of_a_worker_in_a_container_goes_with_that_container(daemon):
    boot = describe_owner().split()[0]
    labels = {OWNER: f"{boot} pid:[1] 1 1", OWNER_CONTAINER: "0123456789ab"}
    id = daemon.create_container(DockerOptions.read(os.environ).image, ["true"], labels=labels)["Id"]

    sweep_containers(daemon)

    assert id not in {facts["Id"] for facts in daemon.containers(all=True)}


def test_old_directories_of_sockets_are_swept_and_young_ones_kept(backend, tmp_path):
    for name, age in (("microcoder-box-old", 7200), ("microcoder-box-young", 60), ("others", 7200)):
        (tmp_path / name / "open").mkdir(parents=True)
        os.utime(tmp_path / name, (time.time() - age,) * 2)

    DockerBackend(DockerOptions(directory=str(tmp_path))).start().close()

    assert sorted(os.listdir(tmp_path)) == ["microcoder-box-young", "others"]


def test_a_container_that_ends_at_once_is_quoted(backend, daemon, mute_image):
    backend = DockerBackend(DockerOptions(image=mute_image))
    before = time.monotonic()

    with pytest.raises(SandboxUnavailable, match=r"ended before its runner called. It said: .*boot\.py"):
        backend.start()

    assert time.monotonic() - before < 15, "it isn't waited for in vain"
    assert wait_until(lambda: boxes_of(daemon, describe_owner()) == [])


def test_a_runner_that_does_not_call_is_not_waited_for_forever(backend, daemon):
    backend = DockerBackend(DockerOptions(start_seconds="0.001"))

    with pytest.raises(SandboxUnavailable, match="has not called for"):
        backend.start()

    assert wait_until(lambda: boxes_of(daemon, describe_owner()) == [])


def test_a_long_temporary_directory_is_no_obstacle(backend, tmp_path):
    deep = tmp_path / ("d" * 120)
    deep.mkdir()

    with contextlib.closing(DockerBackend(DockerOptions(directory=str(deep))).start()) as box:
        assert judge_hello(box) == b"hello\n"


def test_a_box_may_be_started_while_another_works(backend):
    started = []
    threads = [threading.Thread(target=lambda: started.append(backend.start())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert [judge_hello(box) for box in started] == [b"hello\n", b"hello\n"]
    finally:
        for box in started:
            box.close()


def test_a_missing_image_is_a_sentence_that_says_what_to_do(backend):
    missing = DockerBackend(DockerOptions(image="microcoder-box:never-built"))

    assert "scripts/build_images.sh" in missing.check()
    with pytest.raises(SandboxUnavailable, match="no image microcoder-box:never-built"):
        missing.start()


def test_an_unknown_runtime_is_a_sentence(backend, daemon):
    with pytest.raises(SandboxUnavailable, match="no-such-runtime"):
        DockerBackend(DockerOptions(runtime="no-such-runtime")).start()

    assert boxes_of(daemon, describe_owner()) == []


@pytest.mark.parametrize("options", [DockerOptions(pids="many"), DockerOptions(memory="lots")])
def test_an_option_that_makes_no_sense_is_a_sentence(backend, options):
    with pytest.raises(SandboxUnavailable, match=r"many|lots"):
        DockerBackend(options).start()


def test_a_directory_that_the_daemon_cannot_see_names_the_remedy(backend, monkeypatch):
    """As when a worker in a container was not given a volume: the path exists here, and not where the daemon looks."""
    monkeypatch.setattr("evaluator.sandbox.docker.Path.mkdir", lambda self: self.parent.joinpath("elsewhere"))
    monkeypatch.setattr("evaluator.sandbox.docker.Path.chmod", lambda self, mode: None)
    monkeypatch.setattr("evaluator.sandbox.docker.listen_at", lambda directory, name: contextlib.closing(io.BytesIO()))

    with pytest.raises(SandboxUnavailable, match="MICROCODER_BOX_VOLUME"):
        backend.start()


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("unix:///nowhere/docker.sock", "scripts/start_dockerd.sh"),
        ("tcp://192.0.2.1:2375", "on this machine"),
    ],
)
def test_a_daemon_that_does_not_answer_is_a_sentence(address, remedy):
    backend = DockerBackend(address=address)

    assert remedy in backend.check()
    with pytest.raises(SandboxUnavailable, match=remedy):
        backend.start()


def test_a_rootless_daemon_nearby_is_pointed_at(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert "rootless" not in DockerBackend(address="unix:///nowhere/docker.sock").check()
    (tmp_path / "docker.sock").touch()
    assert f"DOCKER_HOST=unix://{tmp_path}/docker.sock" in DockerBackend(address="unix:///nowhere/docker.sock").check()


def test_the_box_holds_no_file_of_ours_that_a_program_could_read(backend):
    source = (
        "import os\nfor top in ('/opt', '/run', '/w'):\n  for at, _, names in os.walk(top):\n    print(at, names)\n"
    )
    with contextlib.closing(backend.start()) as box:
        artifact = box.load(Program(source=source), Limits())
        with contextlib.closing(artifact):
            seen = box.run(artifact, Call(b""), Limits()).stdout.decode()

    assert "/opt/python/bin" in seen
    assert not [line for line in seen.splitlines() if "boot.py" in line or "microcoder_" in line]
