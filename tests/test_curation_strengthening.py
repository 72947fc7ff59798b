"""Mutants, made inputs, and weak suites that get the tests they lack, in real boxes."""

import ast
import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from microcoder_client import Client

from curation.dialects import Assertions, Calls, Given, Streams, open_dialect
from curation.judging import Judging, LocalJudging, Order, RemoteJudging
from curation.mutants import make_mutants
from curation.problem import Problem, make_suite
from curation.shapes import Shape
from curation.strengthening import Strengthen
from curation.tallies import count_all
from curation.variations import Changes, Words, find_counts, iterate_variations
from curation.verification import Verify, VerifyParams
from curation.weaknesses import StrengthenParams, Weakness, choose_tests, is_steady
from evaluator.model import TestCase, TestKind, Verdict
from tests.curation_helper import call, make_problem, open_boxes, run, stdin
from tests.served_helper import Served

SIZE = "def size(n):\n    if n > 10:\n        return 'many'\n    return 'few'\n"
HOLE = make_suite([call(str(n), expected=json.dumps("many" if n > 10 else "few")) for n in (1, 4, 30, 50)])
"""Nothing between 4 and 30: where `many` begins isn't tested."""


def weak_problem(**fields) -> Problem:
    """A function whose suite doesn't look at its border."""
    return make_problem(**{"suite": HOLE, "entry_point": "size", "references": (SIZE,), **fields})


def assertion(code: str) -> TestCase:
    """A test of this code."""
    return TestCase(TestKind.ASSERTION, code)


@pytest.fixture(scope="module")
def boxes() -> Iterator[LocalJudging]:
    """Boxes for all tests here."""
    with open_boxes() as judging:
        yield judging


@pytest.fixture
def strengthen(boxes: LocalJudging, tmp_path: Path) -> Callable[..., Strengthen]:
    """A function that makes a stage, on the test's own journal."""

    def make(judging: Judging = boxes, **params) -> Strengthen:
        settings = StrengthenParams(**{"act": "strengthen", "weak_until": 0.99, "inputs": 50, **params})
        return Strengthen(settings, 3, lambda: judging, 2, tmp_path / "journal.jsonl", threading.Event())

    return make


def passes(boxes: LocalJudging, problem: Problem, source: str) -> bool:
    """Whether a program passes a problem's suite."""
    [outcome] = boxes.judge(problem, [Order(source)])
    return outcome.verdict == Verdict.ACCEPTED


# Mutants


def test_mutants_are_the_same_for_the_same_seed_and_all_different():
    first, again, other = (make_mutants(SIZE, 100, seed) for seed in ("1", "1", "2"))
    assert first == again and {one.source for one in first} == {one.source for one in other}
    assert make_mutants(SIZE, 4, "1") == first[:4] != make_mutants(SIZE, 4, "2")
    dumped = [ast.dump(ast.parse(source)) for source in (SIZE, *(one.source for one in first))]
    assert len(set(dumped)) == len(dumped)


@pytest.mark.parametrize(
    ("source", "kind", "made"),
    [
        ("return a < b", "comparison", "return a <= b"),
        ("return a + b", "arithmetic", "return a - b"),
        ("return -a", "arithmetic", "return a"),
        ("return a * 3", "constant", "return a * 4"),
        ("return a and b", "logic", "return a or b"),
        ("return not a", "logic", "return a"),
        ("return 1 if a else 2", "condition", "return 1 if not a else 2"),
        ("return [i for i in b if i]", "condition", "return [i for i in b if True]"),
        ("return b[1:a]", "bounds", "return b[1:a - 1]"),
        ("return list(range(a))", "bounds", "return list(range(a - 1))"),
        ("a += 1\n    return a", "statement", "pass\n    return a"),
        ("return a", "result", "return None"),
        ("return max(a, b)", "call", "return min(a, b)"),
        ("return sorted(b, reverse=True)", "call", "return sorted(b, reverse=None)"),
    ],
)
def test_each_kind_of_fault_is_made(source: str, kind: str, made: str):
    mutants = make_mutants(f"def f(a, b):\n    {source}\n", 100, "")
    assert (kind, f"def f(a, b):\n    {made}\n") in [(one.kind, one.source) for one in mutants]


def test_docstrings_annotations_and_imports_stay():
    source = 'from math import sqrt\n\ndef f(a: "list[1]") -> 2:\n    """One 1."""\n    return sqrt(a)\n'
    mutants = make_mutants(source, 100, "")
    assert {one.kind for one in mutants} == {"result"}
    assert make_mutants("def f(:", 100, "") == []


# Inputs


def test_inputs_have_what_the_suites_inputs_have_in_common():
    inputs = [Given(([1, 4, 9], 2)), Given(([2, 3], 1)), Given(([5, 6, 7, 8], 3))]
    shape, draw = Shape([one.values for one in inputs], strict=True), random.Random(1)
    made = [
        one.values
        for one, _ in zip(
            iterate_variations(inputs, shape, draw, Changes(inputs, shape, draw)), range(200), strict=False
        )
    ]
    assert len(made) > 30
    for numbers, place in made:
        assert numbers == sorted(set(numbers)) and 2 <= len(numbers) <= 4 and 0 < place < len(numbers)
        assert all(1 <= number <= 9 for number in numbers)


@pytest.mark.parametrize(
    ("seen", "admitted", "refused"),
    [
        (["ab", "c"], "ca", "aB"),
        (["(())", "()"], "()()", "(()"),
        (["(()) ()", "()"], "() ()()", "(() ())"),
        (["3-4", "10-2"], "22-1", "3-"),
        (["one two", "two one one"], "two two", "two three"),
    ],
)
def test_texts_keep_their_letters_brackets_pattern_and_words(seen: list[str], admitted: str, refused: str):
    shape = Shape([(text,) for text in seen], strict=False)
    assert shape.admits((admitted,)) and not shape.admits((refused,))


def test_a_near_reach_goes_a_step_beyond():
    near, seen = (Shape([([3, 5],), ([4],)], strict=strict) for strict in (False, True))
    assert near.admits(([1, 9, 8, 7],)) and not seen.admits(([1, 9, 8, 7],))
    assert near.admits(([0],)) and not near.admits((["3"],)) and not near.admits(([-3],))
    near, seen = (Shape([("a b",), ("c",)], strict=strict) for strict in (False, True))
    assert near.admits(("b ",)) and not seen.admits(("b ",)) and seen.admits(("b c",))


def test_arguments_stay_in_relation():
    shape = Shape([([1, 2], ["+"], 1), ([4, 3, 3], ["-", "*"], 2)], strict=False)
    assert shape.admits(([5, 5], ["*"], 1)) and shape.admits(([1, 1, 1, 1], ["+", "+", "-"], 3))
    assert not shape.admits(([1, 2], ["+", "+"], 1)) and not shape.admits(([1, 2], ["+"], 2))


def test_on_standard_input_counts_and_shape_stay():
    problem = make_problem(suite=make_suite([stdin("3 7\n5 9 8\nabc xyz\n", "")]))
    dialect = open_dialect(problem)
    assert isinstance(dialect, Streams) and find_counts(dialect.inputs[0].values) == {0}
    draw = random.Random(1)
    more = [*dialect.inputs, Given(([3, 7], [90, 80, 70], ["bca", "zzz"], ""))]
    made = [one for one, _ in zip(iterate_variations(more, None, draw, Words(more, draw)), range(40), strict=False)]
    assert len(made) == 40
    for given in made:
        lines = dialect.probe(given).input.split("\n")
        assert lines[0] == "3 7" and len(lines) == 4 and lines[3] == ""
        assert len(lines[1].split()) == 3 and [len(word) for word in lines[2].split()] == [3, 3]


def test_assertions_are_read_with_the_form_around_the_call():
    suite = make_suite([
        assertion("assert set(f((1, 2), {'a': 1})) == {1}"), assertion("assert abs(f(3, {}) - 0.5) < 1e-6"),
        assertion("x = 3\nassert f(x) == 2"),
    ])  # fmt: skip
    dialect = open_dialect(make_problem(suite=suite, references=("def f(a, b): return [1]",)))
    assert isinstance(dialect, Assertions)
    assert dialect.inputs == [Given(((1, 2), {"a": 1}), "set({})"), Given((3, {}), "{}")]
    [test] = [dialect.write(dialect.inputs[1], json.dumps("0.25"))]
    assert "is_close(f(3, {}), 0.25)" in test.input
    assert open_dialect(make_problem(suite=make_suite([assertion("assert g() == 1")]))) is None


def test_few_tests_are_chosen_that_kill_much():
    assert choose_tests([{0, 1}, {1}, {1, 2}, {3}, set()], [(9, 0), (9, 1), (9, 2), (9, 3)], 5) == [1, 3]
    assert choose_tests([{0}, {1}], [(9, 0), (2, 1)], 1) == [1]


# The stage


def test_a_suite_with_a_hole_gets_the_test_that_closes_it(strengthen, boxes, tmp_path: Path):
    stage, problem = strengthen(), weak_problem()
    wrong = [SIZE.replace("> 10", ">= 10"), SIZE.replace("> 10", "> 11")]
    assert all(passes(boxes, problem, source) for source in wrong)
    [kept] = run(stage, problem)
    assert not any(passes(boxes, kept, source) for source in wrong)
    assert kept.suite.tests[:4] == problem.suite.tests and {10, 11} <= {int(one.input) for one in kept.suite.tests[4:]}
    note = kept.notes["mutation"]
    assert note["added"] == len(kept.suite.tests) - 4 <= 10 and stage.ledger.marked == {"weak, strengthened": 1}
    assert note["score"] < note["score_after"] == 1
    assert note["killed"] + note["told_apart"] + note["probably_equivalent"] == note["mutants"]
    verify = Verify(VerifyParams(), lambda: boxes, 2, tmp_path / "verification.jsonl", threading.Event())
    assert len(run(verify, kept)) == 1


def test_a_note_changes_no_suite_and_a_drop_drops(strengthen):
    problem, strong = weak_problem(), make_problem()
    noted, also = run(strengthen(act="note"), problem, strong)
    assert (noted.suite, also.suite) == (problem.suite, strong.suite)
    assert noted.notes["mutation"]["score"] < 1 == also.notes["mutation"]["score"]
    stage = strengthen(act="drop")
    assert [one.id for one in run(stage, problem, strong)] == [strong.id]
    assert stage.ledger.reasons() == {"its tests are weak": 1} and stage.ledger.marked == {"strong": 1}


def test_inputs_on_which_references_disagree_are_not_used(strengthen, boxes):
    other = SIZE.replace("n > 10", "n > 10 and n != 11")
    assert passes(boxes, weak_problem(), other)
    [kept] = run(strengthen(), weak_problem(references=(SIZE, other)))
    inputs = {int(one.input) for one in kept.suite.tests}
    assert 10 in inputs and 11 not in inputs
    assert passes(boxes, kept, SIZE) and passes(boxes, kept, other)


def test_inputs_that_a_reference_or_a_guard_refuses_are_not_used(strengthen):
    refusing = SIZE.replace("    if", "    assert n != 11\n    if", 1)
    for fields in ({"references": (refusing,)}, {"notes": {"guards": [refusing]}}):
        [kept] = run(strengthen(), weak_problem(**fields))
        inputs = {int(one.input) for one in kept.suite.tests}
        assert 10 in inputs and 11 not in inputs


@pytest.mark.parametrize(
    "source",
    ["import random\n" + SIZE, SIZE + "\nimport time as t", SIZE.replace("n > 10", "hash(n) > 10")],
)
def test_a_reference_that_draws_or_reads_the_clock_is_not_trusted(strengthen, source: str):
    assert not is_steady(source) and is_steady(SIZE)
    stage = strengthen()
    [kept] = run(stage, weak_problem(references=(source,)))
    assert kept.suite is not None and len(kept.suite.tests) == 4 and "unable" in kept.notes["mutation"]
    [mark] = stage.ledger.marked
    assert "neither draw nor read the clock" in mark


def test_what_a_reference_keeps_from_call_to_call_is_not_expected(strengthen):
    keeping = "seen = []\n" + SIZE.replace(
        "    if", "    seen.append(n)\n    if len(seen) > 1:\n        return 'again'\n    if", 1
    )
    [kept] = run(strengthen(), weak_problem(references=(keeping,)))
    assert all(json.loads(one.expected) in ("many", "few") for one in kept.suite.tests)


def test_a_program_known_to_be_wrong_that_passed_fails_afterwards(strengthen, boxes):
    wrong = SIZE.replace("n > 10", "n > 10 and n % 7")
    [kept] = run(strengthen(weak_until=0.0, inputs=150), weak_problem(wrong=(wrong,)))
    assert kept.notes["mutation"]["wrong_passing"] == kept.notes["mutation"]["wrong_killed"] == 1
    assert not passes(boxes, kept, wrong)


def test_assertions_with_tuples_sets_and_floats_are_strengthened(strengthen, boxes):
    total = "sum(v for k, v in pairs if k == n and v > 2) / 4"
    right = f"def share(pairs, names):\n    return {{n: {total} for n in sorted(names) if n > 'b'}}\n"
    wrong = right.replace("v > 2", "v >= 2")
    suite = make_suite([
        assertion("assert share([('c', 3), ('d', 1), ('c', 6)], {'c', 'a'}) == {'c': 2.25}"),
        assertion("assert share([('b', 3), ('d', 6)], {'d', 'e'}) == {'d': 1.5, 'e': 0.0}"),
    ])  # fmt: skip
    problem = make_problem(suite=suite, references=(right,))
    assert passes(boxes, problem, wrong)
    [kept] = run(strengthen(inputs=150), problem)
    added = kept.suite.tests[2:]
    assert added and all(one.kind is TestKind.ASSERTION for one in added)
    assert passes(boxes, kept, right) and not passes(boxes, kept, wrong)


def test_standard_input_is_strengthened(strengthen, boxes):
    right = "n = int(input())\nprint(sum(1 for a in map(int, input().split()) if a >= 50))"
    wrong = right.replace(">= 50", "> 50")
    suite = make_suite([stdin("3\n10 60 99\n", "2\n"), stdin("2\n1 45\n", "0\n"), stdin("3\n80 55 20\n", "2\n")])
    problem = make_problem(suite=suite, references=(right,))
    assert passes(boxes, problem, wrong)
    [kept] = run(strengthen(inputs=300), problem)
    assert passes(boxes, kept, right) and not passes(boxes, kept, wrong)
    for test in kept.suite.tests:
        count, numbers = test.input.split("\n", 1)
        assert int(count) == len(numbers.split())


class Counting:
    """Boxes that count the programs they are given."""

    most = 2

    def __init__(self, boxes: LocalJudging) -> None:
        self.boxes, self.programs = boxes, 0

    def judge(self, problem: Problem, orders: Sequence[Order]):
        self.programs += len(orders)
        return self.boxes.judge(problem, orders)

    def collect(self, problem: Problem, orders: Sequence[Order]):
        self.programs += len(orders)
        return self.boxes.collect(problem, orders)

    def stop(self) -> None:
        """Nothing that runs is stopped: the boxes are the other tests' too."""

    def close(self) -> None:
        """Nothing to give back."""


def test_what_is_found_is_remembered_and_found_again_the_same(strengthen, boxes, tmp_path: Path):
    first, second, third = (Counting(boxes) for _ in range(3))
    [before] = run(strengthen(first), weak_problem())
    [noted] = run(strengthen(second, act="note"), weak_problem())
    assert (
        first.programs > 0 == second.programs and noted.notes["mutation"]["score"] == before.notes["mutation"]["score"]
    )
    (tmp_path / "journal.jsonl").unlink()
    [again] = run(strengthen(third), weak_problem())
    assert third.programs == first.programs and again == before


def test_a_service_finds_the_same(strengthen, tmp_path: Path):
    [here] = run(strengthen(inputs=20), weak_problem())
    (tmp_path / "journal.jsonl").unlink()
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served, Client(served.ready()) as client:
        [there] = run(strengthen(RemoteJudging(client), inputs=20), weak_problem())
    assert there == here and len(there.suite.tests) > 4


def test_the_card_counts_scores():
    notes = [{"score": 1.0}, {"score": 0.5}, {"score": 0.8, "score_after": 0.95, "added": 2}, {"unable": "…"}]
    tally = count_all(make_problem(notes={"mutation": note}) for note in notes)
    assert tally.strengths == {"all": 1, "0.5 or less": 1, "more than 0.9": 1, "not known": 1}
    assert not count_all([make_problem()]).strengths


def test_survivors_are_equivalent_only_where_many_inputs_say_so():
    few, many = (Weakness(mutants=10, killed=6, told_apart=1, inputs=inputs) for inputs in (5, 50))
    assert (few.score, many.score) == (6 / 10, 6 / 8)  # two of ten at most are equivalent
    assert Weakness(mutants=10, killed=8, inputs=50).score == 1 and Weakness(mutants=10, killed=6).score == 0.6
    assert Weakness(mutants=2, killed=1, unable="too few mutants").score is None


def test_functional_tests_expect_json():
    problem = weak_problem()
    dialect = open_dialect(problem)
    assert isinstance(dialect, Calls)
    given = Given((7,))
    assert dialect.write(given, '"few"') == call("7", expected='"few"')
    assert dialect.probe(Given((float("nan"),))) is None
    large = make_suite([call(json.dumps("a" * 30_000), expected="1")])
    assert open_dialect(weak_problem(suite=large)) is None
    assert dialect.write(given, "{1, 2}") is None and dialect.write(given, "NaN") is None
