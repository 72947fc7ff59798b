"""The real clients of SandboxFusion, from PyPI, against the service; and what the benchmark sends through them."""

import json
from pathlib import Path

import pytest

from benchmarks import foreign_clients, run_code
from benchmarks.peers.sides import CannotRun
from evaluator.model import TestKind
from tests.requirements_helper import require

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


def test_programs_of_every_kind_are_drawn_by_chance_that_can_be_repeated() -> None:
    drawn = foreign_clients.draw([EXAMPLES], 12, seed=1)

    assert [one.program.id for one in drawn] == [one.program.id for one in foreign_clients.draw([EXAMPLES], 12, seed=1)]
    assert [one.program.id for one in drawn] != [one.program.id for one in foreign_clients.draw([EXAMPLES], 12, seed=2)]
    assert {one.kind for one in drawn} == set(TestKind)
    loops = [one for one in foreign_clients.draw([EXAMPLES], 500, seed=1) if one.program.label == "time_limit"]
    assert len(loops) <= foreign_clients.MAX_LOOPS


def test_a_value_is_expected_as_verls_wrapper_prints_it() -> None:
    values = ["[1,2]", '"text"', "true", "null", "0.5", '{"a":[1]}']

    assert [foreign_clients._printed(value) for value in values] == [
        "[1, 2]", "text", "true", "null", "0.5", '{"a": [1]}',
    ]  # fmt: skip


def test_the_real_clients_score_programs_as_they_are_labelled(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    try:
        for name in foreign_clients.PACKAGES:
            foreign_clients.prepare(name)
    except CannotRun as error:
        require("foreign_clients", str(error))
    figures = tmp_path / "figures.json"

    assert foreign_clients.main([str(EXAMPLES), "--programs", "18", "--json", str(figures)]) == 0

    found = json.loads(figures.read_text())
    assert sum(found["counts"]["verl"][kind] for kind in TestKind) == 18
    assert not [one for one in found["differing"] if one["client"] == "submit"], capsys.readouterr().out
    for one in found["differing"]:  # verl compares characters: what it says of a run that went well is its own
        assert one["label"] == "accepted" and {test["status"] for test in one["tests"]} <= {"success", "wrong_answer"}
    assert list(found["known"].values()) == [1.0, 1.0, 1_000_001, 1.0, False]


def test_many_requests_at_once_are_measured_beside_an_interpreter_for_each(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    options = ["--connections", "8", "--requests", "16", "--rounds", "1", "--workers", "1", "--json", str(figures)]

    assert run_code.main(options) == 0

    found = json.loads(figures.read_text())
    [ours], [theirs] = found["ours"], found["interpreter_per_request"]
    assert (ours["errors"], theirs["errors"]) == (0, 0)
    assert found["ratio"] == pytest.approx(ours["rate"] / theirs["rate"], abs=0.01)
    assert ours["p50"] <= ours["p95"] <= ours["longest"] * 1.5
