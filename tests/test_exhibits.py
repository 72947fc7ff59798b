"""What the page asks of the record: which suite a submission had, what is listed, what is left when things are gone."""

import redis

from service.encoding import dump_suites, load_suite
from service.settings import Settings

TESTS = [{"kind": "stdin", "input": "1\n", "expected": "1\n", "name": "one"}]
OTHERS = [{"kind": "stdin", "input": "2\n", "expected": "2\n"}]


def test_the_suite_of_each_submission_is_remembered():
    assert dump_suites(["a", "a"]) == "a"
    for ids in (["a"], ["a", "a"], ["a", "b", "a", "c", "b"]):
        assert [load_suite(dump_suites(ids), index) for index in range(len(ids))] == ids
    assert load_suite("", 3) == ""


async def test_a_submission_is_shown_with_the_inputs_of_its_own_suite(client, start_worker):
    start_worker()
    echo = {"program": {"source": "print(input())"}}
    submissions = [{**echo, "suite": {"tests": TESTS}}, {**echo, "suite": {"tests": OTHERS}}]
    submissions.append(submissions[0])  # judged once
    await client.post("/v1/evaluations?wait=30", json={"id": "e", "submissions": submissions}, timeout=40)

    shown = [(await client.get(f"/page/evaluations/e/{index}")).json() for index in range(3)]
    assert [one["tests"][0]["input"] for one in shown] == ["1\n", "2\n", "1\n"]
    assert [one["tests"][0]["name"] for one in shown] == ["one", None, "one"]
    assert {one["verdict"] for one in shown} == {"accepted"}
    assert (await client.get("/page/evaluations/e/3")).status_code == 404
    assert (await client.get("/page/evaluations/e/-1")).status_code == 404
    [listed] = (await client.get("/page/overview")).json()["latest"]
    assert (listed["id"], listed["total"], listed["done"], listed["verdicts"]) == ("e", 2, 2, {"accepted": 2})
    whole = (await client.get("/page/evaluations/e")).json()
    assert [one["verdict"] for one in whole["judgements"]] == ["accepted"] * 3


async def test_without_its_suite_a_submission_is_shown_without_inputs(client, start_worker, settings: Settings):
    start_worker()
    body = {"id": "e", "suite": {"tests": TESTS}, "submission": {"program": {"source": "print(0)"}}}
    await client.post("/v1/evaluations?wait=30", json=body, timeout=40)
    with redis.Redis.from_url(settings.redis) as store:
        for key in store.scan_iter(f"{settings.queue}:suite:*"):
            store.delete(key)

    shown = (await client.get("/page/evaluations/e/0")).json()
    assert "no longer stored" in shown["note"]
    [test] = shown["tests"]
    assert (test["input"], test["match"]["expected"], test["match"]["found"]) == (None, "'1'", "'0'")


async def test_what_waits_is_listed_and_has_no_verdict(client):
    body = {"id": "e", "suite": {"tests": TESTS}, "submission": {"program": {"source": "print(0)"}}}
    assert (await client.post("/v1/evaluations", json=body)).status_code == 202

    overview = (await client.get("/page/overview")).json()
    assert (overview["waiting"], overview["latest"][0]["state"], overview["workers"]) == (1, "queued", [])
    assert (await client.get("/page/evaluations/e/0")).json()["verdict"] is None
    await client.delete("/v1/evaluations/e")
    overview = (await client.get("/page/overview")).json()
    assert overview["latest"][0]["verdicts"] == overview["verdicts"] == {"cancelled": 1}
    assert sum(overview["pace"]["judged"]) == 1


async def test_runs_of_foreign_endpoints_count_but_are_not_listed(client, start_worker):
    start_worker()
    answer = await client.post("/run_code", json={"code": "print(1)", "language": "python"}, timeout=40)
    assert answer.json()["status"] == "Success"

    overview = (await client.get("/page/overview")).json()
    assert overview["latest"] == []
    assert overview["verdicts"] == {"accepted": 1}
