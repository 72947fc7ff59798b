"""What schemathesis has to be told of this service (`scripts/fuzz.py`): how a suite travels, that its id is its hash.

Half of the uploads keep the id that was made up, so that both are tried. Cases whose only fault is a header that nobody
knows are left out: HTTP has such headers passed over.
"""

import hashlib
import json
from typing import Any

import schemathesis

UNKNOWN_HEADER = "x-schemathesis-unknown-property"
TEST = {"kind": "stdin", "input": "1\n", "expected": "1\n"}


@schemathesis.serializer("application/jsonl")
def write_lines(context: Any, value: Any) -> bytes:
    """Text as it is; whatever else was made up, as a line of JSON."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value).encode()


@schemathesis.hook
def map_case(context: Any, case: Any) -> Any:
    """Uploads: some with bytes that are a suite, some with the right hash."""
    if case.operation.path != "/v1/suites/{id}" or case.method != "PUT" or not isinstance(case.body, str):
        return case
    draw = hashlib.sha256(case.body.encode("utf-8", "surrogatepass")).digest()[0]
    if draw % 4 == 0:
        case.body = json.dumps({**TEST, "name": str(draw)}) + "\n"
    if draw % 2 == 0:
        case.path_parameters["id"] = hashlib.sha256(case.body.encode("utf-8", "surrogatepass")).hexdigest()
    return case


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Whether to send it."""
    return UNKNOWN_HEADER not in (case.headers or {})
