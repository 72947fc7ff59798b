"""The command line: real commands in real processes, and the streaming of `evaluate` with a judge that is scripted."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from microcoder_client import Client, stdin_test

from service import cli
from service.batch import BadLine, Defaults, Interrupted, Item, read_items, run
from service.supervisor import CannotServe, Worker, last_sentence, listen, url_of, worker_environment
from tests.served_helper import MICROCODER, Served, alive, until

DOUBLE = "print(int(input()) * 2)"
TESTS = [{"input": "4", "expected": "8"}, {"input": "5", "expected": "10"}]
RIGHT = {"source": DOUBLE, "tests": TESTS}


def lines(*records: Any) -> list[bytes]:
    return [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]


def read(*records: Any, defaults: Defaults | None = None) -> list[Item]:
    return list(read_items(lines(*records), defaults or Defaults()))


def microcoder(*arguments: object, **options) -> subprocess.CompletedProcess:
    command = [*MICROCODER, *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


# Reading a file


def test_a_line_becomes_a_submission_with_the_defaults_of_the_command_line() -> None:
    [item] = read({"id": [7], **RIGHT}, defaults=Defaults({"cpu_seconds": 2.0}, {"profile": "exact"}, False))

    assert (item.line, item.id) == (1, [7])
    assert item.submission.program.source == DOUBLE
    assert item.submission.limits.cpu_seconds == 2
    assert item.submission.policy.profile == "exact"
    assert item.submission.fail_fast is False


def test_what_a_line_says_goes_before_the_command_line() -> None:
    own = {"limits": {"cpu_seconds": 3, "memory_bytes": 1 << 28}, "policy": {"ignore_case": True}, "fail_fast": True}

    [item] = read({**RIGHT, **own}, defaults=Defaults({"cpu_seconds": 2.0}, {"profile": "microcoder"}, False))

    assert item.submission.limits.cpu_seconds == 3
    assert item.submission.limits.memory_bytes == 1 << 28
    assert (item.submission.policy.profile, item.submission.policy.ignore_case) == ("microcoder", True)
    assert item.submission.fail_fast is True


def test_a_program_may_be_text_or_an_object_or_a_models_answer() -> None:
    text, thing, answer, cut = read(
        {"program": DOUBLE, "tests": TESTS},
        {"program": {"source": "def f(x): return x", "entry_point": "f"}, "tests": [{"input": "1", "expected": "1"}]},
        {"answer": f"Here:\n```python\n{DOUBLE}\n```", "tests": TESTS},
        {"answer": f"Here:\n```python\n{DOUBLE}", "tests": TESTS},
    )

    assert text.submission.program.source == DOUBLE
    assert thing.submission.program.entry_point == "f"
    assert b'"kind":"functional"' in thing.suite
    assert answer.submission.program.source.strip() == DOUBLE
    assert cut.submission.program is None


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (b"{", "isn't JSON"),
        ([1], "is a JSON list"),
        ({"tests": TESTS}, "exactly one of source, program and answer"),
        ({**RIGHT, "answer": "x"}, "has source and answer"),
        ({"source": "1"}, "has no tests"),
        ({"source": "1", "tests": []}, "has no tests"),
        ({**RIGHT, "color": 1}, "the field 'color' isn't known"),
        ({**RIGHT, "expected_verdict": "fine"}, "expected_verdict must be one of accepted"),
        ({**RIGHT, "limits": {"cpu_seconds": -1}}, "limits.cpu_seconds"),
        (b'{"source": "1", "tests": [{"input": ""}], "limits": {"cpu_seconds": NaN}}', "NaN is no JSON number"),
        ({**RIGHT, "limits": 3}, "limits must be a JSON object"),
        ({**RIGHT, "policy": {"profile": "kind"}}, "policy.profile"),
        ({"source": "1", "tests": [{"expected": "1"}]}, "tests[0].input"),
        ({"source": "1", "tests": ["x"]}, "tests[0]"),
        ({"source": "", "tests": TESTS}, "program.source"),
        ({"source": 5, "tests": TESTS}, "program.source"),
        ({"source": "1", "entry_point": "f", "tests": [{"input": "{"}]}, "argument 1 isn't JSON"),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_what_is_wrong(record, complaint) -> None:
    with pytest.raises(BadLine, match=r"^line 2") as caught:
        read(RIGHT, record)

    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_blank_lines_are_counted_and_passed_over() -> None:
    assert [item.line for item in read(b"\n", RIGHT, b"  ", RIGHT)] == [2, 4]


# Judging a file


class Scripted:
    """Judges by calling `verdict` with the number of the line."""

    def __init__(self, verdict: Callable[[int], str] = lambda line: "accepted", batch: int = 1) -> None:
        self.verdict = verdict
        self.batch = batch
        self.most = 100
        self.grace = 5.0
        self.stopped = threading.Event()

    def judge(self, items: list[Item]) -> list[dict]:
        return [{"verdict": self.verdict(item.line)} for item in items]

    def stop(self) -> None:
        self.stopped.set()


def run_lines(judging: Scripted, records: list, interrupt: threading.Event | None = None, workers: int = 3) -> list:
    """What is written; the exception that ended it, if any, comes last."""
    written: list = []
    try:
        items = read_items(lines(*records), Defaults())
        run(items, judging, workers, written.append, lambda count: None, interrupt or threading.Event())
    except (BadLine, Interrupted, RuntimeError) as error:
        written.append(error)
    return written


@pytest.mark.parametrize("batch", [1, 4])
def test_judgements_come_out_in_the_order_of_the_lines(batch) -> None:
    def slow_first(line: int) -> str:
        time.sleep(0.1 if line % 7 == 1 else 0)
        return "accepted"

    written = run_lines(Scripted(slow_first, batch), [RIGHT] * 30)

    assert [document["line"] for document in written] == list(range(1, 31))


@pytest.mark.parametrize("batch", [1, 4])
def test_a_bad_line_ends_the_reading_and_loses_nothing_before_it(batch) -> None:
    *written, error = run_lines(Scripted(batch=batch), [*[RIGHT] * 9, b"nonsense", RIGHT])

    assert [document["line"] for document in written] == list(range(1, 10))
    assert isinstance(error, BadLine)


def test_a_file_of_any_length_is_read_only_as_far_as_it_is_needed() -> None:
    gate, taken = threading.Event(), []

    def records() -> Iterator[bytes]:
        for number in range(10_000):
            taken.append(number)
            yield from lines(RIGHT)

    def verdict(line: int) -> str:
        gate.wait(10)
        return "accepted"

    interrupt = threading.Event()
    items = read_items(records(), Defaults())
    arguments = (items, Scripted(verdict), 2, lambda document: None, lambda count: None, interrupt)

    def interrupted() -> None:
        with pytest.raises(Interrupted):
            run(*arguments)

    thread = threading.Thread(target=interrupted)
    thread.start()
    time.sleep(0.5)
    reached = len(taken)
    interrupt.set()
    gate.set()
    thread.join(10)

    assert reached < 50


def test_an_interrupt_writes_what_is_judged_and_not_what_was_cut_off() -> None:
    interrupt = threading.Event()
    judging = Scripted()

    def verdict(line: int) -> str:
        if line <= 5:
            return "accepted"
        interrupt.set()
        judging.stopped.wait(10)
        return "cancelled"

    judging.verdict = verdict
    *written, error = run_lines(judging, [RIGHT] * 100, interrupt)

    assert [document["line"] for document in written] == [1, 2, 3, 4, 5]
    assert isinstance(error, Interrupted)


def test_a_failure_of_the_judge_ends_it_after_what_others_have_judged_is_written() -> None:
    def verdict(line: int) -> str:
        if line == 2:
            raise RuntimeError("no boxes any more")
        return "accepted"

    *written, error = run_lines(Scripted(verdict), [RIGHT] * 3, workers=1)

    assert written[0]["line"] == 1
    assert isinstance(error, RuntimeError)


def test_agreement_is_told_where_a_verdict_is_expected() -> None:
    records = [
        {**RIGHT, "id": "a", "expected_verdict": "accepted"},
        {**RIGHT, "expected_verdict": "wrong_answer"},
        RIGHT,
    ]

    first, second, third = run_lines(Scripted(), records)

    assert first == {"line": 1, "id": "a", "expected_verdict": "accepted", "agrees": True, "verdict": "accepted"}
    assert second["agrees"] is False
    assert "agrees" not in third and "id" not in third


# The pieces of serve


def test_a_port_that_is_taken_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotServe, match="choose another --port"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_a_host_that_isnt_ours_is_said_so() -> None:
    with pytest.raises(CannotServe, match="--host"):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1")])
def test_the_url_can_be_reached_from_here(host, shown) -> None:
    with listen(host, 0) as listener:
        url = url_of(listener)
        assert url == f"http://{shown}:{listener.getsockname()[1]}"
        socket.create_connection((shown, listener.getsockname()[1])).close()


def test_a_worker_learns_the_address_of_redis_and_not_the_keys(monkeypatch, settings) -> None:
    monkeypatch.setenv("MICROCODER_API_KEYS", "secret")
    monkeypatch.setenv("MICROCODER_REDIS_URL", "redis://elsewhere")

    environment = worker_environment(settings)

    assert environment["REDIS_URL"] == settings.redis_url
    assert "MICROCODER_REDIS_URL" not in environment
    assert "secret" not in environment.values()


def test_the_sentence_of_a_worker_that_cant_start_is_its_last_message() -> None:
    said = "time=now level=ERROR logger=service.worker event=no_sandbox message=There is no bwrap: install it."

    assert last_sentence(Worker(1, last_words=["noise", said])) == "There is no bwrap: install it."


# Commands that don't judge


def test_the_version_is_printed() -> None:
    assert microcoder("--version").stdout == "microcoder 0.1.0\n"


def test_asking_for_the_version_loads_neither_the_sandbox_nor_the_service() -> None:
    code = (
        "import sys; from service import cli\n"
        "print([name for name in ('docker', 'redis', 'fastapi', 'evaluator.judge', 'httpx') if name in sys.modules])"
    )

    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["evaluate", "no-such-file"], 2, "Can't read no-such-file: No such file or directory."),
        (["evaluate", "-", "--url", "nonsense"], 2, "write it like http://127.0.0.1:8000"),
        (["evaluate", "-", "--url", "http://127.0.0.1:1"], 3, "Nothing answers at http://127.0.0.1:1"),
        (["worker"], 1, "No Redis is configured: set REDIS_URL"),
        (["worker", "--redis-url", "http://x"], 1, "write it as redis://"),
        (["serve", "--host", "0.0.0.0"], 1, "without an API key"),
    ],
)
def test_expected_failures_are_one_sentence_on_stderr(arguments, status, sentence) -> None:
    environment = {name: value for name, value in os.environ.items() if "REDIS_URL" not in name}

    ended = microcoder(*arguments, stdin=subprocess.DEVNULL, env=environment)

    assert ended.returncode == status
    assert ended.stdout == ""
    assert sentence in ended.stderr
    assert ended.stderr.startswith("microcoder: ")
    assert ended.stderr.count("\n") == 1


def test_every_command_and_option_is_documented() -> None:
    text = Path(__file__, "../../docs/commands.md").resolve().read_text()
    group = typer.main.get_command(cli.app)

    for name, command in group.commands.items():
        assert f"microcoder {name}" in text
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}" in text, f"{name} {option} is missing"


# The whole service, and files judged by it and here


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A service with one worker. The last of its tests stops it."""
    with Served("--workers", "1", "--sandbox", "bubblewrap", MICROCODER_LEASE_SECONDS="1") as served:
        served.url = served.ready()
        yield served


@pytest.fixture
def programs(tmp_path) -> Path:
    """A file with a right, a wrong, a crashing and an incomplete program."""
    records = [
        {"id": "right", **RIGHT, "expected_verdict": "accepted"},
        {"id": "wrong", "source": "print(8)", "tests": TESTS, "expected_verdict": "wrong_answer"},
        {"id": "crash", "source": "1/0", "tests": TESTS, "expected_verdict": "runtime_error"},
        {"id": "cut", "answer": "```python\nprint(", "tests": TESTS, "expected_verdict": "no_code"},
        {
            "id": "function",
            "source": "def add(a, b): return a + b",
            "entry_point": "add",
            "tests": [{"input": "2\n3", "expected": "5"}],
            "expected_verdict": "accepted",
        },
    ]
    file = tmp_path / "programs.jsonl"
    file.write_bytes(b"\n".join(lines(*records)))
    return file


def test_the_line_that_it_is_ready_tells_url_workers_and_boxes(served) -> None:
    assert served.line.startswith(
        f"MicroCoder is ready at {served.url} (1 worker with bubblewrap boxes, a private Redis)."
    )
    assert httpx.get(f"{served.url}/health").json()["status"] == "ok"


def test_a_file_is_judged_the_same_here_and_by_a_service(programs, tmp_path, served) -> None:
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"

    local = microcoder("evaluate", programs, "--out", here, "--sandbox", "bubblewrap", "--workers", "2")
    remote = microcoder("evaluate", programs, "--out", there, "--url", served.url)

    assert (local.returncode, remote.returncode) == (0, 0), local.stderr + remote.stderr
    judged = [[json.loads(line) for line in file.read_text().splitlines()] for file in (here, there)]
    first, second = ([(line["id"], line["verdict"], line["reward"]) for line in lines] for lines in judged)
    assert first == second
    assert [set(line) for line in judged[0]] == [set(line) for line in judged[1]]
    assert "5 of 5 agree with their expected_verdict." in local.stderr


def test_a_disagreement_is_shown_and_makes_the_status_1(tmp_path) -> None:
    file = tmp_path / "file.jsonl"
    file.write_bytes(lines({"id": "x", "source": "print(9)", "tests": TESTS, "expected_verdict": "accepted"})[0])

    ended = microcoder("evaluate", file, "--sandbox", "bubblewrap")

    assert ended.returncode == 1
    assert json.loads(ended.stdout)["agrees"] is False
    assert "line 1 (x): expected accepted, got wrong_answer" in ended.stderr


def test_a_bad_line_in_a_pipe_loses_nothing_before_it() -> None:
    given = b"\n".join(lines(RIGHT, RIGHT, b'{"source": "1"}', RIGHT)).decode()

    ended = microcoder("evaluate", "-", "--sandbox", "bubblewrap", "--workers", "1", input=given)

    assert ended.returncode == 2
    assert [json.loads(line)["line"] for line in ended.stdout.splitlines()] == [1, 2]
    assert "microcoder: line 3 has no tests" in ended.stderr


def test_ctrl_c_stops_a_file_and_keeps_what_is_judged(tmp_path) -> None:
    file, out = tmp_path / "file.jsonl", tmp_path / "out.jsonl"
    endless = {"source": "while True: pass", "tests": TESTS, "limits": {"cpu_seconds": 100}}
    file.write_bytes(b"\n".join(lines(RIGHT, endless)))
    command = [*MICROCODER, "evaluate", str(file), "--out", str(out), "--sandbox", "bubblewrap", "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: out.exists() and out.read_text())
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)

    assert process.returncode == 130
    assert "microcoder: Interrupted" in said
    assert len(out.read_text().splitlines()) == 1


def test_a_killed_worker_is_replaced_and_what_it_had_is_judged(served) -> None:
    before = served.workers()
    with Client(served.url) as client:
        sources = [f"import time\ntime.sleep(0.5)\nprint(8)  # {number}" for number in range(4)]
        id = client.submit(sources, suite=[stdin_test("", "8")])
        until(lambda: client.fetch(id).judged)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        after = until(lambda: served.workers() - before)
        evaluation = client.fetch(id, wait=40)

    assert after
    assert [judgement.verdict for judgement in evaluation.judgements] == ["accepted"] * 4


def test_sigterm_stops_everything_and_leaves_no_process(served) -> None:
    family = until(
        lambda: len(found := served.descendants()) >= 3 and found
    )  # a worker that was replaced makes its box

    assert family
    assert served.stop(signal.SIGTERM) == 0
    assert until(lambda: not alive(family))


def test_nothing_outlives_a_service_that_is_killed() -> None:
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served:
        served.ready()
        family = served.descendants()

        served.stop(signal.SIGKILL)

        assert until(lambda: not alive(family))
    [directory] = {found[1] for command in family.values() if (found := re.search(r"unixsocket:(.*)/r\.sock", command))}
    shutil.rmtree(directory)  # nobody was left to do it


def test_a_worker_that_cant_make_boxes_stops_everything_with_its_sentence(tmp_path) -> None:
    with Served("--workers", "2", "--sandbox", "docker", DOCKER_HOST=f"unix://{tmp_path}/none.sock") as served:
        out, _ = served.process.communicate(timeout=40)
        said = served.said()

    assert served.process.returncode == 1
    assert out == ""
    assert re.search(r"^microcoder: .*Docker daemon does not answer", said, re.M)


def test_a_service_without_workers_is_said_to_be_so_before_one_waits_for_it(tmp_path) -> None:
    file = tmp_path / "file.jsonl"
    file.write_bytes(lines(RIGHT)[0])
    with Served("--workers", "0") as served:
        command = [*MICROCODER, "evaluate", str(file), "--url", served.ready()]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            said = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=30)
            finally:
                process.kill()  # a test that fails must not wait for ever as well

    assert said.startswith("microcoder: The service says: No worker is alive")
    assert process.returncode == 130
