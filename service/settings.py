"""What can be configured: each field with its default and its meaning beside it.

Every field is read from the environment as `MICROCODER_<FIELD>` (and `redis_url` also from `REDIS_URL`), or given in
code. Settings never change once made. What is wrong with them is said in one sentence that names the variable.
"""

import ipaddress
from typing import Annotated, Any, Self

from pydantic import AliasChoices, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MEBIBYTE = 1 << 20


class InvalidSettings(ValueError):
    """The configuration can't be used. The message names the variable and says what to do."""


class InsecureBinding(InvalidSettings):
    """The service would be reachable by others without any key."""


class Settings(BaseSettings):
    """The configuration of the API and of the workers."""

    model_config = SettingsConfigDict(
        env_prefix="MICROCODER_",
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        env_ignore_empty=True,
        allow_inf_nan=False,
    )

    host: str = "127.0.0.1"
    """Where the API listens."""
    port: int = Field(8000, ge=0, le=65535)
    """0 lets the system choose."""
    api_keys: Annotated[tuple[str, ...], NoDecode] = Field((), repr=False)
    """Keys that clients present, separated by commas. None: whoever reaches the service may use it."""
    insecure: bool = False
    """Allow listening beyond this machine without any key."""

    redis_url: str | None = Field(
        None, repr=False, validation_alias=AliasChoices("MICROCODER_REDIS_URL", "redis_url", "REDIS_URL")
    )
    """`redis://`, `rediss://` or `unix://`. None: `microcoder serve` starts a private server."""
    queue: str = Field("microcoder", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """Name of the RQ queue and prefix of every key, so that several services can share one Redis."""
    redis_connections: int = Field(64, ge=4)
    """Connections that one API process opens at most. Waiting for a result holds none."""

    sandbox: str = "auto"
    """`auto`, `docker`, `bubblewrap`, `dial-in` or `confined`: what kind of box the workers use."""
    self_test: bool = True
    """A worker tries its first box before it serves, and refuses where something in it isn't as it must be. `off`: it
    doesn't, whatever its boxes may be."""
    turn_seconds: float = Field(2.0, gt=0)
    """How long a worker stays with one evaluation before others get their turn."""
    lease_seconds: float = Field(10.0, ge=0.5)
    """How long a worker may be silent before what it was judging goes to another."""
    stall_grace_seconds: float = Field(120.0, gt=0)
    """What one test may take beyond twice its wall limit before the worker is taken for hung."""
    shutdown_grace_seconds: float = Field(20.0, ge=0)
    """After SIGTERM: what the submission in hand may still take before it is given back."""
    max_attempts: int = Field(3, ge=1, le=100)
    """A submission whose worker died so often is an `internal_error`."""
    worker_cache_bytes: int = Field(256 * MEBIBYTE, ge=0)
    """Suites that a worker keeps decoded, counted as uploaded."""

    series: bool = True
    """Tests of a program that leaves no trace run one after another in one child. False: a child each."""

    result_cache_bytes: int = Field(256 * MEBIBYTE, ge=0)
    """What judgements that are kept for the same submission coming again may take in Redis. 0: none is kept."""
    result_cache_ttl_seconds: int = Field(24 * 3600, ge=1)
    """How long such a judgement is kept after its last use."""

    wait_maximum: float = Field(60.0, ge=0)
    """Seconds that a request may wait for results. A longer `wait` is cut to this."""
    max_body_bytes: int = Field(32 * MEBIBYTE, ge=1024)
    """Size of a request, inline suites included."""
    max_inline_suite_bytes: int = Field(16 * MEBIBYTE, ge=1024)
    """Size of a suite inside a request."""
    max_suite_bytes: int = Field(512 * MEBIBYTE, ge=1024)
    """Size of an uploaded suite."""
    max_tests: int = Field(20_000, ge=1)
    """Test cases in a suite."""
    max_submissions: int = Field(4096, ge=1)
    """Submissions in an evaluation."""
    max_source_bytes: int = Field(4 * MEBIBYTE, ge=1)
    """Size of a program or of a model's answer."""
    max_cpu_seconds: float = Field(60.0, gt=0)
    """CPU limit of one test that a client may ask for."""
    max_memory_bytes: int = Field(4096 * MEBIBYTE, ge=16 * MEBIBYTE)
    """Memory limit that a client may ask for."""

    queue_bound: int = Field(50_000, ge=1)
    """Unjudged submissions above which an evaluation is refused with 429."""
    suite_budget_bytes: int = Field(2048 * MEBIBYTE, ge=MEBIBYTE)
    """What stored suites may take in Redis, compressed. The least recently used make room."""
    result_ttl_seconds: int = Field(3600, ge=1)
    """How long a finished evaluation can be fetched."""
    failure_ttl_seconds: int = Field(24 * 3600, ge=1)
    """How long RQ keeps the record of a turn that failed."""
    log_level: str = Field("INFO", pattern=r"^(DEBUG|INFO|WARNING|ERROR|CRITICAL)$")
    """Lowest level that is logged."""

    @field_validator("api_keys", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(key.strip() for key in value.split(",") if key.strip())
        return value

    @field_validator("redis_url")
    @classmethod
    def _known_scheme(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("write it as redis://host:port/0, rediss://host:port/0 or unix:///path/to/socket")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.max_submissions > self.queue_bound:
            raise ValueError("max_submissions may not exceed queue_bound, or the largest evaluation is never accepted")
        return self

    @property
    def redis(self) -> str:
        """The address of Redis.

        Raises:
            InvalidSettings: none was configured.
        """
        if self.redis_url is None:
            raise InvalidSettings(
                "No Redis is configured: set REDIS_URL, or start everything with `microcoder serve`, which brings one."
            )
        return self.redis_url


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment; `overrides` go first, those that are None don't count.

    Raises:
        InvalidSettings: a value can't be used.
    """
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        place = str(first["loc"][0]) if first["loc"] else ""
        name = place if place.isupper() else f"MICROCODER_{place.upper()}"
        raise InvalidSettings(f"{name}: {message}." if place else f"The settings clash: {message}.") from None


def check_binding(settings: Settings) -> None:
    """Refuse to be reachable by other machines without a key.

    Raises:
        InsecureBinding: says what to set.
    """
    if settings.api_keys or settings.insecure or _is_loopback(settings.host):
        return
    raise InsecureBinding(
        f"Listening on {settings.host} without an API key would let anyone run programs here: set MICROCODER_API_KEYS, "
        "listen on 127.0.0.1, or say --insecure if the network is yours alone."
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
