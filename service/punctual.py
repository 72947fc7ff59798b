"""uvicorn's HTTP/1.1, for clients that don't hurry: who takes too long over the head of a request is hung up on.

uvicorn itself waits for ever, so that a few thousand clients which send a byte now and then would take all the files
that this process may have open. The body has its own bound, see `gate.py`.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0
"""From the connection, or from the first byte of a further request, to the end of its head."""


class PunctualProtocol(H11Protocol):
    """One connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """As uvicorn makes it."""
        super().__init__(*arguments, **options)
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Somebody is there."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Some of a head, all of it, or something of a body."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._expect_head()
        else:
            self._be_calm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._be_calm()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _be_calm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
