"""The private tests of a problem, as LiveCodeBench encodes them.

JSON text; or Base64 of zlib of a pickle that holds one string, that JSON text. A pickle can ask its reader to call
anything, so it is read by one that knows no names: only what needs none, such as a string, comes out. It can also name
a place in its reader's memory, which is then made as large: so its steps are looked at before.
"""

import base64
import binascii
import io
import json
import pickle
import pickletools
import zlib
from typing import Any, NoReturn

MAXIMUM_BYTES = 2 << 30
"""A problem's decoded tests; more is no test set but a compression bomb."""


MAXIMUM_STEPS = 1000
"""Of a pickle, and the largest place that it may name: one string takes five."""
_PLACES = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


class Undecodable(ValueError):
    """The text holds no tests. The message says what is wrong with it."""


class _Unpickler(pickle.Unpickler):
    """Reads values that need no name."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise Undecodable(f"the pickle asks for {module}.{name}, and private tests are one string")

    def persistent_load(self, identifier: Any) -> NoReturn:
        raise Undecodable("the pickle refers to something outside of it, and private tests are one string")


def decode_tests(text: str) -> list[dict[str, Any]]:
    """The tests in a field `public_test_cases` or `private_test_cases`.

    Raises:
        Undecodable: they can't be read.
    """
    if not text.strip():
        return []
    try:
        tests = json.loads(text)
    except (ValueError, RecursionError):
        tests = _parse(_decode(text))
    if not isinstance(tests, list) or not all(_is_test(test) for test in tests):
        raise Undecodable("the tests must be a list of objects with the strings 'input' and 'output'")
    return tests


def _is_test(test: Any) -> bool:
    return isinstance(test, dict) and isinstance(test.get("input"), str) and isinstance(test.get("output"), str)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"what was encoded isn't JSON ({error})") from None


def _decode(text: str) -> str:
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Undecodable("the text is neither JSON nor Base64") from None
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(packed, MAXIMUM_BYTES)
    except zlib.error as error:
        raise Undecodable(f"zlib can't decompress it ({error})") from None
    if not inflater.eof:
        raise Undecodable("it is cut off, or larger than any test set")
    value = _unpickle(data)
    if not isinstance(value, (str, bytes)):
        raise Undecodable(f"the pickle holds a {type(value).__name__}, not the JSON text")
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _unpickle(data: bytes) -> Any:
    try:
        for number, (step, argument, _) in enumerate(pickletools.genops(data)):
            if number > MAXIMUM_STEPS or (step.name in _PLACES and int(argument or 0) > MAXIMUM_STEPS):
                raise Undecodable("the pickle holds more than the one string that private tests are")
        return _Unpickler(io.BytesIO(data)).load()
    except Undecodable:
        raise
    except (
        pickle.UnpicklingError,
        EOFError,
        ArithmeticError,
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
    ) as error:
        raise Undecodable(f"it isn't a pickle ({error})") from None
