import random
import subprocess
import sys

import pytest

from evaluator.errors import SandboxUnavailable
from evaluator.sandbox import slots
from evaluator.sandbox.slots import reserve_slot


def test_no_two_holders_have_one_number(monkeypatch):
    monkeypatch.setattr(slots, "END", slots.FIRST + 8)
    held = [reserve_slot() for _ in range(4)]
    assert sorted(slot.number for slot in held) == [20_000, 20_002, 20_004, 20_006]
    with pytest.raises(SandboxUnavailable, match="all taken"):
        reserve_slot()
    held[2].release()
    again = reserve_slot()
    assert again.number == held[2].number
    for slot in (*held, again):
        slot.release()


def test_processes_that_seed_alike_get_different_numbers():
    numbers = set()
    for _ in range(4):
        random.seed(7)
        slot = reserve_slot()
        numbers.add(slot.number)
        slot.release()
    assert len(numbers) > 1, "four equal ones have a chance of one in 10**12"


def test_a_killed_holder_lets_go(monkeypatch):
    monkeypatch.setattr(slots, "END", slots.FIRST + 2)
    code = (
        "import time\nfrom evaluator.sandbox import slots\nslots.END = slots.FIRST + 2\n"
        "held = slots.reserve_slot()\nprint('held', flush=True)\ntime.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(SandboxUnavailable):
            reserve_slot()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    reserve_slot().release()
