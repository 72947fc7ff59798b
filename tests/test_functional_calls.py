"""Functional calls as judges do them, in a real box: what is called, what counts as its answer, and what gains nothing.

The programs are data (`functional_calls.toml`); what is hostile or about the machinery stands here.
"""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.comparison.answers import choose_answer, spell
from evaluator.errors import InvalidSubmission, SandboxUnavailable
from evaluator.judge import Judge
from evaluator.model import (
    InPlace,
    Judgement,
    Limits,
    Policy,
    Prelude,
    Program,
    Submission,
    Suite,
    TestCase,
    TestKind,
    Verdict,
)
from evaluator.sandbox.base import Launcher, Limit
from evaluator.sandbox.bubblewrap import BubblewrapBackend
from evaluator.sandbox.pool import Pool
from evaluator.sandbox.runner import calls, nodes
from evaluator.sandbox.runner.values import MAX_COLLISIONS, MAX_ITEMS, decode, decode_result
from evaluator.suspicions import SuspicionKind
from tests.boxes_helper import Room
from tests.requirements_helper import require

PROGRAMS = tomllib.loads((Path(__file__).parent / "functional_calls.toml").read_text("utf-8"))
CASES = PROGRAMS["case"]
LONG = {
    "@digits": "3" * 6000,
    "@nested": "[" * 200 + "]" * 200,
    "@zeros": json.dumps([0] * 50_000),
    "@ones": json.dumps([1] * 50_000),
    "@chain": json.dumps([1, 1] + [None, 1] * 998),
}
"""What would be too long to read."""
VERDICT_OF_FORGERY = {Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR, Verdict.OUTPUT_LIMIT}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """One judge for all."""
    backend = BubblewrapBackend()
    try:
        pool = Pool(backend, backend.start(), spare=False)
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))
    yield Judge(pool)
    pool.close()


def call(
    judge: Judge, source: str, *tests: tuple[str, str | None], entry_point: str = "f", prelude: str = "auto", **options
) -> Judgement:
    """A judgement of a program whose function is called with each input."""
    program = Program(source, entry_point=entry_point, prelude=Prelude(prelude))
    suite = Suite("suite", tuple(TestCase(TestKind.FUNCTIONAL, *test) for test in tests))
    options.setdefault("limits", Limits(cpu_seconds=5))
    return judge.judge(Submission(program, "suite", **options), suite)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_programs_get_their_verdict(judge: Judge, case: dict):
    case = dict(case)
    case.pop("name")
    verdict, detail = case.pop("verdict", "accepted"), case.pop("detail", "")
    tests = [tuple(LONG.get(text, text) for text in test) for test in case.pop("tests")]
    policy = Policy(**case.pop("policy", {}))
    judgement = call(judge, case.pop("source"), *tests, policy=policy, fail_fast=False, **case)
    assert judgement.verdict == verdict, judgement
    assert detail in (judgement.detail or "")
    if verdict == "accepted":
        assert [result.verdict for result in judgement.tests] == [Verdict.ACCEPTED] * len(tests)


def test_no_two_programs_have_one_name():
    names = [program["name"] for kind in PROGRAMS.values() for program in kind]
    assert len(set(names)) == len(names)


# --- bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS["endless"], ids=lambda program: program["name"])
def test_values_without_end_are_the_programs_own_failure(judge: Judge, program: dict):
    arguments = "[1]" if "def f(x" in program["source"] else ""
    limits = Limits(cpu_seconds=1, wall_seconds=3, memory_bytes=512 << 20)
    judgement = call(judge, program["source"], (arguments, "[1]"), limits=limits)
    ends = {Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT, Verdict.OUTPUT_LIMIT, Verdict.RUNTIME_ERROR}
    assert judgement.verdict in ends
    assert not judgement.suspicions  # its box lives
    assert call(judge, "def f(x): return x", ("1", "1")).verdict is Verdict.ACCEPTED


# --- lies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS["liar"], ids=lambda program: program["name"])
def test_objects_that_lie_gain_nothing(judge: Judge, program: dict):
    judgement = call(judge, program["source"], ("", "[1, 2]"))
    assert judgement.verdict in (Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR), judgement


WRITE = """
import os
def write(data):
    for number in range(3, 64):
        try: os.write(number, data)
        except OSError: pass
"""


@pytest.mark.parametrize("program", PROGRAMS["forgery"], ids=lambda program: program["name"])
def test_a_forged_message_is_a_rejection(judge: Judge, program: dict):
    judgement = call(
        judge, WRITE + program["source"], ("", "[1, 2]"), limits=Limits(cpu_seconds=3, output_bytes=4 << 20)
    )
    assert judgement.verdict in VERDICT_OF_FORGERY, judgement
    assert SuspicionKind.BOX_ENDED not in {note.kind for note in judgement.suspicions}
    assert call(judge, WRITE + program["source"], ("", None), limits=Limits(cpu_seconds=3, output_bytes=4 << 20)).tests


def test_the_worker_hashes_and_allocates_within_bounds():
    colliding = ",".join(str(n * (2**61 - 1)) for n in range(1, MAX_COLLISIONS + 10))
    pairs = ",".join(f"[{n * (2**61 - 1)},0]" for n in range(1, MAX_COLLISIONS + 10))
    commas = "[" + "[]," * (2 * MAX_ITEMS + 2) + "1]"
    for text in (f'{{"$":"set","v":[{colliding}]}}', f'{{"$":"dict","v":[{pairs}]}}', commas):
        with pytest.raises(ValueError, match=r"share their hash|too many elements"):
            decode(text.encode())
    text = "," * (2 * MAX_ITEMS + 2)
    assert decode(json.dumps([text, '"']).encode()) == [text, '"']


def test_a_result_is_one_two_or_three_lines():
    assert decode_result(b"5") == (5, [], None)
    assert decode_result(b"null\n[[1],2]") == (None, [[1], 2], None)
    assert decode_result(b'null\n[1]\n"because"') == (None, [1], "because")


# --- integers of any length ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("launcher", Launcher)
def test_a_whole_program_prints_and_reads_integers_of_any_length(room: Room, launcher: Launcher):
    run = room.run("print(int(input()) * 3)", "1" * 60_000, launcher=launcher)
    assert (run.stdout, run.exit_code) == (b"3" * 60_000 + b"\n", 0)


def test_an_integer_bomb_is_a_matter_of_time(room: Room):
    run = room.run("str(1 << (1 << 26))", cpu_seconds=0.5)
    assert run.limit is Limit.CPU


# --- what a value is called ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "arguments", "output"), [
    ("def f(xs): return xs", "[1, null]", "[1, null]"),
    ("def f(xs): return set(xs)", "[2]", "{2}"),
    ("def f(n): return 10 ** n", "5000", "1" + "0" * 5000),
    ("def f(n): return {-10 ** n, (1,)}", "5000", "{(1,), -1" + "0" * 5000 + "}"),
    ("def f(n): return {'a': [10 ** n, 'b']}", "5000", "{'a': [1" + "0" * 5000 + ", 'b']}"),
    ("def f(n): return 10 ** n", "1000000", "<an integer of 1000001 digits>"),
    ("def f(n): return chr(0xD800)", "1", '"\\ud800"'),
    ("def f(n): return [float('nan')]", "1", "[NaN]"),
    ("def f(xs: List[int]) -> None: xs.sort()", "[2, 1]", "[1, 2]"),
    ("def f(xs: List[int]) -> List[int]: xs.sort()", "[2, 1]", "null"),
    ("def f(n): pass", "7", "null"),
    ("def f(head: ListNode) -> ListNode: return head", "[1, 2]", "[1, 2]"),
    ("class A: pass\ndef f(n): return [A()]", "1", "[<object of type A>]"),
])  # fmt: skip
def test_without_an_expected_value_the_answer_comes_back(judge: Judge, source: str, arguments: str, output: str):
    judgement = call(judge, source, (arguments, None))
    assert judgement.verdict is Verdict.ACCEPTED, judgement
    assert judgement.tests[0].output == output


def test_an_answer_that_came_back_is_accepted_when_it_is_expected(judge: Judge):
    source = "def f(xs: List[int]) -> None:\n    xs.append(10 ** 5000)\n    xs.append({'a'})"
    output = call(judge, source, ("[1]", None)).tests[0].output
    assert call(judge, source, ("[1]", output)).verdict is Verdict.ACCEPTED


def test_no_value_is_too_deep_to_be_spelled():
    value: list = [{1}]
    for _ in range(3000):
        value = [value]
    assert spell(value) == "<a value that is nested too deeply>"


# --- policy -------------------------------------------------------------------------------------------------------


def test_in_place_is_a_choice_of_three_for_one_profile():
    assert Policy(in_place="always").in_place is InPlace.ALWAYS
    assert Policy("livecodebench", in_place="never").in_place is InPlace.NEVER
    with pytest.raises(InvalidSubmission, match="in_place must be one of auto, never, always"):
        Policy(in_place="sometimes")
    with pytest.raises(InvalidSubmission, match="in_place can't be combined with the profile 'exact'"):
        Policy("exact", in_place="always")


@pytest.mark.parametrize(("expected", "arguments", "objection", "policy", "answer"), [
    ("[1]", [5, [1]], None, Policy(), [1]),
    ("[1]", [{}, [2], [1]], None, Policy(), [2]),
    ("{}", [[1], {}], None, Policy(), {}),
    ("null", [[1]], None, Policy(), None),
    ("1", [[1]], None, Policy(), None),
    ("(1,)", [[1]], None, Policy(), None),
    ("not a value", [[1]], None, Policy(), None),
    ("[1]", [[1]], "no", Policy(), None),
    ("[1]", [[1]], "no", Policy(in_place=InPlace.ALWAYS), [1]),
    ("[1]", [[1]], None, Policy(in_place=InPlace.NEVER), None),
    ("[1]", [[1]], None, Policy("exact"), None),
    (None, [1, {"a": 1}], None, Policy(), {"a": 1}),
    (None, [1], None, Policy(), None),
])  # fmt: skip
def test_the_answer_is_the_first_argument_that_fits(expected, arguments, objection, policy, answer):
    assert choose_answer(expected, None, arguments, objection, policy).value == answer
    assert choose_answer(expected, False, arguments, objection, policy).value is False


# --- parts of the runner, without a box ---------------------------------------------------------------------------


@pytest.mark.parametrize(("annotation", "shape"), [
    ("ListNode", ("ListNode", 0)),
    ("typing.Optional[program.TreeNode]", ("TreeNode", 0)),
    ("ListNode | None", ("ListNode", 0)),
    ("typing.Optional[ForwardRef('ListNode')]", ("ListNode", 0)),
    ("List[ListNode]", ("ListNode", 1)),
    ("Optional[typing.List[list[Optional[TreeNode]]]]", ("TreeNode", 2)),
    ("Tuple[TreeNode, int]", ("TreeNode", 1)),
    ("Dict[str, ListNode]", None),
    ("MyListNode", None),
    ("List[int]", None),
    ("", None),
])  # fmt: skip
def test_annotations_name_nodes(annotation: str, shape: tuple[str, int] | None):
    assert nodes.read_shape(annotation) == shape


@pytest.mark.parametrize("levels", [[], [1], [1, 2], [1, None, 2], [1, 2, 3, None, None, 4, 5], [3, 1, None, None, 2]])
def test_trees_are_read_as_they_are_built(levels: list):
    root = nodes.build_tree(levels, nodes.TreeNode)
    assert list(nodes.tree_values(root)) == levels


@pytest.mark.parametrize(("levels", "same"), [
    ([None, 1], []), ([1, 2, None, None, None], [1, 2]), ([1, None, None, 5], [1]),
])  # fmt: skip
def test_superfluous_levels_of_a_tree_are_dropped(levels: list, same: list):
    assert list(nodes.tree_values(nodes.build_tree(levels, nodes.TreeNode))) == same


@pytest.mark.parametrize(("body", "returns"), [
    ("pass", False), ("return", False), ("return None", False), ("x.sort()\n    return", False), ("raise x", False),
    ("if x: return 1", True), ("return x", True), ("return x if x else None", True), ("return 0", True),
    ("return g(x)", True), ("def g(): return 1\n    g()", False), ("for y in x:\n        if y: return None", False),
    ("with x: return None", False), ("with x: return 1", True), ("try: return\n    finally: x.close()", False),
    ("try: x()\n    except E: return False", True), ("while True:\n        if x: break", False),
    ("return (None)", False), ("[y for y in x]", False), ("lambda: 1", False), ("return print()", True),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_functions_are_told_apart_by_what_they_return(kind: str, body: str, returns: bool):
    scope: dict = {}
    exec(f"{kind} f(x):\n    {body}", scope)
    assert calls.returns_value(scope["f"].__code__) is returns


@pytest.mark.parametrize(("declaration", "nothing"), [
    ("None", True), ("NoneType", True), ("void", True), ("None Do not return anything, modify nums in-place.", True),
    ("void Do not return anything", True), ("None | List[int]", False), ("None or list", False), ("Nonesuch", False),
    ("List[int]", False), ("Optional[int]", False), ("bool", False),
])  # fmt: skip
def test_declarations_of_nothing(declaration: str, nothing: bool):
    assert bool(calls.NOTHING.match(declaration)) is nothing
