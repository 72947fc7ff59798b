"""The trainer on a random tiny model: what TRL must go on doing for it, and what it must compute itself.

Verdicts are planted by the tests where they choose them; one test takes them from the real service.
"""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from microcoder_client.rewards import scoring
from microcoder_client.rewards.scoring import Score

from tests.grpo_oracle_helper import Step, advantages, is_masked
from tests.grpo_run_helper import CONFIG, PROMPTS, load_code, make_run
from tests.served_helper import Served

# Warnings of TRL and transformers about each other.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def code() -> SimpleNamespace:
    """The modules that need TRL, on one thread."""
    return load_code()


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


def test_the_mask_changes_no_other_completions_advantage_to_the_last_bit(code, tmp_path: Path, monkeypatch):
    bare = make_run(code, tmp_path, truncation_rate=0.0)
    bare.trainer.train()
    full = make_run(code, tmp_path, truncation_rate=1.0)
    full.trainer.train()
    step = Step(8, 6, list(bare.trainer.eos_token_ids), 1, 1.0, seed=1, generation=0, low=0.2, high=0.28, by_token=True)
    masked = [is_masked(answer, step) for answer in bare.answers[0]]
    assert full.answers[0] == bare.answers[0]
    assert full.advantages[0] == [0.0 if one else plain for one, plain in zip(masked, bare.advantages[0], strict=True)]
    assert full.advantages[0] != bare.advantages[0]

    assert bare.logged("truncation/masked") == [0, 0] != bare.logged("truncation/eligible")
    monkeypatch.setattr(code.grpo, "mask_advantages", lambda plain, masked: plain)
    unmasked = make_run(code, tmp_path, truncation_rate=1.0)
    unmasked.trainer.train()
    assert unmasked.advantages == bare.advantages, "a rate of 0 is no mask"
    for one, other in zip(unmasked.trainer.model.parameters(), bare.trainer.model.parameters(), strict=True):
        assert code.torch.equal(one, other)


def test_a_masked_completions_gradient_is_exactly_zero(code, tmp_path: Path):
    run = make_run(code, tmp_path, truncation_rate=1.0, max_steps=2)
    run.trainer.train()
    step = Step(8, 6, list(run.trainer.eos_token_ids), 1, 1.0, seed=1, generation=0, low=0.2, high=0.28, by_token=True)
    masked = {tuple(answer.ids) for answer in run.answers[0] if is_masked(answer, step)}
    part = run.parts[0]
    kept = [
        tuple(ids[mask.bool()].tolist())
        for ids, mask in zip(part["completion_ids"], part["completion_mask"], strict=True)
    ]
    for chosen in (True, False):
        rows = [place for place, ids in enumerate(kept) if (ids in masked) is chosen]
        assert len(rows) > 2
        some = {name: value[rows] if value.dim() else value for name, value in part.items()}
        run.trainer.model.zero_grad()
        run.trainer._compute_loss(run.trainer.model, some).backward()
        largest = max(float(parameter.grad.abs().max()) for parameter in run.trainer.model.parameters())
        assert largest == 0.0 if chosen else largest > 1e-3


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
    run.trainer.train()

    assert len(run.gradients) == 4
    for update, (weights, gradients) in enumerate(zip(run.before, run.gradients, strict=True)):
        oracle = code.tiny.make_model().double()
        for parameter, weight in zip(oracle.parameters(), weights, strict=True):
            parameter.data.copy_(weight)
        rows = [row for part in run.parts[2 * update : 2 * update + 2] for row in code.samples.split_rows(part)]
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
    curves = [code.samples.read_curves(run.trainer.state.log_history) for run in (straight, resumed)]
    assert [entry["step"] for entry in curves[1]] == list(range(1, 9))
    assert curves[1] == curves[0]
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


@pytest.fixture(scope="module")
def url(code) -> Iterator[str]:
    """Of the real service."""
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served:
        yield served.ready()


TESTS = json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})
ROWS = [{"prompt": prompt, "input_output": TESTS} for prompt in PROMPTS]


def test_planted_completions_have_the_formulas_advantages_by_the_real_services_verdicts(
    code, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
):
    tiny = code.tiny
    monkeypatch.setattr(tiny, "TOKENS", [*tiny.TOKENS, "<think>\n"])
    planted = [
        ("accepted", [tiny.RIGHT, "<|end|>"]),
        ("no_code", ["<think>\n", tiny.RIGHT, "a ", "it: ", "a ", "it: "]),  # cut off thinking, with a right draft
        ("no_code", ["<think>\n", tiny.WRONG, "a ", "it: ", "a ", "it: "]),
        ("wrong_answer", ["a ", "it: ", "a ", "it: ", "a ", tiny.WRONG]),
        ("accepted", ["a ", "it: ", "a ", "it: ", "a ", tiny.RIGHT]),
        ("no_code", ["<think>\n", tiny.RIGHT, "a ", "a ", "a ", "a "]),  # in a loop
        ("no_code", ["a ", tiny.OPEN, "<|end|>"]),
        ("no_code", ["a ", "it: ", "a ", "it: ", tiny.OPEN, "<|end|>"]),  # complete, at the limit
    ]
    ids = [[tiny.TOKENS.index(word) for word in words] for _, words in planted]

    def reward(hear):
        return code.grpo.make_reward(on_scores=hear, url=url)

    run = make_run(code, tmp_path, reward=reward, rows=ROWS, truncation_rate=1.0, max_steps=2)
    run.trainer._generate_single_turn = lambda prompts, *others: (ids * (len(prompts) // 8), None)
    run.trainer.train()
    scorers = [scorer for scorer in scoring.SHARED.values() if isinstance(scorer, scoring.AsyncCodeScorer)]
    assert scorers
    assert not any(scorer._lines for scorer in scorers), "connections are closed when a training ends"
    answers, found = run.answers[0], run.advantages[0]
    assert [answer.verdict for answer in answers] == [verdict for verdict, _ in planted] * 4
    step = Step(8, 6, [1], window=1, rate=1.0, seed=1, generation=0, low=0.2, high=0.28, by_token=True)
    assert found == pytest.approx(advantages(answers, step), abs=1e-6)
    assert [place for place in range(8) if found[place] == 0] == [1, 2, 4]
    assert found[0] > 0 > found[5] == found[3] == found[7]


def test_rewards_come_from_the_real_service_in_one_request_a_generation(code, tmp_path: Path, url: str):
    trainer = code.grpo.MicroCoderGRPOTrainer(
        model=code.tiny.make_model(),
        args=code.arguments.read_config(CONFIG, output_dir=str(tmp_path)),
        reward=lambda hear: code.grpo.make_reward(on_scores=hear, url=url),
        train_dataset=code.datasets.Dataset.from_list(ROWS),
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


def test_a_reward_function_that_keeps_its_scores_to_itself_is_an_error(code, tmp_path: Path):
    run = make_run(code, tmp_path)
    run.trainer._hear = None

    async def silent(completions, **columns):
        return [0.0] * len(completions)

    run.trainer.reward_funcs = [silent]
    with pytest.raises(RuntimeError, match="told 0 scores of 32"):
        run.trainer.train()
