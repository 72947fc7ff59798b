"""The toy's trainings and the check of a device, whole but tiny: with the real service, on a model that learns nothing.

That learning shows is the demonstration's own claim: `python -m trainer.demo --seeds 3`, minutes long.
"""

import asyncio
import functools
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from microcoder_client.rewards.scoring import close_shared

from tests.requirements_helper import require
from tests.served_helper import Served

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
TINY = {"hidden": 32, "layers": 1, "heads": 2}


@pytest.fixture(scope="module")
def code() -> SimpleNamespace:
    """The modules that need TRL, on one thread."""
    obstacle = None if importlib.util.find_spec("trl") else "TRL isn't installed here: pip install '.[trainer]'"
    require("trl", obstacle)
    import torch

    from trainer import ablate, aspects, gpu_check
    from trainer.toy import course

    torch.set_num_threads(1)
    return SimpleNamespace(ablate=ablate, aspects=aspects, course=course, gpu_check=gpu_check)


@pytest.fixture(scope="module")
def url(code) -> Iterator[str]:
    """Of the real service."""
    with Served("--workers", "1", "--sandbox", "bubblewrap") as served:
        yield served.ready()


@pytest.fixture
def small(code, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few held-out tests: what they cost is the toy's own business."""
    monkeypatch.setattr(code.course, "HELD_OUT", 10)
    monkeypatch.setattr(code.course, "SAMPLES", 2)


def test_a_course_is_measured_before_and_after_and_leaves_nothing_behind(code, url: str, small, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    base = code.course.prepare_base(str(tmp_path / "base"), 1, 2, sizes=TINY)
    options = {"max_steps": 8, "max_completion_length": 44, "truncation_rate": 1.0}
    result = code.course.take_course(
        code.course.Course(base, url, "microcoder", 2, options, limits=(44, 88), heats=(0.6,)),
    )
    assert [(one["limit"], one["temperature"]) for one in result["heats"]] == [(44, 0.6)]
    assert (result["algorithm"], result["seed"], result["shuffled"]) == ("microcoder", 2, False)
    assert [one["limit"] for one in result["limits"]] == [44, 88]
    assert result["before"] == result["limits"][0]["before"]
    assert 0 <= result["before"] <= 1
    assert {len(curve) for curve in result["curves"].values()} == {2}, "a value a generation"
    assert min(result["curves"]["seconds/update"]) > 0
    truncated, masked = (result["curves"][f"truncation/{name}"] for name in ("truncated", "masked"))
    assert min(masked) > 0, "a model that knows nothing doesn't end its answers"
    assert all(one <= other for one, other in zip(masked, truncated, strict=True))
    assert json.loads(json.dumps(result)) == result
    assert not list((tmp_path / "scratch").iterdir())


def test_a_warm_up_ends_where_the_service_accepts_enough(code, url: str, small, tmp_path: Path, monkeypatch):
    from trainer.toy import warmup

    monkeypatch.setattr(warmup, "FIRST", 1)
    monkeypatch.setattr(warmup, "EVERY", 1)
    steps: list[float] = []
    warm_up = code.course.warm_up

    def count(*arguments, enough, **options):
        return warm_up(*arguments, enough=lambda: bool(steps.append(1)) or enough(), **options)

    monkeypatch.setattr(code.course, "warm_up", count)
    code.course.prepare_base(str(tmp_path / "base"), 1, 3, until=0.0, url=url, sizes=TINY)
    assert len(steps) == 1, "a rate of 0 is reached at once"
    steps.clear()
    code.course.prepare_base(str(tmp_path / "base"), 1, 3, until=1.1, url=url, sizes=TINY)
    assert len(steps) == 2, "a rate that can't be: all three steps, and before the first it isn't asked"


def test_stretches_follow_each_other_with_their_own_prompts(code, url: str, small, tmp_path, monkeypatch):
    base = code.course.prepare_base(str(tmp_path / "base"), 1, 2, sizes=TINY)
    seen = []
    make = code.course.make_trainer

    def remember(source, config, url, pair, **options):
        seen.append((config.max_completion_length, pair[0], options["train_dataset"]))
        return make(source, config, url, pair, **options)

    monkeypatch.setattr(code.course, "make_trainer", remember)
    stretches = ({"max_completion_length": 20}, {"max_completion_length": 30, "max_steps": 8})
    course = code.course.Course(
        base, url, "microcoder", 1, {"max_steps": 4}, stretches=stretches, spoilt=1.0, inputs=2, lengths=(2,)
    )
    result = code.course.take_course(course)
    assert [limit for limit, _, _ in seen] == [20, 30]
    assert seen[0][1] is seen[1][1], "the model that the first has changed"
    assert seen[0][2]["prompt"] != seen[1][2]["prompt"]
    assert {len(curve) for curve in result["curves"].values()} == {1 + 2}, "a value a generation"
    (row,) = seen[0][2].select([0])
    (chain,) = code.course.draw_chains(1, 1, lengths=(2,))
    assert (row["prompt"], row["inputs"]) == (chain.prompt, chain.row()["inputs"][:2])
    assert all(one != other for one, other in zip(row["outputs"], chain.row()["outputs"], strict=False)), "spoilt"


def test_a_comparison_trains_every_variant_with_every_seed(code, url: str, small, tmp_path: Path, monkeypatch, capsys):
    """In this process: a pool's processes would import everything again."""

    def run_here(tasks, processes, hear):
        found = [task() for task in tasks]
        for result in found:
            hear(result)
        return found

    monkeypatch.setattr(code.ablate, "run_together", run_here)
    monkeypatch.setattr(code.course, "make_model", functools.partial(code.course.make_model, **TINY))
    variants = (
        code.aspects.Variant("first"),
        code.aspects.Variant(
            "short", {**code.aspects.SHORT, "per_device_train_batch_size": 128, "steps_per_generation": 2}
        ),
        code.aspects.Variant("easy", rest={"lengths": (2, 3), "reward": {"fraction": True}}),
    )
    monkeypatch.setitem(code.ablate.ASPECTS, "mask", variants)
    arguments = ["mask", "--seeds", "1", "--generations", "1", "--warm-up", "1", "--url", url, "--out", str(tmp_path)]
    assert code.ablate.main(arguments) == 0
    said = capsys.readouterr().out
    runs = [json.loads(line)["result"] for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert len(runs) == 3
    assert {len(run["curves"]["accuracy"]) for run in runs} == {1}
    for name in ("mask.png", "mask-curves.png"):
        assert (tmp_path / name).stat().st_size > 5000
    assert re.search(r"^\| short \| .* \(", said, re.M), "the difference to the first"
    assert "3 trainings" in said
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"key": "cut off')
    assert code.ablate.main([*arguments[:-4], "--url", "http://127.0.0.1:1", "--out", str(tmp_path)]) == 0
    again = capsys.readouterr().out
    assert "0 trainings" in again, "what is there isn't trained again"
    assert again.partition("0 trainings")[0].strip() in said


def test_sabotage_deals_the_same_verdicts_to_other_completions(code, url: str):
    right, wrong = (f"\n```python\ndef f(x): return (1*x+{digit})%10\n```" for digit in (1, 2))
    columns = {"fn_name": ["f"] * 32, "inputs": [["0", "5"]] * 32, "outputs": [["1", "6"]] * 32}
    heard: list = []
    shuffled = code.course._shuffle(heard.append, code.course.Course("", url, "microcoder", 1, shuffled=True))
    told: dict = {}

    async def reward() -> list:
        hooks = {"log_extra": told.__setitem__, "log_metric": told.__setitem__}
        found = await shuffled([right] * 8 + [wrong] * 24, **hooks, **columns)
        await close_shared()
        return found

    rewards = asyncio.run(reward())
    assert sum(rewards) == 8
    assert rewards != [1.0] * 8 + [0.0] * 24
    assert [score.reward for score in heard[0]] == rewards
    assert [verdict == "accepted" for verdict in told["verdict"]] == [reward == 1 for reward in rewards]


def test_the_check_of_a_device_writes_figures_and_a_curve(code, url: str, small, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(code.gpu_check, "SIZES", TINY)
    arguments = ["--out", str(tmp_path / "out"), "--steps", "4", "--warm-up", "1", "--url", url]
    assert code.gpu_check.main(arguments) == 0
    found = json.loads((tmp_path / "out" / "gpu_check.json").read_text())
    assert found["steps"] == 4
    assert len(found["toy"]["curves"]["accuracy"]) == 1
    assert (tmp_path / "out" / "gpu_check.png").stat().st_size > 5000
    said = capsys.readouterr().out
    assert "| toy, " in said
    assert "in 4 updates" in said
