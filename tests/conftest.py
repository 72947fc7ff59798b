"""Fixtures that tests share: a real Redis of one's own, the service's application over it, real workers."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest
import redis

from service.app import create_app
from service.redis_server import PrivateRedis
from service.settings import Settings

pytest_plugins = ["tests.boxes_helper"]

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
    """Settings for tests: short leases, no key."""
    return Settings(redis_url=redis_url, lease_seconds=1.5, turn_seconds=0.5, shutdown_grace_seconds=5)


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


@pytest.fixture
def start_worker(settings: Settings) -> Iterator[Callable[..., subprocess.Popen]]:
    """A function that starts a real worker process on the test's Redis; all end with the test."""
    processes: list[subprocess.Popen] = []

    def start_worker(**changes) -> subprocess.Popen:
        chosen = settings.model_copy(update=changes)
        names = ("redis_url", "lease_seconds", "turn_seconds", "shutdown_grace_seconds", "sandbox", "max_attempts")
        environment = {f"MICROCODER_{name.upper()}": str(getattr(chosen, name)) for name in names}
        processes.append(subprocess.Popen([sys.executable, "-c", WORKER], env=os.environ | environment))
        return processes[-1]

    yield start_worker
    for process in processes:
        process.kill()
        process.wait()
