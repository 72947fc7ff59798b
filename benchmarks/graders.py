"""How other well-known graders compare, re-stated from their documentation and source, for `accuracy`.

Each is written anew as a rule on what was expected and what the program gave; none of their code is here. Only the
comparison is re-stated: the programs are run in our boxes, under our limits, and a run that ended badly is a rejection
for all. A comparison answers None where it accepts, else one line on why it doesn't.

Beside them stand our own profiles, each by its policy, which need no run of their own either.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evaluator.model import Policy, TestKind

Text = Callable[[str, bytes], str | None]
Value = Callable[[str, object], str | None]
SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Grader:
    """A comparison by its name: one of our policies, or a rule on text and perhaps one on returned values.

    A kind of test that it has no rule for is left out, with the reason in `lacks`.
    """

    name: str
    policy: Policy | None = None
    text: Text | None = None
    value: Value | None = None
    lacks: dict[TestKind, str] = field(default_factory=dict)


# verl's prime_code


def prime_code_text(expected: str, output: bytes) -> str | None:
    """The comparison of verl's `prime_code`, which goes back to APPS and TACO.

    https://github.com/volcengine/verl, `verl/utils/reward_score/prime_code/testing_util.py` at b178a3c. In order, and
    the first that holds accepts: the stripped texts are equal, or are so with every output line stripped; the output's
    lines are those expected without empty ones, stripped; the same without the output's empty lines; and, unless every
    pair of lines is two strings of digits, all lines are floats within 1e-8 + 1e-5 of the expected (`np.allclose`).
    Its last steps compare lines with sets of tokens and never hold, so they are left out here.
    """
    lines = output.decode("utf-8", "replace").splitlines()
    if expected.strip() in ("\n".join(lines).strip(), "\n".join(line.strip() for line in lines).strip()):
        return None
    wanted = [line.strip() for line in expected.split("\n") if line]
    found = [line for line in lines if line]
    if wanted in (lines, found):
        return None
    pairs = list(zip(found, wanted, strict=False))
    if len(found) == len(wanted) and not all(one.isdigit() and other.isdigit() for one, other in pairs):
        numbers = [(to_float(one), to_float(other)) for one, other in pairs]
        if all(one is not None and other is not None and is_allclose(one, other) for one, other in numbers):
            return None
    return first_difference(wanted, found)


def is_allclose(found: float, wanted: float) -> bool:
    """What numpy's `allclose` says of two numbers by default."""
    return found == wanted or (math.isfinite(wanted) and abs(found - wanted) <= 1e-8 + 1e-5 * abs(wanted))


def prime_code_value(expected: str, value: object) -> str | None:
    """The same grader on returned values (same file).

    The value must have a JSON form, else it counts as a runtime error. An outermost tuple is a list. Keys of an
    expected dictionary that are integers become ones, and the dictionary then stands in a list; of an expected list
    that begins with such a dictionary only that one is kept. Accepted: the value equals what is expected, or the first
    item of it, or is a list of tuples that equals the first item. There is no tolerance.
    """
    try:
        json.dumps(value)
        wanted = with_integer_keys(json.loads(expected))
    except (TypeError, ValueError, RecursionError) as error:
        return f"no JSON form: {error}"
    if isinstance(value, tuple):
        value = list(value)
    if value == wanted:
        return None
    if isinstance(wanted, list) and wanted:
        has_tuples = isinstance(value, list) and bool(value) and isinstance(value[0], tuple)
        if value == wanted[0] or (has_tuples and lists_of(value) == wanted[0]):
            return None
    return f"expected {shorten(wanted)}, found {shorten(value)}"


def with_integer_keys(wanted: Any) -> Any:
    """What `prime_code` makes of an expected value, because JSON has no keys but strings."""
    if isinstance(wanted, dict):
        keyed = integer_keys(wanted)
        wanted = wanted if keyed is None else [keyed]
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        keyed = integer_keys(wanted[0])
        wanted = wanted if keyed is None else [keyed]
    return wanted


def integer_keys(record: dict[Any, Any]) -> dict[int, Any] | None:
    """The dictionary with its keys as integers, or None where one isn't."""
    try:
        return {int(key): item for key, item in record.items()}
    except ValueError:
        return None


def lists_of(rows: Any) -> list[Any] | None:
    """Rows as lists, or None where one has no items."""
    try:
        return [list(row) for row in rows]
    except TypeError:
        return None


# SandboxFusion


def sandbox_fusion_text(expected: str, output: bytes) -> str | None:
    """SandboxFusion's comparison of standard output.

    https://github.com/bytedance/SandboxFusion, `sandbox/utils/testing.py` at 469de08. Both texts are stripped and split
    into lines, of which there must be as many. Two lines are equal in lower case and stripped; or both are floats, and
    differ by less than 1e-5 of the expected one (of 1e-10, where that is smaller).
    """
    found = [line.lower().strip() for line in output.decode("utf-8", "replace").strip().split("\n")]
    wanted = [line.lower().strip() for line in expected.strip().split("\n")]
    if len(found) != len(wanted):
        return f"expected {len(wanted)} lines, found {len(found)}"
    for one, other in zip(found, wanted, strict=True):
        if one != other and not are_near_floats(one, other):
            return f"expected {shorten(other)}, found {shorten(one)}"
    return None


def are_near_floats(found: str, wanted: str) -> bool:
    """Whether both are floats that SandboxFusion takes for equal."""
    one, other = to_float(found), to_float(wanted)
    return one is not None and other is not None and abs(one - other) / max(abs(other), 1e-10) < 1e-5


# Judge0


def judge0_text(expected: str, output: bytes) -> str | None:
    """Judge0's comparison of standard output: the plain difference that many judges start with.

    https://github.com/judge0/judge0, `app/jobs/isolate_job.rb` (`strip_output`): trailing whitespace of each line and
    of the whole aside, the texts are the same.
    """
    wanted = plain_lines(expected)
    found = plain_lines(output.decode("utf-8", "replace"))
    return None if found == wanted else first_difference(wanted, found)


def plain_lines(text: str) -> list[str]:
    """Lines without trailing whitespace (Ruby's `rstrip` takes the null character for such), and without empty ones at
    the end."""
    lines = [line.rstrip("\t\n\v\f\r \0") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


# The table of them


def to_float(text: str) -> float | None:
    """What Python's `float` makes of the text, `1_000` and `nan` included; None where it refuses."""
    try:
        return float(text)
    except ValueError:
        return None


def first_difference(wanted: list[str], found: list[str]) -> str:
    """One line on where two lists of lines part."""
    for number, (one, other) in enumerate(zip(wanted, found, strict=False), start=1):
        if one != other:
            return f"line {number}: expected {shorten(one)}, found {shorten(other)}"
    return f"expected {len(wanted)} lines, found {len(found)}"


def shorten(value: object) -> str:
    """A value as a message shows it."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


_NO_FUNCTIONS = {TestKind.FUNCTIONAL: "it has no function calls", TestKind.ASSERTION: "it has no comparison to measure"}

GRADERS = (
    Grader("microcoder_no_checkers", Policy()),
    Grader("microcoder_exact", Policy(profile="exact")),
    Grader("microcoder_livecodebench", Policy(profile="livecodebench")),
    Grader("prime_code", None, prime_code_text, prime_code_value, {TestKind.ASSERTION: "it has no assertion tests"}),
    Grader("sandbox_fusion", None, sandbox_fusion_text, lacks=_NO_FUNCTIONS),
    Grader("judge0", None, judge0_text, lacks=_NO_FUNCTIONS),
)
"""Every comparison that is applied to recorded runs."""
