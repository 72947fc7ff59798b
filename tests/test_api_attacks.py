"""The API as an attack surface: what a hostile client sends to a service that really runs, and what must come of it.

One service, with a key, one worker and a Redis of its own. Wherever a case says that nothing was written, leaked or
killed, it is looked at from the host: the file system, the processes, the log.
"""

import ast
import base64
import gzip
import hashlib
import hmac
import json
import os
import pickle
import re
import resource
import shutil
import socket
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import redis
from microcoder_client.rewards import encoded_tests
from rq.serializers import JSONSerializer

from evaluator.executions import Execution
from evaluator.livecodebench import private_tests
from evaluator.model import Limits, Policy, Program, Submission
from service.fingerprints import fingerprint
from service.gate import RequireKey
from service.turns import TurnQueue
from tests.requirements_helper import require
from tests.served_helper import Served, until

ROOT = Path(__file__).parent.parent

KEY = "key-5f1c9d"
TESTS = [{"kind": "stdin", "input": "1\n", "expected": "2\n"}]
PROGRAM = {"program": {"source": "print(int(input()) + 1)"}}
JSON = {"Content-Type": "application/json"}


class Target:
    """The service under attack."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        self.folder = folder
        self.url = served.ready()
        self.client = httpx.Client(base_url=self.url, timeout=90, headers={"X-API-Key": KEY})

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post(path, content=content, headers=JSON | headers)

    def put(self, data: bytes, **headers: str) -> httpx.Response:
        return self.client.put(f"/v1/suites/{hashlib.sha256(data).hexdigest()}", content=data, headers=headers)

    def send(self, data: bytes) -> bytes:
        """Bytes as they are, on a connection of their own; all that comes back until the service hangs up or waits."""
        host, port = self.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            answer = b""
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65536):
                    answer += part
            except OSError:  # it has hung up, at whatever moment
                pass
            return answer

    @property
    def peak_bytes(self) -> int:
        """Memory of the API process, at most."""
        status = Path(f"/proc/{self.served.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024

    @property
    def connections(self) -> int:
        """Of clients with the service, as the kernel knows them: established, or left by one side."""
        port = f"{int(self.url.rpartition(':')[2]):04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
        return sum(line[1].endswith(f":{port}") and line[3] in ("01", "08") for line in lines[1:])

    def assert_well(self) -> None:
        """It judges, and it has told of no failure of its own."""
        answer = self.post("/v1/evaluations?wait=60", asked())
        assert answer.json()["judgements"][0]["verdict"] == "accepted"
        assert "event=failed" not in self.served.said()
        assert "Traceback" not in self.served.said()


def asked(**changes: Any) -> dict[str, Any]:
    return {"suite": {"tests": TESTS}, "submissions": [PROGRAM], **changes}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("service")
    arguments = ("--workers", "1", "--sandbox", "bubblewrap")
    with Served(*arguments, MICROCODER_API_KEYS=f"{KEY},another", TMPDIR=str(folder)) as served:
        target = Target(served, folder)
        yield target
        target.client.close()


@pytest.fixture(autouse=True)
def _is_well_afterwards(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever was sent, the next one is served."""
    yield
    if "target" in request.fixturenames:
        request.getfixturevalue("target").assert_well()


# --- 7: names of files --------------------------------------------------------------------------------------------


def bad_names(folder: Path) -> list[str]:
    return [
        "../escaped", "a/../../escaped", "..", ".", "", "./", "a/", "a/.", "a/b/..", "nul\0", "\0", f"{folder}/written",
        "/escaped", "//escaped", "x" * 4096, "x" * 256, "é" * 200, "x/" * 2047 + "x", "d/" * 101 + "x",
    ]  # fmt: skip


def list_tree(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def test_names_that_lead_elsewhere_are_refused_and_nothing_is_written(target: Target, tmp_path: Path) -> None:
    before, source = list_tree(target.folder), "print(open(0).read())"
    for name in bad_names(tmp_path):
        run = target.post("/run_code", {"code": source, "files": {name: "YQ=="}})
        assert run.status_code == 422 and run.json()["detail"][0]["loc"] == ["body", "files"], (name, run.text)
        fetched = target.post("/run_code", {"code": source, "fetch_files": [name]})
        assert fetched.status_code == 422, (name, fetched.text)
        if name:  # Piston gives a file without a name one
            files = [{"content": source}, {"name": name, "content": "a"}]
            piston = target.post("/api/v2/execute", {"language": "python", "version": "*", "files": files})
            assert piston.status_code == 400 and "message" in piston.json(), (name, piston.text)
    assert not list(tmp_path.iterdir())
    assert not any(path.exists() for path in (Path("/escaped"), target.folder.parent / "escaped"))
    assert list_tree(target.folder) == before


def test_names_are_files_of_their_own_where_only_their_case_differs_and_refused_where_they_are_one(
    target: Target,
) -> None:
    files = {"a": base64.b64encode(b"1").decode(), "A": base64.b64encode(b"2").decode()}
    run = target.post("/run_code", {"code": "pass", "files": files, "fetch_files": ["a", "A"]}).json()
    assert run["files"] == files

    for twice in ({"a": "YQ==", "./a": "YQ=="}, {"a//b": "YQ==", "a/b": "YQ=="}):
        assert target.post("/run_code", {"code": "pass", "files": twice}).status_code == 422
    many = target.post("/run_code", {"code": "pass", "fetch_files": [f"f{number}" for number in range(1001)]})
    assert many.status_code == 422
    clash = target.post("/run_code", {"code": "print(1)", "files": {"a": "YQ==", "a/b": "YQ=="}}).json()
    assert (clash["status"], clash["run_result"]["stdout"]) == ("Failed", "")


def test_links_that_a_program_leaves_arent_followed_out_of_its_folder(target: Target) -> None:
    source = (
        "import os\nfor name, path in (('p', '/etc/passwd'), ('z', '/dev/zero'), ('m', '/proc/self/mem'),"
        " ('u', '../etc/passwd')): os.symlink(path, name)\nos.mkfifo('f')\nos.mkdir('d')\nopen('own', 'w').write('1')"
    )
    run = target.post("/run_code", {"code": source, "fetch_files": ["p", "z", "m", "u", "f", "d", "own"]}).json()

    assert run["files"] == {"own": "MQ=="}


# --- 83: malicious requests ---------------------------------------------------------------------------------------

NOT_SUITE_IDS = [
    "A" * 64, "0" * 63, "0" * 65, "g" * 64, "%30" * 63, "0" * 64 + "%0a", "0" * 63 + "%00", "..%2f..%2fetc%2fpasswd",
    "%2e%2e", "*", "٠" * 64, "0" * 32 + "/" + "0" * 31, "0" * 60000, "%ff" * 32, "{id}", "0" * 64 + ":0", "-1",
]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_what_is_no_suites_id_names_nothing(target: Target, method: str) -> None:
    for id in NOT_SUITE_IDS:
        answer = target.client.request(method, f"/v1/suites/{id}", content=b"" if method == "PUT" else None)
        assert answer.status_code in (404, 405, 422), (id, answer.status_code)


def test_an_evaluations_id_names_no_other_key_of_the_store(target: Target) -> None:
    """The record's parts lie beside it in Redis, under its id and a colon."""
    target.post("/v1/evaluations?wait=60", asked(id="e1"))
    others = ["e1:o", "e1:r", "e1:p", "e1:s", "e1:f", "e1:c", "e1:t", "e1:a", "e1%20", "e1%0a", "%00", "-", "e*", "é"]
    others += ["x" * 129, "x" * 50_000]
    for id in others:
        for path in (f"/v1/evaluations/{id}", f"/v1/evaluations/{id}/events", f"/page/evaluations/{id}"):
            assert target.client.get(path).status_code == 422, path
        assert target.client.delete(f"/v1/evaluations/{id}").status_code == 422
    assert target.client.get("/v1/evaluations/e1").json()["state"] == "done"
    for path in ("?first=-1", f"?first={'9' * 30}", f"/{'9' * 30}", f"/0?first={'9' * 30}", "/-1", f"/{'9' * 5000}"):
        assert target.client.get(f"/page/evaluations/e1{path}").status_code in (200, 404, 422)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "x-gzip", "identity, gzip"])
def test_a_compressed_body_isnt_unpacked(target: Target, encoding: str) -> None:
    """A thousand to one, nested: whatever it would become, it is refused as it is."""
    bomb = gzip.compress(gzip.compress(b"[" * 20_000_000))
    before = target.peak_bytes
    for path in ("/v1/evaluations", "/run_code", "/submit", "/rewards/slime", "/page/evaluations"):
        headers = {"Content-Encoding": encoding}
        assert target.post(path, bomb, **headers).status_code == 415, path
    assert target.put(bomb, **{"Content-Encoding": encoding}).status_code == 415
    # Piston's body is read as it stands, and then it isn't JSON.
    assert target.post("/api/v2/execute", bomb, **{"Content-Encoding": encoding}).status_code == 400
    assert target.peak_bytes - before < 16 << 20


def test_tests_that_are_compressed_in_a_label_arent_unpacked(target: Target) -> None:
    bomb = base64.b64encode(zlib.compress(b"0" * 100_000_000, 9)).decode()
    before = target.peak_bytes
    for label in (bomb, {"private_test_cases": bomb}, {"tests": [[{"x": bomb}]]}):
        answer = target.post("/rewards/slime", {"response": "```\n1\n```", "label": label})
        assert answer.status_code == 422 and "compressed" in answer.json()["detail"]
    assert target.peak_bytes - before < 32 << 20


POSTED = ["/v1/evaluations", "/page/evaluations", "/run_code", "/submit", "/list_ids", "/get_prompts",
          "/get_prompt_by_id", "/api/v2/execute", "/rewards/openrlhf", "/rewards/slime"]  # fmt: skip
NESTED = [b"[" * 200_000, b'{"a":' * 200_000, b"[" * 200_000 + b"]" * 200_000, b'{"suite":' + b"[{}," * 100_000]


@pytest.mark.parametrize("path", POSTED)
def test_nesting_odd_bytes_and_endless_numbers_are_refused(target: Target, path: str) -> None:
    odd = [
        b"", b"\0", b"\xff\xfe[\0]\0", b"\xef\xbb\xbf{}", b'{"id": "\xff"}', b'"\\ud800"', b"null", b"[]",
        b"1e999999999",
        b"9" * 100_000, b'{"id": ' + b"9" * 100_000 + b"}", b'{"code": ' + b"9" * 5000 + b"}", b"NaN", b"-Infinity",
        b'{"code": "\\ud800"}', b'{"code": "a", "code": 1}', "{}".encode("utf-16"), b"{" * 10, b'{"\\ud800": 1}',
    ]  # fmt: skip
    for body in [*NESTED, *odd]:
        answer = target.post(path, body)
        assert answer.status_code in (400, 422), (path, body[:40], answer.status_code)
        assert len(answer.content) < 20_000, "no body comes back"


def test_json_inside_of_json_is_read_as_carefully(target: Target) -> None:
    """A label, or a data set's tests, may be JSON in a text."""
    deep, giant, half = "[" * 200_000, "9" * 5000, '["\\ud800"]'
    for kind in ("CommonOJDataset", "AutoEvalDataset", "MBPPDataset"):
        for test in (deep, giant, half, "x", "5", "null", '{"code": 5}', '[{"input": 5}]', [], None, 5, {}, [[]], "{"):
            row = {"id": 1, "test": test}
            config = {"dataset_type": kind, "language": "python", "provided_data": row}
            answer = target.post("/submit", {"dataset": "d", "id": 1, "completion": "x", "config": config})
            assert answer.status_code == 400, (kind, str(test)[:20], answer.text)
    for label in (deep, giant, half, "x", 5, None, [], {}, {"suite": deep}, {"inputs": [deep], "outputs": None}):
        answer = target.post("/rewards/openrlhf", {"query": ["x"], "labels": [label]})
        assert answer.status_code == 422, (str(label)[:20], answer.text)


def test_a_million_of_anything_is_refused_without_a_word_on_each(target: Target) -> None:
    """To say of each what is wrong with it would take gigabytes."""
    before, line, many = target.peak_bytes, b'{"kind":"stdin","input":""}\n', 500_000
    assert target.put(line * 1_000_000).status_code == 422
    bodies = {
        "/v1/evaluations": b'{"submissions":[' + b",".join([b"{}"] * many) + b"]}",
        "/api/v2/execute": b'{"language":"python","version":"*","files":[' + b",".join([b"1"] * many) + b"]}",
        "/rewards/openrlhf": b'{"labels":[],"query":[' + b",".join([b"1"] * many) + b"]}",
        "/list_ids": b'{"dataset":"d","config":{"provided_data":[' + b",".join([b"1"] * many) + b"]}}",
        "/run_code": b'{"code":"1","files":{' + b",".join(b'"%d":1' % at for at in range(many)) + b"}}",
    }
    for path, body in bodies.items():
        answer = target.post(path, body)
        assert answer.status_code in (400, 422) and len(answer.content) < 2000, (path, answer.text)
    tests = b'{"submission":{"program":{"source":"1"}},"suite":{"tests":[' + b",".join([line] * 200_000) + b"]}}"
    answer = target.post("/v1/evaluations", tests)
    assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == "suite.tests"
    assert target.peak_bytes - before < 768 << 20


GIANT = "1" + "0" * 400
NUMBERS = ["NaN", "-Infinity", "1e400", "-1", "0", "-0.0", "1e-400", "9" * 5000, GIANT, "true", '"1"', "[]"]


def test_limits_and_tolerances_that_no_program_can_have_are_refused(target: Target) -> None:
    def post(path: str, body: dict[str, Any], number: str) -> int:
        return target.post(path, json.dumps(body).replace('"@"', number).encode()).status_code

    for number in NUMBERS:
        for name in ("cpu_seconds", "wall_seconds", "memory_bytes", "output_bytes", "processes"):
            assert post("/v1/evaluations", asked(limits={name: "@"}), number) in (400, 422), (name, number)
        for name in ("absolute_tolerance", "relative_tolerance"):
            found = post("/v1/evaluations", asked(policy={name: "@"}), number)
            assert found in (400, 422) or number in ("0", "-0.0", "1e-400"), (name, number)
        for checker in (
            {"name": "float_tolerance", "absolute_tolerance": "@"},
            {"convention": "kattis", "files": {"a.py": "1"}, "cpu_seconds": "@"},
            {"convention": "kattis", "files": {"a.py": "1"}, "memory_bytes": "@"},
            {"convention": "@"}, {"name": "@"}, {"convention": "kattis", "files": "@"},
        ):  # fmt: skip
            assert post("/v1/evaluations", asked(suite={"tests": TESTS, "checker": checker}), number) in (400, 422)
            header = json.dumps({"checker": checker}).replace('"@"', number).encode()
            assert target.put(header + b"\n" + json.dumps(TESTS[0]).encode()).status_code == 422
        if number in ("NaN", "-Infinity", "1e400", "-1", "0", "true", '"1"', "[]"):
            assert post("/run_code", {"code": "1", "run_timeout": "@"}, number) == 422, number
            job = {"language": "python", "version": "*", "files": [{"content": "1"}], "run_timeout": "@"}
            assert post("/api/v2/execute", job, number) == 400, number


def test_names_that_are_there_twice_are_one_or_refused(target: Target) -> None:
    assert target.put(b'{"kind":"stdin","input":"1","input":"2"}\n').status_code == 422
    assert target.post("/v1/evaluations", asked(id="twice")).status_code in (200, 202)
    assert target.post("/v1/evaluations", asked(id="twice", fail_fast=False)).status_code == 409
    assert target.post("/v1/evaluations", asked(id="twice")).status_code in (200, 202)
    both = b'{"id": "first", "id": "second", ' + json.dumps(asked()).encode()[1:]
    assert target.post("/v1/evaluations", both).json()["id"] == "second"
    assert target.client.get("/v1/evaluations/first").status_code == 404


def test_half_a_surrogate_pair_and_other_bytes_are_no_suite(target: Target) -> None:
    for data in (
        b'{"kind":"stdin","input":"\\ud800"}\n',
        b'{"kind":"assertion","input":"\\udfff"}\n',
        b'{"kind":"stdin","input":"\xff"}\n',
        b'\xef\xbb\xbf{"kind":"stdin","input":""}\n',
        '{"kind":"stdin","input":""}\n'.encode("utf-16"),
        b'{"checker":{"convention":"kattis","files":{"a.py":"1"},"flags":["\\ud800"]}}\n{"kind":"stdin","input":""}\n',
        b'{"checker":{"convention":"kattis","files":{"../a.py":"1"}}}\n{"kind":"stdin","input":""}\n',
        b"\0" * 100_000,
    ):
        assert target.put(data).status_code == 422, data[:60]


# --- headers and the connection -----------------------------------------------------------------------------------

HEAD = f"Host: service\r\nX-API-Key: {KEY}\r\n".encode()
BODY = json.dumps(asked()).encode()
POST = b"POST /v1/evaluations HTTP/1.1\r\n" + HEAD + b"Content-Type: application/json\r\n"
MALFORMED = {
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a huge header": b"GET /v1/runtimes HTTP/1.1\r\n" + HEAD + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n",
    "a hundred thousand headers": b"GET /v1/runtimes HTTP/1.1\r\n" + HEAD + b"X: a\r\n" * 100_000 + b"\r\n",
    "a huge path": b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
    "a list of lengths": POST + b"Content-Length: 5, 6\r\n\r\n12345",
    "a negative length": POST + b"Content-Length: -5\r\n\r\n12345",
    "a signed length": POST + b"Content-Length: +5\r\n\r\n12345",
    "a hexadecimal length": POST + b"Content-Length: 0x5\r\n\r\n12345",
    "an endless length": POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n12345",
    "an odd transfer encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n",
    "two transfer encodings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n",
    "a bad chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n12345\r\n0\r\n\r\n",
    "an endless chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 5000 + b"\r\n",
    "a space before the colon": b"GET /v1/runtimes HTTP/1.1\r\nHost : a\r\n" + HEAD + b"\r\n",
    "a control character": b"GET /v1/runtimes HTTP/1.1\r\n" + HEAD + b"X: a\0b\r\n\r\n",
    "no HTTP at all": b"\x16\x03\x01\x02\0\x01\0" * 100,
    "an unknown version": b"GET /health HTTP/9.9\r\n" + HEAD + b"\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_refused_and_runs_nothing(target: Target, name: str) -> None:
    answer = target.send(MALFORMED[name])

    statuses = [int(found) for found in re.findall(rb"HTTP/1\.1 (\d+)", answer)]
    assert len(statuses) <= 1 and set(statuses) <= {400, 404, 408, 413, 431, 501, 505}, answer[:300]


def test_a_request_cant_be_hidden_in_the_body_of_another(target: Target) -> None:
    """Length and chunks disagree: the body is what the chunks say, and what follows it is no request with a key."""
    hidden = b"DELETE /v1/evaluations/e1 HTTP/1.1\r\nHost: service\r\n\r\n"
    data = POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", target.send(data))

    assert statuses in ([b"400"], [b"400", b"401"])


def test_neither_a_path_nor_a_host_gets_into_a_header(target: Target) -> None:
    for path in (
        "/v1/evaluations/a%0d%0aSet-Cookie:%20a=b",
        "/x%0d%0aSet-Cookie:%20a=b",
        "/v1/suites/%0d%0aSet-Cookie:a",
    ):
        assert "set-cookie" not in target.client.get(path).headers
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    answer = target.post("/v1/evaluations", asked(id="where"), **headers)
    assert answer.headers["location"] == "/v1/evaluations/where"
    assert "evil" not in str(answer.headers)
    for path in ("//evil.example/%2e%2e", "/docs/", "/page/"):  # no redirect leads away
        assert target.client.get(path).headers.get("location", "/").startswith(("/", target.url))


def test_paths_lead_to_no_file(target: Target) -> None:
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/page/page.js%00",
                 "/page/....//app.py",
                 "/page//etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/page/index.html"):  # fmt: skip
        raw = target.send(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nConnection: close\r\n\r\n".encode())
        assert raw.startswith(b"HTTP/1.1 404"), (path, raw[:200])


# --- 82: the comparison is attacked by what it compares -----------------------------------------------------------


def test_outputs_made_to_stall_the_comparison_cost_it_nothing(target: Target) -> None:
    expected = {"kind": "stdin", "input": "", "expected": "[" + "1, " * 1000 + "1]\n"}
    bombs = [
        "print('9' * 10**7)", "print('1e999999999')", "print('1e-999999999 ' * 10**5)", "print('[' * 10**6)",
        "print('1 ' * 5 * 10**5)", "print('1_' * 10**6)", "print('(' * 10**6 + ')' * 10**6)", "print('\"' * 10**6)",
        "print('\\\\' * 10**6)", "print('\\n' * 3 * 10**6)", "print('{1:' * 10**5)", "print('nan ' * 10**5)",
        "print('\\u0660' * 10**6)", "print('1e' + '9' * 10**6)", "print('-' * 10**6)", "print(' ' * 10**7)",
    ]  # fmt: skip
    body = {"suite": {"tests": [expected]}, "submissions": [{"program": {"source": source}} for source in bombs]}

    judged = target.post("/v1/evaluations?wait=60", body).json()

    verdicts = {source: judgement["verdict"] for source, judgement in zip(bombs, judged["judgements"], strict=True)}
    assert set(verdicts.values()) <= {"wrong_answer", "output_limit"}, verdicts


def test_no_text_takes_a_pattern_long(target: Target) -> None:
    """A pattern that looks again from every line, or every sign, takes hours for one of these: it would time out."""
    for text in ("\n" * 2_000_000, " " * 2_000_000, "import " * 300_000, "from\n" * 300_000, "#" + "\t" * 2_000_000):
        assert target.post("/run_code", {"code": text, "run_timeout": 20}).status_code == 200
    for text in ("`" * 500_000, "```\n" * 100_000, "<think>" * 100_000, "<" * 300_000, "~~~" * 100_000, "[" * 300_000):
        suite = {"tests": TESTS}
        answer = target.post("/v1/evaluations?wait=60", {"suite": suite, "submissions": [{"answer": text}]})
        assert answer.json()["judgements"][0]["verdict"] != "accepted"
    for version in ("1" * 100_000, "1." * 100_000, "||" * 100_000, "<" * 100_000, " " * 100_000, "٣.١", "²", "x" * 9):
        job = {"language": "python", "version": version, "files": [{"content": "1"}]}
        answer = target.post("/api/v2/execute", job)
        assert answer.status_code == 400 and len(answer.content) < 1000
    for label in ("\n" * 1_000_000, " " * 1_000_000 + "x"):
        assert target.post("/rewards/slime", {"response": "x", "label": label}).status_code == 422


# --- 83: no pickle --------------------------------------------------------------------------------------------------


class Call:
    """A pickle of this calls something when it is read."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


def malicious_pickles(witness: Path) -> dict[str, bytes]:
    touch = f"touch {witness}"
    system = f"cposix\nsystem\n(S'{touch}'\ntR.".encode()
    return {
        "os.system": pickle.dumps(Call(os.system, touch)),
        "os.system, protocol 0": pickle.dumps(Call(os.system, touch), 0),
        "eval": pickle.dumps(Call(eval, f"open({str(witness)!r}, 'w')")),
        "exec in a list": pickle.dumps(["[]", Call(exec, f"open({str(witness)!r}, 'w')")]),
        "GLOBAL": system,
        "INST": f"(S'{touch}'\niposix\nsystem\n.".encode(),
        "OBJ": f"(cposix\nsystem\nS'{touch}'\no.".encode(),
        "STACK_GLOBAL": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c"
        + bytes([len(touch)])
        + touch.encode()
        + b"\x85R.",
        "NEWOBJ": b"\x80\x02cposix\nsystem\n)\x81.",
        "BUILD": b"\x80\x02cbuiltins\nobject\n)\x81}b.",
        "an extension": b"\x80\x02\x82\x01.",
        "a persistent id": b"P1\n.",
        "a persistent object": b"\x80\x02K\x01Q.",
        "a path": pickle.dumps(witness),
        "a place in memory of 32 GiB": b"\x80\x02X\x00\x00\x00\x00r\xff\xff\xff\x7f.",
        "a place with many digits": b"I1\np" + b"9" * 30 + b"\n.",
        "a string longer than there is": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
        "a frame longer than there is": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        "a long of 2 GiB": b"\x80\x02\x8b\xff\xff\xff\x7f.",
        "a negative long": b"\x80\x02\x8b\xff\xff\xff\xff.",
        "a million lists": b"\x80\x02" + b"]" * 1_000_000 + b"a" * 999_999 + b".",
        "doubled ten thousand times": b"\x80\x02]q\x00" + b"(h\x00h\x00e" * 10_000 + b".",
        "a bytearray": b"\x80\x05\x96\xff\xff\xff\xff\x00\x00\x00\x00.",
        "a buffer": b"\x80\x05\x97.",
        "nothing": b"",
        "no end": b"\x80\x04\x8c\x01x",
        "an empty stack": b"\x80\x04.",
    }


def test_a_malicious_pickle_is_refused_by_both_readers_and_calls_nothing(tmp_path: Path) -> None:
    """LiveCodeBench's private tests are a pickle: the one place where foreign ones are read."""
    witness, before = tmp_path / "witness", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, data in malicious_pickles(witness).items():
        text = base64.b64encode(zlib.compress(data)).decode()
        with pytest.raises(private_tests.Undecodable):
            private_tests.decode_tests(text)
        assert encoded_tests.decode(text) is None, name
    assert not list(tmp_path.iterdir())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10
    text = base64.b64encode(zlib.compress(pickle.dumps("[]"))).decode()
    assert (private_tests.decode_tests(text), encoded_tests.decode(text)) == ([], "[]")


def imports_of(folder: str) -> dict[str, set[str]]:
    """The modules that each module of a package imports, by their full names."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / folder).rglob("*.py"):
        names = found.setdefault(str(path.relative_to(ROOT)), set())
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_nothing_else_reads_pickles() -> None:
    readers = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "shelve", "joblib", "jsonpickle", "pandas"}
    packages = ("service", "evaluator", "client/microcoder_client")
    found = {name for package in packages for name, names in imports_of(package).items() if names & readers}

    assert found == {
        "evaluator/livecodebench/private_tests.py",
        "client/microcoder_client/rewards/encoded_tests.py",
    }
    assert TurnQueue(redis.Redis(), "q", 1)._queue.serializer is JSONSerializer, "a job in Redis is JSON"


# --- 84: the cache of results -------------------------------------------------------------------------------------


def test_no_two_requests_share_a_place_in_the_cache() -> None:
    """Fields that would be the same text one after the other, and a list that would end elsewhere."""
    base = Submission(Program("ab"), "s" * 64)
    files = (("execution", json.dumps(["", [], [], []])),)
    others = [
        replace(base, program=Program("a", entry_point="b")),
        replace(base, program=Program("ab", entry_point="None")),
        replace(base, program=Program("ab", files=(("a", "b"),))),
        replace(base, program=Program("ab", files=(("ab", ""),))),
        replace(base, program=Program("ab", files=(("a", ""), ("b", "")))),
        replace(base, program=Program("ab", files=files)),
        replace(base, program=Program("ab"), execution=Execution()),
        replace(base, program=Program("ab"), execution=Execution("", ("", ""))),
        replace(base, program=Program("ab"), execution=Execution("", (), (("", ""),))),
        replace(base, program=None),
        replace(base, program=Program("")),
        replace(base, suite_id="s" * 63, program=Program("sab")),
        replace(base, policy=Policy(absolute_tolerance=0.0)),
        replace(base, policy=Policy(relative_tolerance=0.0)),
        replace(base, limits=Limits(cpu_seconds=1)),
        replace(base, limits=Limits(wall_seconds=1)),
    ]
    assert len({fingerprint(submission) for submission in [base, *others]}) == 1 + len(others)


def test_a_result_is_taken_from_the_cache_for_the_very_same_request_only(target: Target) -> None:
    program = {"source": "def f(x):\n    return x\ndef g(x):\n    return x + 1.0\n# cache", "entry_point": "f"}
    suite = {"tests": [{"kind": "functional", "input": "1", "expected": "1"}]}
    variants = {
        "as it is": {},
        "entry point": {"program": {**program, "entry_point": "g"}},
        "source": {"program": {**program, "source": program["source"] + " "}},
        "prelude": {"program": {**program, "prelude": "none"}},
        "test": {"suite": {"tests": [{"kind": "functional", "input": "1", "expected": "2"}]}},
        "checker": {"suite": {**suite, "checker": {"name": "tokens"}}},
        "limits": {"limits": {"cpu_seconds": 5}},
        "policy": {"policy": {"absolute_tolerance": 1.5}},
        "reward": {"reward": "fraction"},
        "fail_fast": {"fail_fast": False},
    }
    for is_cached in (False, True):
        for name, changes in variants.items():
            body = {"submission": {"program": program, "suite": suite, **changes}}
            [judgement] = target.post("/v1/evaluations?wait=60", body).json()["judgements"]
            assert judgement["cached"] is is_cached, name
            assert (judgement["verdict"] == "accepted") is (name not in ("test", "entry point")), (name, judgement)


# --- 85: requests of the service's own ----------------------------------------------------------------------------


def test_the_service_asks_nobody_for_anything(target: Target) -> None:
    """No callback, no address to fetch from: nothing in a request is an address, and no module could ask."""
    clients = {"httpx", "requests", "urllib.request", "http.client", "aiohttp", "urllib3", "ftplib", "smtplib"}
    asking = {name for name, names in imports_of("service").items() if names & clients}
    assert not asking
    document = target.client.get("/openapi.json").json()
    assert not document.get("webhooks") and '"callbacks"' not in json.dumps(document)
    sent = [schema for name, schema in document["components"]["schemas"].items() if name.endswith("In")]
    fields = {field for schema in sent for field in schema["properties"]}
    assert not {field for field in fields if re.search(r"ur[il]|hook|callback|host|address|proxy|endpoint", field)}
    body = asked(callback_url="http://169.254.169.254/", webhook="http://127.0.0.1:1/")
    assert target.post("/v1/evaluations", body).status_code == 422


# --- 86: keys, and logs -------------------------------------------------------------------------------------------


def test_whatever_isnt_a_key_lets_nobody_in(target: Target) -> None:
    def basic(text: str) -> bytes:
        return b"Basic " + base64.b64encode(text.encode())

    odd = [
        b"", b"Bearer", b"Bearer ", b"Bearer  ", b"bearer\t", b"Bearer " + KEY.encode()[:-1],
        b"Bearer " + KEY.encode() + b"x",
        b"Bearer " + KEY.upper().encode(), b"Bearer " + KEY.encode() + b",another", b"Bearer None",
        b"Bearer \xff\xfe", b"Bearer " + b"x" * 4000, b"Basic", b"Basic ", b"Basic ====", b"Basic \xff", basic(""),
        basic(":"), basic(f"{KEY}:x"), basic(f":{KEY} "), basic(f"::{KEY}"), b"Digest " + KEY.encode(), b"Bearer *",
        b"Bearer %00", b"Token " + KEY.encode(), b"Bearer,another",
    ]  # fmt: skip
    for said in odd:
        for name in (b"Authorization", b"X-API-Key"):
            head = b"GET /v1/runtimes HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            answer = target.send(head + name + b": " + said + b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 401") and b"www-authenticate: bearer" in answer.lower(), (
                name,
                said,
                answer,
            )
    with httpx.Client(base_url=target.url) as client:
        for path in ("/v1/runtimes?api_key=" + KEY, "/v1/runtimes?key=" + KEY, "//v1/runtimes", "/v1/runtimes/",
                     "/HEALTH", "/health/../v1/runtimes", "/metrics", "/page/overview", "/v1/ping/x"):  # fmt: skip
            assert client.get(path).status_code == 401, path
        for path, posted in (
            ("/v1/evaluations", asked()),
            ("/run_code", {"code": "1"}),
            ("/submit", {}),
            ("/nothing", {}),
        ):
            assert client.post(path, json=posted).status_code == 401


def test_a_nearly_right_key_takes_as_long_as_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key is compared, whole, whatever the ones before it said."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(key: bytes, given: bytes) -> bool:
        compared.append((key, given))
        return hmac.compare_digest(key, given)

    gate = RequireKey(None, ["first", "second", "third"])
    monkeypatch.setattr("service.gate.hmac", SimpleNamespace(compare_digest=compare))
    for given, known in ((b"first", True), (b"third", True), (b"firs", False), (b"zzz", False), (b"", False)):
        compared.clear()
        assert gate._is_known(given) is known
        assert compared == [(key, given) for key in (b"first", b"second", b"third")]


def test_nothing_that_is_sent_makes_a_line_in_the_log(target: Target) -> None:
    forged = "\ntime=2026-01-01T00:00:00.000Z level=ERROR logger=service event=forged"
    code = f"print('''{forged}''')\nraise Exception('''{forged}''')"
    target.post("/v1/evaluations?wait=60", asked(submissions=[{"program": {"source": code}}]))
    target.post("/v1/evaluations", asked(id=forged))
    target.post("/run_code", {"code": code, "language": forged, "files": {forged: "!"}})
    target.post("/api/v2/execute", {"language": forged, "version": forged, "files": [{"content": code}]})
    target.post("/rewards/slime", {"response": code, "label": forged})
    quoted = quote(forged)
    target.client.get(f"/v1/evaluations/{quoted}", headers={"User-Agent": quoted, "Referer": quoted})
    target.client.get(f"/{quoted}%1b[31m\u2028\x85")
    target.client.put(f"/v1/suites/{quoted}", content=forged.encode())
    target.send(b"GET /\x0b\x0c HTTP/1.1\r\nHost: a\r\n\r\n")
    target.send(b"FORGED\tevent=forged /v1 HTTP/1.1\r\nHost: a\r\n\r\n")

    until(lambda: "%1B" in target.served.said())
    said = target.served.said()
    lines = said.splitlines()
    assert len(lines) > 10 and all(line.startswith("time=20") for line in lines if line), lines
    assert not [line for line in lines if re.search(r"(?<![\w%])event=forged", line)]
    assert "\x1b" not in said and KEY not in said


# --- 91 and 93: others get their turn, and who leaves leaves nothing ----------------------------------------------


def test_five_hundred_slow_submissions_hold_up_neither_a_quick_one_nor_the_service(target: Target) -> None:
    slow = [{"program": {"source": f"import time\ntime.sleep(1)\nprint(2)  # {number}"}} for number in range(500)]
    target.post("/v1/evaluations", asked(id="slow", submissions=slow))
    try:
        quick = target.post("/v1/evaluations?wait=60", asked(id="quick", submissions=[quick_program()])).json()
        health = target.client.get("/health")

        assert [judgement["verdict"] for judgement in quick["judgements"]] == ["accepted"]
        assert health.status_code == 200 and health.json()["queue"]["submissions"] > 250
        assert target.client.get("/v1/evaluations/slow").json()["state"] != "done"
    finally:
        cancelled = target.client.delete("/v1/evaluations/slow").json()
    assert cancelled["counts"]["pending"] == 0


def quick_program() -> dict[str, Any]:
    return {"program": {"source": "print(int(input()) + 1)  # quick"}}


def test_who_hangs_up_leaves_neither_work_nor_connections(target: Target) -> None:
    """What waits is taken back; what runs ends within its limit."""

    def waiting() -> int:
        return target.client.get("/health").json()["queue"]["submissions"]

    assert until(lambda: waiting() == 0, 60)
    before = target.connections
    host, port = target.url.removeprefix("http://").split(":")
    connections = []
    for number in range(40):
        body = json.dumps({"code": f"import time\ntime.sleep(4)  # {number}"}).encode()
        head = f"POST /run_code HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\n"
        connection = socket.create_connection((host, int(port)))
        connection.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        connections.append(connection)
    half = socket.create_connection((host, int(port)))
    head = f"PUT /v1/suites/{'0' * 64} HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Length: 99\r\n\r\n"
    half.sendall(head.encode() + b"{")
    assert until(lambda: waiting() > 10)

    for connection in (*connections, half):
        connection.close()

    assert until(lambda: waiting() <= 4), "what nobody waits for is taken back"
    assert until(lambda: waiting() == 0, 60)
    assert until(lambda: target.connections <= before), "and every connection is closed"
    assert target.put(b'{"kind":"stdin","input":"hangs up"}\n').status_code == 201


# --- the page -----------------------------------------------------------------------------------------------------

SCRIPT = "<img src=x onerror=\"window.harmed=1\"><script>window.harmed=1</script><svg/onload='window.harmed=1'>"


def test_no_program_writes_into_the_page(target: Target) -> None:
    """Names of tests, inputs, outputs and errors are text, in a real browser; and the page's policy forbids scripts."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    require("browser", None if found else "There is no Chromium: apt-get install chromium.")
    playwright = pytest.importorskip("playwright.sync_api")
    tests = [
        {"kind": "stdin", "input": f"{SCRIPT}\n", "expected": f"</pre>{SCRIPT}", "name": SCRIPT},
        {
            "kind": "stdin",
            "input": "javascript:window.harmed=1",
            "expected": "{{constructor.constructor('harmed=1')()}}",
        },
    ]
    source = f"import sys\nprint({SCRIPT!r} + '</mark>' + input())\nsys.stderr.write({SCRIPT!r})\n"
    crash = f"raise Exception({SCRIPT!r})"
    body = asked(id="page", suite={"tests": tests}, fail_fast=False)
    body["submissions"] = [{"program": {"source": text}} for text in (source, crash, f"{SCRIPT} syntax")]
    assert target.post("/v1/evaluations?wait=60", body).json()["state"] == "done"
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        context = browser.new_context()
        context.add_init_script(f"sessionStorage.setItem('microcoder-key', '{KEY}')")
        page = context.new_page()
        page.set_default_timeout(30_000)
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("dialog", lambda dialog: complaints.append("dialog"))
        page.goto(f"{target.url}/#/")
        page.get_by_role("link", name="page", exact=True).click()
        page.get_by_role("link", name="Submission 1").click()
        page.get_by_role("heading", name="Submission 1").wait_for()
        assert SCRIPT in page.locator("main").inner_text()
        for number in (1, 2):
            page.goto(f"{target.url}/#/evaluations/page/{number}")
            page.get_by_role("heading", name=f"Submission {number + 1}").wait_for()
        for address in (
            f"#/evaluations/{quote(SCRIPT)}",
            f"#{quote(SCRIPT)}",
            "#/evaluations/page/0?first=javascript:1",
        ):
            page.goto(f"{target.url}/{address}")
            page.wait_for_load_state("networkidle")
        assert page.evaluate("window.harmed") is None
        assert page.locator("main img, main script, main svg[onload]").count() == 0
        assert not [text for text in complaints if "404" not in text and "422" not in text], complaints
        browser.close()
