"""Why a verdict differs from the one that LiveCodeBench published: one reason out of a closed list, and its proof.

LiveCodeBench writes down, for each program that it rejects, the test that failed, its error, and (shortened) what was
printed. That is compared with the tests at hand, with what our boxes saw, and with the program's own text. A reason is
given only where something of that shows it; what is left is `unexplained`.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from evaluator.comparison.ladder import compare, compare_value
from evaluator.comparison.literals import INVALID, parse
from evaluator.livecodebench.errata import Erratum
from evaluator.model import Match, Policy, TestCase, TestKind, Verdict
from evaluator.suites import read_arguments


class FlipReason(StrEnum):
    """The closed list."""

    TEST_SET = "published test set differs"
    FLOAT_TOLERANCE = "float tolerance"
    WHITESPACE = "whitespace"
    SPELLING = "another spelling of the same value"
    COMPARISON = "LiveCodeBench's comparison is more lenient"
    STDIN = "stdin buffer"
    STDOUT = "stdout buffer"
    THREAD = "thread not waited for"
    PRELUDE = "prelude and scope"
    ENVIRONMENT = "package or Python version"
    EXTRACTION = "extraction"
    STATE = "state between tests"
    EXIT_STATUS = "exit status"
    TIME_LIMIT = "time limit"
    MEMORY = "memory"
    ERRATUM = "known erratum of the benchmark"
    RUNNER_LOST = "LiveCodeBench's process died"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Flip:
    """A changed verdict, explained."""

    reason: FlipReason
    proof: str


@dataclass(frozen=True)
class Case:
    """Everything that is known about a generation whose verdict changed.

    `detail` is our sentence on the first failed test, `index` its number. `accepted_by_theirs`: whether the program
    passes here under LiveCodeBench's comparison; None where that wasn't tried.
    """

    published: bool
    remark: dict[str, Any]
    source: str
    given: str | None
    tests: Sequence[TestCase]
    verdict: Verdict
    detail: str | None
    index: int | None
    cpu_seconds: float
    limit: float
    erratum: Erratum | None = None
    accepted_by_theirs: bool | None = None


_TRUNCATED = re.compile(r"\.\.\.\(truncated\) \.\.\.", re.S)
_LENIENT_RUNGS = {
    "trailing_whitespace": FlipReason.WHITESPACE, "tokens": FlipReason.WHITESPACE, "blank_lines": FlipReason.WHITESPACE,
    "tolerance": FlipReason.FLOAT_TOLERANCE,
}  # fmt: skip
# What their streams, objects put in place of the real ones, are known to get wrong.
_STDIN = re.compile(
    r"\bfrom sys import\b.*\bstdin\b|\bopen\(\s*0|\bos\.read\(|\bin (?:sys\.)?stdin\b|\bfileinput\b"
    r"|\bstdin\.(?:buffer\b|readlines\()"  # their readlines() ends with an empty line too many
)
_REAL_STDIN = re.compile(r"\bopen\(\s*0|\bos\.read\(\s*0")
_STDIN_AFTER_INPUT = re.compile(r"\bstdin\.read\(")
_STDOUT = re.compile(r"\bfrom sys import\b.*\bstdout\b|\bstdout\.buffer\b|\bos\.write\(")
_THREAD = re.compile(r"\bThread\(")
_JOIN = re.compile(r"\.join\(\s*\)")
_NAME_ERROR = re.compile(r"name '(\w+)' is not defined|UnboundLocalError|local variable '(\w+)'")
_CONTAINERS = ("list", "dict", "set", "defaultdict", "Counter", "deque", "OrderedDict")
_CACHES = ("cache", "lru_cache", "functools.cache", "functools.lru_cache")


def explain(case: Case) -> Flip:
    """One reason, the first that something proves."""
    if case.given is not None and case.given.strip() != case.source.strip():
        return Flip(FlipReason.EXTRACTION, "the program that was published isn't the one that was judged here.")
    return _explain_rejection(case) if case.published else _explain_acceptance(case)


# Published as wrong, accepted here


def _explain_acceptance(case: Case) -> Flip:
    remark, code = case.remark, case.remark.get("error_code")
    error = f"{remark.get('error', '')} {remark.get('error_message', '')}".strip()
    if code == -5 or "TestRunnerError" in error:
        return Flip(
            FlipReason.RUNNER_LOST, f"LiveCodeBench: {_short(error)}: no result came from its process, so no verdict."
        )
    number = find_test(case.tests, remark)
    if code == -2 and (flip := _find_thread(case, number)):
        return flip
    if number is None and "inputs" in remark:
        return Flip(FlipReason.TEST_SET, _say_missing(case))
    if code == -3:
        if number is not None and (line := find_line(case.source, _REAL_STDIN)):
            waits = "reads the real standard input, which its runner doesn't give the test"
            return Flip(FlipReason.STDIN, f"LiveCodeBench: time limit on {_name(number)}; {line} {waits}.")
        took = f"here the slowest test took {case.cpu_seconds:.2f} s of {case.limit:g}."
        return Flip(FlipReason.TIME_LIMIT, f"LiveCodeBench: time limit on {_name(number)}; {took}")
    if case.erratum is not None:
        return Flip(FlipReason.ERRATUM, f"LiveCodeBench's errata: {case.erratum}.")
    if code == -4:
        return _explain_error(case, error, number)
    if number is not None and (flip := _compare_published(case, case.tests[number], number)):
        return flip
    return _explain_run(case, number, f"LiveCodeBench: {_short(error) or 'rejected, without a reason'}")


def _say_missing(case: Case) -> str:
    inputs, expected = str(case.remark["inputs"]), str(case.remark.get("expected", ""))
    failed = f"LiveCodeBench's run failed on the input {_short(inputs)} (expected {_short(expected)})"
    return f"{failed}, which is none of the {len(case.tests)} tests here."


def _find_thread(case: Case, number: int | None) -> Flip | None:
    """Their runner takes the output when the main thread ends, and a thread that isn't joined prints too late."""
    output, expected = case.remark.get("output"), str(case.remark.get("expected", ""))
    if not isinstance(output, str) or not expected.startswith(output.rstrip()) or output.strip() == expected.strip():
        return None
    line = find_line(case.source, _THREAD)
    if line is None or _JOIN.search(case.source):
        return None
    test = "a test that isn't here" if number is None else _name(number)
    found = "nothing" if not output.strip() else f"only {_short(output)}"
    return Flip(
        FlipReason.THREAD,
        f"LiveCodeBench: {found} was printed on {test}; {line} starts a thread that it doesn't wait for.",
    )


def _explain_error(case: Case, error: str, number: int | None) -> Flip:
    proof = f"LiveCodeBench: {_short(error)}"
    if "No module named" in error:
        return Flip(FlipReason.ENVIRONMENT, f"{proof}; the module is installed here.")
    if "MemoryError" in error:
        return Flip(FlipReason.MEMORY, f"{proof}.")
    if "has no attribute 'buffer'" in error or "MockStdin" in error or "EOFError" in error:
        return Flip(FlipReason.STDIN, f"{proof}: it replaces standard input by an object of its own.")
    if _NAME_ERROR.search(error):
        return Flip(FlipReason.PRELUDE, f"{proof}: it runs the program inside a function, or without these names.")
    return _explain_run(case, number, proof)


def _compare_published(case: Case, test: TestCase, number: int) -> Flip | None:
    """What was printed for them and is right to us: the comparison differs."""
    output = case.remark.get("output")
    if not isinstance(output, str) or _TRUNCATED.search(output) or test.expected is None:
        return None
    match = _match(test, output, "microcoder")
    if not match.matched or match.rung is None or _match(test, output, "livecodebench").matched:
        return None
    reason = _LENIENT_RUNGS.get(match.rung, FlipReason.SPELLING)
    outputs = f"expected {_short(test.expected)}, printed there {_short(output)}"
    return Flip(reason, f"{_name(number)}: {outputs}: the rung '{match.rung}' accepts it.")


def _match(test: TestCase, output: str, profile: str) -> Match:
    assert test.expected is not None
    if test.kind is TestKind.STDIN:
        return compare(test.expected, output.encode("utf-8", "surrogatepass"), Policy(profile=profile))
    value = parse(output)
    return compare_value(test.expected, output if value is INVALID else value, Policy(profile=profile))


def _explain_run(case: Case, number: int | None, proof: str) -> Flip:
    """The same test, the same program, another outcome: what of the program meets its runner otherwise."""
    functional = bool(case.tests) and case.tests[0].kind is TestKind.FUNCTIONAL
    place = f"{proof} on {_name(number)}" if number is not None else proof
    if functional and (kept := find_state(case.source)):
        return Flip(FlipReason.STATE, f"{place}; {kept} outlives a test in its runner, and not here.")
    if not functional:
        patterns = [(FlipReason.STDOUT, _STDOUT), (FlipReason.STDIN, _STDIN)]
        if re.search(r"\binput\(", case.source):
            patterns.append((FlipReason.STDIN, _STDIN_AFTER_INPUT))
        for reason, pattern in patterns:
            if line := find_line(case.source, pattern):
                return Flip(reason, f"{place}; {line} meets an object of its runner, and here a real file.")
        if re.search(r"class Solution", case.source):
            return Flip(FlipReason.PRELUDE, f"{place}; the text 'class Solution' makes its runner look for a class.")
    return Flip(FlipReason.UNEXPLAINED, f"{place}; here every test passes.")


# Published as right, rejected here


def _explain_rejection(case: Case) -> Flip:
    proof = f"{_name(case.index)}: {case.detail or case.verdict}"
    if case.verdict is Verdict.TIME_LIMIT:
        return Flip(FlipReason.TIME_LIMIT, f"{proof} LiveCodeBench counts seconds on the wall, of its own machine.")
    if case.verdict in (Verdict.MEMORY_LIMIT, Verdict.OUTPUT_LIMIT):
        return Flip(FlipReason.MEMORY, f"{proof} LiveCodeBench has no such limit.")
    if case.erratum is not None:
        return Flip(FlipReason.ERRATUM, f"LiveCodeBench's errata: {case.erratum}; {proof}")
    if case.accepted_by_theirs:
        return Flip(
            FlipReason.COMPARISON, f"{proof}; under LiveCodeBench's comparison the same output passes here too."
        )
    if case.verdict is Verdict.RUNTIME_ERROR and case.detail:
        if re.search(r"ModuleNotFoundError|ImportError", case.detail):
            return Flip(FlipReason.ENVIRONMENT, proof)
        if re.search(r"exit status \d+\.$", case.detail):
            return Flip(FlipReason.EXIT_STATUS, f"{proof} LiveCodeBench takes any exit for a normal end.")
        if _NAME_ERROR.search(case.detail):
            return Flip(FlipReason.PRELUDE, proof)
    if case.verdict is Verdict.COMPILE_ERROR:
        return Flip(FlipReason.ENVIRONMENT, f"{proof}: LiveCodeBench rewrites the program before it compiles it.")
    if case.tests and case.tests[0].kind is TestKind.FUNCTIONAL and (kept := find_state(case.source)):
        return Flip(FlipReason.STATE, f"{proof}; {kept} outlives a test in LiveCodeBench's runner, and not here.")
    return Flip(FlipReason.UNEXPLAINED, proof)


# Evidence


def find_test(tests: Sequence[TestCase], remark: dict[str, Any]) -> int | None:
    """The number of the test on which a published run failed, or None where it isn't among these.

    What was written down is shortened to its beginning and end, and the arguments of a function were written down
    after the program had changed them: sorting is undone by looking at both sorted.
    """
    wanted = str(remark.get("inputs", ""))
    for number, test in enumerate(tests):
        if _is_same(_spell(test), wanted):
            return number
    expected = str(remark.get("expected", ""))
    for number, test in enumerate(tests):
        if test.kind is TestKind.FUNCTIONAL and _sorted(_spell(test)) == _sorted(wanted):
            same = parse(test.expected or "") == parse(expected)
            if same and not _TRUNCATED.search(wanted):
                return number
    return None


def _spell(test: TestCase) -> str:
    """The input as LiveCodeBench writes it down: the text, or its list of arguments."""
    if test.kind is not TestKind.FUNCTIONAL:
        return test.input
    try:
        return str(read_arguments(test.input))
    except ValueError:
        return test.input


def _is_same(text: str, shortened: str) -> bool:
    if not (cut := _TRUNCATED.search(shortened)):
        return text.strip() == shortened.strip()
    head, tail = shortened[: cut.start()], shortened[cut.end() :]
    return len(text) > len(head) and text.startswith(head) and text.rstrip().endswith(tail.rstrip())


def _sorted(text: str) -> Any:
    value = parse(text)
    return [_order(item) for item in value] if isinstance(value, list) else value


def _order(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return sorted((_order(item) for item in value), key=lambda item: json.dumps(item, default=str))


def find_line(source: str, pattern: re.Pattern[str]) -> str | None:
    """The first line of the program that the pattern finds, quoted with its number. Comments don't count."""
    for number, line in enumerate(source.splitlines(), start=1):
        if pattern.search(line.partition("#")[0]):
            return f"line {number}, `{_short(line.strip())}`,"
    return None


def find_state(source: str) -> str | None:
    """Something of the program that would outlive a call: a cache, a global or class value that can change."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = min(_find_keepers(tree), key=lambda node: node.lineno, default=None)
    if found is None:
        return None
    line = source.splitlines()[found.lineno - 1].strip()
    return f"line {found.lineno}, `{_short(line)}`,"


def _find_keepers(tree: ast.Module) -> Iterator[ast.stmt | ast.expr]:
    holders: list[ast.Module | ast.ClassDef] = [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef))]
    for holder in holders:
        for node in holder.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and _can_change(node.value):
                yield node
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from _find_in_function(node, isinstance(holder, ast.ClassDef))
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Global))


def _find_in_function(node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> Iterator[ast.stmt | ast.expr]:
    """Caches, defaults that can change, and what `__init__` leaves on the one instance."""
    for decorator in node.decorator_list:
        name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if name in _CACHES:
            yield decorator
    yield from (default for default in node.args.defaults if _can_change(default))
    if is_method and node.name == "__init__":
        yield from (item for item in node.body if isinstance(item, (ast.Assign, ast.AnnAssign)))


def _can_change(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in _CONTAINERS
    return isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp))


def _name(number: int | None) -> str:
    return "the program" if number is None else f"test {number}"


def _short(text: str, most: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 20]} … {text[-15:]}"
