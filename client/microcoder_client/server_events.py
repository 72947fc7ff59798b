"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), read from bytes as they come."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. `id` is what to resume after; None where the event carries none."""

    name: str
    data: str
    id: str | None = None


class EventReader:
    """Cuts a stream into events. Comments, which keep the connection alive, give none."""

    def __init__(self) -> None:
        """Begin with an empty stream."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []
        self._fields: dict[str, list[str]] = {}

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        """The events that these bytes complete."""
        text = self._decoder.decode(data)
        if "\n" not in text:  # a judgement with all its tests comes in many pieces: they are joined once
            self._pieces.append(text)
            return
        *lines, rest = ("".join(self._pieces) + text).split("\n")
        self._pieces = [rest]
        for line in lines:
            event = self._take(line.removesuffix("\r"))
            if event is not None:
                yield event

    def _take(self, line: str) -> ServerEvent | None:
        if line:
            name, _, value = line.partition(":")
            if name:
                self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        return ServerEvent(
            fields.get("event", ["message"])[-1], "\n".join(fields["data"]), fields.get("id", [None])[-1]
        )
