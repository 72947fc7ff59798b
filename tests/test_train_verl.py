"""The recipe for verl: the mask on verl's tensors, and its trainer under the real verl, Ray and TransferQueue.

verl has an environment of its own: `MICROCODER_PYTHON_VERL=/venv/bin/python` names it (with verl's extra `verl-core`).
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements_helper import require
from tests.served_helper import Served

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def code():
    """The functions that need torch."""
    obstacle = None if importlib.util.find_spec("torch") else "torch isn't installed here: pip install '.[trainer]'"
    require("torch", obstacle)
    from trainer.verl_recipe import masking

    return masking


def test_a_prompts_tokens_and_the_session_are_what_is_drawn_for(code):
    rule = code.make_rule({"rate": 0.5, "window": 1}, 4, [1])
    responses, verdicts = [[5, 6, 7, 8]] * 64, ["no_code"] * 64

    def find(uid: str, prompt: list[int], step: int) -> list[bool]:
        keys = [f"{uid}_{session}_0" for session in range(64)]
        found = code.mask_responses(keys, [prompt] * 64, responses, verdicts, rule, seed=1, step=step)
        return [one.masked for one in found]

    first = find("2f_a", [3, 4], 5)
    assert 16 < sum(first) < 48
    assert find("another", [3, 4], 5) == first, "a uid is random: a resumed run has others"
    assert find("2f_a", [3, 5], 5) != first
    assert find("2f_a", [3, 4], 6) != first


def test_masked_rows_are_zero_and_the_others_the_very_same(code):
    import torch

    rule = code.make_rule({"rate": 1.0, "window": 1}, 4, [1])
    keys = [f"u_{session}_0" for session in range(4)]
    responses = [[5, 6, 7, 8], [5, 6, 7, 1], [5, 6, 7, 8], [5, 6, 8, 8]]
    verdicts = ["no_code", "no_code", "wrong_answer", "no_code"]
    found = code.mask_responses(keys, [[3]] * 4, responses, verdicts, rule, seed=1, step=1)
    assert [one.masked for one in found] == [True, False, False, False]
    advantages = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
    masked = code.mask_rows(advantages, found)
    assert masked[0].tolist() == [0.0] * 4
    assert torch.equal(masked[1:], advantages[1:])


def test_what_the_recipe_cannot_follow_is_refused(code):
    assert code.make_rule({}, 4096, [1]).rate == 0.2
    with pytest.raises(ValueError, match="aren't known: rho"):
        code.make_rule({"rho": 0.1}, 4096, [1])
    assert code.read_verdict({"reward_extra_info": {"verdict": "accepted"}}) == "accepted"
    with pytest.raises(ValueError, match="custom_reward_function"):
        code.read_verdict({"reward_extra_info": {}})


def find_verl() -> str:
    """A Python that has verl and TransferQueue; without one, the test is skipped."""
    if chosen := os.environ.get("MICROCODER_PYTHON_VERL"):
        return chosen
    missing = any(importlib.util.find_spec(name) is None for name in ("verl", "transfer_queue"))
    require("verl", "verl isn't installed here; name an interpreter by MICROCODER_PYTHON_VERL" if missing else None)
    return sys.executable


def test_the_trainer_of_the_recipe_masks_under_verl():
    interpreter = find_verl()
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "client"), *inherited]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    program = str(Path(__file__).parent / "trainer_programs" / "verl_mask.py")
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served:
        environment["MICROCODER_URL"] = served.ready()
        command = [interpreter, program]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    lines = [line for line in answer.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, f"{answer.stdout[-2000:]}\n{answer.stderr[-4000:]}"
    result = json.loads(lines[-1].removeprefix("RESULT "))
    masked, plain = result["masked"], result["plain"]
    assert result["trainer"] == "PPOTrainerSync"
    assert result["verdicts"] == ["accepted", "wrong_answer", "no_code", "no_code", "wrong_answer", "compile_error"]
    assert [row[0] for row in plain["advantages"]] == pytest.approx([2.041236, *[-0.408247] * 5], abs=1e-5)
    assert masked["advantages"][2] == [0.0] * 4
    assert masked["advantages"][:2] + masked["advantages"][3:] == plain["advantages"][:2] + plain["advantages"][3:]
    assert masked["metrics"] == {"truncation/truncated": 3, "truncation/eligible": 1, "truncation/masked": 1}
    assert plain["metrics"]["truncation/masked"] == 0


def test_the_recipes_script_is_a_shell_program_that_says_how_it_is_used():
    script = ROOT / "trainer" / "verl_recipe" / "qwen3_4b.sh"
    bash = shutil.which("bash")
    require("bash", None if bash else "bash isn't installed here")
    answer = subprocess.run([bash, str(script)], capture_output=True, text=True)
    assert answer.returncode == 2
    assert "TRAIN.parquet VALIDATION.parquet" in answer.stderr
