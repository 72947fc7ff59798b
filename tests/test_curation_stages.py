"""The stages that run no program: process, admit, trim, duplicates, contamination, select."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from curation.admission import Admit, AdmitParams, Trim, TrimParams
from curation.contamination import Contamination, ContaminationParams, Held
from curation.duplicates import Duplicates, DuplicatesParams
from curation.identities import are_siblings, family_of, iterate_keys, iterate_questions, slugify, split_mark
from curation.languages import detect_language
from curation.mixture import Select, SelectParams, bound_classes, family_name
from curation.problem import Identity, Problem, make_suite, write_problem
from curation.processing import Process, ProcessParams
from curation.recipe import Recipe
from curation.shingles import hash_tests, split_words
from curation.statements import Demand, find_demands, normalise_statement, write_instruction, write_prompt
from evaluator.model import CheckerName, NamedChecker, TestCase, TestKind
from tests.curation_helper import STATEMENT, call, ids, leetcode, make_problem, run, stdin

REWORDED = (
    "Along a street stand towers whose heights you know, listed going east. Count those which are higher than all that "
    "stand further to the west, and write the count."
)
SUITE = make_suite([stdin(f"{n} {n + 1} {n + 2} {n * 7} {n * 9}\n", f"{n}\n") for n in range(1000, 1006)])
OTHER_SUITE = make_suite([stdin(f"{n} {n * 3} {n * 5} {n * 11}\n", f"{n}\n") for n in range(2000, 2006)])


# Statements


def test_html_becomes_markdown():
    html = (
        "<p>Given <code>nums</code> with 1 &lt;= n &lt;= 10<sup>5</sup>.</p><ul><li>one</li><li>two</li></ul>"
        "<pre>\n1 2\n</pre>"
    )
    assert normalise_statement(html) == "Given `nums` with 1 <= n <= 10^5.\n\n- one\n- two\n\n```\n1 2\n```"


def test_latex_becomes_markdown_and_formulas_stay():
    latex = (
        "\\section*{Input} The \\textbf{first} line has $n \\leq 10^5$.\n"
        "\\begin{itemize}\\item one \\item two\\end{itemize}"
    )
    text = normalise_statement(latex)
    assert text.startswith("## Input\n\nThe **first** line has $n \\leq 10^5$.")
    assert "* one" in text and "\\item" not in text


@pytest.mark.parametrize(
    "text",
    ["if a < b and b > c, print <n> values", "$\\begin{cases} 1 \\end{cases}$ of them", "```\n  a\n\n\n\n  b\n```"],
)
def test_what_is_neither_html_nor_latex_stays(text: str):
    assert normalise_statement(text) == text


@pytest.mark.parametrize(
    ("text", "demand"),
    [
        ("See ![](https://x/y.png).", Demand.IMAGE),
        ("The board is shown in the figure.", Demand.IMAGE),
        ("Count the nodes.\n\nExample 1:\nThey are colored in the image above.", Demand.ILLUSTRATION),
        ("This is an interactive problem.", Demand.INTERACTION),
        ("If there are multiple answers, print any of them.", Demand.CHECKER),
        ("Find any valid colouring.", Demand.CHECKER),
        ("Return the indices. You may return the answer in any order.", Demand.ANY_ORDER),
        ("You can print each letter in any case.", Demand.ANY_CASE),
    ],
)
def test_what_tests_cannot_judge_is_seen(text: str, demand: Demand):
    assert find_demands(text) == {demand}


@pytest.mark.parametrize(
    "text",
    [
        STATEMENT,
        "The edges are given in any order.",
        "You may choose any array we have and split it.",
        "Imagine a picture of many answers.",
    ],
)
def test_what_asks_for_nothing_special_is_left_alone(text: str):
    assert find_demands(text) == set()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (STATEMENT, "en"),
        (
            "Gegeben ist eine Liste von Zahlen, und du sollst die Summe der Zahlen ausgeben, die nicht negativ sind.",
            "de",
        ),
        ("Du har en lista med tal och ska skriva ut summan av de tal som inte är negativa.", "sv"),
        ("Se da una lista de números y hay que imprimir la suma de los que no son negativos.", "es"),
        ("Дан массив чисел, выведите сумму.", "ru"),
        ("给定一个整数数组，输出它们的和。", "zh"),
        ("整数の列が与えられる。和を出力せよ。", "ja"),
        ("Tree 7", "und"),
        ("You are given w and i: swap w i w i w i w y o y o y o y until w is i, and print w.", "en"),
        ("$x + y$ `the of and to`", "und"),
    ],
)
def test_languages(text: str, language: str):
    assert detect_language(text) == language


# Process


def process(**params: Any) -> Process:
    return Process(ProcessParams(**params))


def test_process_accounts_for_what_cannot_be_judged():
    stage = process()
    kept = run(
        stage,
        make_problem("good"),
        make_problem("empty", statement=" "),
        make_problem("image", statement=f"{STATEMENT} ![](a.png)"),
        make_problem("talk", statement=f"This is an interactive problem. {STATEMENT}"),
        make_problem("several", statement=f"{STATEMENT} If there are several answers, print any of them."),
        make_problem(
            "german", statement="Gib die Summe der Zahlen aus, die nicht in der Liste sind und die du kennst."
        ),
    )
    assert ids(kept) == ["good"]
    assert stage.ledger.reasons() == {
        "interactive": 1, "needs images": 1, "no statement": 1, "several right answers, no checker": 1,
        "statement in another language": 1,
    }  # fmt: skip
    assert kept[0].instruction.startswith("Write a Python 3 program that reads standard input")


def test_a_declared_checker_or_an_order_makes_several_answers_judgeable():
    several = f"{STATEMENT} If there are several answers, print any of them."
    checked = make_suite([stdin("1\n", "2\n")], NamedChecker(CheckerName.TOKENS))
    ordered = make_problem("ordered", statement=f"{STATEMENT} Print the towers in any order.")
    kept = run(process(), make_problem("checked", statement=several, suite=checked), ordered)
    assert [dict(one.policy) for one in kept] == [{}, {"order": "lines"}]
    [marked] = run(process(several_answers="keep"), make_problem("several", statement=several))
    assert marked.notes["several_answers"] is True


def test_tests_get_one_form():
    suite = make_suite([stdin("1\r\n2", "3"), stdin("1\n2\n", "3\n")])
    [kept] = run(process(), make_problem(suite=suite))
    assert [(test.input, test.expected) for test in kept.suite.tests] == [("1\n2\n", "3\n")]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "reads standard input"),
        ({"suite": make_suite([call("1", expected="2")]), "entry_point": "f"}, "the function `f`"),
        ({"suite": make_suite([call("1", expected="2")]), "entry_point": "A.f"}, "a class `A` with the method `f`"),
        (
            {"suite": make_suite([call("1", expected="2")]), "entry_point": "f", "starter": "def f(a):"},
            "Complete the given Python 3 code",
        ),
        (
            {"suite": make_suite([TestCase(TestKind.ASSERTION, "assert f(1) == 2")])},
            "under the name that is used above",
        ),
    ],
)
def test_the_instruction_says_what_form_the_answer_has(fields: dict[str, Any], said: str):
    problem = make_problem(**fields)
    problem = replace(problem, instruction=write_instruction(problem))
    assert said in problem.instruction
    prompt = write_prompt(problem)
    assert prompt.startswith(STATEMENT) and prompt.endswith(problem.instruction)
    assert (problem.starter in prompt) and prompt.count("```python") == 1 + bool(problem.starter)


# Admit and trim


def test_licences_dates_and_sizes():
    stage = Admit(AdmitParams(published_from="2024-01-01", undated=False, statement_characters=500))
    kept = run(
        stage,
        make_problem("good", date="2024-05-01"),
        make_problem("unknown", date="2024-05-01", licence="unknown"),
        make_problem("old", date="2023-12-31"),
        make_problem("undated"),
        make_problem("long", date="2024-05-01", statement="a " * 300),
    )
    assert ids(kept) == ["good"]
    assert len(stage.ledger.reasons()) == 4
    named = Admit(AdmitParams(licences=("unknown",)))
    assert ids(run(named, make_problem("free"), make_problem("unknown", licence="unknown"))) == ["unknown"]


def test_the_longest_tests_stay_in_their_order():
    suite = make_suite([stdin(f"{'9' * size}\n", "1\n") for size in (5, 1, 9, 3, 7)])
    [kept] = run(Trim(TrimParams(tests=3)), make_problem(suite=suite))
    assert [len(test.input) - 1 for test in kept.suite.tests] == [5, 9, 7]
    stage = Trim(TrimParams(test_bytes=5, least=2))
    assert run(stage, make_problem(suite=suite)) == []


# Names


def test_names_of_siblings_and_families():
    assert split_mark("two-sum-ii") == ("two-sum", "2")
    assert split_mark("grid-easy-version") == ("grid", "easy-version")
    assert split_mark("ii") == ("ii", "")
    assert slugify("A. Short Sort!") == "short-sort"
    assert are_siblings(leetcode("two-sum"), leetcode("two-sum-ii"))
    assert not are_siblings(leetcode("two-sum-i"), leetcode("two-sum"))
    assert not are_siblings(leetcode("two-sum-ii"), replace(leetcode("two-sum"), site="kattis"))
    assert family_of(leetcode("two-sum-ii")) == family_of(leetcode("two-sum")) != family_of(Identity())


@pytest.mark.parametrize(
    ("one", "other", "rule"),
    [
        (leetcode("two-sum"), leetcode("two-sum"), "slug"),
        (Identity("codeforces", "", "1A"), Identity("codeforces", "", "1A", "Theatre"), "id"),
        (Identity("", "", "", "Theatre Square"), Identity("codeforces", "", "1A", "Theatre Square"), "title"),
        (Identity("codeforces", "", "1A", "A. Theatre Square"), Identity("", "", "", "theatre square"), "title"),
        (Identity("atcoder", "", "", "Theatre Square"), Identity("codeforces", "", "", "Theatre Square"), None),
        (Identity("", "", "", "Game"), Identity("codeforces", "", "", "Game"), None),
        (Identity("", "", "5"), Identity("", "", "5"), None),
    ],
)
def test_the_same_name_is_the_same_problem_on_one_site(one: Identity, other: Identity, rule: str | None):
    keys = {key: kind for kind, key in iterate_keys(other)}
    found = [keys[key] for _, key in iterate_questions(one) if key in keys]
    assert (found[0] if found else None) == rule


def test_tests_are_the_same_whatever_their_spacing():
    spaced = make_suite([call("[1, 2, 3, 4, 5]", '{"a": 1}', expected="[1, 2]")])
    dense = make_suite([call("[1,2,3,4,5]", '{"a":1}', expected="[1,2]")])
    assert hash_tests(spaced) == hash_tests(dense) != frozenset()
    assert hash_tests(make_suite([stdin("1\n", "2\n")])) == frozenset()


def test_markup_is_no_word():
    assert split_words("Let $x_i \\leq 10^5$ be <b>Given</b> &lt; `n`.") == split_words("let x i leq 10 5 be given n")


# Duplicates


def duplicates(**params: Any) -> Duplicates:
    return Duplicates(DuplicatesParams(**params), seed=1)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"statement": REWORDED, "identity": leetcode("towers"), "suite": OTHER_SUITE}, "duplicate by identity"),
        ({"statement": STATEMENT.upper().replace(",", " ,"), "suite": OTHER_SUITE}, "duplicate by text"),
        ({"statement": REWORDED, "suite": SUITE}, "duplicate by tests"),
        ({"statement": STATEMENT.replace("street", "road"), "suite": OTHER_SUITE}, "duplicate by near text"),
    ],
)
def test_a_second_copy_is_found(fields: dict[str, Any], reason: str):
    stage = duplicates()
    first = make_problem("first", identity=leetcode("towers"), suite=SUITE)
    assert ids(run(stage, first, make_problem("second", **fields))) == ["first"]
    assert stage.ledger.reasons() == {reason: 1}


def test_siblings_and_relatives_are_kept_in_one_family():
    stage = duplicates()
    second = STATEMENT.replace("before it is lower", "before it is not higher")
    halved = STATEMENT.replace(
        "Print how many towers can be seen from the west.", "Say which is the last that can be seen from the west."
    )
    kept = run(
        stage,
        make_problem("first", identity=leetcode("towers-i"), suite=SUITE),
        make_problem("second", statement=second, identity=leetcode("towers-ii"), suite=SUITE),
        make_problem("halved", statement=halved, suite=OTHER_SUITE),
        make_problem("other", statement=REWORDED, suite=make_suite([stdin("1\n", "1\n")])),
    )
    assert ids(kept) == ["first", "second", "halved", "other"]
    families = [family_name(one) for one in kept]
    assert families[0] == families[1] == families[2] == "leetcode:towers"
    assert families[3] == "set/other"


# Contamination


def hold(*problems: Problem, **params: Any) -> Held:
    held = Held(ContaminationParams(**params))
    for problem in problems:
        held.add("bench", problem)
    return held


LONG = " ".join(f"{STATEMENT} Part {part} of the street has number {part * 37}." for part in range(3))


@pytest.mark.parametrize(
    ("fields", "rules"),
    [
        ({"identity": leetcode("towers"), "statement": REWORDED}, ["identity"]),
        ({"statement": REWORDED, "suite": SUITE}, ["tests"]),
        ({"statement": f"Hello. {LONG}"}, ["n-gram"]),
        ({"statement": LONG, "identity": leetcode("towers-ii"), "suite": SUITE}, ["sibling", "sibling"]),
        ({"statement": STATEMENT.replace("You are given the", "Take")}, ["short text"]),
        ({"statement": REWORDED}, []),
    ],
)
def test_every_rule_of_contamination(fields: dict[str, Any], rules: list[str]):
    held = hold(make_problem("bench", identity=leetcode("towers"), statement=LONG, suite=SUITE))
    fields = {"suite": OTHER_SUITE, **fields}
    assert [overlap.rule for overlap in held.find(make_problem(**fields))] == rules


def test_a_share_below_the_threshold_is_no_contamination():
    mostly_own = f"{LONG} {' '.join(f'own{n} words{n} here{n}' for n in range(200))}"
    held = hold(make_problem("bench", statement=LONG))
    problem = make_problem(statement=mostly_own)
    assert 0 < held.measure(problem) < 0.22
    assert held.find(problem) == []
    assert hold(make_problem("bench", statement=LONG), overlap=0.05).find(problem)


def write_recipe(folder: Path, *held: Problem) -> Recipe:
    """A recipe that holds these problems out."""
    (folder / "bench.jsonl").write_bytes(b"".join(map(write_problem, held)))
    source = {"name": "bench", "reader": "jsonlines", "path": "bench.jsonl"}
    return Recipe.model_validate(
        {"name": "r", "sources": [source], "hold_out": [source], "stages": [{"process": None}]}
    )


def test_the_stage_holds_out_and_says_by_what(tmp_path: Path):
    recipe = write_recipe(tmp_path, make_problem("bench", identity=leetcode("towers"), statement=LONG, suite=SUITE))
    clean = make_problem("clean", statement=REWORDED, suite=OTHER_SUITE)
    named = make_problem("named", statement=REWORDED, identity=leetcode("towers"), suite=OTHER_SUITE)
    sibling = make_problem("sibling", statement=LONG, identity=leetcode("towers-ii"), suite=OTHER_SUITE)
    stage = Contamination(ContaminationParams(), recipe, tmp_path)
    assert ids(run(stage, clean, named, sibling)) == ["clean"]
    assert stage.ledger.reasons() == {"in a benchmark (identity)": 1, "in a benchmark (sibling)": 1}
    lenient = Contamination(ContaminationParams(siblings="keep"), recipe, tmp_path)
    kept = run(lenient, clean, named, sibling)
    assert ids(kept) == ["clean", "sibling"]
    assert kept[1].notes["sibling_of"] == "bench: bench/bench"


def test_other_benchmark_bytes_are_another_stage(tmp_path: Path):
    before = Contamination(ContaminationParams(), write_recipe(tmp_path, make_problem("a")), tmp_path).fingerprint
    after = Contamination(ContaminationParams(), write_recipe(tmp_path, make_problem("b")), tmp_path).fingerprint
    assert before != after


# Select


def make_corpus() -> list[Problem]:
    """100 easy and 60 other problems of two sources and three topics, every fifth with a sibling."""
    corpus = []
    for number in range(160):
        name = f"problem-{number - 1}-ii" if number % 5 == 1 else f"problem-{number}"
        corpus.append(
            make_problem(
                f"{number}",
                source="small" if number % 8 == 0 else "large",
                difficulty="easy" if number < 100 else ("medium", "hard", "")[number % 3],
                tags=(("graphs", "strings", "sorting")[number % 3],),
                identity=leetcode(name),
            )
        )
    return corpus


def test_at_most_a_fifth_is_easy_and_strata_give_in_proportion():
    stage = Select(SelectParams(), seed=3)
    kept = run(stage, *make_corpus())
    easy = [one for one in kept if one.difficulty == "easy"]
    assert (len(easy), len(kept)) == (15, 75)
    assert stage.ledger.reasons() == {"too many easy problems": 85}
    assert Counter(one.source for one in easy) == {"large": 12, "small": 3}
    assert set(Counter(one.tags for one in easy).values()) == {5}


def test_what_is_selected_depends_on_the_seed_alone():
    corpus = make_corpus()
    one, again, other = (run(Select(SelectParams(size=50), seed), *corpus) for seed in (3, 3, 4))
    assert one == again and ids(one) != ids(other)
    assert len(one) == 50 and sum(problem.difficulty == "easy" for problem in one) == 10
    assert ids(one) == sorted(ids(one), key=int)


def test_families_are_on_one_side_of_the_split():
    kept = run(Select(SelectParams(validation=0.25, at_most={}), seed=3), *make_corpus())
    sides: dict[str, set[str]] = {}
    for one in kept:
        sides.setdefault(family_name(one), set()).add(one.notes["split"])
    assert all(len(side) == 1 for side in sides.values())
    counts = Counter(one.notes["split"] for one in kept)
    assert counts == {"train": 120, "validation": 40}


def test_calibrated_difficulty_goes_before_the_sources():
    problem = make_problem(difficulty="hard").with_note("difficulty", {"class": "easy"})
    stage = Select(SelectParams(validation=0), seed=1)
    assert len(run(stage, problem, *(make_problem(f"{n}", difficulty="hard") for n in range(3)))) == 3


@pytest.mark.parametrize(
    ("counts", "free", "size", "bounds"),
    [
        ({"easy": 100, "hard": 60}, 60, 160, {"easy": 15}),
        ({"easy": 3, "hard": 60}, 60, 63, {"easy": 3}),
        ({"easy": 100, "hard": 60}, 60, 50, {"easy": 10}),
        ({"easy": 100}, 0, 100, {}),
    ],
)
def test_bounds_of_classes(counts: dict[str, int], free: int, size: int, bounds: dict[str, int]):
    assert bound_classes(counts, {"easy": 0.2}, free, size) == bounds


def test_every_stage_names_its_settings_in_json():
    for stage in (process(), Admit(AdmitParams(published_from="2024-01-01")), duplicates(), Select(SelectParams(), 1)):
        assert json.loads(json.dumps(stage.params)) == stage.params
    assert process().fingerprint != process(languages=("de",)).fingerprint
