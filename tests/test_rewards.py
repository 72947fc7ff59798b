"""Reward functions: against the real service, and against a scripted one or none for each framework's outage policy."""

import asyncio
import contextlib
import functools
import importlib
import importlib.util
import inspect
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from microcoder_client import Backoff, KeyRefused, RequestRefused, RewardUnavailable, UnreadableTests
from microcoder_client.rewards import openrlhf, scoring, slime, trl, verifiers, verl
from microcoder_client.rewards.completions import read_answer
from microcoder_client.rewards.scoring import AsyncCodeScorer, CodeScorer, Score

from tests.scripted_helper import ACCEPTED, LOST, ScriptedService
from tests.served_helper import Served, until

SHARED = Path(__file__).parents[2] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the labelled data in ../shared/data")

QUICK = {"backoff": Backoff(first=0.001, longest=0.002), "patience": 0.05}
DOUBLE = {"input_output": json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})}
RIGHT = "Doubled.\n```python\nprint(int(input()) * 2)\n```"
HALF = "```python\nprint(8)\n```"
CUT = "```python\nprint(int(inp"


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The URL of the real service."""
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served:
        yield served.ready()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A function that tells all reward functions where the service is; what they remember ends with the test."""
    monkeypatch.delenv("MICROCODER_API_KEY", raising=False)

    def environment(url: str, *, quick: bool = False) -> None:
        monkeypatch.setenv("MICROCODER_URL", url)
        if quick:
            for kind in (CodeScorer, AsyncCodeScorer):
                monkeypatch.setattr(kind, "__init__", functools.partialmethod(kind.__init__, **QUICK))

    yield environment
    for scorer in scoring.SHARED.values():
        if isinstance(scorer, CodeScorer):
            scorer.close()
    scoring.SHARED.clear()


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def run(awaitable: Any, *scorers: AsyncCodeScorer) -> Any:
    """The result, in an event loop of its own, whose connections are closed after it."""

    async def body() -> Any:
        try:
            return await awaitable
        finally:
            for scorer in (*scorers, *scoring.SHARED.values()):
                if isinstance(scorer, AsyncCodeScorer):
                    await scorer.close()

    return asyncio.run(body())


def score(kind: type, url: str, answers: list, rows: list, **options: Any) -> list[Score]:
    """The scores, by either scorer."""
    scorer = kind(url, **options)
    if kind is AsyncCodeScorer:
        return run(scorer.score(answers, rows), scorer)
    try:
        return scorer.score(answers, rows)
    finally:
        scorer.close()


both = pytest.mark.parametrize("kind", [CodeScorer, AsyncCodeScorer])


# The real service


@both
def test_the_real_service_scores_every_kind_of_row(service: str, kind: type) -> None:
    function = {"test_cases": [{"input": "[3, 1]", "output": "[1, 3]", "type": "function_call", "fn_name": "order"}]}
    method = "```python\nclass Solution:\n    def order(self, items: List[int]):\n        return sorted(items)\n```"
    adds = {"test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0"]}
    cases = [
        (RIGHT, DOUBLE, "accepted"),
        (HALF, DOUBLE, "wrong_answer"),
        (CUT, DOUBLE, "no_code"),
        ("", DOUBLE, "no_code"),
        ([{"role": "assistant", "content": RIGHT}], DOUBLE, "accepted"),
        (RIGHT + "<|im_end|>", DOUBLE, "accepted"),
        ("```python\nprint(1 / 0)\n```", DOUBLE, "runtime_error"),
        (method, function, "accepted"),
        ("```python\ndef order(items): return items\n```", function, "wrong_answer"),
        ("```python\ndef add(a, b): return a + b\n```", adds, "accepted"),
    ]

    scores = score(kind, service, [case[0] for case in cases], [case[1] for case in cases])

    assert [item.verdict for item in scores] == [case[2] for case in cases]
    assert [item.reward for item in scores] == [float(case[2] == "accepted") for case in cases]


@both
def test_the_reward_is_binary_or_the_fraction_of_tests(service: str, kind: type) -> None:
    failing_first = "```python\nprint(20)\n```"

    binary = score(kind, service, [RIGHT, HALF, failing_first], [DOUBLE] * 3)
    fraction = score(kind, service, [RIGHT, HALF, failing_first], [DOUBLE] * 3, fraction=True)

    assert [item.reward for item in binary] == [1.0, 0.0, 0.0]
    assert [item.reward for item in fraction] == [1.0, 0.5, 0.5]
    assert [item.verdict for item in fraction] == ["accepted", "wrong_answer", "wrong_answer"]


def test_an_answer_cut_off_in_its_thinking_isnt_taken_for_one(service: str) -> None:
    draft = f"Perhaps so:\n{RIGHT}\nNo, wait"

    [taken] = score(CodeScorer, service, [draft], [DOUBLE])
    [cut] = score(CodeScorer, service, [draft], [DOUBLE], answer_prefix="<think>\n")

    assert (taken.verdict, cut.verdict) == ("accepted", "no_code")


def test_limits_policy_and_whole_texts_reach_the_service(service: str) -> None:
    slow = "while True: pass"
    [limited] = score(CodeScorer, service, [slow], [DOUBLE], limits={"cpu_seconds": 0.2}, whole_text_if_unfenced=True)
    [exact] = score(CodeScorer, service, ["```\nprint(8, '')\n```"], [[{"input": "", "output": "8\n"}]],
                    policy={"profile": "exact"})  # fmt: skip

    assert (limited.verdict, exact.verdict) == ("time_limit", "wrong_answer")
    with pytest.raises(RequestRefused):
        score(CodeScorer, service, [RIGHT], [DOUBLE], limits={"cpu_seconds": 10_000})


def test_a_scorer_works_in_a_process_that_was_forked(service: str) -> None:
    program = (
        "import os, sys\n"
        "from microcoder_client.rewards.scoring import CodeScorer\n"
        f"scorer, row, answer = CodeScorer({service!r}), {DOUBLE!r}, {RIGHT!r}\n"
        "print(scorer(answer, row).verdict, flush=True)\n"
        "child = os.fork()\n"
        "print(scorer(answer, row).verdict, flush=True)\n"
        "os._exit(0) if child == 0 else os.waitpid(child, 0)\n"
    )

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert answer.stdout.split() == ["accepted"] * 3, answer.stderr


@needs_shared
@pytest.mark.shared
def test_labelled_generations_get_their_rewards_from_livecodebenchs_own_rows(service: str) -> None:
    rows = {}
    with (SHARED / "lcb" / "problems_v6.jsonl").open() as stream:
        for line in stream:
            row = json.loads(line)
            rows[row["question_id"]] = row
    answers, used, labels = [], [], []
    with (SHARED / "labelled" / "lcb_model_generations.jsonl").open() as stream:
        for line in stream:
            problem = json.loads(line)
            row = rows[problem["id"].partition("/")[2]]
            for submission in problem["submissions"]:
                # The right ones: a wrong one may pass the tests that are public.
                if submission["label"] == "accepted" and not problem["checker"] and len(answers) < 120:
                    answers.append(f"```python\n{submission['code']}\n```")
                    used.append(row)
                    labels.append(problem["id"])
    scores = score(AsyncCodeScorer, service, answers, used, prelude="contest")

    assert len(scores) == 120
    assert [(label, item) for label, item in zip(labels, scores, strict=True) if not item.accepted] == []


@needs_shared
@pytest.mark.shared
def test_labelled_programs_get_their_rewards_from_apps_and_mbpp_columns(service: str) -> None:
    answers, rows, labels = [], [], []
    for name, count in (("apps_stdin", 60), ("mbpp_assert", 60), ("leetcode_debugbench", 60)):
        taken = 0
        with (SHARED / "labelled" / f"{name}.jsonl").open() as stream:
            for line in stream:
                problem = json.loads(line)
                if problem["checker"]:
                    continue
                for submission in problem["submissions"]:
                    if taken < count:
                        answers.append(f"```python\n{submission['code']}\n```")
                        rows.append(_published_row(problem))
                        labels.append(submission["label"] == "accepted")
                        taken += 1

    scores = score(AsyncCodeScorer, service, answers, rows)

    assert len(scores) == 180
    assert 20 < sum(labels) < 160, "both kinds are there"
    other = [(index, item) for index, item in enumerate(scores) if item.accepted != labels[index]]
    assert not other


def _published_row(problem: dict) -> dict:
    """A labelled problem in the columns of its kind's datasets."""
    inputs = [test["input"] for test in problem["tests"]]
    if problem["kind"] == "assert":
        return {"test_list": inputs}
    value = {"inputs": inputs, "outputs": [test["expected"] for test in problem["tests"]]}
    return {"input_output": json.dumps({**value, "fn_name": problem["fn_name"]} if problem["fn_name"] else value)}


# What is sent


@both
def test_duplicates_are_sent_once_and_a_suite_is_uploaded_once(kind: type) -> None:
    with ScriptedService(lambda submission: ACCEPTED) as service:
        scorer = kind(service.url)
        rows = [DOUBLE, {**DOUBLE, "prompt": "the same tests"}, DOUBLE, [{"input": "", "output": "1"}]]
        calls = [scorer.score([RIGHT, RIGHT, HALF, RIGHT], rows), scorer.score([CUT], [DOUBLE])]
        if kind is AsyncCodeScorer:

            async def both_calls() -> list:
                return [await call for call in calls]

            calls = run(both_calls(), scorer)
        else:
            scorer.close()

    assert [len(scores) for scores in calls] == [4, 1]
    assert service.answers == [[RIGHT, HALF, RIGHT], [CUT]]
    assert service.uploads == len(service.suites) == 2


def test_large_batches_travel_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "BATCH_SUBMISSIONS", 2)
    monkeypatch.setattr(scoring, "BATCH_CHARACTERS", 40)
    answers = ["a", "b", "c", "d" * 30, "e" * 30]

    with ScriptedService(lambda submission: {**ACCEPTED, "detail": submission["answer"][0]}) as service:
        scores = score(CodeScorer, service.url, answers, [DOUBLE] * 5)

    assert service.answers == [["a", "b"], ["c", "d" * 30], ["e" * 30]]
    assert [item.detail for item in scores] == ["a", "b", "c", "d", "e"]


def test_a_row_that_cant_be_read_is_named() -> None:
    with pytest.raises(UnreadableTests, match="Row 1: "):
        CodeScorer("http://127.0.0.1:1").score([RIGHT, RIGHT], [DOUBLE, {"prompt": "?"}])
    with pytest.raises(ValueError, match="2 answers and 1 rows"):
        CodeScorer("http://127.0.0.1:1").score([RIGHT, RIGHT], [DOUBLE])


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("plain", "plain"),
        ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "a"),
        ([{"role": "assistant", "content": "a"}, {"role": "tool", "content": "t"}], "a"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "ab"),
        ([types.SimpleNamespace(role="assistant", content="a")], "a"),
        ([{"role": "assistant", "content": None}], ""),
        (None, ""),
        ("```\nx\n```<|im_end|>", "```\nx\n```"),
        ("```\nx\n```<|eot_id|>\n<|endoftext|></s>\n", "```\nx\n```"),
        ("```\nx\n```<｜end▁of▁sentence｜>", "```\nx\n```"),
        ("print('<|im_end|>')\n", "print('<|im_end|>')\n"),
        ("half \ud83d", "half ?"),
    ],
)
def test_answers_are_read_as_trainers_write_them(completion: Any, text: str) -> None:
    assert read_answer(completion) == text


# Outages


@both
def test_a_service_out_of_reach_gives_no_reward(kind: type, nowhere: str) -> None:
    [item] = score(kind, nowhere, [RIGHT], [DOUBLE], **QUICK)

    assert (item.reward, item.verdict) == (None, "internal_error")
    assert "microcoder serve" in item.detail


@both
def test_only_what_is_missing_is_asked_for_again(kind: type) -> None:
    seen: list[str] = []

    def judge(submission: dict) -> dict:
        seen.append(submission["answer"])
        return LOST if submission["answer"] == HALF and seen.count(HALF) < 3 else ACCEPTED

    with ScriptedService(judge) as service:
        scores = score(kind, service.url, [RIGHT, HALF], [DOUBLE] * 2, attempts=3, **QUICK)
        assert service.answers == [[RIGHT, HALF], [HALF], [HALF]]
        [lost] = score(kind, service.url, [RIGHT], [DOUBLE], **QUICK)

    assert [item.reward for item in scores] == [1.0, 1.0]
    assert lost.reward == 1.0


@both
def test_a_service_that_was_restarted_and_forgot_is_asked_anew(kind: type) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    slow = "```python\nimport time\ntime.sleep(3)\nprint(int(input()) * 2)\n```"
    arguments = ("--workers", "1", "--sandbox", "bubblewrap", "--port", port)
    scorer = kind(f"http://127.0.0.1:{port}")
    scorer._rules["wait"] = 0.1  # so that it is past its first request, which is simply repeated, when the end comes

    def ask() -> list[Score]:
        scores = scorer.score([slow], [DOUBLE])
        return run(scores, scorer) if kind is AsyncCodeScorer else scores

    with Served(*arguments) as first, ThreadPoolExecutor() as pool:
        url = first.ready()
        scores = pool.submit(ask)
        with httpx.Client() as client:
            assert until(lambda: client.get(f"{url}/health").json()["queue"]["submissions"])
        time.sleep(0.5)
        family = first.descendants()
        for pid in (first.process.pid, *family):  # as when the machine goes down
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        first.process.wait()
        with Served(*arguments) as second:
            second.ready()
            [item] = scores.result(timeout=60)
            if kind is CodeScorer:
                scorer.close()

    assert item.verdict == "accepted"


@both
def test_a_refusal_is_raised_not_passed_off_as_an_outage(kind: type) -> None:
    for status, error in ((401, KeyRefused), (422, RequestRefused)):
        with ScriptedService(lambda submission: ACCEPTED, status) as service, pytest.raises(error):
            score(kind, service.url, [RIGHT], [DOUBLE], **QUICK)


class Log:
    """TRL's `log_extra` and `log_metric`."""

    def __init__(self) -> None:
        self.extra: dict[str, list] = {}
        self.metrics: dict[str, float] = {}
        self.arguments = {"log_extra": self.extra.__setitem__, "log_metric": self.metrics.__setitem__}


COLUMNS = {
    "prompts": [[{"role": "user", "content": "Double it."}]] * 3,
    "completion_ids": [[1], [2], [3]],
    "input_output": [DOUBLE["input_output"]] * 3,
    "trainer_state": object(),
}


def test_trl_gets_rewards_verdicts_and_their_shares(service: str, environment: Callable) -> None:
    environment(service)
    completions = [[{"role": "assistant", "content": text}] for text in (RIGHT, HALF, CUT)]
    awaited, called = Log(), Log()

    rewards = run(trl.code_reward(completions=completions, **COLUMNS, **awaited.arguments))

    assert rewards == [1.0, 0.0, 0.0]
    assert awaited.extra == {"verdict": ["accepted", "wrong_answer", "no_code"]}
    assert awaited.metrics["verdict/accepted"] == awaited.metrics["verdict/no_code"] == pytest.approx(1 / 3)
    assert awaited.metrics["verdict/internal_error"] == 0
    assert trl.blocking_code_reward(completions=completions, **COLUMNS, **called.arguments) == rewards
    assert called.extra == awaited.extra
    assert trl.blocking_code_reward(completions=completions, **COLUMNS) == rewards, "a TRL that logs nothing"


def test_trl_gets_none_in_an_outage(nowhere: str, environment: Callable) -> None:
    environment(nowhere, quick=True)
    log = Log()

    rewards = run(trl.code_reward(completions=[RIGHT, HALF, CUT], **COLUMNS, **log.arguments))

    assert rewards == [None] * 3
    assert log.metrics["verdict/internal_error"] == 1
    assert trl.blocking_code_reward(completions=[RIGHT, HALF, CUT], **COLUMNS) == [None] * 3


def test_trl_gets_none_for_an_internal_error_alone(environment: Callable) -> None:
    with ScriptedService(lambda submission: LOST if submission["answer"] == HALF else ACCEPTED) as scripted:
        environment(scripted.url)
        assert trl.blocking_code_reward(completions=[RIGHT, HALF, RIGHT], **COLUMNS) == [1.0, None, 1.0]


def test_trls_reward_takes_options_and_travels_to_other_processes(service: str, environment: Callable) -> None:
    environment("http://127.0.0.1:1")
    heard: list[Score] = []
    awaited = pickle.loads(pickle.dumps(trl.make_reward(url=service, fraction=True)))
    blocking = trl.make_reward(blocking=True, on_scores=heard.extend, url=service)

    assert run(awaited(completions=[RIGHT, HALF, CUT], **COLUMNS)) == [1.0, 0.5, 0.0]
    assert blocking(completions=[RIGHT, HALF, CUT], **COLUMNS) == [1.0, 0.0, 0.0]
    assert [item.verdict for item in heard] == ["accepted", "wrong_answer", "no_code"]
    assert (awaited.__name__, blocking.__name__) == ("code_reward", "blocking_code_reward")
    assert [inspect.iscoroutinefunction(function) for function in (trl.code_reward, awaited, blocking)] == [1, 1, 0]


def test_verl_gets_a_dictionary_from_each_of_the_three_functions(service: str, environment: Callable) -> None:
    environment(service)
    truth = DOUBLE["input_output"]
    right = {"score": 1.0, "acc": 1.0, "verdict": "accepted"}
    half = {"score": 0.5, "acc": 0.0, "verdict": "wrong_answer"}

    awaited = run(
        verl.compute_score("taco", RIGHT, truth, {"index": 1}, reward_router_address=None),
    )
    called = verl.compute_score_sync(data_source="taco", solution_str=HALF, ground_truth=truth, fraction=True)
    batch = verl.compute_score_batch(["taco"] * 2, [RIGHT, HALF], [truth] * 2, [{}, None], fraction=True)

    assert awaited == right
    assert called == half
    assert batch == [right, half]


def test_verl_finds_the_functions_name_in_extra_info(service: str, environment: Callable) -> None:
    environment(service)
    truth = json.dumps({"inputs": ["1\n2"], "outputs": ["3"]})

    result = verl.compute_score_sync(
        "code", "```python\ndef add(a, b): return a + b\n```", truth, {"fn_name": "add", "split": "train"}
    )

    assert result["verdict"] == "accepted"


@pytest.mark.parametrize("cause", ["outage", "internal_error"])
def test_verl_tries_three_times_and_then_raises(cause: str, environment: Callable) -> None:
    with ScriptedService(lambda submission: LOST, 503 if cause == "outage" else 200) as scripted:
        environment(scripted.url, quick=True)
        options = {"deadline": 0.0} if cause == "outage" else {}
        for call in (verl.compute_score_sync, verl.compute_score):
            scripted.posted.clear()
            with pytest.raises(RewardUnavailable, match="go on from the last checkpoint"):
                result = call("taco", RIGHT, DOUBLE["input_output"], None, **options)
                run(result)
            assert len(scripted.posted) == 3
        with pytest.raises(RewardUnavailable):
            verl.compute_score_batch(["taco"], [RIGHT], [DOUBLE["input_output"]], **options)


def test_verl_goes_on_when_a_later_attempt_succeeds(environment: Callable) -> None:
    answers = iter([LOST, LOST, ACCEPTED])
    with ScriptedService(lambda submission: next(answers)) as scripted:
        environment(scripted.url, quick=True)
        assert verl.compute_score_sync("taco", RIGHT, DOUBLE["input_output"])["score"] == 1.0


def load_from_file(module: types.ModuleType) -> types.ModuleType:
    """The module as trainers load one that they are given the path of: outside of its package."""
    spec = importlib.util.spec_from_file_location("reward_func", module.__file__)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_openrlhf_gets_numbers_and_shares(service: str, environment: Callable, monkeypatch) -> None:
    environment(service)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(tensor=lambda numbers: ("tensor", numbers)))
    prompt = "<|im_start|>user\nDouble it, as in ```python\nprint(2)\n```\n<|im_start|>assistant\n"

    module = load_from_file(openrlhf)
    [right, cut] = [
        module.reward_func([f"<s>{prompt}{answer}<|im_end|>"], [prompt], [DOUBLE["input_output"]])
        for answer in (RIGHT, CUT)
    ]

    assert right["rewards"] == right["scores"] == ("tensor", [1.0])
    assert right["extra_logs"]["verdict_accepted"] == 1
    assert cut["rewards"] == ("tensor", [0.0])
    assert cut["extra_logs"]["verdict_no_code"] == 1, "the prompt's code isn't the answer's"
    assert right["extra_logs"].keys() == cut["extra_logs"].keys()


def test_openrlhf_gets_none_in_an_outage(nowhere: str, environment: Callable) -> None:
    environment(nowhere, quick=True)

    answer = openrlhf.reward_func([RIGHT], [""], [DOUBLE["input_output"]])

    assert answer["rewards"] is None and answer["scores"] is None
    assert answer["extra_logs"]["verdict_internal_error"] == 1


def test_openrlhfs_file_tells_its_path() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "microcoder_client.rewards.openrlhf"], capture_output=True, text=True, check=True
    )

    assert Path(answer.stdout.strip()).samefile(openrlhf.__file__)


@dataclass
class Sample:
    """slime's sample, as far as reward functions and filters look at it (slime/utils/types.py)."""

    response: str
    label: Any = None
    metadata: dict = field(default_factory=dict)
    reward: Any = None

    def get_reward_value(self, args: types.SimpleNamespace) -> Any:
        return self.reward if not args.reward_key else self.reward[args.reward_key]


@pytest.fixture
def filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """slime's answer of a filter (slime/rollout/filter_hub/base_types.py); slime itself isn't on PyPI."""

    @dataclass
    class DynamicFilterOutput:
        keep: bool
        reason: str | None = None

    module = types.SimpleNamespace(DynamicFilterOutput=DynamicFilterOutput)
    monkeypatch.setitem(sys.modules, "slime.rollout.filter_hub.base_types", module)


def slime_group(args: types.SimpleNamespace, group: list[Sample]) -> None:
    """A group's rewards, as slime's rollout gets them: sample by sample."""

    async def rewards() -> list:
        return await asyncio.gather(*(slime.reward(args, sample) for sample in group))

    for sample, given in zip(group, run(rewards()), strict=True):
        sample.reward = given


@pytest.mark.parametrize("key", [None, "score"])
def test_slime_gets_rewards_and_keeps_judged_groups(service: str, environment: Callable, filters, key) -> None:
    environment(service)
    args = types.SimpleNamespace(reward_key=key)
    group = [Sample(RIGHT, DOUBLE["input_output"]), Sample(f"{HALF}<|im_end|>", metadata=dict(DOUBLE))]

    slime_group(args, group)

    assert [sample.get_reward_value(args) for sample in group] == [1.0, 0.0]
    assert [sample.metadata["verdict"] for sample in group] == ["accepted", "wrong_answer"]
    if key:
        assert group[0].reward == {"score": 1.0, "verdict": "accepted"}
    assert slime.keep_judged(args, group).keep
    assert slime.keep_judged_and_varied(args, group).keep
    alike = slime.keep_judged_and_varied(args, [group[0], [group[0]]])
    assert (alike.keep, alike.reason) == (False, "zero_std_1.0")
    assert run(slime.reward(args, group)) == [sample.reward for sample in group], "--group-rm"


@pytest.mark.parametrize("key", [None, "score"])
@pytest.mark.parametrize("cause", ["outage", "internal_error"])
def test_slime_drops_a_group_that_misses_a_reward(cause, key, nowhere, environment: Callable, filters) -> None:
    args = types.SimpleNamespace(reward_key=key)
    group = [Sample(RIGHT, DOUBLE["input_output"]), Sample(HALF, DOUBLE["input_output"])]

    with ScriptedService(lambda submission: LOST if submission["answer"] == HALF else ACCEPTED) as scripted:
        environment(nowhere if cause == "outage" else scripted.url, quick=True)
        slime_group(args, group)

    assert group[1].get_reward_value(args) is None
    for keep in (slime.keep_judged, slime.keep_judged_and_varied):
        output = keep(args, group)
        assert (output.keep, output.reason) == (False, "unjudged")


def test_verifiers_v1_gets_a_number_or_an_exception(service: str, nowhere: str, environment: Callable) -> None:
    task = types.SimpleNamespace(model_dump=lambda: {"idx": 0, "prompt": "Double it.", **DOUBLE})
    trace = types.SimpleNamespace(last_reply=RIGHT, info={})

    environment(service)
    assert run(verifiers.code_reward(task, trace)) == 1.0
    assert trace.info == {"verdict": "accepted"}

    scoring.SHARED.clear()
    environment(nowhere, quick=True)
    with pytest.raises(RewardUnavailable):
        run(verifiers.code_reward(dict(DOUBLE), trace))
    assert trace.info == {"verdict": "internal_error"}


def test_every_name_in_the_docs_is_there() -> None:
    docs = Path(__file__).parents[1] / "docs"
    pages = [docs / "trainers.md", *sorted((docs / "trainers").glob("*.md"))]
    text = "\n".join(page.read_text() for page in pages)
    paths = set(re.findall(r"microcoder_client\.rewards[\w.:]*", text))
    paths |= {
        f"{module}.{name.strip()}"
        for module, names in re.findall(r"from (microcoder_client[\w.]*) import ([\w, ]+)", text)
        for name in names.split(",")
    }

    assert len(paths) > 12
    for path in paths:
        module, _, name = path.replace(":", ".").rstrip(".").rpartition(".")
        found = importlib.import_module(module)
        submodule = hasattr(found, "__path__") and importlib.util.find_spec(f"{module}.{name}")
        assert submodule or hasattr(found, name), path


def test_importing_a_reward_module_loads_no_framework() -> None:
    names = ("trl", "verl", "openrlhf", "slime", "verifiers", "torch", "numpy", "datasets")
    modules = ", ".join(
        f"microcoder_client.rewards.{name}" for name in ("trl", "verl", "openrlhf", "slime", "verifiers")
    )
    source = f"import sys, {modules}; print(*sys.modules)"

    answer = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)

    assert not set(answer.stdout.split()).intersection(names)
