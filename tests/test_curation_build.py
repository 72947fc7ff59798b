"""From a recipe to a corpus, as the command does it: the same bytes, going on, what trainers read, what is refused."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import yaml
from microcoder_client.rewards.columns import read_tests
from typer.testing import CliRunner, Result

from curation.build import app, reserved
from curation.exports import fits_trainers, write_tests
from curation.manifest import NAME
from curation.problem import iterate_problems_of, make_suite
from curation.recipe import BadRecipe, read_recipe
from curation.registry import STAGES
from curation.tallies import class_of_tests
from evaluator.errors import SandboxUnavailable
from evaluator.model import TestCase, TestKind
from evaluator.sandbox.pool import open_pool
from tests.curation_helper import call, make_problem, stdin
from tests.requirements_helper import require
from tests.served_helper import until

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "curation" / "recipes"


@pytest.fixture(scope="module", autouse=True)
def sandbox() -> None:
    """Boxes can be had here."""
    try:
        open_pool("bubblewrap", spare=False).close()
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))


def build(recipe: Path, out: Path, *options: str) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(app, [str(recipe), "--out", str(out), "--sandbox", "bubblewrap", *options])


def write_recipe(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> Path:
    """A recipe over rows of plain JSON Lines."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = {
        "name": "small", "sources": [{"name": "rows", "reader": "jsonlines", "path": "rows.jsonl", "licence": "MIT"}],
        "stages": [{name: None} for name in STAGES],
    }  # fmt: skip
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump({**recipe, **changes}, sort_keys=False))
    return path


def make_row(number: int, **changes: Any) -> dict[str, Any]:
    """A row whose reference adds a number to what it reads."""
    tests = [
        {"input": f"{n * 1000 + number} is the number\n", "expected": f"{n * 1000 + 2 * number}\n"} for n in (1, 2)
    ]
    words = " ".join(f"detail{number}x{place}" for place in range(20))
    statement = f"You are given a number. Print the sum of that number and {number}. {words}"
    source = f"print(int(input().split()[0]) + {number})"
    return {"id": f"{number}", "statement": statement, "tests": tests, "references": [source], **changes}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus of the example problems."""
    out = tmp_path_factory.mktemp("examples")
    result = build(RECIPES / "examples.yaml", out)
    assert result.exit_code == 0, result.output
    return out


def test_the_examples_are_all_verified_and_split(examples: Path):
    problems = [*iterate_problems_of(examples / "train.jsonl"), *iterate_problems_of(examples / "validation.jsonl")]
    assert len(problems) == 34
    assert all(one.notes["verified"]["wrong_passing"] == 0 and "margins" not in one.notes for one in problems)
    assert sum(one.notes["split"] == "validation" for one in problems) == 7
    card = (examples / "README.md").read_text()
    assert "**34 problems**: 27 for train, 7 for validation" in card
    for picture in ("charts/stages.png", "charts/difficulty.png", "charts/tests.png"):
        assert picture in card and (examples / picture).read_bytes().startswith(b"\x89PNG")
    assert "34 problems" in (examples / "reports" / "margins.md").read_text()


def test_a_second_build_gives_the_same_bytes(examples: Path, tmp_path: Path):
    out = tmp_path / "again"
    out.mkdir()
    shutil.copy(examples / "verification.jsonl", out)  # judging again would cost more, and gives other margins at most
    result = build(RECIPES / "examples.yaml", out, "--check", str(examples / NAME))
    assert result.exit_code == 0, result.output
    assert (out / NAME).read_bytes() == (examples / NAME).read_bytes()
    wanted = json.loads((out / NAME).read_text())
    wanted["files"]["train.jsonl"]["sha256"] = "0"
    wanted["packages"]["pyarrow"] = "0.1"
    (tmp_path / "other.json").write_text(json.dumps(wanted))
    result = build(RECIPES / "examples.yaml", out, "--check", str(tmp_path / "other.json"))
    assert result.exit_code == 1
    assert "train.jsonl differs. pyarrow was 0.1" in " ".join(result.output.split())


def test_trainers_read_the_same_tests(examples: Path):
    problems = {
        one.id: one for name in ("train", "validation") for one in iterate_problems_of(examples / f"{name}.jsonl")
    }
    rows = pyarrow.parquet.read_table(examples / "trl" / "train.parquet").to_pylist()
    rows += pyarrow.parquet.read_table(examples / "trl" / "validation.parquet").to_pylist()
    assert len(rows) == sum(map(fits_trainers, problems.values())) > 30
    for row in rows:
        problem = problems[row["id"]]
        task = read_tests(row)
        assert (
            task.suite.id
            == make_suite(TestCase(test.kind, test.input, test.expected) for test in problem.suite.tests).id
        )
        if problem.kind is TestKind.FUNCTIONAL:
            assert task.entry_point == problem.entry_point.removeprefix("Solution.")
        [message] = row["prompt"]
        assert message["role"] == "user" and problem.statement in message["content"]
    verl = pyarrow.parquet.read_table(examples / "verl" / "train.parquet").to_pylist()
    for row in verl:
        assert (
            read_tests(row["reward_model"]["ground_truth"]).suite.id
            == read_tests({"tests": write_tests(problems[row["extra_info"]["id"]])}).suite.id
        )
    assert [row["extra_info"]["index"] for row in verl] == list(range(len(verl)))


def test_what_trainers_columns_cannot_carry_is_not_given_to_them():
    assert fits_trainers(make_problem())
    assert not fits_trainers(make_problem(policy={"order": "lines"}))
    assert not fits_trainers(make_problem(suite=make_suite([stdin("1\n", None)])))
    assert not fits_trainers(make_problem(suite=make_suite([call("1", expected=None)])))


def test_every_problem_is_accounted_for(tmp_path: Path):
    rows = [
        *(make_row(number) for number in range(1, 7)),
        make_row(1, id="same words, other case", statement=make_row(1)["statement"].upper()),
        make_row(8, references=["print(1)"]),
        make_row(9, references=[]),
        make_row(10, licence="unknown"),
        {"id": "no tests", "statement": "Nothing.", "tests": []},
    ]
    recipe = write_recipe(tmp_path, rows, expected={"verify": [7, 7], "verify of r": [6, 6], "select": [6, 6]})
    result = build(recipe, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "verify kept 6 problems; the recipe expects 7 to 7." in " ".join(result.output.split())
    card = (tmp_path / "out" / "README.md").read_text()
    assert (
        "| verify | 8 | 6 | 7 **(not so)** | 2 |\n| verify of r | 8 | 6 | 6 | 2 |" in card
        and "| select | 6 | 6 | 6 | 0 |" in card
    )
    assert build(recipe, tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "README.md").read_text() == card  # out of accounts that were read, not made
    with gzip.open(tmp_path / "out" / "stages" / "06-verify.dropped.jsonl.gz", "rt") as file:
        dropped = {record["reason"]: record["problem"]["id"] for record in map(json.loads, file)}
    assert dropped == {"no reference passes": "rows/8", "no reference program": "rows/9"}
    with gzip.open(tmp_path / "out" / "stages" / "00-collect.dropped.jsonl.gz", "rt") as file:
        assert "no test" in json.loads(file.readline())["detail"]


def test_only_what_changed_is_done_again(tmp_path: Path):
    recipe = write_recipe(tmp_path, [make_row(number) for number in range(1, 7)])
    build(recipe, tmp_path / "out")
    changed = yaml.safe_load(recipe.read_text())
    changed["stages"][4] = {"trim": {"tests": 1}}
    recipe.write_text(yaml.safe_dump(changed))
    result = build(recipe, tmp_path / "out")
    done_before = [line.split()[0] for line in result.output.splitlines() if "done before" in line]
    assert done_before == ["collect", "process", "admit", "duplicates", "contamination"]
    assert {len(one.suite.tests) for one in iterate_problems_of(tmp_path / "out" / "train.jsonl")} == {1}
    (tmp_path / "rows.jsonl").write_text(json.dumps(make_row(1)) + "\n")
    assert "done before" not in build(recipe, tmp_path / "out").output


def test_ctrl_c_keeps_what_is_judged_and_the_same_command_goes_on(tmp_path: Path):
    rows = [make_row(number) for number in range(1, 7)]
    asleep = "import time\ntime.sleep(60)\nprint(1)"  # longer than this test: it is interrupted in here
    rows.insert(3, make_row(9, references=[asleep], limits={"cpu_seconds": 60}))
    recipe, out = write_recipe(tmp_path, rows), tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "curation.build",
        str(recipe),
        "--out",
        str(out),
        "--sandbox",
        "bubblewrap",
        "--workers",
        "2",
    ]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ)
    journal = out / "verification.jsonl"
    assert until(lambda: journal.is_file() and journal.read_bytes().count(b"\n") == 6, seconds=120)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "goes on from here" in said and "Traceback" not in said
    judged = journal.read_bytes()
    assert not (out / "stages" / "06-verify.json").exists() and not list(out.rglob("*.part"))
    del rows[3]
    assert build(write_recipe(tmp_path, rows), out).exit_code == 0
    assert journal.read_bytes() == judged


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"stages": [{"polish": None}]}, "no stage 'polish'"),
        ({"stages": [{"trim": {"test": 3}}]}, "The stage 'trim': test: Extra inputs are not permitted"),
        ({"stages": [{"trim": {"tests": 0}}]}, "tests: Input should be greater than or equal to 1"),
        ({"stages": [{"trim": None}, {"trim": None}]}, "no name comes twice"),
        ({"expected": {"polish": [1, 2]}}, "'polish', which isn't a stage"),
        ({"expected": {"verify of lcb": [1, 2]}}, "'lcb', with which no source's name begins"),
        ({"sources": [{"name": "a", "reader": "jsonlines", "path": "b.jsonl"}]}, "b.jsonl isn't there"),
        ({"sources": [{"name": "a", "reader": "jsonlines", "path": "recipe.yaml"}]}, "holds no record"),
    ],
)
def test_a_bad_recipe_is_one_sentence(tmp_path: Path, changes: dict[str, Any], said: str):
    result = build(write_recipe(tmp_path, [make_row(1)], **changes), tmp_path / "out")
    assert result.exit_code == 2
    assert said in " ".join(result.output.split()) and "Traceback" not in result.output


def test_a_service_that_is_not_there_is_one_sentence(tmp_path: Path):
    recipe = write_recipe(tmp_path, [make_row(1)])
    result = build(recipe, tmp_path / "out", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 3 and "Traceback" not in result.output


def test_two_builds_do_not_share_a_folder(tmp_path: Path):
    recipe, out = write_recipe(tmp_path, [make_row(1)]), tmp_path / "out"
    with reserved(out):
        result = build(recipe, out)
    assert result.exit_code == 2 and "Another build is at work" in " ".join(result.output.split())


def test_recipes_of_the_repository_can_be_read():
    for path in RECIPES.glob("*.yaml"):
        recipe = read_recipe(path)
        assert {name for stage in recipe.stages for name in stage} <= STAGES.keys()
    with pytest.raises(BadRecipe, match="Can't read"):
        read_recipe(RECIPES / "none.yaml")


@pytest.mark.parametrize(
    ("count", "name"), [(1, "1"), (4, "4–5"), (15, "13–15"), (16, "16–30"), (101, "more than 100")]
)
def test_classes_of_numbers_of_tests(count: int, name: str):
    assert class_of_tests(count) == name
