"""Log-probabilities at each sample's temperature, the clip-higher loss, and a whole step beside an oracle."""

import importlib.util
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest

from tests.grpo_oracle_helper import Answer, Step, loss_and_gradient
from tests.grpo_oracle_helper import advantages as oracle_advantages
from tests.requirements_helper import require
from trainer.algorithm.advantages import group_advantages, mask_advantages
from trainer.algorithm.truncation import Sample, TruncationRule, judge_truncation

VOCABULARY, LIMIT, END = 7, 8, 0
STEP = Step(4, LIMIT, [END], window=3, rate=0.5, seed=11, generation=3, low=0.2, high=0.28, by_token=True)


@pytest.fixture(scope="module")
def torch():
    """Torch, on one thread."""
    obstacle = None if importlib.util.find_spec("torch") else "torch isn't installed here: pip install '.[trainer]'"
    require("torch", obstacle)
    import torch

    torch.set_num_threads(1)
    return torch


@pytest.fixture(scope="module")
def code(torch) -> SimpleNamespace:
    """The functions that need torch."""
    from trainer.algorithm.log_probabilities import token_log_probabilities
    from trainer.algorithm.losses import Clip, Normaliser, clip_higher_loss, measure_size

    return SimpleNamespace(
        log_probabilities=token_log_probabilities,
        Clip=Clip,
        Normaliser=Normaliser,
        loss=clip_higher_loss,
        size=measure_size,
    )


def make_answers(chance: random.Random) -> list[Answer]:
    """Five groups: planted ends in the first, then whatever comes; two temperatures, as across two stages."""
    straight, looping = [1, 2, 3, 4, 5, 6, 1, 2], [1, 2, 3, 4, 5, 3, 4, 5]
    planted = [(straight, "no_code"), (straight, "wrong_answer"), (looping, "no_code"), (straight[:5], "accepted")]
    answers = []
    for prompt in range(5):
        for index in range(STEP.group):
            ids = [chance.randrange(1, VOCABULARY) for _ in range(chance.choice([3, 5, LIMIT, LIMIT]))]
            ids[-1] = END if chance.random() < 0.3 else ids[-1]
            verdict = chance.choice(["accepted", "wrong_answer", "no_code", "time_limit"])
            if prompt == 0:
                ids, verdict = planted[index]
            reward = float(verdict == "accepted") if prompt < 3 else chance.random()
            if (prompt, index) == (4, 2):
                verdict, reward = "internal_error", None
            answers.append(
                Answer(prompt, index, 1 + prompt % 3, list(ids), verdict, reward, 0.6 if prompt < 2 else 1.2)
            )
    for group in range(1, 3):  # binary rewards that differ, so that the oracle's formula is defined
        answers[4 * group].verdict, answers[4 * group].reward = "accepted", 1.0
        answers[4 * group + 1].verdict, answers[4 * group + 1].reward = "no_code", 0.0
    return answers


def compute_advantages(answers: list[Answer], step: Step, *, rate: float | None = None) -> numpy.ndarray:
    """What the trainer's functions make of answers."""
    rule = TruncationRule(step.limit, frozenset(step.ends), step.rate if rate is None else rate, step.window)
    masked = [
        judge_truncation(
            Sample(a.ids, a.verdict, a.prompt, a.index), rule, seed=step.seed, generation=step.generation
        ).masked
        for a in answers
    ]
    return mask_advantages(group_advantages([a.reward for a in answers], step.group), masked)


def pad(torch, answers: list[Answer]):
    """The tokens before (B, L), the tokens (B, L), where they count (B, L), and the temperatures (B,)."""
    ids = torch.tensor([a.ids + [END] * (LIMIT - len(a.ids)) for a in answers])
    before = torch.cat([torch.tensor([[a.start] for a in answers]), ids[:, :-1]], dim=1)
    mask = torch.tensor([[place < len(a.ids) for place in range(LIMIT)] for a in answers])
    return before, ids, mask, torch.tensor([a.temperature for a in answers], dtype=torch.float64)


def make_tables(torch, chance: random.Random, distance: float):
    """Two policies, so far apart that some ratios are clipped on either side."""
    old = [[chance.gauss(0, 1) for _ in range(VOCABULARY)] for _ in range(VOCABULARY)]
    new = [[value + chance.gauss(0, distance) for value in row] for row in old]
    return torch.tensor(new, dtype=torch.float64, requires_grad=True), torch.tensor(old, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("by_token", [True, False])
def test_a_step_equals_the_oracles_advantages_loss_and_gradient(torch, code, seed: int, by_token: bool):
    chance, step = random.Random(seed), replace(STEP, by_token=by_token)
    answers = make_answers(chance)
    new, old = make_tables(torch, chance, 0.4)
    before, ids, mask, temperatures = pad(torch, answers)
    advantages = compute_advantages(answers, step)

    now, _ = code.log_probabilities(new[before], ids, temperatures)
    then, _ = code.log_probabilities(old[before], ids, temperatures)
    normaliser = code.Normaliser.TOKEN_MEAN if by_token else code.Normaliser.SEQUENCE_MEAN
    found = code.loss(now, then, torch.tensor(advantages), mask, clip=code.Clip(0.2, 0.28), normaliser=normaliser)
    found.value.backward()

    loss, gradient = loss_and_gradient(new.tolist(), old.tolist(), answers, step)
    assert advantages.tolist() == pytest.approx(oracle_advantages(answers, step), abs=1e-9)
    assert found.value.item() == pytest.approx(loss, abs=1e-9)
    assert torch.allclose(new.grad, torch.tensor(gradient, dtype=torch.float64), rtol=0, atol=1e-9)
    assert found.clipped_low > 0, "the planted distance is meant to reach both bounds"
    assert found.clipped_high > 0


@pytest.mark.parametrize("by_token", [True, False])
def test_parts_of_a_batch_add_up_to_the_whole(torch, code, by_token: bool):
    chance = random.Random(3)
    answers = make_answers(chance)
    new, old = make_tables(torch, chance, 0.4)
    before, ids, mask, temperatures = pad(torch, answers)
    advantages = torch.tensor(compute_advantages(answers, STEP))
    normaliser = code.Normaliser.TOKEN_MEAN if by_token else code.Normaliser.SEQUENCE_MEAN
    size = code.size(mask, normaliser)
    assert size == (sum(len(a.ids) for a in answers) if by_token else len(answers))

    gradients = []
    for parts in ([slice(None)], [slice(0, 3), slice(3, 11), slice(11, None)]):
        for part in parts:
            now, _ = code.log_probabilities(new[before[part]], ids[part], temperatures[part])
            then, _ = code.log_probabilities(old[before[part]], ids[part], temperatures[part])
            options = {"clip": code.Clip(), "normaliser": normaliser, "size": size}
            code.loss(now, then, advantages[part], mask[part], **options).value.backward()
        gradients.append(new.grad.clone())
        new.grad = None
    assert torch.allclose(*gradients, rtol=0, atol=1e-15)


def test_masked_samples_have_a_gradient_of_exactly_zero_and_the_others_do_not_feel_it(torch, code):
    answers = make_answers(random.Random(0))
    advantages = compute_advantages(answers, STEP, rate=1.0)
    unmasked = compute_advantages(answers, STEP, rate=0.0)
    hidden = (advantages == 0) & (unmasked != 0)
    assert hidden.any()
    assert advantages[~hidden].tobytes() == unmasked[~hidden].tobytes()
    assert unmasked.tobytes() == group_advantages([a.reward for a in answers], STEP.group).tobytes()

    before, ids, mask, temperatures = pad(torch, answers)
    new, old = make_tables(torch, random.Random(0), 0.4)
    gradients = []
    for worth in (advantages, unmasked):
        logits = new.detach()[before].requires_grad_()
        now, _ = code.log_probabilities(logits, ids, temperatures)
        then, _ = code.log_probabilities(old[before], ids, temperatures)
        code.loss(now, then, torch.tensor(worth), mask, clip=code.Clip()).value.backward()
        gradients.append(logits.grad)
    flags = torch.tensor(hidden)
    assert (gradients[0][flags] == 0).all()
    assert (gradients[1][flags] != 0).any(dim=(1, 2)).all()
    assert torch.equal(gradients[0][~flags], gradients[1][~flags]), "a masked sample's tokens still count in the mean"


def test_a_masked_samples_gradient_is_zero_even_where_its_ratios_overflow(torch, code):
    new = torch.tensor([[0.0, 0.0], [-1.0, -1.0]], requires_grad=True)
    old = torch.tensor([[-math.inf, -1e4], [-1.0, -2.0]])
    found = code.loss(new, old, torch.tensor([0.0, 1.0]), torch.ones(2, 2), clip=code.Clip())
    found.value.backward()
    assert math.isfinite(found.value.item())
    assert new.grad[0].tolist() == [0.0, 0.0]
    assert new.grad[1].tolist() == [-0.25, 0.0], "the second ratio is past the upper bound"


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_no_ratio_however_large_makes_a_gradient_that_is_no_number(torch, code, advantage: float):
    new = torch.tensor([[0.0, -1000.0, -1.0]], requires_grad=True)
    old = torch.tensor([[-1000.0, 0.0, -1.0]])
    found = code.loss(new, old, torch.tensor([advantage]), torch.ones(1, 3), clip=code.Clip())
    found.value.backward()
    assert math.isfinite(found.value.item())
    assert torch.isfinite(new.grad).all()
    assert new.grad[0, 2].item() == pytest.approx(-advantage / 3)


def test_what_is_not_counted_may_be_anything(torch, code):
    mask = torch.tensor([[True, True, False]])
    new = torch.tensor([[-1.0, -2.0, math.nan]], requires_grad=True)
    found = code.loss(new, torch.tensor([[-1.0, -2.0, -math.inf]]), torch.tensor([2.0]), mask, clip=code.Clip())
    found.value.backward()
    assert found.value.item() == -2.0
    assert new.grad.tolist() == [[-1.0, -1.0, 0.0]]


def test_the_clip_ends_the_gradient_only_on_the_side_that_the_advantage_pushes_to(torch, code):
    ratios = torch.tensor([[0.5, 0.79, 0.81, 1.0, 1.27, 1.29, 3.0]])
    for advantage, acting in ((1.0, [1, 1, 1, 1, 1, 0, 0]), (-1.0, [0, 0, 1, 1, 1, 1, 1])):
        new = ratios.log().requires_grad_()
        found = code.loss(
            new, torch.zeros(1, 7), torch.tensor([advantage]), torch.ones(1, 7), clip=code.Clip(0.2, 0.28)
        )
        found.value.backward()
        assert (new.grad[0] != 0).int().tolist() == acting
        assert (found.clipped_low, found.clipped_high) == ((0, 2 / 7) if advantage > 0 else (2 / 7, 0))


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.28), (1.1, 0.28), (0.2, 0.0), (math.nan, 0.2)])
def test_bounds_that_do_not_enclose_1_are_refused(code, low: float, high: float):
    with pytest.raises(ValueError, match="Ratios can't be kept"):
        code.Clip(low, high)


def test_each_samples_log_probabilities_are_those_at_its_own_temperature(torch, code):
    logits = torch.randn(3, 5, 11, generator=torch.Generator().manual_seed(0))
    ids = torch.randint(11, (3, 5), generator=torch.Generator().manual_seed(1))
    temperatures = torch.tensor([0.6, 1.0, 1.8])
    found, entropies = code.log_probabilities(logits, ids, temperatures)
    for row, temperature in enumerate(temperatures.tolist()):
        expected = torch.log_softmax(logits[row] / temperature, dim=-1)
        assert torch.equal(found[row], expected.gather(1, ids[row][:, None])[:, 0])
        assert torch.allclose(entropies[row], torch.distributions.Categorical(logits=expected).entropy(), atol=1e-6)


def test_16_bit_logits_are_widened_and_impossible_tokens_are_no_obstacle(torch, code):
    logits = torch.tensor([[[1.0, 2.0, -math.inf]]], dtype=torch.bfloat16, requires_grad=True)
    found, entropies = code.log_probabilities(logits, torch.tensor([[0]]), torch.tensor([0.5]))
    found.sum().backward()
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(-math.log(1 + math.exp(2)), rel=1e-6)
    assert torch.isfinite(entropies).all()
    assert torch.isfinite(logits.grad).all()


def test_the_first_ratio_is_1_at_the_stored_temperature_and_not_at_a_stale_one(torch, code):
    logits = torch.randn(2, 4, 9, generator=torch.Generator().manual_seed(2))
    ids = torch.randint(9, (2, 4), generator=torch.Generator().manual_seed(3))
    stored, _ = code.log_probabilities(logits, ids, torch.tensor([0.6, 1.2]))
    again, _ = code.log_probabilities(logits, ids, torch.tensor([0.6, 1.2]))
    stale, _ = code.log_probabilities(logits, ids, torch.tensor([0.6, 0.6]))
    ratios = [(log - stored).exp() for log in (again, stale)]
    assert (ratios[0] == 1.0).all()
    assert (ratios[1][0] == 1.0).all()
    assert not torch.allclose(ratios[1][1], torch.ones(4), atol=0.05)


@pytest.mark.parametrize(
    ("shapes", "temperatures", "message"),
    [
        (((2, 3, 5), (2, 4)), [1.0, 1.0], "don't belong together"),
        (((2, 3, 5), (2, 3)), [1.0], "don't belong together"),
        (((2, 3, 5), (2, 3)), [1.0, 0.0], "isn't positive"),
        (((2, 3, 5), (2, 3)), [1.0, math.nan], "isn't positive"),
    ],
)
def test_shapes_and_temperatures_are_checked(torch, code, shapes, temperatures: list[float], message: str):
    logits, ids = torch.zeros(shapes[0]), torch.zeros(shapes[1], dtype=torch.long)
    with pytest.raises(ValueError, match=message):
        code.log_probabilities(logits, ids, torch.tensor(temperatures))
