"""Fixtures that tests share: a real Redis of one's own, the service's application over it, real workers."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import redis

from service.app import create_app
from service.redis_server import PrivateRedis
from service.settings import Settings

pytest_plugins = ["tests.boxes_helper"]

UNTRIED = {"MICROCODER_SELF_TEST": "off"}
"""Most tests of the worker aren't about its boxes, which have tests of their own."""
WORKER = "import sys; from service import settings, worker; sys.exit(worker.run_worker(settings.load_settings()))"


@pytest.fixture(scope="session")
def redis_server() -> Iterator[PrivateRedis]:
    """One private server for all tests."""
    with PrivateRedis() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: PrivateRedis) -> str:
    """The address of an empty Redis."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture
def settings(redis_url: str) -> Settings:
    """Settings for tests: short leases, no key, boxes that need no daemon."""
    return Settings(
        redis_url=redis_url, sandbox="bubblewrap", lease_seconds=2, turn_seconds=0.5, shutdown_grace_seconds=5
    )


@pytest.fixture
async def connect() -> AsyncIterator[Callable]:
    """A function that starts the application on some settings and returns an HTTP client for it."""
    closing = []

    async def connect(settings: Settings, **options) -> httpx.AsyncClient:
        app = create_app(settings)
        lifespan = app.router.lifespan_context(app)
        await lifespan.__aenter__()
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://service.test", **options)
        closing.append((client, lifespan))
        return client

    yield connect
    for client, lifespan in closing:
        await client.aclose()
        await lifespan.__aexit__(None, None, None)


@pytest.fixture
async def client(connect: Callable, settings: Settings) -> httpx.AsyncClient:
    """An HTTP client of an application without any worker."""
    return await connect(settings)


@dataclass
class WorkerProcess:
    """A real worker in a process of its own, and the file that its log goes to."""

    process: subprocess.Popen
    log: Path

    def said(self) -> str:
        """Its log."""
        return self.log.read_text()


@pytest.fixture
def start_worker(settings: Settings, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """A function that starts a real worker on the test's Redis; all end with the test."""
    started: list[WorkerProcess] = []

    def start_worker(**changes) -> WorkerProcess:
        chosen = settings.model_copy(update=changes)
        names = ("redis_url", "lease_seconds", "turn_seconds", "shutdown_grace_seconds", "sandbox", "max_attempts")
        environment = {f"MICROCODER_{name.upper()}": str(getattr(chosen, name)) for name in {*names, *changes}}
        log = tmp_path / f"worker-{len(started)}.log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", WORKER], env=UNTRIED | os.environ | environment, stderr=stderr
            )
        started.append(WorkerProcess(process, log))
        return started[-1]

    yield start_worker
    for worker in started:
        worker.process.kill()
        worker.process.wait()
