"""`compare` and `modes` as commands: turns, ratios, tables, what can't be measured, and both at work in real boxes."""

import json
from pathlib import Path

import pytest

from benchmarks import compare, modes, performance_tables
from benchmarks.bench import QUICK, Bench, record_ratio, record_rounds, salted
from benchmarks.labelled import BadInput
from benchmarks.modes import Difference, Tally
from benchmarks.workloads import make_trivial
from evaluator.errors import SandboxUnavailable
from evaluator.sandbox.bubblewrap import find_bwrap
from tests.requirements_helper import require

UNSTEADY = "import os\nprint(os.urandom(1)[0] % 2)\n"
"""Prints 0 or 1, by chance. Of 30 such programs none is seen to be unsteady with a chance of 10**-11."""


@pytest.fixture
def boxes() -> None:
    try:
        find_bwrap()
    except SandboxUnavailable as error:
        require("bubblewrap", str(error))


def write_problems(path: Path, *programs: tuple[str, str], tests: int = 3) -> Path:
    """A labelled file with one problem: double the number."""
    record = {
        "id": "double", "kind": "stdin", "checker": None, "time_limit_s": 2, "fn_name": None, "fn_class": None,
        "tests": [{"input": f"{n}\n", "expected": f"{2 * n}\n"} for n in range(tests)],
        "submissions": [{"code": code, "label": label} for code, label in programs],
    }  # fmt: skip
    path.write_text(json.dumps(record) + "\n")
    return path


# Turns and ratios


def test_contenders_take_turns_and_each_round_begins_with_another():
    order: list[str] = []
    with Bench(QUICK, Path()) as bench:
        contenders = {name: lambda n, name=name: order.append(name) or n for name in "abc"}
        numbers = bench.take_turns("turns", contenders, 3)
    assert order == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert sorted(number for rounds in numbers.values() for number in rounds) == list(range(1, 10))


def test_no_contender_sees_a_text_twice():
    seen: list[set[str]] = []
    with Bench(QUICK, Path()) as bench:
        judge = salted(lambda batch: seen.append({entry.program.text for entry in batch.entries}), make_trivial(3))
        bench.take_turns("texts", {"a": judge, "b": judge}, 2)
    assert len(set().union(*seen)) == 4 * 3


def test_a_ratio_is_made_within_each_round():
    record = record_ratio("speed", [10.0, 40.0, 90.0], [1.0, 2.0, 3.0])
    assert record["speed"] == 20.0
    assert record["speed_rounds"] == {"median": 20.0, "lowest": 10.0, "highest": 30.0, "rounds": [10.0, 20.0, 30.0]}
    assert record_rounds([0.123456])["median"] == 0.1235


# The command


def test_a_part_at_work(boxes: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.json"
    assert compare.main(["--quick", "--runs", "2", "--only", "numpy", "--json", str(out)]) == 0
    document = json.loads(out.read_text())
    assert document["quick"] is True
    assert document["parts"] == ["numpy"]
    assert document["skipped"] == {}
    figures = document["numpy"]
    forks, trivial = (figures["ms_a_test"][name]["rounds"] for name in ("numpy_forks", "trivial_forks"))
    assert figures["ratio_to_trivial_rounds"]["rounds"] == pytest.approx(
        [one / other for one, other in zip(forks, trivial, strict=True)], rel=0.01
    )
    assert "numpy.ratio_to_trivial" in capsys.readouterr().out


def test_the_reward_batch_at_work(boxes: None, tmp_path: Path):
    require("shared", None if compare.DATA.is_dir() else f"{compare.DATA} isn't here")
    out = tmp_path / "out.json"
    status = compare.main(["--quick", "--runs", "1", "--only", "reward_batch", "--json", str(out)])
    document = json.loads(out.read_text())
    if "reward_batch" in document["skipped"]:
        require("livecodebench", document["skipped"]["reward_batch"])
    assert status == 0
    figures = document["reward_batch"]
    short, whole = figures["without_loops"], figures["with_loops"]
    floor = short["seconds"]["floor"]["median"]
    assert 0 < floor < short["seconds"]["library"]["median"]
    assert whole["seconds"]["floor"]["median"] > 2.5  # one looping program on two processors
    overhead = {name: short["seconds"][name]["median"] - floor for name in ("library", "livecodebench")}
    assert figures["overhead_ratio_vs_livecodebench"] == pytest.approx(
        overhead["livecodebench"] / overhead["library"], rel=0.05
    )
    assert figures["ratio_to_floor"] == whole["library_to_floor"]
    for batch, count in (("reward_batch_without_loops", 31), ("reward_batch", 32)):
        assert figures["verdicts"][batch]["library"]["programs"] == count
        assert figures["verdicts"][batch]["library"]["right"] >= count - 1


def test_a_part_that_cannot_run_is_skipped_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.json"
    status = compare.main(["--quick", "--only", "numpy", "--sandbox", "nothing", "--json", str(out)])
    document = json.loads(out.read_text())
    assert status == 2
    assert "numpy" not in document
    assert "There is no sandbox 'nothing'" in document["skipped"]["numpy"]
    assert "compare: numpy couldn't be measured. No sandbox can be had here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--json", "/nowhere/out.json"], "there is no such folder"),
        (["--markdown", "/nowhere/page.md"], "there is no such folder"),
        (["--only", "scale", "--data", "/nowhere"], "name the labelled sets with --data"),
    ],
)
def test_bad_input_is_told_before_the_work(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]):
    assert compare.main(arguments) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("only", ["speed", ""])
def test_unknown_parts_are_refused(only: str):
    with pytest.raises(SystemExit) as refused:
        compare.main(["--only", only])
    assert refused.value.code == 2


def test_parts_run_in_one_order():
    assert compare.parts("scale, trivial") == ["trivial", "scale"]


# Tables


def document(**sections: object) -> dict[str, object]:
    machine = {"processors": 2, "python": "3.11", "kernel": "6"}
    return {"quick": False, "machine": machine, "size": {"rounds": 5}, "skipped": {}} | sections


def test_the_page_gets_the_table_between_its_markers(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n{performance_tables.BEGIN}earlier\n{performance_tables.END}after\n")
    trivial = {"batched_speedup": 6.5, "batched_speedup_rounds": {"median": 6.5, "lowest": 5.0, "highest": 7.0}}
    text = performance_tables.write_markdown(document(trivial=trivial, numpy={"ratio_to_trivial": 3.0}))
    performance_tables.place(text, page)
    text = page.read_text()
    assert text.startswith(f"# Page\n{performance_tables.BEGIN}")
    assert text.endswith(f"{performance_tables.END}after\n")
    assert "| 6.50 (5.00–7.00) | ≥ 5 | yes | `trivial.batched_speedup` |" in text
    assert "| 3.00 | ≤ 2 | no | `numpy.ratio_to_trivial` |" in text
    assert "earlier" not in text


def test_an_earlier_run_is_shown_and_placed_without_measuring(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, earlier = tmp_path / "page.md", tmp_path / "earlier.json"
    page.write_text(f"{performance_tables.BEGIN}{performance_tables.END}")
    earlier.write_text(json.dumps(document(numpy={"ratio_to_trivial": 1.5, "load": [0.5, 7.25]})))
    assert compare.main(["--show", str(earlier), "--markdown", str(page)]) == 0
    assert "5 rounds; the machine's load was up to 7.2.\n" in page.read_text()
    assert "| 1.50 | ≤ 2 | yes |" in page.read_text()
    earlier.write_text("[]")
    assert compare.main(["--show", str(earlier)]) == 2
    assert "isn't what --json writes" in capsys.readouterr().err


def test_a_page_without_markers_is_left_alone(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(BadInput, match="it lacks the lines"):
        performance_tables.check_place(page)
    assert compare.main(["--only", "numpy", "--markdown", str(page)]) == 2


def test_every_goal_of_the_table_is_told_apart_from_what_has_none():
    low = document(trivial={"ratio_to_fork": {"bubblewrap": 2.5, "docker": 2.6}}, latency={"p50": 0.01})
    rows = {row.key: row.holds for row in performance_tables.read_rows(low)}
    assert rows.pop("latency.p50") is None
    assert rows == {"trivial.ratio_to_fork.bubblewrap": True, "trivial.ratio_to_fork.docker": False}


# Both modes


def test_modes_agree_on_harmless_and_other_programs(boxes: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write_problems(
        tmp_path / "set.jsonl",
        ("print(2 * int(input()))", "accepted"),
        ("import os\nprint(2 * int(input()))", "accepted"),
        ("n = int(input())\nprint(2 * n if n < 2 else 1)", "wrong_answer"),
        ("n = int(input())\nprint(2 * n if n < 1 else 1 // 0)", "runtime_error"),
    )
    out = tmp_path / "out.json"
    assert modes.main([str(path), "--workers", "1", "--json", str(out)]) == 0
    record = json.loads(out.read_text())["overall"]
    assert (record["programs"], record["tests"]) == (4, 3 + 3 + 3 + 2)
    assert record["differences"] == record["unsteady"] == []
    assert record["in_series"] == 3 + 0 + 2 + 1
    assert "set.jsonl" in capsys.readouterr().out


def test_a_program_that_changes_its_mind_is_unsteady_not_different(boxes: None, tmp_path: Path):
    path = write_problems(tmp_path / "set.jsonl", *[(UNSTEADY, "wrong_answer")] * 30, tests=1)
    path.write_text(path.read_text().replace('"tests": [', '"tests": [' + '{"input": "", "expected": "0"}, ' * 12))
    out = tmp_path / "out.json"
    modes.main([str(path), "--workers", "1", "--json", str(out)])
    record = json.loads(out.read_text())["overall"]
    assert record["unsteady"]


def test_a_difference_names_its_tests_and_ends_with_1(capsys: pytest.CaptureFixture[str]):
    difference = Difference("a#0", ("accepted", "accepted", "accepted"), ("wrong_answer", "accepted", "wrong_answer"))
    assert difference.places == [0, 2]
    whole, part = Tally(programs=1, tests=4, in_series=2), Tally(programs=2, tests=4, in_series=4)
    part.differences.append(difference)
    whole.add(part)
    assert whole.record["share_in_series"] == 0.75
    assert [item["program"] for item in whole.record["differences"]] == ["a#0"]


def test_modes_refuses_what_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert modes.main([str(tmp_path / "nothing.jsonl")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert modes.main([str(write_problems(tmp_path / "a.jsonl", ("1", "accepted"))), "--sandbox", "nothing"]) == 2
