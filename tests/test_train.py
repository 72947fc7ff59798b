"""Baselines inside the trainer, and a whole training by the command, on random tiny models.

Verdicts are planted where a test chooses them; the command takes them from the real service.
"""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from microcoder_client.rewards.scoring import Score
from microcoder_client.rewards.trl import report

from tests.requirements_helper import require
from tests.served_helper import Served

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "trainer" / "configs" / "tiny-cpu.yaml"
PROMPTS = ["Double it: a number ", "Double a number ", "a number it: ", "it: Double "]

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
    from trainer import arguments, grpo, resampling, runs, sampling, selection, sweep, train
    from trainer.algorithm import losses

    torch.set_num_threads(1)
    return SimpleNamespace(
        torch=torch, datasets=datasets, tiny=tiny_model, samples=grpo_samples_helper, arguments=arguments, grpo=grpo,
        resampling=resampling, runs=runs, sampling=sampling, train=train, losses=losses, selection=selection,
        sweep=sweep,
    )  # fmt: skip


def train(code: SimpleNamespace, folder: Path, algorithm: str, judge=None, **changes: Any) -> Any:
    """A trainer that has trained two generations of the tiny model, and kept the parts of its updates."""
    code.tiny.make_model().save_pretrained(folder / "base")

    def reward(hear):
        async def planted(prompts: list[str], completions: list[str], **columns: Any) -> list[float | None]:
            scores = [(judge or plain)(*pair) for pair in zip(prompts, completions, strict=True)]
            return report(scores, columns["log_extra"], columns["log_metric"], hear)

        return planted

    def plain(prompt: str, text: str) -> Score:
        return code.samples.judge(text)

    class Watched(code.grpo.MicroCoderGRPOTrainer):
        parts: list[dict] = []  # noqa: RUF012

        def _compute_loss(self, model, inputs):
            self.parts = [*self.parts, inputs]
            return super()._compute_loss(model, inputs)

    trainer = Watched(
        model=type(code.tiny.make_model()).from_pretrained(folder / "base"),
        args=code.arguments.read_config(CONFIG, algorithm=algorithm, output_dir=str(folder), **changes),
        reward=reward,
        train_dataset=code.datasets.Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
        processing_class=code.tiny.make_tokenizer(),
    )
    trainer.train()
    return trainer


def logged(trainer: Any, name: str) -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def test_a_name_goes_over_the_file_and_the_command_line_over_both(code, tmp_path: Path):
    read, folder = code.arguments.read_config, str(tmp_path)
    assert read(CONFIG, output_dir=folder).truncation_rate == 0.5
    named = read(CONFIG, algorithm="grpo", output_dir=folder)
    assert (named.truncation_rate, named.beta, named.normaliser) == (0.0, 0.001, "sequence_mean")
    assert read(CONFIG, algorithm="grpo", output_dir=folder, truncation_rate=0.7).truncation_rate == 0.7


def test_grpo_keeps_a_reference_and_its_divergence_begins_at_zero(code, tmp_path: Path):
    trainer = train(code, tmp_path, "grpo")
    assert trainer.ref_model is not None
    assert trainer.args.make_clip() == code.losses.Clip(0.2, 0.2)
    divergences = logged(trainer, "kl")
    assert len(divergences) == 4
    assert divergences[0] == pytest.approx(0, abs=1e-9)
    assert min(divergences[1:]) > 1e-4
    part = trainer.parts[-1]
    assert trainer.parts[0]["advantages"].abs().sum() > 0
    assert not code.torch.equal(part["ref_per_token_logps"], part["old_per_token_logps"])


def test_with_lora_the_adapter_alone_moves_and_the_reference_is_the_model_below_it(code, tmp_path: Path):
    torch, base = code.torch, tmp_path / "base"
    code.tiny.make_model().save_pretrained(base)
    code.tiny.make_tokenizer().save_pretrained(base)
    parts: list[dict] = []

    def reward(hear):
        async def planted(completions: list[str], **columns: Any) -> list[float | None]:
            return report(
                [code.samples.judge(text) for text in completions], columns["log_extra"], columns["log_metric"], hear
            )

        return planted

    trainer = code.runs.make_trainer(
        code.runs.RunSource(str(base), "", lora={"r": 4, "lora_alpha": 8}),
        code.arguments.read_config(CONFIG, algorithm="grpo", beta=0.05, output_dir=str(tmp_path)),
        "http://service.test",
        reward=reward,
        train_dataset=code.datasets.Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
    )
    original = trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: (parts.append(inputs), original(model, inputs))[1]
    before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    trainer.train()
    after = dict(trainer.model.named_parameters())
    moved = {name for name, parameter in after.items() if not torch.equal(parameter, before[name])}
    assert moved
    assert moved <= {name for name in after if "lora_" in name} == {n for n, p in after.items() if p.requires_grad}

    assert trainer.ref_model is None, "it is the same model without its adapter"
    divergences = logged(trainer, "kl")
    assert divergences[0] == pytest.approx(0, abs=1e-9)
    assert min(divergences[1:]) > 1e-6
    part, plain = parts[-1], type(code.tiny.make_model()).from_pretrained(base)
    ids, mask = (torch.cat([part[f"prompt_{one}"], part[f"completion_{one}"]], dim=1) for one in ("ids", "mask"))
    trainer._temperatures = part["temperatures"]
    with torch.no_grad():
        expected, _, _ = trainer._get_per_token_logps_and_entropies(plain, ids, mask, part["completion_ids"].size(1))
    assert torch.allclose(part["ref_per_token_logps"], expected, rtol=0, atol=1e-6)
    assert not torch.allclose(part["old_per_token_logps"], expected, rtol=0, atol=1e-4)

    trainer.save_model(str(tmp_path / "model"))
    assert (tmp_path / "model" / "adapter_model.safetensors").exists()
    again, _ = code.runs.load_model(str(tmp_path / "model"), 1)
    with torch.no_grad():
        assert torch.allclose(again(ids).logits, trainer.model(ids).logits, rtol=0, atol=1e-5)


def test_the_divergence_is_that_of_the_formula_and_pulls_back(code):
    torch = code.torch
    new = torch.tensor([[-1.0, -2.0], [-0.5, -9.0]], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([[-1.5, -2.0], [-0.1, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[1, 1], [1, 0]])
    gaps = [-0.5, 0.0, 0.4]
    terms = [torch.tensor(gap).exp().item() - gap - 1 for gap in gaps]
    token = code.losses.kl_term(new, reference, mask, normaliser=code.losses.Normaliser.TOKEN_MEAN)
    sequence = code.losses.kl_term(new, reference, mask, normaliser=code.losses.Normaliser.SEQUENCE_MEAN)
    assert token.item() == pytest.approx(sum(terms) / 3, abs=1e-7)
    assert sequence.item() == pytest.approx(((terms[0] + terms[1]) / 2 + terms[2]) / 2, abs=1e-7)
    token.backward()
    assert new.grad[0, 0] > 0 > new.grad[1, 0]
    assert new.grad[0, 1] == new.grad[1, 1] == 0


def test_deepcoder_leaves_truncated_completions_out_of_the_loss_and_of_what_divides_it(code, tmp_path: Path):
    trainer = train(code, tmp_path, "deepcoder")
    seen = 0
    for part in trainer.parts:
        full = part["completion_mask"].sum(dim=1) == 6
        ended = (part["completion_ids"] == 1).any(dim=1)
        assert part["counted"].tolist() == (~full | ended).tolist()
        seen += int((~part["counted"]).sum())
        kept = part["completion_mask"][part["counted"]].sum()
        assert part["loss_size"] == kept
    assert seen > 0


def test_no_other_algorithm_leaves_a_completion_out(code, tmp_path: Path):
    for part in train(code, tmp_path, "dapo-paper", max_steps=2).parts:
        assert part["counted"].all()
        assert part["loss_size"] == part["completion_mask"].sum()


def test_dynamic_sampling_leaves_no_group_that_teaches_nothing_while_others_teach(code, tmp_path: Path):
    flat = PROMPTS[0]

    def judge(prompt: str, text: str) -> Score:
        right = prompt != flat and len(text) % 2 == 0
        return Score(float(right), "accepted" if right else "wrong_answer")

    changes = {"max_completion_length": 6, "overlong_share": 0.0}
    plain = train(code, tmp_path / "plain", "dapo-paper", judge, **changes)
    assert min(logged(plain, "groups/flat")) >= 0.25

    trainer = train(code, tmp_path / "full", "dapo-full", judge, **changes)
    assert logged(trainer, "groups/flat") == pytest.approx([0.25, 0.25]), "what was generated first is what is told"
    assert min(logged(trainer, "groups/resampled")) >= 4
    for first in (0, 2):
        parts = trainer.parts[first : first + 2]
        advantages = code.torch.cat([part["advantages"] for part in parts])
        assert (advantages != 0).all()
        names = {trainer._tokenizer.decode(row, skip_special_tokens=True) for row in parts[0]["prompt_ids"]}
        assert flat not in names


def test_a_replaced_group_is_whole_and_padded_on_its_side(code):
    torch = code.torch
    batch = {
        "prompt_ids": torch.tensor([[5], [5], [6], [6]]),
        "completion_ids": torch.tensor([[1, 2], [3, 9], [4, 9], [4, 4]]),
        "completion_mask": torch.tensor([[1, 1], [1, 0], [1, 0], [1, 1]]),
        "advantages": torch.tensor([1.0, -1.0, 0.0, 0.0]),
        "num_items_in_batch": torch.tensor(6),
    }
    fresh = {
        "prompt_ids": torch.tensor([[9, 7], [9, 7], [8, 8], [8, 8]]),
        "completion_ids": torch.tensor([[1, 1, 1], [1, 1, 9], [2, 2, 2], [2, 9, 9]]),
        "completion_mask": torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]]),
        "advantages": torch.tensor([0.0, 0.0, 2.0, -2.0]),
        "num_items_in_batch": torch.tensor(9),
    }
    found = code.resampling.replace_groups(batch, fresh, [(1, 1)], 2, pad=9)
    assert found["prompt_ids"].tolist() == [[9, 5], [9, 5], [8, 8], [8, 8]]
    assert found["completion_ids"].tolist() == [[1, 2, 9], [3, 9, 9], [2, 2, 2], [2, 9, 9]]
    assert found["completion_mask"].tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 0, 0]]
    assert found["advantages"].tolist() == [1.0, -1.0, 2.0, -2.0]
    assert code.resampling.replace_groups(batch, fresh, [], 2, pad=9) is batch, "no group of the fresh ones was useful"


def test_rows_to_try_are_the_same_again_and_others_for_other_attempts(code):
    places = {"rows": 1000, "groups": 4, "seed": 1, "generation": 2}
    first = code.resampling.draw_rows(**places, attempt=1, first=0)
    assert first == code.resampling.draw_rows(**places, attempt=1, first=0)
    assert first != code.resampling.draw_rows(**places, attempt=2, first=0)
    assert first[2:] == code.resampling.draw_rows(**places, attempt=1, first=2)[:2]


def test_samples_end_at_their_end_token_and_come_again_with_their_seed(code):
    model, tokenizer = code.tiny.make_model(), code.tiny.make_tokenizer()
    state = code.torch.random.get_rng_state()
    groups = code.sampling.sample(model, tokenizer, PROMPTS, count=8, temperature=1.0, limit=6, seed=1, batch=10)
    assert code.torch.equal(state, code.torch.random.get_rng_state())
    assert [len(group) for group in groups] == [8] * 4
    flat = [one for group in groups for one in group]
    assert any(len(one.ids) < 6 for one in flat)
    for one in flat:
        assert 1 not in one.ids[:-1]
        assert len(one.ids) == 6 or one.ids[-1] == 1
        assert one.text == tokenizer.decode(one.ids, skip_special_tokens=True)
    told: list[tuple[int, int]] = []
    again = code.sampling.sample(
        model, tokenizer, PROMPTS, count=8, temperature=1.0, limit=6, seed=1, batch=10, tell=lambda *n: told.append(n)
    )
    assert again == groups
    assert told == [(10, 32), (20, 32), (30, 32), (32, 32)]


def test_the_toys_words_are_whole_tokens(code):
    from trainer.toy.chains import Style, draw_chains
    from trainer.toy.vocabulary import UNKNOWN, make_tokenizer

    tokenizer = make_tokenizer()
    for chain in draw_chains(20, 1):
        text = chain.prompt + chain.answer(Style.VERBOSE)
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids) == text
        assert tokenizer.convert_tokens_to_ids(UNKNOWN) not in ids
        assert len(ids) == 2 * len(chain.steps) + 1 + 7 * len(chain.steps) + 5


def test_a_warm_up_teaches(code):
    from trainer.toy.vocabulary import make_model, make_tokenizer
    from trainer.toy.warmup import warm_up

    model = make_model(1, hidden=32, layers=1)
    untrained = warm_up(make_model(1, hidden=32, layers=1), make_tokenizer(), steps=1, batch=16, seed=1)
    assert warm_up(model, make_tokenizer(), steps=80, batch=16, seed=1) < untrained - 0.4


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("", "needs a section `run`"),
        ("{}", "can't be read as YAML: .*line 22"),
        ("run: {model: toy}", "needs a section `run`"),
        ("run: {model: /nowhere/model, problems: toy}", "'/nowhere/model' can't be loaded"),
        ("run: {model: toy, problems: /nowhere.jsonl}", "can't be read: No such file"),
        ("run: {model: toy, problems: PROBLEMS}", r"line 2: .*holds tests"),
        ("run: {model: toy, problems: toy}\nalgorithm: grpo", "give `run.model` a name or folder"),
        ("run: {model: toy, problems: toy}\ntruncation_rat: 1", "truncation_rat"),
    ],
)
def test_a_run_that_cannot_be_is_refused_in_a_sentence(code, tmp_path: Path, capsys, section: str, message: str):
    rows = [{"prompt": "a", "test_list": ["assert True"]}, {"prompt": "b"}]
    (tmp_path / "problems.jsonl").write_text("\n".join(map(json.dumps, rows)))
    base = CONFIG.read_text().partition("run:")[0]
    (tmp_path / "run.yaml").write_text(base + section.replace("PROBLEMS", str(tmp_path / "problems.jsonl")))
    arguments = ["--config", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "out"), "--url", "http://127.0.0.1:1"]
    assert code.train.main(arguments) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_training_by_the_command_with_a_service_of_its_own(code, tmp_path: Path, monkeypatch):
    import pandas

    monkeypatch.delenv("MICROCODER_URL", raising=False)
    monkeypatch.setenv("MICROCODER_SANDBOX", "bubblewrap")
    (tmp_path / "run.yaml").write_text(CONFIG.read_text().replace("report_to: none", "report_to: tensorboard"))
    out = tmp_path / "out"
    arguments = ["--config", str(tmp_path / "run.yaml"), "--max-steps", "2", "--out", str(out)]
    assert code.train.main(arguments) == 0

    told = json.loads((out / "run.json").read_text())
    assert (told["algorithm"], told["updates_per_generation"]) == ("microcoder", 2)
    assert told["temperature_origin"].startswith("By hand")
    state = json.loads((out / "trainer_state.json").read_text())
    first = state["log_history"][0]
    assert first["verdict/no_code"] == 1.0, "random tokens hold no program"
    assert min(first[f"seconds/{phase}"] for phase in ("generation", "evaluation", "update")) > 0
    assert first["truncation/completions"] == 32
    table = pandas.read_parquet(next((out / "completions").glob("*.parquet")))
    assert {"prompt", "completion", "verdict", "advantage"} <= set(table.columns)
    assert list(out.rglob("events.out.tfevents*"))
    assert (out / "model" / "model.safetensors").exists()


@pytest.fixture(scope="module")
def url(code) -> Iterator[str]:
    """Of the real service."""
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served:
        yield served.ready()


@pytest.fixture
def tiny_run(code, tmp_path: Path) -> list[str]:
    """The arguments that name a configuration of the tiny model and two problems, one of which no answer solves."""
    code.tiny.make_model().save_pretrained(tmp_path / "base")
    code.tiny.make_tokenizer().save_pretrained(tmp_path / "base")
    rows = [
        {"prompt": prompt, "input_output": json.dumps({"inputs": ["4\n"], "outputs": [output]})}
        for prompt, output in (("Double it: ", "8\n"), ("Double a ", "9\n"))
    ]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    section = f"run: {{model: {tmp_path / 'base'}, problems: {tmp_path / 'problems.jsonl'}}}"
    (tmp_path / "run.yaml").write_text(CONFIG.read_text().partition("run:")[0] + section)
    return ["--config", str(tmp_path / "run.yaml")]


def test_a_sweep_measures_and_chooses_or_refuses(code, tmp_path: Path, tiny_run: list[str], url: str, capsys):
    found = tmp_path / "sweep.json"
    arguments = [*tiny_run, "--temperatures", "0.5", "1.0", "--count", "16", "--url", url, "--json", str(found)]
    assert code.sweep.main([*arguments, "--target", "0.1"]) == 0
    told = json.loads(found.read_text())
    assert [point["temperature"] for point in told["points"]] == [0.5, 1.0]
    assert all(0 < point["accuracy"] < 1 and 0 < point["diversity"] <= 1 for point in told["points"])
    assert f"T = {told['temperature']:g} by the sweep" in capsys.readouterr().out
    assert code.sweep.main([*arguments, "--target", "1.1"]) == 1
    assert "no temperature of the sweep reaches the target" in capsys.readouterr().out


def test_problems_that_are_never_solved_are_left_out(code, tmp_path: Path, tiny_run: list[str], url: str, capsys):
    arguments = [*tiny_run, "--problems", str(tmp_path / "problems.jsonl"), "--count", "24", "--url", url]
    assert code.selection.main([*arguments, "--out", str(tmp_path / "kept.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [row["prompt"] for row in rows] == ["Double it: "]
    assert 0.1 < rows[0]["pass_rate"] < 0.9
    assert "1 of 2 problems have a pass rate between 0.1 and 0.9" in capsys.readouterr().out
