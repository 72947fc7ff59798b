"""The wire against the vocabulary: they must not drift apart."""

import json
from dataclasses import fields, replace

import pytest

from evaluator import model
from evaluator.executions import Execution
from evaluator.model import Judgement, Match, Reason, Runtime, TestResult, Verdict
from service import schemas
from service.encoding import dump_judgement, first_rung, plain, show
from service.fingerprints import fingerprint, fingerprint_of_place
from service.intake import Refused, prepare
from service.schemas import EvaluationIn, field_name
from service.settings import Settings

TESTS = [{"kind": "stdin", "input": "1", "expected": "1"}]


@pytest.mark.parametrize(
    ("wire", "ours"),
    [
        (schemas.LimitsIn, model.Limits),
        (schemas.PolicyIn, model.Policy),
        (schemas.ProgramIn, model.Program),
        (schemas.TestIn, model.TestCase),
    ],
)
def test_what_is_sent_has_the_fields_and_defaults_of_the_vocabulary(wire, ours) -> None:
    inside = {"name", "files"} if ours is model.Program else set()  # of checkers, which come in suites
    assert set(wire.model_fields) == {field.name for field in fields(ours)} - inside
    for field in fields(ours):
        if field.name in inside:
            continue
        sent = wire.model_fields[field.name]
        if not sent.is_required():
            assert sent.default == field.default, field.name


@pytest.mark.parametrize(
    ("wire", "ours"),
    [
        (schemas.JudgementOut, model.Judgement),
        (schemas.TestOut, model.TestResult),
        (schemas.MatchOut, model.Match),
        (schemas.RuntimeOut, model.Runtime),
    ],
)
def test_what_comes_back_has_the_fields_of_the_vocabulary(wire, ours) -> None:
    of_the_service = {"cached", "suspicion"} if wire is schemas.JudgementOut else set()
    assert set(wire.model_fields) - of_the_service == {field.name for field in fields(ours)}


def test_the_ranges_of_limits_are_those_of_the_vocabulary() -> None:
    for name, low, high in (("cpu_seconds", 0.01, 3600), ("memory_bytes", 16 << 20, 1 << 40), ("processes", 1, 4096)):
        for value in (low, high):
            schemas.LimitsIn(**{name: value})
            model.Limits(**{name: value})
    assert set(schemas.PolicyIn.model_fields["profile"].annotation.__args__) == set(model.PROFILES)


def prepared(settings: Settings | None = None, **body):
    return prepare(EvaluationIn.model_validate_json(json.dumps(body)), settings or Settings())


def test_a_submission_takes_from_the_evaluation_what_it_leaves_out() -> None:
    program = {"program": {"source": "1"}}
    own = {**program, "limits": {"processes": 9}, "policy": {"ignore_case": True}, "fail_fast": True}

    taken, kept = prepared(
        submissions=[program, own],
        suite={"tests": TESTS},
        limits={"cpu_seconds": 2},
        policy={"profile": "exact"},
        fail_fast=False,
        reward="fraction",
    ).submissions.values()

    assert (taken.limits.cpu_seconds, taken.policy.profile, taken.fail_fast) == (2, "exact", False)
    assert (kept.limits.cpu_seconds, kept.limits.processes) == (6, 9), "limits aren't merged field by field"
    assert (kept.policy.profile, kept.policy.ignore_case, kept.fail_fast) == ("microcoder", True, True)
    assert taken.reward == kept.reward == model.RewardScheme.FRACTION


def test_a_suite_that_many_share_is_kept_once() -> None:
    program = {"program": {"source": "1"}}
    intake = prepared(submissions=[program, program, {**program, "suite": {"tests": TESTS}}], suite={"tests": TESTS})

    assert len(intake.suites) == len(intake.suite_ids) == 1


def test_an_answers_program_gets_its_entry_point_and_a_cut_answer_has_none() -> None:
    whole = {"answer": "```python\ndef f(): pass\n```", "entry_point": "f", "prelude": "contest"}
    cut, plain = {"answer": "```python\ndef f("}, {"answer": "x = 1"}
    asked = {"answer": "x = 1", "whole_text_if_unfenced": True}

    intake = prepared(submissions=[whole, cut, plain, asked], suite={"tests": TESTS})
    programs = [item.program for item in intake.submissions.values()]

    assert intake.order == [0, 1, 1, 2], "answers without a program are alike"
    assert programs[0].source.strip() == "def f(): pass"
    assert (programs[0].entry_point, programs[0].prelude) == ("f", "contest")
    assert programs[1] is None
    assert programs[2].source.strip() == "x = 1"


def test_equal_requests_have_equal_digests_and_others_have_others() -> None:
    body = {"submissions": [{"program": {"source": "1"}}], "suite": {"tests": TESTS}}

    assert prepared(**body).digest == prepared(**body, id="x", fail_fast=True).digest
    assert prepared(**body).digest != prepared(**body, policy={"profile": "exact"}).digest
    assert prepared(**body).digest != prepared(**body | {"suite": {"tests": TESTS * 2}}).digest


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"suite": {"tests": [{"kind": "functional", "input": "not json"}]}}, "suite.tests"),
        ({"suite": {"tests": [{"kind": "assertion", "input": "", "expected": "1"}]}}, "suite.tests"),
        ({"policy": {"profile": "exact", "ignore_case": True}}, "policy"),
        ({"limits": {"memory_bytes": 1 << 40}}, "limits.memory_bytes"),
        ({"limits": {"wall_seconds": 5000}}, "limits.wall_seconds"),
    ],
)
def test_what_only_the_service_can_know_is_refused_by_its_field_once(changes: dict, field: str) -> None:
    body = {"submissions": [{"program": {"source": "1"}}] * 3, "suite": {"tests": TESTS}}

    with pytest.raises(Refused) as caught:
        prepared(**body | changes)
    assert [name for name, _ in caught.value.errors] == [field]


def test_an_inline_suite_beyond_the_bound_is_to_be_uploaded() -> None:
    suite = {"tests": [{"kind": "stdin", "input": "x" * 2000}]}

    with pytest.raises(Refused, match="PUT /v1/suites"):
        prepared(Settings(max_inline_suite_bytes=1024), submission={"program": {"source": "1"}}, suite=suite)


def test_a_judgement_is_shown_as_it_was_made() -> None:
    tests = (
        TestResult(0, Verdict.ACCEPTED, Match(True, "tokens"), cpu_seconds=0.5),
        TestResult(1, Verdict.ACCEPTED, output="\ud800 and more"),
        TestResult(2, Verdict.WRONG_ANSWER, Match(False, None, "line 1", "a", "b"), stderr="x"),
        TestResult(3, Verdict.SKIPPED),
    )
    judgement = Judgement(
        Verdict.WRONG_ANSWER, 0.0, tests, first_failed=2, reason=Reason.BOX_LOST, runtime=Runtime("docker", "3.12")
    )
    short, full = dump_judgement(judgement)

    listed = {detail: json.loads(show(short.encode(), full, detail)) for detail in ("summary", "failures", "full")}

    assert [test["index"] for test in listed["failures"]["tests"]] == [1, 2]
    assert [test["index"] for test in listed["full"]["tests"]] == [0, 1, 2, 3]
    assert listed["summary"]["tests"] == []
    assert listed["full"]["tests"][1]["output"] == "? and more"
    for shown in listed.values():
        schemas.JudgementOut.model_validate_json(json.dumps(shown))
    assert first_rung(tests) == "tokens"


def test_of_many_failures_the_first_twenty_are_listed() -> None:
    tests = tuple(TestResult(index, Verdict.WRONG_ANSWER) for index in range(100))

    short, full = dump_judgement(Judgement(Verdict.WRONG_ANSWER, 0.0, tests))

    assert [test["index"] for test in json.loads(short)["tests"]] == list(range(20))
    assert len(json.loads(show(short.encode(), full, "full"))["tests"]) == 100


def test_a_field_is_named_as_one_would_write_it() -> None:
    assert field_name(("submissions", 0, "limits", "cpu_seconds")) == "submissions[0].limits.cpu_seconds"
    assert field_name(()) == ""


SUBMISSION = model.Submission(model.Program("x = 1", entry_point="f"), "a" * 64)
VARIANTS = {
    "source": replace(SUBMISSION, program=replace(SUBMISSION.program, source="x = 2")),
    "language": replace(SUBMISSION, program=replace(SUBMISSION.program, language="cpp")),
    "entry_point": replace(SUBMISSION, program=replace(SUBMISSION.program, entry_point="g")),
    "no_entry_point": replace(SUBMISSION, program=replace(SUBMISSION.program, entry_point=None)),
    "prelude": replace(SUBMISSION, program=replace(SUBMISSION.program, prelude=model.Prelude.NONE)),
    "name": replace(SUBMISSION, program=replace(SUBMISSION.program, name="main.py")),
    "files": replace(SUBMISSION, program=replace(SUBMISSION.program, files=(("a.py", "b"),))),
    "no_program": replace(SUBMISSION, program=None),
    "suite": replace(SUBMISSION, suite_id="b" * 64),
    "limits": replace(SUBMISSION, limits=model.Limits(cpu_seconds=2)),
    "policy": replace(SUBMISSION, policy=model.Policy(order="any")),
    "fail_fast": replace(SUBMISSION, fail_fast=False),
    "reward": replace(SUBMISSION, reward=model.RewardScheme.FRACTION),
    "test_order": replace(SUBMISSION, test_order=model.TestOrder.ADAPTIVE),
    "keep_outputs": replace(SUBMISSION, keep_outputs=True),
    "execution": replace(SUBMISSION, execution=Execution("1")),
    "execution_arguments": replace(SUBMISSION, execution=Execution("1", arguments=("a",))),
    "execution_files": replace(SUBMISSION, execution=Execution("1", files=(("a", "YQ=="),))),
    "execution_fetch": replace(SUBMISSION, execution=Execution("1", fetch=("a",))),
}


def test_every_field_that_a_verdict_depends_on_is_in_the_fingerprint() -> None:
    marks = {fingerprint(SUBMISSION), *map(fingerprint, VARIANTS.values())}

    assert len(marks) == 1 + len(VARIANTS)
    named = {field.name for kind in (model.Program, model.Submission) for field in fields(kind)}
    others = {"no_entry_point", "no_program", "suite", *(name for name in VARIANTS if name.startswith("execution_"))}
    assert named == {*VARIANTS, "program", "suite_id"} - others, "add a variant"


def test_a_fingerprint_doesnt_depend_on_how_a_number_is_kept_or_where_a_field_ends() -> None:
    whole, broken = model.Limits(cpu_seconds=6), model.Limits(cpu_seconds=6.0)
    assert fingerprint(replace(SUBMISSION, limits=whole)) == fingerprint(replace(SUBMISSION, limits=broken))

    pairs = [model.Program("x", files=(("a", "bc"),)), model.Program("x", files=(("ab", "c"),))]
    marks = {fingerprint(replace(SUBMISSION, program=program)) for program in pairs}
    assert len(marks) == 2
    assert fingerprint(replace(SUBMISSION, program=model.Program("\ud800"))), (
        "half a surrogate pair is no reason to fail"
    )


def test_places_differ_by_what_programs_run_in() -> None:
    here = model.Runtime("bubblewrap", "3.11.2", "1.26", None)
    others = [replace(here, sandbox="docker"), replace(here, python="3.12"), replace(here, numpy=None)]
    others.append(replace(here, image="sha256:1"))

    assert len({fingerprint_of_place(place) for place in [here, *others]}) == 5
    assert fingerprint_of_place(here) == fingerprint_of_place(replace(here))


@pytest.mark.parametrize("count", [0, 1, 15, 400])
def test_a_judgement_shows_as_many_tests_as_are_asked_for(count: int) -> None:
    tests = tuple(
        model.TestResult(
            index,
            model.Verdict.WRONG_ANSWER if index % 2 else model.Verdict.ACCEPTED,
            model.Match(not index % 2, "exact", found="\ud800\u00e9"),
            cpu_seconds=0.25,
            output="o",
        )
        for index in range(count)
    )
    runtime = model.Runtime("bubblewrap", "3.11.2")
    short, table = dump_judgement(model.Judgement(model.Verdict.WRONG_ANSWER, 0.0, tests, runtime=runtime))

    failures, summary, full = (
        json.loads(show(short.encode(), table, detail)) for detail in ("failures", "summary", "full")
    )

    schemas.JudgementOut.model_validate(full)
    assert [test["index"] for test in full["tests"]] == list(range(count))
    assert len(failures["tests"]) == min(count, 20)
    assert failures["tests"] == full["tests"][:20]
    assert summary["tests"] == []
    assert all(test["match"]["found"] == "?\u00e9" for test in full["tests"])
    assert full["runtime"] == plain(runtime)
    assert short.endswith('"cached": false}'), "the script that stores it counts on this"
