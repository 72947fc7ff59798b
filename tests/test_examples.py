"""The example problems are well formed, and every label is what plain Python and the judge give.

The oracle here is a bare subprocess under the kernel's limits: no part of the evaluator. `time_limit` programs aren't
run here (they would take their time); the judge runs them, see `test_the_judge_agrees_with_every_label`.
"""

import contextlib
import json
import math
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.agreement import judge_in_order
from benchmarks.labelled import read_problems as read_labelled
from benchmarks.referees import LocalReferee
from evaluator.errors import SandboxUnavailable
from tests.requirements_helper import require

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
KINDS = {"stdin": 12, "functional": 10, "assertion": 8}
EVERY_PROBLEM_HAS = {"accepted", "wrong_answer", "runtime_error", "time_limit"}
LABELS = EVERY_PROBLEM_HAS | {"compile_error", "memory_limit", "output_limit", "no_code"}

PRELUDE = "from typing import *\nfrom collections import *\nfrom math import inf\n"
"""What a program of a contest site finds without importing it, as far as the examples use it."""

CALL = """
import json
namespace = {{"__name__": "program"}}
exec(compile({source!r}, "program.py", "exec"), namespace)
target = namespace
for name in {path!r}:
    target = target[name] if isinstance(target, dict) else getattr(target(), name)
value = target(*[json.loads(line) for line in {input!r}.split("\\n")])
open({result!r}, "w").write(json.dumps(value))
"""

FORKS = """
import gc, json, os, resource, sys
gc.freeze()
ends = []
for number in range({tests}):
    child = os.fork()
    if child == 0:
        break
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if ends[-1] != 0:
        break
if child != 0:
    json.dump(ends, open("ends", "w"))
else:
    for descriptor, name, flags in ((0, "in", os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
        os.dup2(os.open(f"{{name}}{{number}}", flags | os.O_CREAT, 0o600), descriptor)
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
    resource.setrlimit(resource.RLIMIT_FSIZE, ({output}, {output}))
    path = f"program{{number}}.py"
    sys.argv = [path]
    exec(compile(open(path, encoding="utf-8").read(), path, "exec"), {{"__name__": "__main__"}})
"""
"""One interpreter a program, which forks for each test: starting one a test would take most of the time."""


def read_problems():
    for path in sorted(EXAMPLES.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


PROBLEMS = list(read_problems())
each_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=[problem["id"] for problem in PROBLEMS])


def test_there_are_enough_problems_of_every_kind():
    counts = Counter(problem["kind"] for problem in PROBLEMS)
    assert all(counts[kind] >= least for kind, least in KINDS.items())
    assert len({problem["id"] for problem in PROBLEMS}) == len(PROBLEMS) >= 30


def test_every_label_occurs():
    labels = Counter(item["label"] for problem in PROBLEMS for item in problem["submissions"])
    assert set(labels) == LABELS
    assert min(labels.values()) >= 2, labels


@each_problem
def test_a_problem_is_well_formed(problem):
    assert problem.keys() - {"entry_point", "policy"} == {
        "id", "title", "statement", "kind", "limits", "tests", "submissions",
    }  # fmt: skip
    assert problem["id"].startswith(problem["kind"] + "/")
    assert ("entry_point" in problem) == (problem["kind"] == "functional")
    assert 4 <= len(problem["tests"]) <= 10
    for test in problem["tests"]:
        assert test.keys() == ({"input"} if problem["kind"] == "assertion" else {"input", "expected"})
    assert {item["label"] for item in problem["submissions"]} >= EVERY_PROBLEM_HAS
    for item in problem["submissions"]:
        assert len(item.keys() & {"source", "answer"}) == 1
        assert item["note"]
        assert item["label"] != "no_code" or "answer" in item


@pytest.fixture(scope="module")
def outcomes():
    """What the judge says of every program, by problem."""
    problems = [problem for path in sorted(EXAMPLES.glob("*.jsonl")) for problem in read_labelled(path)]
    try:
        referee = LocalReferee("bubblewrap")
    except SandboxUnavailable as error:
        require("bubblewrap", f"no box of bubblewrap here: {error}")
    with contextlib.closing(referee):
        found = list(judge_in_order(problems, referee, workers=2))
    return {problem.id: outcomes for problem, outcomes in zip(problems, found, strict=True)}


@each_problem
def test_the_judge_agrees_with_every_label(problem, outcomes):
    for outcome in outcomes[problem["id"]]:
        assert outcome.verdict == outcome.label, f"{outcome.id}: {outcome.reason}"


@each_problem
def test_plain_python_gives_every_label(problem, tmp_path):
    programs = [item for item in problem["submissions"] if "source" in item and item["label"] != "time_limit"]
    folders = [tmp_path / str(number) for number in range(len(programs))]
    with ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda item, folder: first_failure(problem, item["source"], folder), programs, folders)
        for item, found in zip(programs, verdicts, strict=True):
            assert found == item["label"], f"{item['note']}: labelled {item['label']}, plain Python gives {found}"


def first_failure(problem, source, folder):
    try:
        compile(source, "program.py", "exec")
    except SyntaxError:
        return "compile_error"
    folder.mkdir()
    for number, test in enumerate(problem["tests"]):
        prepare(problem, source, test, folder, number)
    limits = problem["limits"]
    script = FORKS.format(
        tests=len(problem["tests"]),
        memory=limits.get("memory_bytes", 1 << 30),
        output=limits.get("output_bytes", 1 << 20),
    )
    subprocess.run(
        [sys.executable, "-X", "utf8", "-I", "-c", script],
        cwd=folder, env={"OPENBLAS_NUM_THREADS": "1"}, timeout=60, check=True,
    )  # fmt: skip
    for number, end in enumerate(json.loads((folder / "ends").read_text())):
        verdict = judge(problem, problem["tests"][number], folder, number, end)
        if verdict != "accepted":
            return verdict
    return "accepted"


def prepare(problem, source, test, folder, number):
    script, fed = source, ""
    if problem["kind"] == "stdin":
        fed = test["input"]
    elif problem["kind"] == "functional":
        path, result = problem["entry_point"].split("."), f"result{number}"
        script = CALL.format(source=PRELUDE + source, path=path, input=test["input"], result=result)
    else:
        script = f"{source}\n{test['input']}\n"
    (folder / f"program{number}.py").write_text(script, encoding="utf-8")
    (folder / f"in{number}").write_text(fed, encoding="utf-8")


def judge(problem, test, folder, number, end):
    complaint = (folder / f"err{number}").read_bytes()
    if end != 0:
        if b"MemoryError" in complaint:
            return "memory_limit"
        if b"File too large" in complaint:
            return "output_limit"
        is_assertion = problem["kind"] == "assertion" and b"\nAssertionError" in complaint
        return "wrong_answer" if is_assertion else "runtime_error"
    if problem["kind"] == "stdin":
        return "accepted" if same_text(test["expected"], (folder / f"out{number}").read_bytes()) else "wrong_answer"
    if problem["kind"] == "functional":
        result = folder / f"result{number}"
        if not result.exists():
            return "runtime_error"
        return "accepted" if same(json.loads(test["expected"]), json.loads(result.read_text())) else "wrong_answer"
    return "accepted"


def same_text(expected, found):
    tokens = expected.split(), found.decode("utf-8", "replace").split()
    return len(tokens[0]) == len(tokens[1]) and all(map(same_token, *tokens))


def same_token(expected, found):
    if expected == found:
        return True
    try:
        return "." in expected and math.isclose(float(expected), float(found), rel_tol=1e-6, abs_tol=1e-6)
    except ValueError:
        return False


def same(expected, found):
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, float) and isinstance(found, (int, float)):
        return math.isclose(expected, found, rel_tol=1e-6, abs_tol=1e-6)
    return type(expected) is type(found) and expected == found
