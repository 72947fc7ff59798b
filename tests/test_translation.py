"""Translation of statements: through a real HTTP endpoint, checked, remembered; what isn't whole is left out."""

import json
import shutil
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from curation.build import app
from curation.languages import detect_language
from curation.manifest import NAME
from curation.problem import Problem, iterate_problems_of, make_suite
from curation.processing import Process, ProcessParams
from curation.translation import Fault, count_numbers, iterate_faults
from tests.curation_helper import ids, make_problem, run, stdin
from tests.endpoint_helper import Model

SWEDISH = (
    "Du har en lista med $n$ tal ($1 \\le n \\le 10^5$) och ska skriva `Ja` om summan av de tal som är större än 250 "
    "är minst 1 000 000, och annars Nej.\n\n## Exempel\n\n```\n2\n300 400\n```\n\n```\nNej\n```"
)
ENGLISH = (
    "You have a list of $n$ numbers ($1 \\le n \\le 10^5$). Print `Ja` if the sum of the numbers that are greater than "
    "250 is at least 1,000,000, and Nej if not.\n\n## Example\n\n```\n2\n300 400\n```\n\n```\nNej\n```"
)
SUITE = make_suite([stdin("2\n300 400\n", "Nej\n"), stdin("1\n1000000\n", "Ja\n")])


def wrap(text: str) -> str:
    """As the question asks for it."""
    return f"Here it is:\n<translation>\n{text}\n</translation>"


def make_swedish(name: str = "sums", **fields: Any) -> Problem:
    """A problem whose statement is Swedish."""
    return make_problem(name, **{"statement": SWEDISH, "suite": SUITE, **fields})


def process(tmp_path: Path, url: str, **settings: Any) -> Process:
    """The stage, with a translator."""
    params = ProcessParams(translate={"url": url, "model": "a-translator", **settings})
    return Process(params, 5, tmp_path / "translation.jsonl", threading.Event())


def test_a_whole_translation_replaces_the_statement_and_is_remembered(tmp_path: Path):
    with closing(Model(lambda prompt, number: wrap(ENGLISH))) as model:
        stage = process(tmp_path, model.url)
        english = make_problem("english")
        kept = run(stage, english, *(make_swedish(f"{n}") for n in range(3)))
        assert ids(kept) == ["english", "0", "1", "2"]
        assert [one.statement for one in kept[1:]] == [ENGLISH] * 3 and kept[0].statement == english.statement
        assert kept[1].notes == {"translated": {"from": "sv", "model": "a-translator"}, "language": "en"}
        assert kept[1].suite == SUITE and stage.ledger.marked == {"translated from Swedish": 3}
        assert SWEDISH in model.requests[0]["messages"][0]["content"] and model.requests[0]["temperature"] == 0
        asked = len(model.requests)
        again = run(process(tmp_path, model.url), english, *(make_swedish(f"{n}") for n in range(3)))
        assert again == kept and len(model.requests) == asked


def test_a_translation_that_fails_is_asked_for_again_with_what_was_wrong(tmp_path: Path):
    answers = [wrap(ENGLISH.replace("250", "25")), wrap(ENGLISH)]
    with closing(Model(lambda prompt, number: answers["earlier try" in prompt])) as model:
        stage = process(tmp_path, model.url)
        assert len(run(stage, make_swedish())) == 1
        assert len(model.requests) == 2
        assert f"{Fault.NUMBERS}: without '250'" in model.requests[1]["messages"][0]["content"]
        once = process(tmp_path, model.url, tries=1)
        assert run(once, make_swedish()) == [] and len(model.requests) == 2
        assert once.ledger.reasons() == {Fault.NUMBERS: 1}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("I can't do that.", Fault.UNREADABLE),
        (f"<translation>{ENGLISH}", Fault.UNREADABLE),  # cut off
        ("<translation></translation>", Fault.UNREADABLE),
        (wrap(SWEDISH), Fault.LANGUAGE),
        (wrap(ENGLISH.replace("300 400", "300 401")), Fault.CODE),
        (wrap(ENGLISH + "\n\n```python\nprint('Ja')\n```"), Fault.CODE),
        (wrap(ENGLISH.replace("`Ja`", "Ja")), Fault.CODE),
        (wrap(ENGLISH.replace("\\le n", "\\leq n")), Fault.FORMULAS),
        (wrap(ENGLISH.replace("250", "many")), Fault.NUMBERS),
        (wrap(f"All numbers are at most 5000. {ENGLISH}"), Fault.NUMBERS),
        (wrap(ENGLISH.replace("Nej if not", "No if not")), Fault.TESTS),
    ],
)
def test_what_is_not_whole_is_left_out_with_its_reason(tmp_path: Path, answer: str, fault: Fault):
    with closing(Model(lambda prompt, number: answer)) as model:
        stage = process(tmp_path, model.url)
        assert run(stage, make_swedish()) == []
    assert stage.ledger.reasons() == {fault: 1}


def test_lines_of_tests_that_the_statement_quotes_survive():
    quoted = make_swedish(statement="Om indata är blå katt så ska du skriva ut det som är rätt och inte fel.")
    quoted = make_swedish(statement=quoted.statement, suite=make_suite([stdin("blå katt\n", "1\n")]))
    assert list(iterate_faults(quoted, "sv", "If the input is blue cat, print what is right.")) == [
        (Fault.TESTS, "'blå katt'")
    ]
    assert list(iterate_faults(quoted, "sv", "If the input is blå katt, print what is right.")) == []


def test_what_a_translation_asks_for_is_seen(tmp_path: Path):
    swedish = "Finns det flera svar så får du skriva ut vilket som helst av dem, och det är inte viktigt vilket."
    english = "If there are multiple answers, print any of them; it is not important which."
    with closing(Model(lambda prompt, number: wrap(english))) as model:
        stage = process(tmp_path, model.url)
        assert run(stage, make_problem(statement=swedish)) == []
    assert stage.ledger.reasons() == {"several right answers, no checker": 1}


def test_numbers_are_compared_whatever_their_form():
    assert count_numbers("1 000 000, 0,5 och 10⁵") == Counter({"1000000": 1, "0": 1, "5": 2, "10": 1})
    assert count_numbers("1,000,000, 0.5 and 10^5") == count_numbers("1 000 000, 0,5 och 10⁵")
    assert count_numbers("٣ and 12 345") == Counter({"3": 1, "12345": 1})
    assert count_numbers("3 100 and 007") == Counter({"3100": 1, "007": 1})


def test_a_second_build_asks_nobody_and_gives_the_same_bytes(tmp_path: Path):
    rows = [
        {"id": f"{n}", "statement": SWEDISH.replace("250", f"{n}250"), "kind": "stdin",
         "tests": [{"input": "2\n300 400\n", "expected": "Nej\n"}]}
        for n in range(1, 4)
    ]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def translate(prompt: str, number: int) -> str:
        n = next(n for n in range(1, 4) if f"{n}250" in prompt)
        return wrap(ENGLISH.replace("250", f"{n}250")) if n < 3 else "No."

    with closing(Model(translate)) as model:
        recipe = {
            "name": "small",
            "sources": [{"name": "rows", "reader": "jsonlines", "path": "rows.jsonl", "licence": "MIT"}],
            "stages": [{"process": {"translate": {"url": model.url, "model": "a-translator"}}}],
        }
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        first, second = tmp_path / "first", tmp_path / "second"
        command = [str(tmp_path / "recipe.yaml"), "--out"]
        assert CliRunner().invoke(app, [*command, str(first)]).exit_code == 0
        assert len(model.requests) == 4
    second.mkdir()
    shutil.copy(first / "translation.jsonl", second)
    result = CliRunner().invoke(app, [*command, str(second), "--check", str(first / NAME)])
    assert result.exit_code == 0, result.output
    problems = list(iterate_problems_of(second / "train.jsonl"))
    assert len(problems) == 2 and {detect_language(one.statement) for one in problems} == {"en"}
    card = (second / "README.md").read_text()
    assert "translated from Swedish | 2" in card and f"{Fault.UNREADABLE} | 1" in card
