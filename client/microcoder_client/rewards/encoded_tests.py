"""LiveCodeBench's private tests: Base64 of zlib of a pickle that holds one string, the tests as JSON.

A pickle can ask its reader to call anything, so it is read by one that knows no names. The evaluator has a reader of
its own for whole files; this package imports nothing of it.
"""

import base64
import binascii
import io
import pickle
import zlib
from typing import Any, NoReturn

MAXIMUM_BYTES = 1 << 30
"""Of one row's decoded tests; more is no test set but a compression bomb."""
_BROKEN = (
    pickle.UnpicklingError,
    zlib.error,
    binascii.Error,
    EOFError,
    ValueError,
    IndexError,
    KeyError,
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
        value = _Unpickler(io.BytesIO(data)).load() if inflater.eof else None
    except _BROKEN:
        return None
    return value if isinstance(value, str) else None
