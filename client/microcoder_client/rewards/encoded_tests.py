"""LiveCodeBench's private tests: Base64 of zlib of a pickle that holds one string, the tests as JSON.

A pickle can ask its reader to call anything, so it is read by one that knows no names; and it can name a place in its
reader's memory, which is then made as large, so its steps are looked at before. The evaluator has a reader of its own
for whole files; this package imports nothing of it.
"""

import base64
import binascii
import io
import pickle
import pickletools
import zlib
from typing import Any, NoReturn

MAXIMUM_BYTES = 1 << 30
"""Of one row's decoded tests; more is no test set but a compression bomb."""
MAXIMUM_STEPS = 1000
"""Of a pickle, and the largest place that it may name: one string takes five."""
_PLACES = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_BROKEN = (
    pickle.UnpicklingError,
    zlib.error,
    binascii.Error,
    EOFError,
    ArithmeticError,
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
)


class _Unpickler(pickle.Unpickler):
    """Reads values that need no name."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, identifier: Any) -> NoReturn:
        raise pickle.UnpicklingError("it refers to something outside of it")


def decode(text: str) -> str | None:
    """The JSON that was encoded, or None for a text that isn't such an encoding."""
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode(text, validate=True), MAXIMUM_BYTES)
        value = _Unpickler(io.BytesIO(data)).load() if inflater.eof and _takes_few_steps(data) else None
    except _BROKEN:
        return None
    return value if isinstance(value, str) else None


def _takes_few_steps(data: bytes) -> bool:
    for number, (step, argument, _) in enumerate(pickletools.genops(data)):
        if number > MAXIMUM_STEPS or (step.name in _PLACES and int(argument or 0) > MAXIMUM_STEPS):
            return False
    return True
