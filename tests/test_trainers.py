"""Reward functions inside the trainers themselves, each in a process of its own, which needs that trainer installed.

A trainer that isn't in this environment is looked for in another interpreter: `MICROCODER_PYTHON_TRL=/venv/bin/python`,
and so on (`_VERL`, `_VERIFIERS`, `_OPENRLHF`, `_SLIME`); `MICROCODER_PYTHON_VERIFIERS_LEGACY` for a verifiers with
rubrics. Beside the trainer, httpx is all that is needed there.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from microcoder_client.rewards import openrlhf, verl

from tests.requirements_helper import require
from tests.scripted_helper import LOST, ScriptedService
from tests.served_helper import Served

PROGRAMS = Path(__file__).parent / "trainer_programs"
CLIENT = Path(__file__).parents[1] / "client"


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The URL of the real service."""
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served:
        yield served.ready()


@pytest.fixture(scope="module")
def losing() -> Iterator[str]:
    """The URL of a service that loses its boxes: every judgement is `internal_error`."""
    with ScriptedService(lambda submission: LOST) as scripted:
        yield scripted.url


def find_interpreter(trainer: str, module: str) -> str:
    """A Python that has the trainer; without one, the test is skipped."""
    variable = f"MICROCODER_PYTHON_{trainer.upper()}"
    if chosen := os.environ.get(variable):
        return chosen
    found = importlib.util.find_spec(module.partition(".")[0]) is not None and importlib.util.find_spec(module)
    require(trainer, None if found else f"{module} isn't installed here; name an interpreter that has it by {variable}")
    return sys.executable


def run_program(interpreter: str, name: str, url: str, *arguments: str) -> Any:
    """What a program printed after `RESULT`."""
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment = os.environ | {
        "MICROCODER_URL": url,
        "PYTHONPATH": os.pathsep.join([str(CLIENT), *inherited]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [interpreter, str(PROGRAMS / f"{name}.py"), *arguments]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    lines = [line for line in answer.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, f"{answer.stdout[-2000:]}\n{answer.stderr[-4000:]}"
    return json.loads(lines[-1].removeprefix("RESULT "))


def test_trls_grpo_trainer_learns_from_the_rewards_for_three_steps(service: str, tmp_path: Path) -> None:
    result = run_program(find_interpreter("trl", "trl"), "trl_grpo", service, str(tmp_path))

    assert result["steps"] == len(result["logs"]) == len(result["verdicts"]) == 3
    verdicts = [verdict for step in result["verdicts"] for verdict in step]
    assert {"accepted", "wrong_answer", "compile_error", "no_code"} == set(verdicts)
    assert result["rewards"] == [[float(verdict == "accepted") for verdict in step] for step in result["verdicts"]]
    for logs, rewards in zip(result["logs"], result["rewards"], strict=True):
        assert logs["verdict/accepted"] == logs["rewards/code_reward/mean"] == sum(rewards) / len(rewards)
        assert logs["grad_norm"] > 0
    assert result["changed"]


def test_trls_grpo_trainer_learns_nothing_from_an_outage_and_goes_on(losing: str, tmp_path: Path) -> None:
    result = run_program(find_interpreter("trl", "trl"), "trl_grpo", losing, str(tmp_path))

    assert result["steps"] == 3
    assert {verdict for step in result["verdicts"] for verdict in step} == {"internal_error"}
    assert {reward for step in result["rewards"] for reward in step} == {None}
    assert {advantage for step in result["advantages"] for advantage in step} == {0.0}
    assert not result["changed"]


@pytest.mark.parametrize("path", ["pkg://microcoder_client.rewards.verl", verl.__file__])
@pytest.mark.parametrize("name", ["compute_score", "compute_score_sync"])
def test_verls_loader_and_reward_manager_take_the_function(service: str, path: str, name: str) -> None:
    result = run_program(find_interpreter("verl", "verl"), "verl_loader", service, path, name)

    assert result["manager"] == "verl.experimental.reward_loop.reward_manager.naive"
    right, wrong, broken = result["results"]
    assert right["reward_score"] == 1.0
    assert right["reward_extra_info"] == {"score": 1.0, "acc": 1.0, "verdict": "accepted"}
    assert (wrong["reward_score"], wrong["reward_extra_info"]["verdict"]) == (0.5, "wrong_answer")
    assert (broken["reward_score"], broken["reward_extra_info"]["verdict"]) == (0.0, "compile_error")


def test_verls_reward_manager_is_stopped_by_an_outage(losing: str) -> None:
    path, name = "pkg://microcoder_client.rewards.verl", "compute_score"
    result = run_program(find_interpreter("verl", "verl"), "verl_loader", losing, path, name)

    assert result["results"] == ["RewardUnavailable"] * 3


def test_openrlhfs_executor_takes_the_function_and_none(service: str, losing: str) -> None:
    interpreter = find_interpreter("openrlhf", "openrlhf")
    right, wrong = run_program(interpreter, "openrlhf_executor", service, openrlhf.__file__)
    lost, _ = run_program(interpreter, "openrlhf_executor", losing, openrlhf.__file__)

    assert (right["reward"], right["logs"]["verdict_accepted"]) == ([1.0], 1.0)
    assert (wrong["reward"], wrong["logs"]["verdict_accepted"]) == ([0.0], 0.0)
    assert (lost["reward"], lost["logs"]["verdict_internal_error"]) == (None, 1.0)


def test_slimes_rollout_takes_the_reward_and_drops_an_unjudged_group(service: str, losing: str) -> None:
    interpreter = find_interpreter("slime", "slime.rollout")
    judged = run_program(interpreter, "slime_rollout", service)
    lost = run_program(interpreter, "slime_rollout", losing)

    assert judged["rewards"] == [{"score": 1.0, "verdict": "accepted"}, {"score": 0.0, "verdict": "wrong_answer"}]
    assert not judged["dropped"]
    assert [reward["score"] for reward in lost["rewards"]] == [None, None]
    assert (lost["dropped"], lost["reason"]) == (True, "unjudged")


def test_verifiers_plugs_the_reward_into_a_task(service: str, losing: str) -> None:
    interpreter = find_interpreter("verifiers", "verifiers.v1")
    right, wrong = run_program(interpreter, "verifiers_taskset", service)
    lost, _ = run_program(interpreter, "verifiers_taskset", losing)

    assert (right["reward"], right["info"], right["error"]) == (1.0, {"verdict": "accepted"}, None)
    assert (wrong["reward"], wrong["info"], wrong["error"]) == (0.0, {"verdict": "wrong_answer"}, None)
    assert lost["info"] == {"verdict": "internal_error"}
    assert "RewardUnavailable" in lost["error"] or "no reward" in lost["error"]


def test_verifiers_scores_with_the_rubric(service: str, losing: str) -> None:
    interpreter = find_interpreter("verifiers_legacy", "verifiers.rubrics")
    judged = run_program(interpreter, "verifiers_rubric", service)
    lost = run_program(interpreter, "verifiers_rubric", losing)

    right, wrong = {"reward": 1.0, "verdict": "accepted"}, {"reward": 0.0, "verdict": "wrong_answer"}
    assert judged == [state | {"infra": False} for state in (right, right, wrong)]
    assert lost == [{"reward": 0.0, "verdict": "internal_error", "infra": True}] * 3
