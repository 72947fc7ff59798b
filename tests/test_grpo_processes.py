"""The trainer in two processes (gloo), beside the same in one: masks, stages, curves, outages, resampling."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.grpo_oracle_helper import Answer, Step, advantages
from tests.grpo_run_helper import ROOT, load_code

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def code() -> SimpleNamespace:
    """The modules that need TRL, on one thread."""
    return load_code()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both processes write."""
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def both(code, folder: Path) -> dict[str, list[dict]]:
    """What the two processes saw, by mode. One start for all modes: importing takes longer than training."""
    program = Path(__file__).parent / "trainer_programs" / "grpo_processes.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "client")]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [*launcher, str(program), str(folder), "spread", "planted", "outage", "dynamic"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    lines = [line for line in answer.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, f"{answer.stdout[-2000:]}\n{answer.stderr[-4000:]}"
    return json.loads(lines[-1].removeprefix("RESULT "))


def test_two_processes_make_one_update_and_end_with_equal_parameters(both):
    results = both["spread"]
    assert [result["rank"] for result in results] == [0, 1]
    assert len({result["parameters"] for result in results}) == 1
    for result in results:
        assert result["samples"] == 16, "those of both"
        assert result["distance"] < 1e-7 < 1e-3 < result["largest"]
        assert (result["steps"], result["calls"], result["stopped"]) == (4, [16, 16], "")
    # One group of 32, half of it in each process: the mean, the deviation and the draws are the whole group's.
    told = results[0]["worth"][0]
    assert told == results[1]["worth"][0]
    answers = [Answer(one[0], i, 0, *one[1:4], temperature=0.7) for i, one in enumerate(told)]
    step = Step(32, 6, [1], window=1, rate=0.5, seed=1, generation=0, low=0.2, high=0.28, by_token=True)
    assert [one[4] for one in told] == pytest.approx(advantages(answers, step), abs=1e-6)


def test_one_process_and_two_have_the_same_masks_stages_and_curves(code, both, tmp_path: Path):
    """On planted completions, since each process has chance of its own to generate with."""
    from tests.trainer_programs import grpo_processes

    alone = grpo_processes.run(tmp_path, "planted", per_device_train_batch_size=8)
    for result in both["planted"]:
        assert json.loads(json.dumps(alone["worth"])) == result["worth"], "advantages to the last bit"
    curves, others = alone["curves"], both["planted"][0]["curves"]
    assert [entry["temperature"] for entry in curves if "temperature" in entry] == pytest.approx([0.7, 1.2])
    assert sum(entry.get("truncation/masked", 0) for entry in curves) > 4
    assert max(entry["clip/low"] + entry["clip/high"] for entry in curves) > 0.05
    assert [entry.keys() for entry in curves] == [entry.keys() for entry in others]
    for one, other in zip(curves, others, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_when_the_service_is_out_for_one_of_two_processes_both_stop_with_a_checkpoint(code, both, folder: Path):
    for result in both["outage"]:
        assert (result["steps"], result["calls"]) == (2, [16, 16, 16]), "both ask again"
        assert "processes [1] in 2 attempts" in result["stopped"]
        assert result["parameters"] == result["updated"][-1], "none has moved since the last update"
    assert len({result["parameters"] for result in both["outage"]}) == 1
    saved = type(code.tiny.make_model()).from_pretrained(folder / "outage" / "checkpoint-2", dtype=code.torch.float64)
    found = hashlib.sha256(b"".join(one.detach().numpy().tobytes() for one in saved.parameters())).hexdigest()
    assert found == both["outage"][0]["parameters"]


def test_two_processes_resample_together_until_neither_has_a_flat_group(both):
    results = both["dynamic"]
    assert results[0]["calls"] == results[1]["calls"]
    assert len(results[0]["calls"]) == len(results[0]["worth"]) > 2, "more generations than were trained on"
    assert len({result["parameters"] for result in results}) == 1
    for result in results:
        assert result["steps"] == 4
        assert all(worth for part in result["advantages"] for worth in part), "a flat group's advantages are 0"
    first = results[0]["worth"][0]
    flat = [not any(one[4] for one in first[start : start + 8]) for start in range(0, 32, 8)]
    useful = next(rank for rank in (0, 1) if not any(flat[2 * rank : 2 * rank + 2]))
    assert any(flat), "the other process has one"
    kept = sorted(one[4] for one in first[16 * useful : 16 * useful + 16])
    trained = sorted(worth for part in results[useful]["advantages"][:2] for worth in part)
    assert trained == pytest.approx(kept, abs=1e-6)
