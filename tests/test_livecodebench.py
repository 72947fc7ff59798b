"""LiveCodeBench's files: read by content and one record at a time, verdicts explained, scores as its own scripts."""

import base64
import gzip
import importlib.util
import io
import json
import math
import os
import pickle
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from evaluator.livecodebench.documents import UnreadableFile, iterate_texts
from evaluator.livecodebench.errata import Erratum, find_erratum
from evaluator.livecodebench.estimates import estimate, estimate_difference, pass_at_k
from evaluator.livecodebench.flips import Case, FlipReason, explain, find_state, find_test
from evaluator.livecodebench.generations import Extraction, assign_ids, read_generations
from evaluator.livecodebench.private_tests import Undecodable, decode_tests
from evaluator.livecodebench.rows import Selection, find_files, iterate_problems
from evaluator.livecodebench.score_files import Graded, Record, write_score_files
from evaluator.model import TestCase, TestKind, Verdict

SHARED = Path(__file__).parents[2] / "shared" / "data" / "lcb"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs LiveCodeBench's files in ../shared/data/lcb")

TESTS = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]


def encode(text: str) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(text))).decode()


def row(id: str = "abc1_a", **fields: Any) -> dict[str, Any]:
    return {
        "question_title": "A. Add", "question_content": "Add one.", "platform": "atcoder", "question_id": id,
        "contest_id": "abc1", "contest_date": "2024-01-06T18:30:00", "starter_code": "", "difficulty": "easy",
        "public_test_cases": json.dumps(TESTS), "private_test_cases": "[]", "metadata": "{}", **fields,
    }  # fmt: skip


def write(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


# Files


VALUES = [{"a": 'quote " and \\ and ] and }'}, {"b": [1, {"c": "é\u2028"}]}, {"d": "\\\\"}, {"e": {}}, {"f": ",[{"}]


def as_array(values: list[Any]) -> bytes:
    return json.dumps(values).encode()


def as_lines(values: list[Any]) -> bytes:
    return b"\n".join(json.dumps(value).encode() for value in values)


def as_pretty_array(values: list[Any]) -> bytes:
    return b"\xef\xbb\xbf\n " + json.dumps(values, indent=3, ensure_ascii=False).encode()


def as_pretty_objects(values: list[Any]) -> bytes:
    return b"\n".join(json.dumps(value, indent=2).encode() for value in values)


@pytest.mark.parametrize("shape", [as_array, as_lines, as_pretty_array, as_pretty_objects])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_records_are_read_from_any_shape(tmp_path: Path, shape: Callable, pack: Callable) -> None:
    path = tmp_path / "records"
    path.write_bytes(pack(shape(VALUES)))

    assert [json.loads(text) for _, text in iterate_texts(path)] == VALUES


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [as_array, as_pretty_array, as_pretty_objects])
def test_records_are_found_wherever_pieces_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: Callable, size: int
) -> None:
    monkeypatch.setattr("evaluator.livecodebench.documents.PIECE", size)
    path = tmp_path / "records"
    path.write_bytes(shape(VALUES))

    assert [json.loads(text) for _, text in iterate_texts(path)] == VALUES


@pytest.mark.skipif(importlib.util.find_spec("zstandard") is None, reason="needs zstandard")
def test_zstandard_is_read(tmp_path: Path) -> None:
    import zstandard

    path = tmp_path / "records.zst"
    path.write_bytes(zstandard.compress(as_array(VALUES[:2])) + zstandard.compress(b" "))

    assert [json.loads(text) for _, text in iterate_texts(path)] == VALUES[:2]


def test_without_zstandard_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)  # an import of it fails, whether or not it is installed
    path = tmp_path / "records.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd....")

    with pytest.raises(UnreadableFile, match="pip install zstandard"):
        list(iterate_texts(path))


@pytest.mark.parametrize(
    "cut", [as_array(VALUES)[:-9], gzip.compress(as_array(VALUES))[:-20], gzip.compress(as_lines(VALUES))[:-20]]
)
def test_a_file_that_is_cut_off_is_said_to_be(tmp_path: Path, cut: bytes) -> None:
    path = tmp_path / "records"
    path.write_bytes(cut)

    with pytest.raises(UnreadableFile, match=r"complete\?"):
        list(iterate_texts(path))


def test_a_large_file_is_never_held_as_a_whole(tmp_path: Path) -> None:
    """400 MB of rows, read with at most 150 MB more than the interpreter takes."""
    path = tmp_path / "test.jsonl"
    tests = json.dumps([{"input": "x" * 4_000_000, "output": "y", "testtype": "stdin"}])
    with path.open("w") as file:
        for number in range(100):
            file.write(json.dumps(row(f"q{number}", private_test_cases=tests)) + "\n")
    script = (
        "import resource, sys; from pathlib import Path; from evaluator.livecodebench.rows import iterate_problems\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "total = sum(len(problem.read_tests()) for problem in iterate_problems([Path(sys.argv[1])]))\n"
        "print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )

    answer = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)

    total, kilobytes = map(int, answer.stdout.split())
    assert total == 200
    assert kilobytes < 150_000


# Private tests


def test_private_tests_are_decoded_as_livecodebench_encodes_them() -> None:
    assert decode_tests(encode(json.dumps(TESTS))) == TESTS
    assert decode_tests(json.dumps(TESTS)) == TESTS
    assert decode_tests("") == []


class Evil:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def test_a_pickle_that_wants_to_call_something_is_refused(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    text = base64.b64encode(zlib.compress(pickle.dumps(Evil(str(witness))))).decode()

    with pytest.raises(Undecodable, match=r"asks for \w+\.system"):
        decode_tests(text)
    assert not witness.exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no base64!", "neither JSON nor Base64"),
        (base64.b64encode(b"no zlib").decode(), "zlib"),
        (base64.b64encode(zlib.compress(b"no pickle")).decode(), "isn't a pickle"),
        (base64.b64encode(zlib.compress(pickle.dumps("[1]" * 99))[:-9]).decode(), "cut off"),
        (base64.b64encode(zlib.compress(pickle.dumps(7))).decode(), "holds a int"),
        (encode("no json"), "isn't JSON"),
        (json.dumps([{"input": 3, "output": "x"}]), "a list of objects"),
    ],
)
def test_what_is_no_test_set_is_said(text: str, reason: str) -> None:
    with pytest.raises(Undecodable, match=reason):
        decode_tests(text)


@needs_shared
@pytest.mark.shared
def test_a_row_that_livecodebench_encoded_is_decoded() -> None:
    [problem] = iterate_problems([SHARED / "row_1873_A_encoded_private.json"])

    tests = problem.read_tests()

    assert len(tests) == 5
    assert tests[1] == TestCase(TestKind.STDIN, "1\nabc\n", "YES\n")


@needs_shared
@pytest.mark.shared
def test_all_rows_of_release_v6_are_read() -> None:
    problems = list(iterate_problems([SHARED / "problems_v6.jsonl"]))

    assert len(problems) == 1055
    assert all(problem.read_tests() for problem in problems)
    assert sum(problem.function is not None for problem in problems) == 444


# Problems


def test_a_problem_of_calls_has_functional_tests(tmp_path: Path) -> None:
    tests = [{"input": "[1, 2]\n3", "output": "6", "testtype": "functional"}]
    path = write(
        tmp_path / "p.jsonl",
        [row(metadata='{"func_name": "f"}', public_test_cases="[]", private_test_cases=encode(json.dumps(tests)))],
    )

    [problem] = iterate_problems([path])

    assert problem.function == "f"
    assert problem.read_tests() == (TestCase(TestKind.FUNCTIONAL, "[1, 2]\n3", "6"),)


def test_problems_are_selected_by_day_platform_and_difficulty() -> None:
    one = {"contest_date": "2024-01-06T00:00:00", "platform": "atcoder", "difficulty": "easy"}
    late = {**one, "contest_date": "2024-01-06T18:30:00"}
    day = datetime(2024, 1, 6)

    assert Selection().has({})
    assert Selection(start=day, end=day).has(one)
    assert not Selection(end=day).has(late), "the last day counts at midnight, as in LiveCodeBench's scripts"
    assert Selection(platforms=frozenset({"atcoder"}), difficulties=frozenset({"easy"})).has(one)
    assert not Selection(platforms=frozenset({"leetcode"})).has(one)
    assert not Selection(start=day).has({**one, "contest_date": "soon"})


def test_a_release_is_a_choice_of_files(tmp_path: Path) -> None:
    for number in ("", 2, 3, 4, 5, 6):
        write(tmp_path / f"test{number}.jsonl", [row(f"q{number or 1}")])
    write(tmp_path / "notes.json", [{"no": "row"}])

    def ids(release: str | None) -> list[str]:
        return [problem.id for problem in iterate_problems([tmp_path], release)]

    assert ids(None) == ids("release_latest") == ["q1", "q2", "q3", "q4", "q5", "q6"]
    assert ids("release_v2") == ["q1", "q2"]
    assert ids("v5") == ["q5"]
    assert ids("v2_v4") == ["q2", "q3", "q4"]
    with pytest.raises(UnreadableFile, match="no release"):
        ids("newest")
    with pytest.raises(UnreadableFile, match="No file of v9"):
        ids("v9")


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow")
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_columnar_files_are_read(tmp_path: Path, ending: str) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist([row(f"q{number}") for number in range(9)])
    path = tmp_path / f"data.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)

    assert [problem.id for problem in iterate_problems([tmp_path])] == [f"q{number}" for number in range(9)]


def test_rows_that_nobody_wants_are_passed_over_unread(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    broken = json.dumps(row("other")).replace('"metadata"', "metadata")
    path.write_text(json.dumps(row("first")) + "\n" + broken + "\n" + json.dumps(row("last")) + "\n")

    assert [problem.id for problem in iterate_problems([path], wanted={"first", "last"})] == ["first", "last"]
    with pytest.raises(UnreadableFile, match=r"record 2 isn't JSON"):
        list(iterate_problems([path]))


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"question_id": "x"}, "has no 'public_test_cases'"),
        (row(""), "has no 'question_id'"),
        ([1], "no row of LiveCodeBench"),
        (row(metadata="{"), "no row of LiveCodeBench"),
    ],
)
def test_what_is_no_row_is_said(tmp_path: Path, record: Any, complaint: str) -> None:
    with pytest.raises(UnreadableFile, match=complaint):
        list(iterate_problems([write(tmp_path / "p.jsonl", [record, row()])]))


def test_a_folder_without_problems_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="holds no test"):
        find_files([tmp_path])


# Generations


ANSWER = "First\n```python\nprint(1)\n```\nthen\n```\nprint(2)\n```\nbut not\n```text\n1\n```\n"


def test_programs_are_taken_as_they_are_given_or_out_of_the_answers(tmp_path: Path) -> None:
    raw = write(tmp_path / "raw.json", [{"question_id": "a", "output_list": [ANSWER]}])
    both = write(tmp_path / "both.json", [{"question_id": "a", "output_list": [ANSWER], "code_list": ["print(9)"]}])

    def programs(path: Path, extraction: Extraction = Extraction.GIVEN) -> list[str]:
        return read_generations(path, extraction)[0].programs

    assert programs(raw) == programs(raw, Extraction.LIVECODEBENCH) == ["1"]
    assert programs(raw, Extraction.MICROCODER) == ["print(1)\n"]
    assert programs(both) == ["print(9)"]
    assert programs(both, Extraction.MICROCODER) == ["print(1)\n"]


def test_published_verdicts_come_with_what_was_remarked(tmp_path: Path) -> None:
    record = {
        "question_id": 7, "code_list": ["a", "b"], "graded_list": [True, False], "pass@1": 0.5,
        "metadata": ['{"execution time": 1}', '{"error_code": -2}'],
    }  # fmt: skip
    [answers] = read_generations(write(tmp_path / "g.json", [record]))

    assert (answers.question_id, answers.published) == ("7", [True, False])
    assert answers.remarks == [{"execution time": 1}, {"error_code": -2}]


def test_records_of_one_problem_are_put_together(tmp_path: Path) -> None:
    path = write(tmp_path / "g.jsonl", [{"question_id": "a", "code_list": [str(n)]} for n in range(3)])

    [answers] = read_generations(path)

    assert answers.programs == ["0", "1", "2"]


def test_lists_without_ids_stand_in_the_order_of_the_ids(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps([["x"], ["y"]]))
    answers = read_generations(path)

    assign_ids(path, answers, ["b", "a"])

    assert [(item.question_id, item.programs) for item in answers] == [("a", ["x"]), ("b", ["y"])]
    with pytest.raises(UnreadableFile, match="3 problems are selected"):
        assign_ids(path, read_generations(path), ["a", "b", "c"])


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"question_id": "a"}, "neither 'code_list' nor 'output_list'"),
        ({"question_id": "a", "code_list": "print(1)"}, "must be a list of strings"),
        ({"question_id": "a", "code_list": ["x"], "graded_list": []}, None),
        ({"question_id": "a", "code_list": ["x"], "graded_list": [True, True]}, "2 verdicts for 1 programs"),
        ({"code_list": ["x"]}, "it needs 'question_id'"),
        ({"pass@1": 0.5, "detail": {}}, "give the _eval_all.json"),
    ],
)
def test_what_is_no_generation_is_said(tmp_path: Path, record: Any, complaint: str | None) -> None:
    path = write(tmp_path / "g.json", [record])
    if complaint is None:
        assert read_generations(path)[0].published == []
        return
    with pytest.raises(UnreadableFile, match=complaint):
        read_generations(path)


@needs_shared
@pytest.mark.shared
def test_four_models_files_are_read() -> None:
    found = {}
    for path in SHARED.glob("*_eval_all.json"):
        answers = read_generations(path)
        again = read_generations(path, Extraction.LIVECODEBENCH)
        assert [item.programs for item in answers] == [item.programs for item in again]
        found[path.name[:7]] = (len(answers), sum(sum(item.published) for item in answers))

    assert found == {"O1-Mini": (880, 602), "O1-Prev": (880, 489), "Qwen-3-": (1055, 305), "Qwen2.5": (1055, 252)}


# Scores


@pytest.mark.parametrize(("total", "right", "k"), [(5, 2, 1), (5, 2, 3), (6, 0, 2), (4, 4, 4), (7, 3, 5)])
def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_one(total: int, right: int, k: int) -> None:
    draws = list(combinations(range(total), k))
    share = sum(any(item < right for item in draw) for draw in draws) / len(draws)

    assert pass_at_k(total, right, k) == pytest.approx(share)


def test_pass_at_more_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="isn't defined"):
        pass_at_k(3, 1, 4)


def test_an_interval_is_that_of_the_normal_law_and_always_the_same() -> None:
    generator = random.Random(1)
    values = [float(generator.random() < 0.3) for _ in range(900)]
    found = estimate(values)
    share = sum(values) / 900
    half = 1.96 * math.sqrt(share * (1 - share) / 900)

    assert found.value == pytest.approx(share)
    assert (found.low, found.high) == pytest.approx((share - half, share + half), abs=0.003)
    assert estimate(values) == found


def test_a_difference_is_paired() -> None:
    """Both change from problem to problem by far more than they differ from each other."""
    left = {str(number): float(number % 2) for number in range(400)}
    right = {**left, "0": 1.0, "2": 1.0, "4": 1.0, "6": 1.0, "more": 1.0}

    found = estimate_difference(left, right)

    assert found.count == 400
    assert found.value == pytest.approx(0.01)
    assert 0 < found.low < 0.01 < found.high < 0.025


def test_score_files_have_livecodebenchs_shape(tmp_path: Path) -> None:
    right = Graded(Verdict.ACCEPTED, 2, False, None, 0.5)
    wrong = Graded(Verdict.WRONG_ANSWER, 1, False, "line 1", 0.5)
    call = Graded(Verdict.WRONG_ANSWER, 0, True, "line 1", 0.5)
    slow = Graded(Verdict.TIME_LIMIT, 1, False, "slow", 6.0)
    records = [
        Record({"question_id": "b", "code_list": ["1", "2"]}, (right, wrong)),
        Record({"question_id": "a", "code_list": ["1", "2"]}, (call, slow)),
    ]

    short, long = write_score_files(tmp_path, "model", records)

    metrics, results, metadata = json.loads(short.read_text())
    assert (short.name, long.name) == ("model_eval.json", "model_eval_all.json")
    assert metrics == {"pass@1": 0.25, "detail": {"pass@1": {"0": 0.0, "1": 0.5}}}
    assert results == {"0": [[False], [True, -3]], "1": [[True, True], [True, -2]]}
    assert [[json.loads(one).get("error_code") for one in item] for item in metadata] == [[-2, -3], [None, -2]]
    first, second = json.loads(long.read_text())
    assert (first["question_id"], second["graded_list"], second["pass@1"]) == ("a", [True, False], 0.5)


def test_errata_are_found_by_id_and_by_title() -> None:
    assert find_erratum("abc343_a", "A") is Erratum.MULTIPLE_ANSWERS
    assert find_erratum("3000", "most-frequent-ids") is Erratum.BAD_TESTS
    assert find_erratum("abc337_e", "") is Erratum.INTERACTIVE
    assert find_erratum("abc337_f", "") is None


# Flips


CALLS = (TestCase(TestKind.FUNCTIONAL, "[3, 1]\n2", "[0.1]"), TestCase(TestKind.FUNCTIONAL, "[]\n0", "[]"))
TEXTS = (TestCase(TestKind.STDIN, "1\n", "2\n"), TestCase(TestKind.STDIN, "x" * 500 + "end\n", "3\n"))


def case(remark: dict[str, Any], published: bool = False, **changes: Any) -> Case:
    facts: dict[str, Any] = {
        "source": "print(1)", "given": None, "tests": TEXTS, "verdict": Verdict.ACCEPTED, "detail": None,
        "index": None, "cpu_seconds": 0.1, "limit": 6.0,
    }  # fmt: skip
    return Case(published, remark, **{**facts, **changes})


def failed(
    inputs: str, expected: str = "2\n", output: str | None = None, code: int = -2, **more: Any
) -> dict[str, Any]:
    remark = {"inputs": inputs, "expected": expected, "error_code": code, **more}
    return remark if output is None else {**remark, "output": output}


def test_the_test_that_failed_is_found_although_it_is_shortened_and_changed() -> None:
    short = "x" * 150 + "...(truncated) ..." + "x" * 120 + "end\n"

    assert find_test(TEXTS, failed("1\n")) == 0
    assert find_test(TEXTS, failed(short)) == 1
    assert find_test(TEXTS, failed(short.replace("end", "fin"))) is None
    assert find_test(CALLS, failed("[[3, 1], 2]")) == 0
    assert find_test(CALLS, failed("[[1, 3], 2]", "[0.1]")) == 0, "the program had sorted its argument"
    assert find_test(CALLS, failed("[[1, 3], 2]", "[0.2]")) is None


@pytest.mark.parametrize(
    ("given", "reason", "proof"),
    [
        (case(failed("9\n", "8\n")), FlipReason.TEST_SET, "input 9 (expected 8), which is none of the 2 tests"),
        (case(failed("1\n", output="2 \n")), FlipReason.UNEXPLAINED, "every test passes"),
        (
            case(failed("1\n", output="a  b\n"), tests=(TestCase(TestKind.STDIN, "1\n", "a b\n"),)),
            FlipReason.WHITESPACE, "the rung 'tokens'",
        ),
        (
            case(failed("1\n", output="0.33333333\n"), tests=(TestCase(TestKind.STDIN, "1\n", "0.333333333333\n"),)),
            FlipReason.FLOAT_TOLERANCE, "the rung 'tolerance'",
        ),
        (
            case(failed("1\n", output="true\n"), tests=(TestCase(TestKind.STDIN, "1\n", "True\n"),)),
            FlipReason.SPELLING, "the rung 'spelling'",
        ),
        (
            case(failed("[[3, 1], 2]", "[0.1]", "[0.10000000000000009]"), tests=CALLS),
            FlipReason.FLOAT_TOLERANCE, "the rung 'tolerance'",
        ),
        (case(failed("1\n", code=-3)), FlipReason.TIME_LIMIT, "took 0.10 s of 6"),
        (case(failed("1\n", code=-3), source="N, *A = map(int, open(0))"), FlipReason.STDIN, "the real standard input"),
        (
            case(failed("1\n", code=-4, error="ModuleNotFoundError(\"No module named 'numpy'\")")),
            FlipReason.ENVIRONMENT, "numpy",
        ),
        (
            case(failed("1\n", code=-4, error="AttributeError(\"'_io.StringIO' object has no attribute 'buffer'\")")),
            FlipReason.STDIN, "buffer",
        ),
        (case(failed("1\n", code=-4, error="NameError(\"name 'n' is not defined\")")), FlipReason.PRELUDE, "'n'"),
        (case(failed("1\n", code=-4, error="MemoryError()")), FlipReason.MEMORY, "MemoryError"),
        (
            case(failed("1\n", output=""), source="import sys\nsys.stdout.buffer.write(b'2')"),
            FlipReason.STDOUT, "line 2, `sys.stdout.buffer.write(b'2')`",
        ),
        (case(failed("1\n", output=""), source="import os\nx = os.read(0, 9)"), FlipReason.STDIN, "line 2"),
        (case(failed("1\n", output=""), source="import sys\nx = sys.stdin.readline()"), FlipReason.UNEXPLAINED, ""),
        (
            case(failed("1\n", code=-4, error="ValueError()"), source="import sys\nx = sys.stdin.readlines()"),
            FlipReason.STDIN, "line 2, `x = sys.stdin.readlines()`,",
        ),
        (
            case(failed("1\n", output=""), source="n = input()\nimport sys\nx = sys.stdin.read()"),
            FlipReason.STDIN, "line 3",
        ),
        (
            case(failed("1\n", output=""), source="import threading\nthreading.Thread(target=main).start()"),
            FlipReason.THREAD, "nothing was printed on test 0; line 2, `threading.Thread(target=main).start()`,",
        ),
        (
            case(failed("9\n", "1\n2\n", output="1\n"), source="t = Thread(target=main)\nt.start()"),
            FlipReason.THREAD, "only 1 was printed on a test that isn't here",
        ),
        (
            case(failed("1\n", output=""), source="t = Thread(target=main)\nt.start()\nt.join()"),
            FlipReason.UNEXPLAINED, "",
        ),
        (case({"error_code": -5, "error_message": "TestRunnerError"}), FlipReason.RUNNER_LOST, "no result"),
        (
            case(failed("[[3, 1], 2]", "[0.1]", "[5]"), tests=CALLS, source="memo = {}\ndef f(a, b): ..."),
            FlipReason.STATE, "line 1, `memo = {}`",
        ),
        (case(failed("1\n", output="7\n"), erratum=Erratum.BAD_TESTS), FlipReason.ERRATUM, "its tests are wrong"),
        (case(failed("1\n"), given="print(2)"), FlipReason.EXTRACTION, "isn't the one"),
        (case(failed("1\n", output="7\n")), FlipReason.UNEXPLAINED, "here every test passes"),
    ],
)  # fmt: skip
def test_a_published_rejection_is_explained(given: Case, reason: FlipReason, proof: str) -> None:
    flip = explain(given)

    assert flip.reason is reason, flip.proof
    assert proof in flip.proof


@pytest.mark.parametrize(
    ("verdict", "detail", "changes", "reason"),
    [
        (Verdict.TIME_LIMIT, "slow.", {}, FlipReason.TIME_LIMIT),
        (Verdict.MEMORY_LIMIT, "large.", {}, FlipReason.MEMORY),
        (Verdict.WRONG_ANSWER, "line 1", {"accepted_by_theirs": True}, FlipReason.COMPARISON),
        (Verdict.WRONG_ANSWER, "line 1", {"accepted_by_theirs": False}, FlipReason.UNEXPLAINED),
        (Verdict.WRONG_ANSWER, "line 1", {"erratum": Erratum.MULTIPLE_ANSWERS}, FlipReason.ERRATUM),
        (Verdict.RUNTIME_ERROR, "The program ended with exit status 3.", {}, FlipReason.EXIT_STATUS),
        (
            Verdict.RUNTIME_ERROR,
            "… exit status 1: ModuleNotFoundError: No module named 'x'",
            {},
            FlipReason.ENVIRONMENT,
        ),
        (Verdict.RUNTIME_ERROR, "… exit status 1: NameError: name 'x' is not defined", {}, FlipReason.PRELUDE),
        (Verdict.WRONG_ANSWER, "the value", {"tests": CALLS, "source": "class A:\n    seen = []"}, FlipReason.STATE),
    ],
)
def test_a_published_acceptance_is_explained(
    verdict: Verdict, detail: str, changes: dict[str, Any], reason: FlipReason
) -> None:
    flip = explain(case({}, published=True, verdict=verdict, detail=detail, index=0, **changes))

    assert flip.reason is reason, flip.proof
    assert "test 0" in flip.proof


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\ncache = dict()", 2),
        ("from functools import *\n@lru_cache(None)\ndef f(n): ...", 2),
        ("def f(n, seen=[]): ...", 1),
        ("class Solution:\n    def __init__(self):\n        self.n = 0\n    def f(self): ...", 3),
        ("def f():\n    global n\n    n = 1", 2),
        ("class Solution:\n    def f(self, n):\n        memo = {}\n        return n", None),
        ("def f(:", None),
    ],
)
def test_what_outlives_a_call_is_found(source: str, line: int | None) -> None:
    found = find_state(source)

    assert (found is None) if line is None else found.startswith(f"line {line},")


def test_readers_import_where_there_are_no_boxes() -> None:
    """What macOS and Windows lack can't be imported; everything but the official evaluator must be."""
    modules = "documents, private_tests, rows, generations, errata, estimates, flips, score_files"
    script = (
        "import sys\n"
        "for name in ('fcntl', 'resource', 'evaluator.sandbox.bubblewrap', 'evaluator.sandbox.channel'):\n"
        "    sys.modules[name] = None\n"
        f"from evaluator.livecodebench import {modules}\nprint('imported')"
    )

    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert answer.stdout == "imported\n", answer.stderr


def test_the_unpickler_reads_nothing_but_plain_values() -> None:
    from evaluator.livecodebench.private_tests import _Unpickler

    assert _Unpickler(io.BytesIO(pickle.dumps(["a", {"b": 1.5}]))).load() == ["a", {"b": 1.5}]
    with pytest.raises(Undecodable):
        _Unpickler(io.BytesIO(pickle.dumps(Path("x")))).load()
