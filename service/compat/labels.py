"""What stands in a data set's label column, as the fields of a submission of `/v1`.

Either an object with `suite` and any other field of a submission, which it is; or tests in one of the forms that the
client's rewards read (`microcoder_client/rewards/columns.py`), as JSON or as its text.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from microcoder_client.exceptions import UnreadableTests
from microcoder_client.rewards.columns import read_tests

Document = dict[str, Any]
_BASE64 = re.compile(r"[A-Za-z0-9+/]{64}")
_ZLIB = 0x78


class BadLabel(ValueError):
    """A label that holds no tests. The message says what was looked for."""


def read_label(label: Any) -> Document:
    """The fields of a submission of `/v1` but for its program.

    Raises:
        BadLabel: no tests are in it, or compressed ones.
    """
    own = _parse(label)
    if isinstance(own, dict) and "suite" in own:
        return own
    if any(map(_is_compressed, _texts(own))):
        raise BadLabel("The label holds compressed tests, which may be of any size: send them as they are.")
    try:
        task = read_tests(own)
    except UnreadableTests as error:
        raise BadLabel(str(error)) from None
    tests = [json.loads(line) for line in task.suite.data.splitlines()]
    return {"suite": {"tests": tests}, "entry_point": task.entry_point}


def _parse(label: Any) -> Any:
    """JSON out of text, where it is JSON."""
    if isinstance(label, str):
        try:
            return json.loads(label)
        except (ValueError, RecursionError):
            return label
    return label


def _texts(value: Any) -> Iterator[str]:
    """Every text in it."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _is_compressed(text: str) -> bool:
    return _BASE64.match(text) is not None and base64.b64decode(text[:4])[0] == _ZLIB
