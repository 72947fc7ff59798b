"""Numbers for boxes that live side by side: each gives a box's tests uids that no other box of this machine uses.

The kernel counts processes by uid, and a program may signal what has its uid: two boxes with one number could disturb
each other. A number is held by a name in the kernel's abstract socket namespace, which two can't bind and which goes
with its holder, however that ends: there is no file to clean up. Workers in containers of their own don't see each
other's names; there a number is shared with a chance of one in ten thousand and more, and the boxes' pid namespaces
still keep their processes apart.
"""

import errno
import random
import socket

from evaluator.errors import SandboxUnavailable

FIRST, END = 20_000, 59_998
"""Uids that no distribution gives away, and that a container's range of 65 536 has too. Each box takes two of them."""
ATTEMPTS = 1_000

_chance = random.SystemRandom()
"""Not the shared generator: trainers seed that alike in all their processes."""


class Slot:
    """A number of a box, and the hold on it."""

    def __init__(self, number: int, hold: socket.socket) -> None:
        self.number = number
        self._hold = hold

    def release(self) -> None:
        """Let another box have it."""
        self._hold.close()


def reserve_slot() -> Slot:
    """Take a number. Raises SandboxUnavailable where a thousand random ones were all taken."""
    for _ in range(ATTEMPTS):
        number = _chance.randrange(FIRST, END, 2)
        hold = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            hold.bind(f"\0microcoder-slot-{number}")
            return Slot(number, hold)
        except OSError as error:
            hold.close()
            if error.errno != errno.EADDRINUSE:
                raise SandboxUnavailable(f"A box's number could not be reserved: {error}") from error
    raise SandboxUnavailable(f"{ATTEMPTS} random numbers for a box were all taken: are old workers still running?")
