"""The trainer on a random tiny model: what TRL must go on doing for it, and what it must compute itself.

Verdicts are planted by the tests where they choose them; one test takes them from the real service.
"""

import hashlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from microcoder_client.rewards.scoring import Score
from microcoder_client.rewards.trl import report

from tests.grpo_oracle_helper import Answer, Step, advantages
from tests.requirements_helper import require
from tests.served_helper import Served

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "trainer" / "configs" / "tiny-cpu.yaml"
PROMPTS = ["Double it: a number ", "Double a number ", "a number it: ", "it: Double "]

# Warnings of TRL and transformers about each other.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def code() -> SimpleNamespace:
    """The modules that need TRL, on one thread."""
    obstacle = None if importlib.util.find_spec("trl") else "TRL isn't installed here: pip install '.[trainer]'"
    require("trl", obstacle)
    import datasets
    import torch

    from tests import grpo_samples_helper
    from tests.trainer_programs import tiny_model
    from trainer import arguments, grpo

    torch.set_num_threads(1)
    return SimpleNamespace(
        torch=torch, datasets=datasets, tiny=tiny_model, samples=grpo_samples_helper, arguments=arguments, grpo=grpo
    )


@dataclass
class Run:
    """A trainer, and what was seen of it."""

    trainer: Any
    answers: list[list[Answer]] = field(default_factory=list)
    advantages: list[list[float]] = field(default_factory=list)
    ratios: list[list[float]] = field(default_factory=list)
    gradients: list[list[Any]] = field(default_factory=list)
    before: list[list[Any]] = field(default_factory=list)

    def logged(self, name: str) -> list[float]:
        """A measure, one a generation."""
        return [entry[name] for entry in self.trainer.state.log_history if name in entry]


def make_run(code: SimpleNamespace, folder: Path, judge=None, model: Any = None, **changes: Any) -> Run:
    """A trainer that has not begun, on the tiny configuration."""
    run = Run(None)

    def reward(hear):
        async def planted(completions: list[str], **columns: Any) -> list[float | None]:
            scores = [(judge or code.samples.judge)(text) for text in completions]
            return report(scores, columns["log_extra"], columns["log_metric"], hear)

        return planted

    class Watch(code.grpo.TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **others):
            run.before.append([p.detach().clone() for p in model.parameters()])
            run.gradients.append([p.grad.clone() for p in model.parameters()])

    class Watched(code.grpo.MicroCoderGRPOTrainer):
        def _weigh(self, inputs):
            temperature = self.temperature
            found = super()._weigh(inputs)
            run.advantages.append(found.tolist())
            run.answers.append(
                [
                    Answer(
                        code.grpo.name_prompt(row["prompt"]), i % 8, 0, ids, score.verdict, score.reward, temperature
                    )
                    for i, (row, ids, score) in enumerate(zip(inputs, self._ids, self._scores, strict=True))
                ]
            )
            return found

        def _compute_loss(self, model, inputs):
            ids = code.torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
            mask = code.torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
            self._temperatures = inputs["temperatures"]
            with code.torch.no_grad():
                new, _, _ = self._get_per_token_logps_and_entropies(model, ids, mask, inputs["completion_ids"].size(1))
            ratios = (new - inputs["old_per_token_logps"]).exp()
            run.ratios.append(ratios[inputs["completion_mask"].bool()].tolist())
            return super()._compute_loss(model, inputs)

    run.trainer = Watched(
        model=code.tiny.make_model() if model is None else model,
        args=code.arguments.read_config(CONFIG, output_dir=str(folder), **changes),
        reward=reward,
        train_dataset=code.datasets.Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
        processing_class=code.tiny.make_tokenizer(),
        callbacks=[Watch()],
    )
    return run


def test_the_configuration_gives_every_option_of_trls_a_value_of_its_own(code: SimpleNamespace):
    trls, own = map(inspect.get_annotations, (code.arguments.GRPOConfig, code.arguments.MicroCoderConfig))
    missing = trls.keys() - own.keys()
    assert not missing, f"TRL has options whose defaults it may change: {sorted(missing)}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": -0.001}, "0 or more"),
        ({"algorithm": "ppo"}, "microcoder, grpo, dapo-paper, dapo-full, deepcoder"),
        ({"mask_truncated_completions": True}, "whatever the verdict"),
        ({"vllm_importance_sampling_correction": True}, "a factor that the paper lacks"),
        ({"steps_per_generation": 3, "gradient_accumulation_steps": 2}, "no step spans two generations"),
        ({"save_strategy": "steps", "save_steps": 3}, "repeats prompts"),
        ({"temperatures": "0.6;1.2"}, "commas between them"),
        ({"truncation_rat": 0.1}, "truncation_rat"),
    ],
)
def test_options_that_this_trainer_cannot_follow_are_refused(code, tmp_path: Path, changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        code.arguments.read_config(CONFIG, output_dir=str(tmp_path), **changes)


def test_without_a_kl_term_no_reference_model_is_loaded(code, tmp_path: Path):
    assert make_run(code, tmp_path).trainer.ref_model is None


def test_log_probabilities_are_those_at_the_temperature_after_it_has_changed(code, tmp_path: Path):
    run = make_run(code, tmp_path)
    run.trainer.train()
    trainer, torch = run.trainer, code.torch
    assert run.logged("temperature") == pytest.approx([0.7, 1.2])
    assert trainer.generation_config.temperature == trainer.generation_kwargs["temperature"] == 1.2

    for part in trainer._buffered_inputs:
        assert part["temperatures"].tolist() == pytest.approx([1.2] * 16)
        ids = torch.cat([part["prompt_ids"], part["completion_ids"]], dim=1)
        mask = torch.cat([part["prompt_mask"], part["completion_mask"]], dim=1)
        length = part["completion_ids"].size(1)
        trainer._temperatures = part["temperatures"]
        with torch.no_grad():
            found, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, length)
            logits = trainer.model(input_ids=ids, attention_mask=mask).logits[:, -length - 1 : -1]
        expected = torch.log_softmax(logits / 1.2, dim=-1).gather(2, part["completion_ids"][:, :, None])[:, :, 0]
        assert torch.allclose(found, expected, rtol=0, atol=1e-6)


def test_the_first_ratio_of_each_generation_is_exactly_1_across_a_change_of_temperature(code, tmp_path: Path):
    run = make_run(code, tmp_path)
    run.trainer.train()
    assert len(run.ratios) == 4
    assert set(run.ratios[0]) == set(run.ratios[2]) == {1.0}
    assert min(run.ratios[1]) < 0.9, "the second update of a generation is off-policy, or the clip would never act"
    assert max(run.ratios[1]) > 1.1


def test_a_stale_temperature_would_be_seen(code, tmp_path: Path):
    """The fault that a callback brings about which sets the trainer's temperature alone, planted."""
    run = make_run(code, tmp_path)
    original = run.trainer._generate_and_score_completions

    def stale(inputs):
        batch = original(inputs)
        batch["temperatures"] = code.torch.full_like(batch["temperatures"], 0.7)
        return batch

    run.trainer._generate_and_score_completions = stale
    run.trainer.train()
    assert set(run.ratios[0]) == {1.0}
    assert max(abs(ratio - 1) for ratio in run.ratios[2]) > 0.1


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_advantages_are_the_formula_on_what_was_generated(code, tmp_path: Path, rate: float):
    run = make_run(code, tmp_path, truncation_rate=rate)
    run.trainer.train()
    ends = list(run.trainer.eos_token_ids)
    counts = {"masked": 0, "repeating": 0}
    for generation, (answers, found) in enumerate(zip(run.answers, run.advantages, strict=True)):
        step = Step(8, 6, ends, 1, rate, seed=1, generation=generation, low=0.2, high=0.28, by_token=True)
        assert found == pytest.approx(advantages(answers, step), abs=1e-6)
        plain = advantages(answers, Step(**{**step.__dict__, "rate": 0.0}))
        masked = sum(one != other for one, other in zip(found, plain, strict=True) if abs(one - other) > 1e-6)
        counts["masked"] += masked
        counts["repeating"] += sum(len(a.ids) == 6 and a.ids[-1] == a.ids[-2] for a in answers)
        assert run.logged("truncation/masked")[generation] >= masked
    assert (counts["masked"] > 0) == (rate > 0)
    assert counts["repeating"] > 0, "the batch is meant to hold every kind"


def test_the_completions_table_has_the_masked_advantages(code, tmp_path: Path):
    run = make_run(code, tmp_path, truncation_rate=1.0)
    run.trainer.train()
    assert list(run.trainer._logs["advantages"]) == pytest.approx(run.advantages[-1], abs=1e-6)
    assert run.advantages[-1].count(0.0) > 0


@pytest.mark.parametrize("normaliser", ["token_mean", "sequence_mean"])
def test_every_update_equals_an_oracle_that_takes_the_samples_one_by_one(code, tmp_path: Path, normaliser: str):
    torch = code.torch
    model = code.tiny.make_model().double()
    changes = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "steps_per_generation": 4}
    run = make_run(code, tmp_path, model=model, normaliser=normaliser, max_grad_norm=0.0, **changes)
    parts: list[dict] = []
    original = run.trainer._compute_loss
    run.trainer._compute_loss = lambda model, inputs: (parts.append(inputs), original(model, inputs))[1]
    run.trainer.train()

    assert len(run.gradients) == 4
    for update, (weights, gradients) in enumerate(zip(run.before, run.gradients, strict=True)):
        oracle = code.tiny.make_model().double()
        for parameter, weight in zip(oracle.parameters(), weights, strict=True):
            parameter.data.copy_(weight)
        rows = [row for part in parts[2 * update : 2 * update + 2] for row in code.samples.split_rows(part)]
        expected = code.samples.differentiate(oracle, rows, by_token=normaliser == "token_mean")
        for one, other in zip(expected, gradients, strict=True):
            assert torch.allclose(one, other, rtol=0, atol=1e-7)  # the model normalises in single precision
        assert max(float(gradient.abs().max()) for gradient in gradients) > 1e-3


def test_a_resumed_run_has_the_same_masks_stages_and_weights(code, tmp_path: Path):
    changes = {"max_steps": 8, "stage_length": 3, "save_strategy": "steps", "save_steps": 4}
    straight = make_run(code, tmp_path, **changes)
    straight.trainer.train()
    resumed = make_run(code, tmp_path, **changes)
    resumed.trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))

    assert straight.logged("temperature") == pytest.approx([0.7, 0.7, 0.7, 1.2])
    assert resumed.logged("temperature") == straight.logged("temperature")
    assert resumed.answers == straight.answers[2:]
    assert resumed.advantages == straight.advantages[2:]
    for one, other in zip(straight.trainer.model.parameters(), resumed.trainer.model.parameters(), strict=True):
        assert code.torch.equal(one, other)


def test_a_completion_that_nobody_could_judge_has_no_part_in_its_group(code, tmp_path: Path):
    def lossy(text: str) -> Score:
        score = code.samples.judge(text)
        return Score(None, "internal_error") if score.verdict == "no_code" else score

    run = make_run(code, tmp_path, judge=lossy)
    run.trainer.train()
    unjudged = [
        advantage
        for answers, found in zip(run.answers, run.advantages, strict=True)
        for answer, advantage in zip(answers, found, strict=True)
        if answer.reward is None
    ]
    assert unjudged
    assert set(unjudged) == {0.0}


def test_an_outage_that_ends_in_time_leaves_no_trace(code, tmp_path: Path):
    asked = [0]

    def flickering(text: str) -> Score:
        asked[0] += 1
        return Score(None, "internal_error") if 32 < asked[0] <= 64 else code.samples.judge(text)

    run = make_run(code, tmp_path, judge=flickering)
    run.trainer.train()
    straight = make_run(code, tmp_path)
    straight.trainer.train()
    assert run.logged("verdict/internal_error") == [0.0, 0.0]
    assert asked[0] == 3 * 32
    assert run.advantages == straight.advantages
    for one, other in zip(run.trainer.model.parameters(), straight.trainer.model.parameters(), strict=True):
        assert code.torch.equal(one, other)


def test_an_outage_that_lasts_ends_the_run_with_a_checkpoint_and_no_parameter_has_moved(code, tmp_path: Path):
    asked = [0]

    def dying(text: str) -> Score:
        asked[0] += 1
        return code.samples.judge(text) if asked[0] <= 32 else Score(None, "internal_error")

    run = make_run(code, tmp_path, judge=dying)
    with pytest.raises(code.grpo.NoRewards, match=r"processes \[0\] in 2 attempts.*resume from checkpoint-2"):
        run.trainer.train()
    assert asked[0] == 3 * 32
    assert len(run.gradients) == 2, "those of the first generation"
    saved = type(run.trainer.model).from_pretrained(tmp_path / "checkpoint-2")
    for one, other in zip(saved.parameters(), run.trainer.model.parameters(), strict=True):
        assert code.torch.equal(one, other)

    resumed = make_run(code, tmp_path)
    resumed.trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert resumed.trainer.state.global_step == 4
    assert resumed.logged("temperature") == pytest.approx([0.7, 1.2])


def test_rewards_come_from_the_real_service_in_one_request_a_generation(code, tmp_path: Path):
    tests = json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})
    rows = [{"prompt": prompt, "input_output": tests} for prompt in PROMPTS]
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served:
        url = served.ready()
        trainer = code.grpo.MicroCoderGRPOTrainer(
            model=code.tiny.make_model(),
            args=code.arguments.read_config(CONFIG, output_dir=str(tmp_path)),
            reward=lambda hear: code.grpo.make_reward(on_scores=hear, url=url),
            train_dataset=code.datasets.Dataset.from_list(rows),
            processing_class=code.tiny.make_tokenizer(),
        )
        trainer.train()
    assert trainer.state.global_step == 4
    table = dict(zip(map(tuple, trainer._ids), trainer._scores, strict=True))
    broken, unfinished = code.tiny.TOKENS.index(code.tiny.BROKEN), code.tiny.TOKENS.index(code.tiny.OPEN)
    right = code.tiny.TOKENS.index(code.tiny.RIGHT)
    assert any(score.verdict == "accepted" for ids, score in table.items() if right in ids)
    assert {score.verdict for score in table.values()} >= {"accepted", "no_code"}
    for ids, score in table.items():
        if ids[-1] == broken:
            assert score.verdict == "compile_error"
        if set(ids) <= {unfinished, *range(3), *range(7, 11)}:
            assert score.verdict == "no_code", "an answer that was cut off inside its code isn't wrong"
        assert score.reward == float(score.verdict == "accepted")


def run_in_two_processes(folder: Path, mode: str) -> list[dict]:
    """What each process printed."""
    program = Path(__file__).parent / "trainer_programs" / "grpo_processes.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "client")]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [*launcher, str(program), str(folder), mode]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    lines = [line for line in answer.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, f"{answer.stdout[-2000:]}\n{answer.stderr[-4000:]}"
    return json.loads(lines[-1].removeprefix("RESULT "))


def test_two_processes_make_one_update_and_end_with_equal_parameters(code, tmp_path: Path):
    results = run_in_two_processes(tmp_path, "train")
    assert [result["rank"] for result in results] == [0, 1]
    assert len({result["parameters"] for result in results}) == 1
    for result in results:
        assert result["samples"] == 16, "those of both"
        assert result["distance"] < 1e-7 < 1e-3 < result["largest"]
        assert (result["steps"], result["calls"], result["stopped"]) == (4, [16, 16], "")
    # One group of 32, half of it in each process: the mean, the deviation and the draws are the whole group's.
    told = results[0]["worth"]
    assert told == results[1]["worth"]
    answers = [Answer(one[0], i, 0, *one[1:4], temperature=0.7) for i, one in enumerate(told)]
    step = Step(32, 6, [1], window=1, rate=0.5, seed=1, generation=0, low=0.2, high=0.28, by_token=True)
    assert [one[4] for one in told] == pytest.approx(advantages(answers, step), abs=1e-6)
    assert results[0]["temperatures"] == pytest.approx([0.7, 1.2])


def test_when_the_service_is_out_for_one_of_two_processes_both_stop_with_a_checkpoint(code, tmp_path: Path):
    results = run_in_two_processes(tmp_path, "outage")
    for result in results:
        assert (result["steps"], result["calls"]) == (2, [16, 16, 16]), "both ask again"
        assert "processes [1] in 2 attempts" in result["stopped"]
    assert len({result["parameters"] for result in results}) == 1
    saved = type(code.tiny.make_model()).from_pretrained(tmp_path / "checkpoint-2", dtype=code.torch.float64)
    found = hashlib.sha256(b"".join(one.detach().numpy().tobytes() for one in saved.parameters())).hexdigest()
    assert found == results[0]["parameters"]


def test_a_reward_function_that_keeps_its_scores_to_itself_is_an_error(code, tmp_path: Path):
    run = make_run(code, tmp_path)
    run.trainer._hear = None

    async def silent(completions, **columns):
        return [0.0] * len(completions)

    run.trainer.reward_funcs = [silent]
    with pytest.raises(RuntimeError, match="told 0 scores of 32"):
        run.trainer.train()
