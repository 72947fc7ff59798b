"""The list of attacks is whole, names tests that there are, and is what the page on security says."""

import os
import subprocess
import sys
from pathlib import Path

from tests.catalogue_helper import BEGIN, END, PAGE, is_named, place_table, read_catalogue, spell_table, split_id

ROOT = Path(__file__).parent.parent
FROM_THE_HOST = {2, 4, 6, 7, 9, 27, 44, 48, 94}
"""Those that only prove something when they are seen from outside."""


def test_every_attack_is_listed_once():
    attacks = read_catalogue()
    assert [attack.number for attack in attacks] == list(range(1, 95))
    for attack in attacks:
        assert bool(attack.tests) != bool(attack.not_applicable), f"{attack.number}: tests, or why there are none"
        assert bool(attack.stops) == bool(attack.tests), attack.number
        assert attack.asserted in ("host", "program")
        assert attack.asserted == "host" or attack.number not in FROM_THE_HOST, attack.number


def test_every_test_that_is_named_is_there():
    references = {reference for attack in read_catalogue() for reference in attack.tests}
    files = sorted({reference.partition("::")[0] for reference in references})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ)
    collected = [line for line in answer.stdout.splitlines() if "::" in line]
    missing = {name for name in references if not any(is_named(name, identity) for identity in collected)}
    assert not missing, (sorted(missing), answer.stdout[-2000:])


def test_ids_are_told_apart_from_the_kind_of_box():
    assert split_id("tests/a.py::test_b[docker-c-d]") == ("tests/a.py::test_b", "c-d", "docker")
    assert split_id("tests/a.py::test_b[x-bubblewrap-user]") == ("tests/a.py::test_b", "x", "bubblewrap-user")
    assert split_id("tests/a.py::test_b[bubblewrap-root]") == ("tests/a.py::test_b", "", "bubblewrap-root")
    assert is_named("tests/a.py::test_b[c]", "tests/a.py::test_b[docker-c]")
    assert is_named("tests/a.py::test_b", "tests/a.py::test_b[docker-c]")
    assert is_named("tests/a.py::test_b[7: *]", "tests/a.py::test_b[7: c (d)]")
    assert not is_named("tests/a.py::test_b[7: *]", "tests/a.py::test_b[77: c (d)]")
    assert not is_named("tests/a.py::test_b[c]", "tests/a.py::test_b[docker-cc]")
    assert not is_named("tests/a.py::test_b", "tests/a.py::test_bb")


def test_the_page_has_the_table_of_today():
    page = PAGE.read_text("utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert page == place_table(page, spell_table(read_catalogue())), "run python -m tests.attacks --write"
