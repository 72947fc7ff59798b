"""The conversation between the two processes of an assertion test: one message at a time, questions both ways.

A message is eight bytes of length, then JSON: a list with a word first. `value` and `raise` are answers; every other
word is a question, and whoever waits for an answer may be asked something first (a callback that calls the program
again). The program's end of the line is in hostile hands: what comes from there is checked, and the first message that
can't be read ends the conversation for good, so that no test passes on the rest of it.
"""

import json
import os
import select
import struct
from typing import NoReturn

from . import streams, values

MAX_MESSAGE = 256 << 20
MAX_READ = 1 << 20
ANSWERS = ("value", "raise")
_len = len  # the program may patch its builtins, and yet it has to be understood
dump = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
Message = list[values.Tree]


class ProgramEnded(BaseException):
    """There is no one to talk to any more. No `except Exception` of a test catches it."""


class Line:
    """One end of the conversation."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.broken: str | None = None
        """Why nothing can be said any more."""
        self.rest = b""
        """Read already, and not used yet."""

    def send(self, message: Message) -> None:
        self.check()
        data = dump(message).encode("ascii")
        try:
            streams.write_all(self.descriptor, struct.pack("<Q", _len(data)) + data)
        except OSError:
            self.give_up("the program ended before the test did")

    def wait(self) -> None:
        """Until the other end speaks or hangs up."""
        select.select([self.descriptor], [], [])

    def receive(self) -> Message:
        """The next message.

        Raises:
            ProgramEnded: there is none, or it is none.
        """
        self.check()
        (size,) = struct.unpack("<Q", self.read(8))
        if size > MAX_MESSAGE:
            self.give_up("the program sent a message that is too large")
        try:
            message = values._loads(self.read(size))
        except (ValueError, RecursionError):
            self.give_up("the program sent a message that can't be read")
        if type(message) is not list or not message or type(message[0]) is not str:
            self.give_up("the program sent a message that says nothing")
        return message

    def read(self, size: int) -> bytes:
        parts, have = [self.rest], _len(self.rest)
        while have < size:
            try:
                part = os.read(self.descriptor, MAX_READ)
            except OSError:
                part = b""
            if not part:
                self.give_up("the program ended before the test did")
            parts.append(part)
            have += _len(part)
        data = parts[0] if _len(parts) == 1 else b"".join(parts)
        self.rest = data[size:]
        return data[:size]

    def check(self) -> None:
        if self.broken is not None:
            raise ProgramEnded(self.broken)

    def give_up(self, reason: str) -> NoReturn:
        self.broken = reason
        raise ProgramEnded(reason)


class Peer:
    """Whoever sits at one end: asks, and answers while it waits for an answer."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def exchange(self, question: Message) -> Message:
        """Ask, and return the answer."""
        self.line.send(question)
        while True:
            message = self.line.receive()
            if message[0] in ANSWERS:
                return message
            self.line.send(self.reply(message))

    def reply(self, question: Message) -> Message:
        """The answer to a question from the other end."""
        raise NotImplementedError
