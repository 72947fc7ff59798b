"""What a conversation asks for, step by step. The clients do it; nothing here does any I/O."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from .cases import Suite
from .judgements import Judgement

T = TypeVar("T")


@dataclass(frozen=True)
class Pause:
    """Sleep so many seconds, then go on."""

    seconds: float


@dataclass(frozen=True)
class Listen:
    """Send this, and give back the answer before its body has come."""

    request: httpx.Request


@dataclass(frozen=True)
class Hear:
    """Give back the next bytes of the answer that is listened to; none at its end."""


@dataclass(frozen=True)
class Heard:
    """Pass this judgement on, and which submission it is about."""

    index: int
    judgement: Judgement


Flow = Generator[httpx.Request | Pause | Listen, httpx.Response | httpx.TransportError | None, T]
"""Ends with a result."""
Stream = Generator[httpx.Request | Pause | Listen | Hear | Heard, Any, None]
"""Gives judgements on its way."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Posting:
    """An evaluation as it will be posted, as often as needed: always the same id and the same body."""

    id: str
    body: bytes
    suites: Mapping[str, Suite]
    size: int
