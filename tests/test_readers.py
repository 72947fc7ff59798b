"""Readers: real rows where ../shared has a format, rows written after the published format where it hasn't."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from curation.difficulties import read_difficulty
from curation.problem import BadProblem, Identity, Problem, read_problem, write_problem
from curation.readers.addresses import read_address
from curation.readers.origins import Origin, Unreadable
from curation.recipe import BadRecipe, Recipe, SourceIn
from curation.sources import READERS, Collect, digest_source, iterate_source
from evaluator.livecodebench.documents import UnreadableFile
from evaluator.model import CheckerName, CheckerProgram, Convention, NamedChecker, TestKind
from tests.requirements_helper import require

SHARED = Path(__file__).parents[2] / "shared" / "data"
ORIGIN = Origin("source")


def read(reader: str, row: dict[str, Any], **options: Any) -> Problem:
    """One row by a reader."""
    return READERS[reader](row, 1, Origin("source", options=options))


@cache
def read_shared(reader: str, path: str, split: str | None = None) -> list[Problem | Unreadable]:
    """All rows of a file of real data."""
    require("shared", None if SHARED.is_dir() else f"{SHARED} isn't here")
    options = {"split": split} if split else {}
    return list(iterate_source(SourceIn(name="source", reader=reader, path=path, options=options), SHARED))


def list_tests(problem: Problem) -> list[tuple[str, str | None]]:
    """Inputs and expected outputs."""
    return [(test.input, test.expected) for test in problem.suite.tests]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("reader", "path", "rows", "kinds", "references"),
    [
        ("leetcode", "sources/LeetCodeDataset-v0.3.1-test.jsonl.gz", 228, {"functional": 223, "assertion": 5}, 228),
        ("leetcode", "sources/LeetCodeDataset-v0.2.0-test.jsonl.gz", 200, {"functional": 200}, 200),
        ("humaneval", "sources/HumanEval.jsonl.gz", 164, {"assertion": 164}, 164),
        ("humaneval", "sources/HumanEvalPlus.jsonl.gz", 164, {"assertion": 164}, 164),
        ("mbpp", "sources/mbpp.jsonl.gz", 974, {"assertion": 974}, 974),
        ("deepcoder", "sources/code_contests.json.gz", 165, {"stdin": 165}, 0),
        ("deepcoder", "sources/codeforces.json.gz", 408, {"stdin": 408}, 0),
        ("kattis", "sources/kattis_packages.jsonl.gz", 207, {"stdin": 207}, 184),
        ("livecodebench", "lcb/problems_v6.jsonl", 1053, {"stdin": 609, "functional": 444}, 0),
    ],
)
def test_real_rows_are_all_read(reader: str, path: str, rows: int, kinds: dict[str, int], references: int):
    found = read_shared(reader, path)
    problems = [one for one in found if isinstance(one, Problem)]
    assert {one.reason for one in found if isinstance(one, Unreadable)} <= {"interactive"}
    assert len(problems) == rows
    assert Counter(str(one.kind) for one in problems) == kinds
    assert sum(bool(one.references) for one in problems) == references
    assert len({one.id for one in problems}) >= rows - 3  # codeforces.json has the same text twice
    for one in problems[:: max(1, rows // 40)]:
        assert read_problem(json.loads(write_problem(one)), "back") == one


@pytest.mark.shared
def test_leetcode_arguments_by_name_come_in_the_order_of_the_signature():
    found = {one.identity.slug: one for one in read_shared("leetcode", "sources/LeetCodeDataset-v0.3.1-test.jsonl.gz")}
    roads = found["shortest-distance-after-road-addition-queries-i"]
    assert list_tests(roads)[0] == ("7\n[[0, 5], [1, 6], [2, 4]]", "[2, 2, 2]")
    assert (roads.entry_point, roads.difficulty, roads.date) == (
        "Solution.shortestDistanceAfterQueries", "medium", "2024-08-04",
    )  # fmt: skip
    tree = found["k-th-largest-perfect-subtree-size-in-binary-tree"]
    assert list_tests(tree)[0] == ("[5, 3, 6, 5, 2, 5, 7, 1, 8, null, null, 6, 8]\n2", "3")


@pytest.mark.shared
def test_leetcodes_two_numberings_are_kept_apart():
    new = read_shared("leetcode", "sources/LeetCodeDataset-v0.3.1-test.jsonl.gz")
    old = read_shared("leetcode", "sources/LeetCodeDataset-v0.2.0-test.jsonl.gz")
    assert {one.identity.id for one in new} == {""}
    assert all(one.identity.id for one in old)


def test_a_leetcode_check_that_is_no_list_of_assertions_stays_a_check():
    row = {
        "task_id": "any-cell", "entry_point": "Solution().f", "prompt": "limit = 3",
        "completion": "class Solution:\n    def f(self, a): return a",
        "test": "def check(candidate):\n    for n in range(limit):\n        assert candidate(n) == n",
    }  # fmt: skip
    problem = read("leetcode", row)
    [test] = problem.suite.tests
    assert test.kind is TestKind.ASSERTION
    assert test.input.startswith("limit = 3\ndef check") and test.input.endswith("check(Solution().f)\n")


@pytest.mark.shared
def test_livecodebenchs_encoded_tests_are_read_without_unpickling_freely():
    [problem] = read_shared("livecodebench", "lcb/row_1873_A_encoded_private.json")
    assert problem.identity == Identity("codeforces", "", "1873A", "A. Short Sort")
    assert len(problem.suite.tests) > 1


@pytest.mark.shared
def test_mbpps_splits_are_those_of_its_readme():
    sizes = {}
    for split in ("prompt", "test", "validation", "train"):
        rows = read_shared("mbpp", "sources/mbpp.jsonl.gz", split)
        sizes[split] = sum(isinstance(one, Problem) for one in rows)
    assert sizes == {"prompt": 10, "test": 500, "validation": 90, "train": 374}


@pytest.mark.shared
def test_humaneval_plus_keeps_its_inputs_for_whoever_makes_tests_of_them():
    problem = read_shared("humaneval", "sources/HumanEvalPlus.jsonl.gz")[0]
    assert isinstance(problem, Problem)
    assert problem.notes["inputs"][0] == "[1.0, 2.0, 3.9, 4.0, 5.0, 2.2]\n0.3"
    [guard] = problem.notes["guards"]
    assert "assert isinstance(threshold, float) and threshold > 0" in guard and problem.references[0][:200] in guard


@pytest.mark.shared
def test_deepcoders_appended_tags_and_limits_are_no_part_of_the_statement():
    problem = read_shared("deepcoder", "sources/codeforces.json.gz")[3]
    assert isinstance(problem, Problem)
    assert problem.tags == ("dp", "greedy", "implementation", "sortings", "strings")
    assert problem.cpu_seconds == 2.0
    assert problem.statement.endswith("rearrange the string into a sorted binary string.")


APPS = {
    "problem_id": 7, "question": "Print the sum.", "difficulty": "interview", "starter_code": "",
    "solutions": json.dumps(["print(sum(map(int, input().split())))", "print 'python 2'"]),
    "input_output": json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"]}),
    "url": "https://codeforces.com/problemset/problem/1/A",
}  # fmt: skip
TACO = {
    "question": "Return the sum.", "starter_code": "def add(a, b):\n    ", "difficulty": "EASY", "name": "Adding Up",
    "solutions": json.dumps(["def add(a, b):\n    return a + b"]),
    "input_output": json.dumps({"fn_name": "add", "inputs": [[1, 2], [3, 4]], "outputs": [[3], [7]]}),
    "raw_tags": "['Math']", "tags": "['Mathematics', 'Bit manipulation']", "source": "geeksforgeeks",
    "url": "https://practice.geeksforgeeks.org/problems/adding-up/1", "time_limit": "2.5 seconds", "date": "2019-12-31",
    "picture_num": "0", "memory_limit": "256.0 megabytes",
}  # fmt: skip


def test_apps():
    problem = read("apps", APPS)
    assert (problem.id, problem.identity.id, problem.difficulty) == ("source/7", "1A", "interview")
    assert list_tests(problem) == [("1 2\n", "3\n")]
    assert problem.references == ("print(sum(map(int, input().split())))",)  # Python 3 alone


def test_taco():
    problem = read("taco", TACO)
    assert list_tests(problem) == [("1\n2", "3"), ("3\n4", "7")]
    assert (problem.entry_point, problem.cpu_seconds, problem.memory_bytes) == ("add", 2.5, 256 << 20)
    assert (problem.date, problem.tags) == ("2019-12-31", ("mathematics", "bit-manipulation"))
    with pytest.raises(Unreadable, match="needs images"):
        read("taco", {**TACO, "picture_num": "2"})


CODECONTESTS = {
    "name": "1575_A. Another Sorting Problem", "description": "Sort the books.", "source": 2, "difficulty": 7,
    "public_tests": {"input": ["2\n"], "output": ["1 2\n"]}, "private_tests": {"input": ["3\n"], "output": ["1\n"]},
    "generated_tests": {"input": ["4\n"], "output": ["2\n"]},
    "solutions": {"language": [1, 2, 3], "solution": ["print 1", "int main() {}", "print(1)"]},
    "incorrect_solutions": {"language": [3], "solution": ["print(2)"]},
    "cf_contest_id": 1575, "cf_index": "A", "cf_points": 0.0, "cf_rating": 1100, "cf_tags": ["sortings", "trees"],
    "time_limit": {"seconds": 1, "nanos": 500000000}, "memory_limit_bytes": 512000000,
    "input_file": "", "output_file": "",
}  # fmt: skip


def test_codecontests():
    problem = read("codecontests", CODECONTESTS)
    assert problem.identity == Identity("codeforces", "", "1575A", "Another Sorting Problem")
    assert [test.input for test in problem.suite.tests] == ["2\n", "3\n", "4\n"]
    assert (problem.references, problem.wrong) == (("print(1)",), ("print(2)",))
    assert (problem.cpu_seconds, problem.difficulty) == (1.5, "easy")
    assert len(read("codecontests", CODECONTESTS, tests=["public_tests"]).suite.tests) == 1
    with pytest.raises(Unreadable, match="needs images"):
        read("codecontests", {**CODECONTESTS, "description": "See <image>."})
    with pytest.raises(Unreadable, match="reads or writes files"):
        read("codecontests", {**CODECONTESTS, "input_file": "a.in"})


CODEFORCES = {
    "id": "852/A", "contest_id": "852", "contest_start": 1504535700, "index": "A", "title": "Digits",
    "description": "Andrew was given a number.", "input_format": "One number.", "output_format": "One number.",
    "note": None, "interaction_format": None, "examples": [{"input": "1", "output": "2"}],
    "rating": 2500, "tags": ["brute force"], "time_limit": 1.0, "memory_limit": 256.0,
    "official_tests": [{"input": "1\n", "output": "2\n"}],
    "official_tests_complete": True, "input_mode": "stdio", "generated_checker": None,
}  # fmt: skip


def test_codeforces():
    problem = read("codeforces", CODEFORCES)
    assert problem.statement.startswith("Andrew was given a number.\n\n## Input\n\nOne number.")
    assert (problem.date, problem.difficulty, problem.identity.id) == ("2017-09-04", "hard", "852A")
    assert problem.notes == {}
    assert read("codeforces", {**CODEFORCES, "official_tests_complete": False}).notes == {"tests_incomplete": True}
    for change, reason in (
        ({"generated_checker": "print(1)"}, "needs a checker"),
        ({"interaction_format": "Ask."}, "interactive"),
        ({"input_mode": "file"}, "reads or writes files"),
    ):
        with pytest.raises(Unreadable, match=reason):
            read("codeforces", {**CODEFORCES, **change})


def test_deepcoders_parquet(tmp_path: Path):
    tests = json.dumps([{"type": "stdin_stdout", "input": "1\n", "output": "2\n"}])
    rows = [
        {"problem": "Add one.", "tests": tests, "solutions": ["```python\nprint(int(input()) + 1)\n```"]},
        {"problem": "No tests.", "tests": "[]", "solutions": []},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train-0.parquet")
    source = SourceIn(name="deepcoder", reader="deepcoder", path=".")
    problem, refused = iterate_source(source, tmp_path)
    assert isinstance(problem, Problem)
    assert problem.references == ("print(int(input()) + 1)\n",)
    assert isinstance(refused, Unreadable)
    assert refused.reason == "no tests that can be read"


def make_package(folder: Path, settings: str, **files: str) -> Path:
    """A problem package on disk."""
    texts = {
        "problem.yaml": settings,
        "problem_statement/problem.en.tex": "\\problemname{Twice} Print \\textbf{twice} the number $n$.",
        "data/sample/1.in": "1\n", "data/sample/1.ans": "2\n",
        "data/secret/a/02.in": "2\n", "data/secret/a/02.ans": "4\n",
        "submissions/accepted/a.py": "print(2 * int(input()))", "submissions/wrong_answer/b.py": "print(int(input()))",
        "submissions/time_limit_exceeded/c.py": "while True: pass",
    }  # fmt: skip
    for name, text in {**texts, **{name.replace("__", "/"): text for name, text in files.items()}}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_kattis_packages(tmp_path: Path):
    make_package(
        tmp_path / "twice", "name: Twice\nlicense: cc by-sa\nrights_owner: A. Author\nlimits: {time_limit: 2}\n"
    )
    make_package(tmp_path / "near", "license: public domain\nvalidator_flags: float_tolerance 1e-6\n")
    make_package(
        tmp_path / "free", "validation: custom\n", **{"output_validators__check__check.py": "import sys; sys.exit(42)"}
    )
    make_package(tmp_path / "talk", "validation: custom interactive\n")
    found = list(iterate_source(SourceIn(name="k", reader="kattis", path="."), tmp_path))
    free, near, talk, twice = found
    assert isinstance(talk, Unreadable) and talk.reason == "interactive"
    assert isinstance(twice, Problem) and isinstance(near, Problem) and isinstance(free, Problem)
    assert list_tests(twice) == [("1\n", "2\n"), ("2\n", "4\n")]
    assert (twice.references, twice.wrong) == (("print(2 * int(input()))",), ("print(int(input()))",))
    assert (twice.licence, twice.attribution, twice.cpu_seconds) == ("CC-BY-SA", "A. Author", 2)
    assert twice.suite.checker == NamedChecker(CheckerName.CASE_INSENSITIVE)
    assert near.suite.checker == NamedChecker(CheckerName.FLOAT_TOLERANCE, 1e-6, 1e-6)
    assert isinstance(free.suite.checker, CheckerProgram)
    assert (free.suite.checker.convention, free.suite.checker.main) == (Convention.KATTIS, "check/check.py")
    assert free.licence == "unknown"


def test_plain_records():
    row = {
        "id": "set/one", "statement": "Add.", "title": "Adding", "tests": [{"input": "1\n2", "expected": "3"}],
        "entry_point": "add", "limits": {"cpu_seconds": 0.5}, "licence": "MIT",
        "submissions": [
            {"source": "def add(a, b): return a + b", "label": "accepted"},
            {"source": "def add(a, b): return a", "label": "wrong_answer"},
            {"source": "def add(a, b):\n    while 1: pass", "label": "time_limit"},
        ],
    }  # fmt: skip
    problem = read("jsonlines", row)
    assert (problem.id, problem.kind, problem.licence) == ("source/one", TestKind.FUNCTIONAL, "MIT")
    assert (len(problem.references), len(problem.wrong)) == (1, 1)
    again = read("jsonlines", json.loads(write_problem(problem)))
    assert again == problem
    with pytest.raises(Unreadable, match="valid TestKind"):
        read("jsonlines", {**row, "tests": [{"input": "1", "kind": "file"}]})


@pytest.mark.parametrize("reader", sorted(READERS))
@pytest.mark.parametrize("row", [None, [], {}, {"id": 1, "question": 2, "tests": 3}])
def test_what_is_no_row_is_refused_with_a_reason(reader: str, row: Any):
    with pytest.raises(Unreadable):
        READERS[reader](row, 1, ORIGIN)


def test_halves_of_surrogate_pairs_do_no_harm():
    problem = read("apps", {**APPS, "question": "Print \ud83d."})
    assert problem.statement == "Print \ufffd."


@pytest.mark.parametrize(
    ("address", "identity"),
    [
        ("https://codeforces.com/contest/1472/problem/a", Identity("codeforces", "", "1472A")),
        ("https://leetcode.com/problems/two-sum/", Identity("leetcode", "two-sum")),
        ("https://atcoder.jp/contests/abc301/tasks/abc301_a", Identity("atcoder", "", "abc301_a")),
        ("https://www.codechef.com/LTIME1/problems/SUMS", Identity("codechef", "", "SUMS")),
        ("https://open.kattis.com/problems/twosum", Identity("kattis", "twosum")),
        ("https://example.org/1", Identity()),
    ],
)
def test_addresses(address: str, identity: Identity):
    assert read_address(address) == identity


@pytest.mark.parametrize(
    ("word", "difficulty", "said"),
    [
        ("Medium", "medium", ""),
        ("VERY_HARD", "hard", ""),
        ("introductory", "easy", ""),
        ("", "", ""),
        ("UNKNOWN_DIFFICULTY", "", ""),
        ("Meidum", "medium", "difficulty 'meidum' read as medium"),
        ("med1um", "medium", "difficulty 'med1um' read as medium"),
        ("heard", "hard", "difficulty 'heard' read as hard"),
        ("eard", "hard", "difficulty 'eard' read as hard"),
        ("harsy", "", "the source's word for its difficulty isn't known"),
        ("1600", "", "the source's word for its difficulty isn't known"),
        ("fiendish", "", "the source's word for its difficulty isn't known"),
    ],
)
def test_words_for_difficulty(word: str, difficulty: str, said: str):
    assert read_difficulty(word) == (difficulty, said)


@pytest.mark.shared
def test_misspelt_difficulties_of_real_rows_are_read_and_counted():
    path = "sources/LeetCodeDataset-v0.2.0-test.jsonl.gz"
    require("shared", None if SHARED.is_dir() else f"{SHARED} isn't here")
    source = SourceIn(name="source", reader="leetcode", path=path)
    stage = Collect(Recipe(name="r", sources=(source,), stages=({"process": None},)), SHARED)
    assert Counter(one.difficulty for one in stage.run([])) == {"easy": 51, "medium": 102, "hard": 47}
    assert stage.ledger.marked == {"difficulty 'meidum' read as medium": 21}


def test_missing_sources_are_named(tmp_path: Path):
    with pytest.raises(BadRecipe, match="no reader 'excel'"):
        digest_source(SourceIn(name="a", reader="excel", path="."), tmp_path)
    with pytest.raises(BadRecipe, match="isn't there"):
        digest_source(SourceIn(name="a", reader="apps", path="b.jsonl"), tmp_path)
    with pytest.raises(UnreadableFile, match=r"holds no \.jsonl"):
        digest_source(SourceIn(name="a", reader="apps", path="."), tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"colour": 1}, "'colour' isn't known"),
        ({"statement": None}, "'statement' must be a text"),
        ({"tests": []}, "holds no test"),
        ({"tests": [{"input": "1"}]}, "'kind'"),
        ({"references": "print(1)"}, "'references' must be a list of texts"),
        ({"policy": {"profile": "loose"}}, "policy.profile"),
        ({"cpu_seconds": -1.0}, "limits.cpu_seconds"),
        ({"date": "yesterday"}, "YYYY-MM-DD"),
    ],
)
def test_bad_records_are_refused_by_name(change: dict[str, Any], said: str):
    good = {"id": "a/b", "statement": "s", "source": "a", "tests": [{"kind": "stdin", "input": "1", "expected": "1"}]}
    assert read_problem(good, "here").id == "a/b"
    with pytest.raises(BadProblem, match=said):
        read_problem({**good, **change}, "here")
