"""Metrics: a real Prometheus scrapes the service and has the numbers of what was sent. Access log and dashboard."""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from service.statistics import BOUNDS, Counts, distribution
from tests.requirements_helper import require
from tests.served_helper import Served, until

KEY = "a-key-for-metrics"
HEADERS = {"Authorization": f"Bearer {KEY}"}
DASHBOARD = Path(__file__).parent.parent / "docs" / "grafana" / "microcoder.json"
TESTS = [{"kind": "stdin", "input": f"{i} 3\n", "expected": f"{i + 3}\n"} for i in range(4)]
SOURCES = {
    "accepted": "print(sum(map(int, input().split())))",
    "wrong_answer": "print(3)",
    "runtime_error": "raise SystemExit(3)",
    "compile_error": "x =",
    "time_limit": "while True: pass",
}
SENT = {"accepted": 5, "wrong_answer": 3, "runtime_error": 2, "compile_error": 1, "time_limit": 1}
RAN = {"accepted": 5 * 4 + 3, "wrong_answer": 3, "runtime_error": 2, "time_limit": 1}
"""Tests that are run: the first test is what `print(3)` passes, its second fails it."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A service with two workers and a key."""
    arguments = ("--workers", "2", "--sandbox", "bubblewrap")
    with Served(*arguments, MICROCODER_API_KEYS=KEY, MICROCODER_LOG_LEVEL="DEBUG") as served:
        served.url = served.ready()
        yield served


@pytest.fixture(scope="module")
def prometheus(served: Served, tmp_path_factory) -> Iterator[httpx.Client]:
    """A client of a Prometheus that scrapes the service."""
    found = shutil.which("prometheus")
    require("prometheus", None if found else "There is no Prometheus: apt-get install prometheus.")
    folder = tmp_path_factory.mktemp("prometheus")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    job = {
        "job_name": "microcoder",
        "scrape_interval": "300ms",
        "scrape_timeout": "300ms",
        "authorization": {"credentials": KEY},
        "static_configs": [{"targets": [served.url.removeprefix("http://")]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [job]}))  # JSON is YAML
    command = [
        found, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}", "--log.level=warn",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            with httpx.Client(base_url=f"http://{address}", timeout=10) as client:
                assert until(lambda: _is_up(client)), (folder / "log").read_text()
                yield client
        finally:
            process.terminate()
            process.wait(20)


def _is_up(client: httpx.Client) -> bool:
    try:
        return query(client, 'up{job="microcoder"}') == {(): 1.0}
    except httpx.TransportError:
        return False


def query(client: httpx.Client, expression: str, *labels: str) -> dict[tuple[str, ...], float]:
    """What Prometheus answers now: values by the given labels; nothing while it is still starting."""
    answer = client.get("/api/v1/query", params={"query": expression})
    if answer.status_code == 503:
        return {}
    assert answer.status_code == 200, answer.text
    result = answer.json()["data"]["result"]
    return {tuple(one["metric"][label] for label in labels): float(one["value"][1]) for one in result}


def query_any(client: httpx.Client, expression: str) -> list:
    """What Prometheus answers, whatever its labels."""
    answer = client.get("/api/v1/query", params={"query": expression})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["result"]


def post(served: Served, id: str) -> dict:
    programs = [f"{SOURCES[verdict]}  # {number}" for verdict, count in SENT.items() for number in range(count)]
    body = {
        "id": id,
        "suite": {"tests": TESTS},
        "limits": {"cpu_seconds": 0.3},
        "submissions": [{"program": {"source": source}} for source in programs],
    }
    answer = httpx.post(f"{served.url}/v1/evaluations?wait=50", json=body, headers=HEADERS, timeout=60)
    assert answer.json()["state"] == "done"
    return answer.json()


def test_prometheus_counts_what_was_sent(served: Served, prometheus: httpx.Client):
    post(served, "first")
    post(served, "again")  # all but the time limit and the compile error come from the cache

    ran = {(verdict,): float(count) for verdict, count in RAN.items()}
    ran[("time_limit",)] *= 2
    assert until(lambda: query(prometheus, "microcoder_tests_total > 0", "verdict") == ran), query(
        prometheus, "microcoder_tests_total > 0", "verdict"
    )
    sent = {(verdict,): 2.0 * count for verdict, count in SENT.items()}
    assert query(prometheus, "microcoder_judgements_total > 0", "verdict") == sent
    hits = query(prometheus, "microcoder_cache_hits_total")[()]
    assert hits == sum(SENT.values()) - SENT["time_limit"]
    assert query(prometheus, "microcoder_cache_misses_total")[()] + hits == 2 * sum(SENT.values())
    assert query(prometheus, "microcoder_test_seconds_count")[()] == sum(ran.values())
    assert query(prometheus, "microcoder_test_seconds_sum")[()] > 0.5
    assert query(prometheus, 'microcoder_test_seconds_bucket{le="0.1"}')[()] == sum(ran.values()) - 2
    assert query(prometheus, "microcoder_turn_seconds_count")[()] >= 2
    assert query(prometheus, "microcoder_workers")[()] == 2
    assert query(prometheus, "microcoder_queue_submissions")[()] == 0
    assert query(prometheus, "microcoder_suite_bytes")[()] > 0
    assert query(prometheus, "microcoder_suites")[()] == 1
    posted = 'microcoder_http_requests_total{method="POST",route="/v1/evaluations",status="200"}'
    assert query(prometheus, posted)[()] == 2
    assert query(prometheus, 'microcoder_http_request_seconds_count{route="/v1/evaluations"}')[()] == 2


def test_a_box_more_is_counted(served: Served, prometheus: httpx.Client):
    assert until(lambda: query(prometheus, "microcoder_box_starts_total")[()] >= 4)  # a box and a spare each
    started = query(prometheus, "microcoder_box_starts_total")[()]
    body = {
        "submission": {"program": {"source": "import numpy\nprint(input())"}},  # which runs in a box that has numpy
        "suite": {"tests": [{"kind": "stdin", "input": "1\n", "expected": "1\n"}]},
    }
    httpx.post(f"{served.url}/v1/evaluations?wait=50", json=body, headers=HEADERS, timeout=60)

    assert until(lambda: query(prometheus, "microcoder_box_starts_total")[()] == started + 1)
    assert query(prometheus, "microcoder_box_recycles_total")[()] == 0


def test_no_label_holds_what_a_client_chose(served: Served):
    for path in ("/v1/evaluations/secret-name", "/secret-path", f"/v1/suites/{'5ec2e7' * 10}aaaa"):
        httpx.get(served.url + path, headers=HEADERS)
    httpx.request("SECRETMETHOD", f"{served.url}/v1/evaluations", headers=HEADERS)
    text = httpx.get(f"{served.url}/metrics", headers=HEADERS).text

    assert 'route="/v1/evaluations/{id}",status="404"' in text
    assert 'route="none",status="404"' in text
    assert not re.search("secret|5ec2e7", text, re.IGNORECASE)


def test_metrics_need_the_key(served: Served):
    assert httpx.get(f"{served.url}/metrics").status_code == 401


def test_each_request_is_a_line_of_the_access_log(served: Served):
    httpx.get(f"{served.url}/v1/evaluations/a%0Ab%20level=ERROR?detail=full", headers=HEADERS)
    httpx.get(f"{served.url}/health")
    found = until(lambda: re.findall(r"logger=service.access (event=request .*health.*)", served.said()))
    [line] = re.findall(r"level=INFO logger=service.access (event=request .*ERROR.*)", served.said())

    assert re.fullmatch(
        r"event=request method=GET route=/v1/evaluations/{id} path=/v1/evaluations/a%0Ab%20level%3DERROR status=422 "
        r"ms=[\d.]+ bytes=\d+",
        line,
    )
    assert found
    assert KEY not in served.said() and "detail=full" not in served.said()


def test_the_dashboard_asks_for_metrics_that_there_are(served: Served, prometheus: httpx.Client):
    document = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in document["panels"] for target in panel.get("targets", ())]
    assert len(expressions) > 10
    known = prometheus.get("/api/v1/label/__name__/values").json()["data"]
    for expression in expressions:
        names = re.findall(r"microcoder_\w+", expression)
        assert names and set(names) <= set(known), expression
        assert query_any(prometheus, expression.replace("$__rate_interval", "1m").replace("$job", "microcoder"))


def test_counts_that_could_not_be_told_are_told_later():
    counts, made = Counts(), 3
    counts.follow("box_starts", lambda: made)
    for seconds in (0.0005, 0.5, 1000.0):
        counts.observe("test_seconds", seconds)
    taken = counts.take()
    assert counts.take() == {}
    counts.put_back(taken)
    made = 5
    counts.observe("test_seconds", 0.5)
    again = counts.take()

    assert again["box_starts"] == 5
    found = dict(distribution(again, "test_seconds").buckets)
    assert (found["0.001"], found["0.3"], found["1.0"], found["100.0"], found["+Inf"]) == (1, 1, 3, 3, 4)
    assert distribution(again, "test_seconds").sum == pytest.approx(1001.0005)
    assert list(found) == [*map(str, BOUNDS["test_seconds"]), "+Inf"]
