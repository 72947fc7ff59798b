"""Difficulty: counts out of files and out of a model behind HTTP, the rubric, the guess from texts, their borders."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy
import pytest
import yaml
from typer.testing import CliRunner

from curation import endpoints
from curation.attempts import Attempts, AttemptsIn
from curation.build import app
from curation.calibration import Calibrate
from curation.endpoints import BadEndpoint, Endpoint, EndpointIn
from curation.fan import Interrupted
from curation.features import PROGRAM, STATEMENT, count_paths, describe_program, describe_statement, find_bounds
from curation.grading import CalibrateParams
from curation.journal import Journal, make_key
from curation.judging import LocalJudging
from curation.mixture import class_of
from curation.offline import Lessons, Sketch, learn, predict_unseen
from curation.problem import Identity, Problem, iterate_problems_of, make_suite
from curation.regression import (
    correlate_ranks,
    find_borders,
    fit_isotonic,
    fit_logistic,
    join_groups,
    measure_auc,
    split_groups,
    wilson_interval,
)
from curation.rubric import DIMENSIONS, read_prediction, weigh, write_question
from evaluator.livecodebench.documents import UnreadableFile
from tests.curation_helper import leetcode, make_problem, open_boxes, run, stdin
from tests.endpoint_helper import Model

HOLDS = {"model": "a-model", "budget": "1000 tokens", "evaluator": "a judge"}


# Statistics


def test_logistic_regression_finds_the_weights_that_made_the_counts():
    generator = numpy.random.default_rng(3)
    features = generator.normal(size=(4000, 2))
    rates = 1 / (1 + numpy.exp(-(0.5 + features @ [1.0, -2.0])))
    tried = numpy.full(4000, 4.0)
    solved = generator.binomial(4, rates).astype(float)
    model = fit_logistic(features, solved, tried, numpy.array([1e-6, 1e-6]))
    assert numpy.allclose([model.constant, *model.weights], [0.5, 1.0, -2.0], atol=0.1)
    assert abs((tried * model.predict(features) - solved).sum()) < 1e-3  # the constant isn't penalised
    ridge = fit_logistic(features, solved, tried, numpy.array([1e6, 1e-6]))
    assert abs(ridge.weights[0]) < 0.01 < abs(ridge.weights[1])


@pytest.mark.parametrize("solved", [0.0, 4.0])
def test_logistic_regression_of_what_is_all_alike_stays_finite(solved: float):
    features = numpy.array([[0.0], [1.0], [2.0]])
    model = fit_logistic(features, numpy.full(3, solved), numpy.full(3, 4.0), numpy.array([1.0]))
    assert numpy.isfinite(model.predict(features)).all()
    assert numpy.allclose(model.predict(features), solved / 4, atol=0.01)


def test_isotonic_rates_fall_and_pool_what_rises():
    scores = numpy.array([1.0, 2.0, 3.0, 4.0])
    scale = fit_isotonic(scores, numpy.array([4.0, 1.0, 3.0, 0.0]), numpy.full(4, 4.0))
    assert list(scale.rates) == [1.0, 0.5, 0.0] and list(scale.scores) == [1.0, 2.5, 4.0]
    assert list(scale.predict(numpy.array([0.0, 2.5, 3.25, 9.0]))) == [1.0, 0.5, 0.25, 0.0]


def test_borders_are_where_the_rates_change():
    scores = numpy.arange(90) / 10
    solved = numpy.repeat([4.0, 2.0, 0.0], 30)
    borders = find_borders(scores, solved, numpy.full(90, 4.0))
    assert borders is not None and numpy.allclose(borders, [2.95, 5.95], atol=0.15)
    assert find_borders(scores, solved[::-1], numpy.full(90, 4.0)) is None  # harder by score, easier by counts
    assert find_borders(numpy.ones(90), solved, numpy.full(90, 4.0)) is None


def test_intervals_ranks_and_auc():
    assert numpy.allclose(wilson_interval(3, 4), (0.3006, 0.9544), atol=1e-4)
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert wilson_interval(0, 4)[0] == 0.0 and wilson_interval(4, 4)[1] == 1.0
    one, other = numpy.array([1.0, 2.0, 2.0, 9.0]), numpy.array([1.0, 3.0, 3.0, 4.0])
    assert correlate_ranks(one, other) == pytest.approx(1.0)
    assert correlate_ranks(one, -other) == pytest.approx(-1.0)
    generator = numpy.random.default_rng(1)
    scores, positive = generator.integers(0, 6, 60).astype(float), generator.random(60) < 0.4
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    assert measure_auc(scores, positive) == pytest.approx(sum(pairs) / len(pairs))


def test_groups_are_joined_over_others_and_never_torn():
    groups = join_groups([("day 1", "a"), ("day 2", "b"), ("day 3", "a"), ("day 3", "c"), ("day 4", "d")])
    assert groups[0] == groups[2] == groups[3] and len({groups[0], groups[1], groups[4]}) == 3
    many = [f"{n // 3}" for n in range(60)]
    folds = split_groups(many, 4, seed=2)
    assert all(len({folds[n] for n in range(60) if many[n] == group}) == 1 for group in set(many))
    assert sorted(numpy.bincount(folds)) == [15, 15, 15, 15]


# Features


def test_complexity_of_programs():
    source = (
        "for i in a:\n    if i and b or c:\n        pass\n"
        "[y for y in z if y]\n"
        "match x:\n    case 1:\n        pass\n    case _:\n        pass\n"
    )
    import ast

    # for, if, two more terms of its condition, the comprehension and its condition, two cases, and one
    assert count_paths(ast.parse(source)) == 9
    program = dict(
        zip(PROGRAM, describe_program(make_problem(references=("def f(", "a = b + c\nprint(a)"))), strict=True)
    )
    # operators: =, +, call (3 kinds, 3 times); operands: a, b, c, print (4 kinds, 5 times)
    assert program["log volume"] == pytest.approx(numpy.log1p(8 * numpy.log2(7)))
    assert program["log halstead difficulty"] == pytest.approx(numpy.log1p(3 / 2 * 5 / 4))
    assert program["deepest loop"] == 0
    assert describe_program(make_problem(references=())) is None


def test_bounds_of_statements():
    text = "1 <= n <= 10^5\n- $1 \\leq a \\leq 2\\times 10^{9}$\nLet x be 99999999.\nk is between 1 and 20, inclusive."
    assert numpy.allclose(find_bounds(text), [9.30103, 1.30103])
    assert find_bounds("No limit is given.") == (0.0, 0.0)
    features = dict(zip(STATEMENT, describe_statement(make_problem(statement=text + "\nCount modulo 7.")), strict=True))
    assert features["says modulo"] == 1 and features["function to complete"] == 0


# Attempts


def write_lines(path: Path, records: list[dict[str, Any]]) -> AttemptsIn:
    """A file of judged generations."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return AttemptsIn(path=path.name, **HOLDS)


def test_counts_of_several_files_are_of_the_problems_that_all_have(tmp_path: Path):
    one = write_lines(
        tmp_path / "one_eval_all.json",
        [
            {"question_id": "1", "graded_list": [True, False], "platform": "leetcode", "question_title": "two-sum"},
            {"question_id": "7_A", "graded_list": [True], "platform": "codeforces", "question_title": "A. Sum"},
            {"question_id": "3", "graded_list": [True]},
        ],
    )
    other = write_lines(
        tmp_path / "results.jsonl",
        [
            {"question_id": "1", "verdict": "accepted"},
            {"question_id": "1", "verdict": "time_limit"},
            {"question_id": "1", "verdict": "internal_error"},
            {"question_id": "7_A", "verdict": "wrong_answer"},
        ],
    )
    attempts = Attempts([one, other], tmp_path)
    count = attempts.find(make_problem(), "1")
    assert count is not None and (count.solved, count.tried) == (2, 4)
    assert attempts.find(make_problem(identity=leetcode("two-sum")), "elsewhere") is count
    assert attempts.find(make_problem(identity=Identity("codeforces", "", "7A")), "elsewhere").solved == 1
    assert attempts.find(make_problem(), "3") is None and attempts.find(make_problem(), "4") is None
    with pytest.raises(UnreadableFile, match="record 1 holds no verdicts"):
        Attempts([write_lines(tmp_path / "raw.json", [{"question_id": "1", "code_list": []}])], tmp_path)


# A model behind an endpoint


@pytest.fixture(scope="module")
def boxes() -> Iterator[LocalJudging]:
    with open_boxes() as judging:
        yield judging


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy endpoints are asked again at once."""
    monkeypatch.setattr(endpoints, "PAUSES", (0.01, 0.01))


def open_nothing() -> LocalJudging:
    raise AssertionError("nothing is to be judged here")


def make_stage(tmp_path: Path, params: dict[str, Any], **changes: Any) -> Calibrate:
    """The stage over files in a folder."""
    given = {"seed": 5, "base": tmp_path, "memory": tmp_path / "calibration.jsonl", "open_judging": open_nothing}
    return Calibrate(CalibrateParams(**params), **{**given, "interrupt": threading.Event(), **changes})


def make_numbered(number: int, **fields: Any) -> Problem:
    """A problem whose level, 0 to 4, its statement tells by its words, and a reader of numbers by its number."""
    level = number % 5
    words = ("easily", "simple", "plain", "graph cycle", "graph cycle permutation homology")[level]
    statement = f"Problem {number}: you are given a {words} number. Print the number that is twice as large."
    return make_problem(str(number), statement=statement, **fields)


def number_in(prompt: str) -> int:
    return int(re.search(r"Problem (\d+):", prompt)[1])


def predict(prompt: str, number: int) -> str:
    """A rubric's answer that tells the level; the second of three can't be read."""
    level = number_in(prompt) % 5 + 1
    return "I can't say." if number == 1 else f"Let me see.\n{json.dumps(dict.fromkeys(DIMENSIONS, level))}"


def test_attempts_are_made_judged_and_not_made_again(boxes: LocalJudging, tmp_path: Path):
    def solve(prompt: str, number: int) -> str:
        """Of four attempts as many are right as the problem's number says."""
        right = number < number_in(prompt)
        return f"So:\n```python\nprint({2 if right else 3} * int(input()))\n```" if number < 3 else "I give up."

    with closing(Model(solve, at_once=False, busy=2)) as model:
        params = {"endpoint": {"url": model.url, "model": "a-model", "temperature": 0.6, "max_tokens": 500}}
        problems = [make_numbered(number, difficulty="hard") for number in (0, 1, 3)]
        stage = make_stage(tmp_path, params, open_judging=lambda: boxes)
        found = [one.notes["difficulty"] for one in run(stage, *problems)]
        assert [one["measured"]["solved"] for one in found] == [0, 1, 3]
        assert [one["class"] for one in found] == ["hard", "hard", "easy"]
        assert found[2]["measured"] == {"solved": 3, "tried": 4, "interval": [0.301, 0.954]}
        assert found[2]["way"] == "measured" and found[2]["rate"] == 0.75
        [conditions] = found[2]["holds_for"]
        assert (conditions["model"], conditions["budget"]) == ("a-model", "500 tokens, temperature 0.6")
        assert conditions["evaluator"].startswith("MicroCoder ")
        assert stage.ledger.marked == {"hard, measured": 2, "easy, measured": 1, "attempts without a program": 3}
        asked = len(model.requests)
        assert asked == 3 * 4 + 2 and model.requests[-1]["temperature"] == 0.6
        again = run(make_stage(tmp_path, params, open_judging=lambda: boxes), *problems)
        assert [one.notes["difficulty"] for one in again] == found and len(model.requests) == asked
        assert class_of(again[2]) == "easy"  # before the source's own word


def test_the_rubric_is_calibrated_on_what_is_measured(tmp_path: Path):
    with closing(Model(predict)) as model:
        graded = [
            {"question_id": f"set/{n}", "graded_list": [place < 4 - n % 5 for place in range(4)]} for n in range(40)
        ]
        params = {
            "attempts": [write_lines(tmp_path / "all.json", graded)],
            "rubric": {"url": model.url, "model": "a-reader"},
            "least_learnt": 20,
        }
        stage = make_stage(tmp_path, params)
        kept = run(stage, *map(make_numbered, range(50)))
    assert stage.ledger.marked["predictions that can't be read"] == 50
    notes = [one.notes["difficulty"] for one in kept]
    assert [one["way"] for one in notes] == ["measured"] * 40 + ["rubric"] * 10
    assert all(one["rubric"]["predictions"] == [[n % 5 + 1.0] * 5] * 2 for n, one in enumerate(notes))
    assert [one["rate"] for one in notes[40:45]] == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert [one["class"] for one in notes[40:45]] == sorted((one["class"] for one in notes[40:45]), key=RANKS.index)
    assert {one["class"] for one in notes[40:45]} == set(RANKS)
    assert notes[40]["holds_for"] == [HOLDS] and notes[40]["borders"][0] < notes[40]["borders"][1]
    assert len(model.requests) == 50 and {body["n"] for body in model.requests} == {3}


RANKS = ["easy", "medium", "hard"]


def test_predictions_are_read_or_not():
    values = dict.fromkeys(DIMENSIONS, 2)
    assert read_prediction(f"{json.dumps(values)} or rather {json.dumps({**values, 'knowledge': 4.5})}") == [
        2.0, 2.0, 4.5, 2.0, 2.0,
    ]  # fmt: skip
    assert read_prediction(json.dumps({**values, "knowledge": "4"})) == [2.0, 2.0, 4.0, 2.0, 2.0]
    for wrong in (6, 0, True, None, "much", [3], 10**400, float("nan")):
        assert read_prediction(json.dumps({**values, "knowledge": wrong})) is None
    assert read_prediction(write_question(make_problem())) is None  # a model that repeats the question says nothing
    assert read_prediction('{"knowledge": 3}') is None and read_prediction("") is None
    assert weigh([[1.0] * 5, [2.0] * 5]) == pytest.approx(1.5)
    assert sum(weight for weight, _ in DIMENSIONS.values()) == pytest.approx(1)
    assert make_problem().statement in write_question(make_problem())


def test_an_endpoint_that_fails_is_named(monkeypatch: pytest.MonkeyPatch):
    interrupt = threading.Event()
    with closing(Model(predict, busy=9)) as model, pytest.raises(BadEndpoint, match="503"):
        Endpoint(EndpointIn(url=model.url, model="a-model"), 1, interrupt).ask("Problem 1:", 1)
    with pytest.raises(BadEndpoint, match="ConnectError"):
        Endpoint(EndpointIn(url=model.url, model="a-model"), 1, interrupt).ask("Problem 1:", 1)
    settings = EndpointIn(url="http://127.0.0.1:9", model="a-model", key_from="KEY_OF_A_TEST")
    with pytest.raises(BadEndpoint, match="KEY_OF_A_TEST"):
        Endpoint(settings, 1, interrupt)
    monkeypatch.setenv("KEY_OF_A_TEST", "secret")
    with closing(Model(predict)) as model:
        settings = EndpointIn(url=model.url, model="a-model", key_from="KEY_OF_A_TEST")
        with closing(Endpoint(settings, 1, interrupt)) as endpoint:
            assert len(endpoint.ask("Problem 1:", 3)) == 3
        assert model.keys == {"Bearer secret"}
        with pytest.raises(BadEndpoint, match="404"):
            Endpoint(EndpointIn(url=model.url + "/v2", model="a-model"), 1, interrupt).ask("Problem 1:", 1)


def test_what_was_answered_outlives_a_cut_off_line(tmp_path: Path):
    path, one, other = tmp_path / "answers.jsonl", make_key("a"), make_key("b")
    with closing(Journal(path)) as journal:
        journal.add(one, [1])
    path.write_bytes(path.read_bytes() + f'{{"key":"{other}","val'.encode())
    journal = Journal(path)
    assert journal.find(one) == [1] and journal.find(other) is None
    journal.add(other, [2])
    assert journal.find(other) == [2] and Journal(path).find(other) == [2]
    journal.close()
    journal.add(one, [3])
    assert Journal(path).find(one) == [1]


def test_an_interrupt_ends_the_asking_and_what_was_answered_stays(tmp_path: Path):
    interrupt = threading.Event()

    def stop(prompt: str, number: int) -> str:
        interrupt.set()
        return predict(prompt, number)

    with closing(Model(stop)) as model:
        params = {
            "attempts": [write_lines(tmp_path / "all.json", [{"question_id": "1", "graded_list": [True]}])],
            "rubric": {"url": model.url, "model": "a-reader"},
            "workers": 1,
        }
        stage = make_stage(tmp_path, params, interrupt=interrupt)
        with pytest.raises(Interrupted):
            list(stage.run(map(make_numbered, range(30))))
        assert len(model.requests) == 1
        for number in range(3):  # the rest, one before each next interrupt
            interrupt.clear()
            stage = make_stage(tmp_path, params, interrupt=interrupt)
            with pytest.raises(Interrupted):
                list(stage.run(map(make_numbered, range(30))))
            assert len(model.requests) == 2 + number


# From texts alone


def test_the_guess_learns_words_and_sees_nothing_of_the_group_that_it_is_asked_about():
    problems = [make_numbered(number) for number in range(100)]
    sketches = [Sketch.of(one) for one in problems]
    solved = numpy.array([4.0 - number % 5 for number in range(100)])
    groups = [str(number // 4) for number in range(100)]
    lessons = Lessons(sketches, solved, numpy.full(100, 4.0), groups)
    assert correlate_ranks(predict_unseen(lessons, learn), solved) > 0.9
    for place in range(100):  # a name that each group has for itself tells nothing about another
        sketches[place] = Sketch(numpy.zeros(3), frozenset({f"name{groups[place]}"}), None)
    alone = Lessons(sketches, numpy.repeat([4.0, 0.0], 50), numpy.full(100, 4.0), groups)
    assert correlate_ranks(learn(alone).predict(sketches), alone.solved) > 0.9
    assert correlate_ranks(predict_unseen(alone, learn), alone.solved) < 0.5


def test_a_corpus_is_calibrated_on_a_benchmark_that_is_held_out(tmp_path: Path):
    rows = [
        {
            "id": str(n),
            "statement": make_numbered(n).statement,
            "tests": [{"input": f"{n}\n", "expected": f"{2 * n}\n"}],
        }
        for n in range(90)
    ]
    (tmp_path / "held.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:60]))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[60:]))
    graded = [{"question_id": str(n), "graded_list": [place < 4 - n % 5 for place in range(4)]} for n in range(60)]
    attempts = write_lines(tmp_path / "all.json", graded).model_dump()
    recipe = {
        "name": "small",
        "sources": [{"name": "rows", "reader": "jsonlines", "path": "rows.jsonl", "licence": "MIT"}],
        "stages": [
            {"process": None},
            {"calibrate": {
                "attempts": [attempts], "learn_from": {"name": "held", "reader": "jsonlines", "path": "held.jsonl"},
            }},
            {"select": {"validation": 0}},
        ],
    }  # fmt: skip
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    command = [str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    notes = {one.id: one.notes["difficulty"] for one in iterate_problems_of(tmp_path / "out" / "train.jsonl")}
    for id, note in notes.items():
        level = int(id.removeprefix("rows/")) % 5
        assert note["way"] == "offline, statement" and note["holds_for"] == [HOLDS]
        assert note["class"] == ("easy" if level < 1 else "hard" if level > 3 else note["class"])
    assert {note["class"] for note in notes.values()} >= {"medium", "hard"}
    card = (tmp_path / "out" / "README.md").read_text()
    assert "easy, offline, statement" in card
    assert "They hold for: a-model (1000 tokens; judged by a judge)." in card
    rates = [note["rate"] for note in notes.values() if note["class"] == "hard"]
    assert f"| hard | offline, statement | {len(rates)} | {sum(rates) / len(rates):.2f} |" in card
    recipe["stages"][1]["calibrate"] = {"endpoint": {"url": "http://127.0.0.1:9/v1", "model": "nobody"}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 3 and "doesn't answer" in result.output


def test_with_references_programs_are_read_too(tmp_path: Path):
    def write_program(level: int) -> str:
        return "n = int(input())\n" + "for i in range(1):\n    pass\n" * (3 * level) + "print(2 * n)"

    problems = [make_problem(str(n), references=(write_program(n % 5),)) for n in range(60)]
    graded = [{"question_id": f"set/{n}", "graded_list": [place < 4 - n % 5 for place in range(4)]} for n in range(50)]
    params = {"attempts": [write_lines(tmp_path / "all.json", graded)]}
    notes = [one.notes["difficulty"] for one in run(make_stage(tmp_path, params), *problems)]
    assert {one["way"] for one in notes[50:]} == {"offline, statement and program"}
    rates = [one["rate"] for one in notes[50:55]]
    assert rates == sorted(rates, reverse=True) and rates[0] > 0.75 and rates[4] < 0.25
    labelled = make_problem("98", references=(write_program(4),), difficulty="easy")
    for offline, name in (("unlabelled", "easy"), ("all", "hard")):
        stage = make_stage(tmp_path, {**params, "offline": offline})
        assert class_of(run(stage, *problems[:50], labelled)[50]) == name  # "all": before the source's word
        assert stage.ledger.marked["class of the source, offline, statement and program"] == (name == "easy")
    bare = make_problem("99", references=(), suite=make_suite([stdin("1\n", "2\n")]))
    [note] = [one.notes["difficulty"] for one in run(make_stage(tmp_path, params), *problems[:50], bare)][50:]
    assert note["way"] == "offline, statement" and 0.3 < note["rate"] < 0.7  # all statements are the same


def test_without_enough_to_learn_from_problems_pass_as_they_are(tmp_path: Path):
    stage = make_stage(tmp_path, {})
    assert run(stage, make_problem()) == [make_problem()]
    assert list(stage.ledger.marked) == ["not calibrated: no attempts to learn from"]
    params = {"attempts": [write_lines(tmp_path / "all.json", [{"question_id": "set/1", "graded_list": [True]}])]}
    stage = make_stage(tmp_path, params)
    [known, other] = run(stage, make_problem("1"), make_problem("2"))
    assert known.notes["difficulty"] == {"measured": {"solved": 1, "tried": 1, "interval": [0.207, 1.0]}}
    assert "difficulty" not in other.notes and class_of(known) == "unknown"
    assert stage.ledger.marked == {"not calibrated: too few measured problems to learn from": 2}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"attempts": [{"path": "a", **HOLDS}], "endpoint": {"url": "http://a", "model": "m"}}, "not from both"),
        ({"learn_from": {"name": "a", "reader": "jsonlines", "path": "a"}}, "needs files of attempts"),
        ({"easy_from": 0.2, "hard_until": 0.3}, "less than"),
        ({"attempts": [{"path": "a", "model": "m", "budget": "", "evaluator": "e"}]}, "budget"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        CalibrateParams(**settings)


def test_a_changed_file_repeats_the_stage(tmp_path: Path):
    params = {"attempts": [write_lines(tmp_path / "all.json", [{"question_id": "1", "graded_list": [True]}])]}
    before = make_stage(tmp_path, params).fingerprint
    assert make_stage(tmp_path, {**params, "workers": 9}).fingerprint == before
    write_lines(tmp_path / "all.json", [{"question_id": "1", "graded_list": [False]}])
    assert make_stage(tmp_path, params).fingerprint != before
