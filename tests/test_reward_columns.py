"""Tests out of dataset columns: the forms of public datasets, in rows written for this, and in real ones."""

import base64
import gzip
import json
import os
import pickle
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from microcoder_client import UnreadableTests, assertion_test, functional_test, stdin_test
from microcoder_client.cases import TestCase
from microcoder_client.rewards.columns import TaskReader, read_tests

from evaluator.suites import read_suite

SHARED = Path(__file__).parents[2] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the data in ../shared/data")

STDIN = [stdin_test("1\n", "2\n"), stdin_test("5\n", "6\n")]
PAIRS = {"inputs": ["1\n", "5\n"], "outputs": ["2\n", "6\n"]}
RECORDS = [{"input": "1\n", "output": "2\n"}, {"input": "5\n", "output": "6\n"}]
CALLS = [functional_test([1, [2]], [3]), functional_test([4, []], [5])]
LISTED = {"fn_name": "f", "inputs": [[1, [2]], [4, []]], "outputs": [[[3]], [[5]]]}
WRITTEN = {"fn_name": "f", "inputs": ["1\n[2]", "4\n[]"], "outputs": ["[3]", "[5]"]}
ASSERTS = ["assert f(1) == 2", "assert f(2) == 3"]


def encode(tests: list[dict]) -> str:
    """As LiveCodeBench encodes private tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def kinds(tests: list[TestCase]) -> list[tuple[str, object, object]]:
    """Tests with their JSON read: two spellings of a value are the same."""
    if any(test.kind != "functional" for test in tests):
        return [(test.kind, test.input, test.expected) for test in tests]
    return [
        (test.kind, [json.loads(line) for line in test.input.split("\n")], json.loads(test.expected)) for test in tests
    ]


@pytest.mark.parametrize(
    ("row", "tests", "function"),
    [
        pytest.param({"input_output": json.dumps(PAIRS)}, STDIN, None, id="apps"),
        pytest.param({"input_output": json.dumps(LISTED)}, CALLS, "f", id="apps-function"),
        pytest.param({"input_output": json.dumps({**WRITTEN})}, CALLS, "f", id="livecodebench-input-output"),
        pytest.param({"input_output": json.dumps({**PAIRS, "fn_name": None})}, STDIN, None, id="no-function-named"),
        pytest.param({"ground_truth": json.dumps(PAIRS)}, STDIN, None, id="prime"),
        pytest.param({"reward_model": {"ground_truth": json.dumps(WRITTEN)}}, CALLS, "f", id="verl-row"),
        pytest.param(
            {"tests": json.dumps([{**r, "testtype": "stdin_stdout"} for r in RECORDS]), "metadata": {"func_name": "g"}},
            STDIN,
            None,
            id="deepcoder-stdin",
        ),
        pytest.param(
            {
                "tests": json.dumps(
                    [
                        {"input": "1\n[2]", "output": "[3]", "testtype": "functional"},
                        {"input": "4\n[]", "output": "[5]", "testtype": "functional"},
                    ]
                ),
                "metadata": {"func_name": "f"},
            },
            CALLS,
            "f",
            id="deepcoder-livecodebench",
        ),
        pytest.param({"tests": json.dumps(LISTED)}, CALLS, "f", id="deepcoder-taco"),
        pytest.param(
            {
                "ground_truth": json.dumps(
                    [
                        {"input": i, "output": o, "testtype": "functional", "metadata": {"func_name": "f"}}
                        for i, o in zip(WRITTEN["inputs"], WRITTEN["outputs"], strict=True)
                    ]
                )
            },
            CALLS,
            "f",
            id="rllm",
        ),
        pytest.param(
            {
                "verification_info": {
                    "language": "python",
                    "test_cases": [{**r, "type": "stdin_stdout", "fn_name": None} for r in RECORDS],
                }
            },
            STDIN,
            None,
            id="open-r1",
        ),
        pytest.param(
            {
                "verification_info": json.dumps(
                    {
                        "test_cases": [
                            {"type": "function_call", "fn_name": "f", "input": i, "output": o}
                            for i, o in zip(LISTED["inputs"], LISTED["outputs"], strict=True)
                        ]
                    }
                )
            },
            CALLS,
            "f",
            id="prime-intellect-function",
        ),
        pytest.param(
            {"info": {"verification_info": {"fn_name": "f", "test_case_inputs": LISTED["inputs"],
                                            "test_case_outputs": LISTED["outputs"]}}},
            CALLS,
            "f",
            id="verifiers-competition",
        ),
        pytest.param({"info": {"difficulty": 3}, "answer": json.dumps(PAIRS)}, STDIN, None, id="info-without-tests"),
        pytest.param(
            {
                "public_tests": {"input": ["1\n"], "output": ["2\n"]},
                "private_tests": {"input": [], "output": []},
                "generated_tests": {"input": ["5\n"], "output": ["6\n"]},
            },
            STDIN,
            None,
            id="code-contests",
        ),
        pytest.param({"test_cases": RECORDS}, STDIN, None, id="test-cases"),
        pytest.param({"test_cases": repr(RECORDS)}, STDIN, None, id="python-literal"),
        pytest.param({"official_tests": RECORDS, "test_cases": None}, STDIN, None, id="open-r1-codeforces"),
        pytest.param(
            {"test_cases": [{"input": {"stdin": "1\n"}, "output": {"stdout": "2\n"}},
                            {"input": {"stdin": "5\n"}, "output": {"stdout": "6\n"}}]},
            STDIN,
            None,
            id="sandboxfusion-inline",
        ),
        pytest.param(
            {"test_cases": np.array(RECORDS, dtype=object)}, STDIN, None, id="array-as-parquet-gives-it"
        ),
        pytest.param(
            {"ground_truth": {"inputs": np.array(PAIRS["inputs"]), "outputs": np.array(PAIRS["outputs"])}},
            STDIN,
            None,
            id="arrays-in-an-object",
        ),
        pytest.param(
            {"input_output": json.dumps({"inputs": [["1", "2"], ["5"]], "outputs": [["3"], ["6", "7"]]})},
            [stdin_test("1\n2", "3"), stdin_test("5", "6\n7")],
            None,
            id="lists-of-lines",
        ),
        pytest.param({"test_cases": ASSERTS}, [assertion_test(code) for code in ASSERTS], None, id="acecoder"),
        pytest.param(
            {"test_list": ASSERTS, "test_setup_code": "", "test_imports": ["import math"]},
            [assertion_test(f"import math\n{code}") for code in ASSERTS],
            None,
            id="mbpp",
        ),
        pytest.param(
            {"ground_truth": {"assert_case": ASSERTS, "inputs": ["", ""], "outputs": [None, None]}},
            [assertion_test(code) for code in ASSERTS],
            None,
            id="verl"
        ),
        pytest.param(
            {"test": "def check(candidate):\n    assert candidate(1) == 2\n", "entry_point": "f", "input_output": "?"},
            [assertion_test("def check(candidate):\n    assert candidate(1) == 2\n\ncheck(f)\n")],
            None,
            id="humaneval",
        ),
        pytest.param(
            {"ground_truth": json.dumps({"functional": ASSERTS[0]})}, [assertion_test(ASSERTS[0])], None, id="code-r1"
        ),
        pytest.param({"test": "from solution import f\n\ndef test_it():\n    assert f(1) == 2\n"},
                     [assertion_test("from solution import f\n\ndef test_it():\n    assert f(1) == 2\n")],
                     None,
                     id="kodcode"),
        pytest.param(
            {
                "public_test_cases": json.dumps([{**RECORDS[0], "testtype": "stdin"}]),
                "private_test_cases": encode([{**RECORDS[1], "testtype": "stdin"}]),
                "metadata": "{}",
            },
            STDIN,
            None,
            id="livecodebench-row",
        ),
    ],
)  # fmt: skip
def test_a_column_is_read_as_it_is(row: dict, tests: list[TestCase], function: str | None) -> None:
    task = read_tests(row)

    found = read_suite(task.suite.data).tests
    assert kinds([TestCase(str(test.kind), test.input, test.expected) for test in found]) == kinds(tests)
    assert task.entry_point == function


def test_a_columns_value_can_be_given_without_its_row() -> None:
    assert read_tests(PAIRS).suite == read_tests(json.dumps(PAIRS)).suite == read_tests(RECORDS).suite


def test_rows_that_say_the_same_give_the_same_suite() -> None:
    assert read_tests({"input_output": json.dumps(PAIRS)}).suite.id == read_tests({"test_cases": RECORDS}).suite.id


def test_returned_values_are_unwrapped_in_all_tests_or_in_none() -> None:
    wrapped = {"fn_name": "f", "inputs": [[1], [2]], "outputs": [[[7]], [[8]]]}
    bare = {"fn_name": "f", "inputs": [[1], [2]], "outputs": [[7], [8, 9]]}

    assert kinds_of(wrapped) == [[7], [8]]
    assert kinds_of(bare) == [[7], [8, 9]]


def kinds_of(value: dict) -> list:
    return [json.loads(test.expected) for test in read_suite(read_tests(value).suite.data).tests]


def test_a_returned_text_may_be_written_bare() -> None:
    value = {"fn_name": "f", "inputs": ['"a"', '"b"'], "outputs": ["hello you", '"quoted"']}

    assert kinds_of(value) == ["hello you", "quoted"]


def test_an_argument_of_any_number_of_digits_keeps_them() -> None:
    digits = "9" * 5000
    task = read_tests({"fn_name": "f", "inputs": [digits], "outputs": [digits]})

    [test] = read_suite(task.suite.data).tests
    assert (test.input, test.expected) == (digits, digits)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "Write a program."}, "prompt"),
        ({}, "none of the columns"),
        ({"test_cases": []}, "none of the columns"),
        ({"test_cases": "[]"}, "empty"),
        ({"ground_truth": "42 apples"}, "42 apples"),
        ({"ground_truth": 42}, "int"),
        ({"inputs": ["1"], "outputs": ["1", "2"]}, "1 inputs and 2 outputs"),
        ({"test_cases": [{"input": "1"}]}, "output"),
        ({"test_cases": [{"input": "1", "output": None}]}, "no expected output"),
        ({"test_cases": [{"input": "1", "output": "1", "testtype": "functional"}]}, "name"),
        ({"test_cases": [{"input": "1", "output": "1", "testtype": "interactive"}]}, "interactive"),
        ({"test_cases": [{"input": "1", "output": "1", "fn_name": name} for name in "fg"]}, "one function"),
        ({"fn_name": "f", "inputs": ["not json"], "outputs": ["1"]}, "JSON"),
        ({"fn_name": "f", "inputs": [{"x": 1}], "outputs": [1]}, "by name"),
        ({"test_cases": ["assert f()", ""]}, "Assertion 1"),
        ({"official_tests": RECORDS, "generated_checker": "print(1)"}, "generated_checker"),
        ({"test_cases": [1, 2]}, "int"),
    ],
)
def test_what_holds_no_tests_is_refused_with_the_place(row: dict, said: str) -> None:
    with pytest.raises(UnreadableTests) as error:
        read_tests(row)

    assert said in str(error.value)


def test_a_pickle_that_asks_for_a_name_is_no_tests(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    text = base64.b64encode(zlib.compress(pickle.dumps(Hostile()))).decode()

    with pytest.raises(UnreadableTests):
        read_tests({"private_test_cases": text})
    assert not (tmp_path / "made").exists()


def test_the_column_can_be_named() -> None:
    row = {**PAIRS, "test_cases": RECORDS[:1], "my_tests": ASSERTS}

    assert read_tests(row, column="my_tests").suite == read_tests(ASSERTS).suite
    assert read_tests(row, column="test_cases").suite == read_tests(RECORDS[:1]).suite
    humaneval = {"test": "def check(candidate): assert candidate(1)", "entry_point": "f", "test_cases": RECORDS}
    assert b"check(f)" in read_tests(humaneval, column="test").suite.data
    with pytest.raises(UnreadableTests, match="no column 'other'"):
        read_tests(row, column="other")


def test_the_longest_inputs_are_kept_in_their_order() -> None:
    records = [{"input": "x" * length, "output": str(length)} for length in (3, 1, 9, 2, 8)]

    kept = read_suite(read_tests(records, max_tests=3).suite.data).tests

    assert [len(test.input) for test in kept] == [3, 9, 8]


def test_a_row_is_read_once_and_the_memory_is_bounded() -> None:
    reader = TaskReader(budget=200)
    first = reader.read({"test_cases": RECORDS, "prompt": "one"})

    assert reader.read({"test_cases": list(RECORDS), "prompt": "two"}) is first
    for number in range(10):
        reader.read({"test_cases": [{"input": str(number), "output": "1"}]})
    assert reader.read({"test_cases": RECORDS}) is not first


@needs_shared
@pytest.mark.shared
def test_every_row_of_the_published_datasets_is_read() -> None:
    counts: Counter[tuple[str, str, bool]] = Counter()
    for name, row in _published():
        task = read_tests(row)
        kind = str(read_suite(task.suite.data).tests[0].kind)
        counts[name, kind, task.entry_point is not None] += 1

    assert counts == {
        ("problems_v6", "functional", True): 444,
        ("problems_v6", "stdin", False): 611,
        ("row_1873_A_encoded_private", "stdin", False): 1,
        ("code_contests", "stdin", False): 165,
        ("codeforces", "stdin", False): 408,
        ("HumanEval", "assertion", False): 164,
        ("HumanEvalPlus", "assertion", False): 164,
        ("mbpp", "assertion", False): 974,
        ("LeetCodeDataset-v0.3.1-test", "assertion", False): 228,
    }


def _published():
    yield from _lines("problems_v6", (SHARED / "lcb" / "problems_v6.jsonl").open())
    yield "row_1873_A_encoded_private", json.loads((SHARED / "lcb" / "row_1873_A_encoded_private.json").read_text())
    for name in ("code_contests", "codeforces"):
        with gzip.open(SHARED / "sources" / f"{name}.json.gz") as stream:
            yield from ((name, row) for row in json.load(stream))
    for name in ("HumanEval", "HumanEvalPlus", "mbpp", "LeetCodeDataset-v0.3.1-test"):
        yield from _lines(name, gzip.open(SHARED / "sources" / f"{name}.jsonl.gz"))


def _lines(name, stream):
    with stream:
        yield from ((name, json.loads(line)) for line in stream)
