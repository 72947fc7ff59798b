"""The toy's problems: a chain of operations on x modulo 10, whose answer is a program `f` that does it in one line.

`*3+4*7=` asks for ((3x + 4) · 7) mod 10, so for `(1*x+8)%10`. Before the program an answer may keep the running pair of
factor and summand: not at all (direct), after each operation (compact), or with the operation repeated (verbose). The
longer, the easier each step is for a small model: that is what there is to learn.
"""

import hashlib
import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

HEAD = "\n```python\ndef f(x): return ("
MIDDLE = "*x+"
TAIL = ")%10\n```"
LENGTHS = (2, 3, 4, 5, 6)
INPUTS = (0, 1, 2, 5, 9)
HELD_OUT = 8
"""One chain in so many is for tests alone, whatever the seed."""


class Style(StrEnum):
    """How much an answer writes down before its program."""

    DIRECT = "direct"
    COMPACT = "compact"
    VERBOSE = "verbose"


@dataclass(frozen=True)
class Chain:
    """Operations on x, in their order: a sign, `*` or `+`, and a digit."""

    steps: tuple[tuple[str, int], ...]

    @property
    def prompt(self) -> str:
        """What the model is asked."""
        return "".join(f"{sign}{digit}" for sign, digit in self.steps) + "="

    @property
    def held_out(self) -> bool:
        """Whether it is for tests alone."""
        return hashlib.sha256(self.prompt.encode()).digest()[0] % HELD_OUT == 0

    def pairs(self) -> list[tuple[int, int]]:
        """Factor and summand after each operation, modulo 10."""
        factor, summand, found = 1, 0, []
        for sign, digit in self.steps:
            if sign == "*":
                factor, summand = factor * digit % 10, summand * digit % 10
            else:
                summand = (summand + digit) % 10
            found.append((factor, summand))
        return found

    def answer(self, style: Style) -> str:
        """A right answer."""
        factor, summand = self.pairs()[-1]
        return f"{self._scratch(style)}{HEAD}{factor}{MIDDLE}{summand}{TAIL}"

    def _scratch(self, style: Style) -> str:
        written = zip(self.steps, self.pairs(), strict=True)
        if style is Style.VERBOSE:
            return "".join(f"{sign}{digit}:{factor},{summand};" for (sign, digit), (factor, summand) in written)
        if style is Style.COMPACT:
            return "".join(f"{factor}{summand};" for _, (factor, summand) in written)
        return ""

    def row(self, inputs: tuple[int, ...] = INPUTS, *, off: int = 0) -> dict[str, Any]:
        """A row of a dataset: the prompt, and tests in columns that the client knows.

        Args:
            inputs: of the tests, one each.
            off: by how much the expected outputs are wrong.
        """
        factor, summand = self.pairs()[-1]
        outputs = [str((factor * x + summand + off) % 10) for x in inputs]
        return {"prompt": self.prompt, "fn_name": "f", "inputs": [str(x) for x in inputs], "outputs": outputs}


def draw_chains(count: int, seed: int, *, held_out: bool = False, lengths: tuple[int, ...] = LENGTHS) -> list[Chain]:
    """So many chains, of all these lengths alike; those to learn from, or those held out. Short ones come again."""
    chance, found = random.Random(f"chains {seed} {held_out}"), list[Chain]()
    while len(found) < count:
        signs = [chance.choice("*+") for _ in range(lengths[len(found) % len(lengths)])]
        chain = Chain(tuple((sign, chance.randrange(2 if sign == "*" else 1, 10)) for sign in signs))
        if chain.held_out == held_out:
            found.append(chain)
    return found
