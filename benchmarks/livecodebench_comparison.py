"""The `livecodebench` profile against LiveCodeBench's own comparison, on generated pairs of (expected, output).

    python -m benchmarks.livecodebench_comparison [PATH…] [--pairs 100000] [--seed 0] [--python PYTHON]

Prints the number of pairs, of accepted ones and of differences (which must be 0), and exits with 1 when there is one.

LiveCodeBench's code is the PyPI package `nvidia-livecodebench`, installed by this script into an environment of its own
in the user's cache folder (`--python`: use an environment that has it). There its `grade_stdio` and `grade_call_based`
judge, unchanged, a program that gives exactly the output in question; only the steps that compile and call a program
are replaced. PATHs are labelled problems, or folders of them, whose expected outputs are mutated beside made-up ones.
"""

import argparse
import json
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from evaluator.comparison.ladder import compare, compare_value
from evaluator.livecodebench.official import prepare_environment
from evaluator.model import Policy

PROFILE = Policy(profile="livecodebench")

REFEREE = """
import io, pickle, sys
from livecodebench.evaluation import testing_util as theirs

theirs.make_function = lambda code: code
theirs.compile_code = lambda code, timeout: object()
theirs.call_method = lambda method, text: sys.stdout.write(text)
theirs.faulthandler.enable = theirs.faulthandler.disable = lambda: None
sys.set_int_max_str_digits(50000)
returned = []
theirs.get_function = lambda module, name: lambda *arguments: returned[0]

def judge(kind, expected, output):
    try:
        if kind == "text":
            results, _ = theirs.grade_stdio("pass", [output], [expected], 60)
        else:
            returned[:] = [output]
            results, _ = theirs.grade_call_based("pass", ["0"], [expected], "f", 60)
    except Exception:
        return False
    return len(results) == 1 and results[0] is True

def alarm(*arguments):
    raise TimeoutError

theirs.signal.signal(theirs.signal.SIGALRM, alarm)
pairs = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps([judge(*pair) for pair in pairs]))
"""

Pair = tuple[str, str, Any]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u2003"]
SPACES += ["\u2028", "\u3000", "\u200b", "\ufeff", "\x00"]
WORDS = [
    "#",
    "..#",
    "é",
    "日本",
    "(1)",
    "[1,",
    "2]",
    "nan",
    "NaN",
    "-nan",
    "sNaN",
    "snan12",
    "NaN5",
]
WORDS += ["YES", "NO", "Yes", "No", "yes", "-1", "Impossible", "True", "False", "None", "abc"]  # fmt: skip
WORDS += [
    "inf",
    "-inf",
    "Infinity",
    "infinite",
    "1_000",
    "_1",
    "1_",
    "1__0",
    "0x10",
    "1e3",
    "1E3",
    "1e+3",
    "1.",
    ".5",
    ".",
    "-",
    "+",
    "e5",
    "1e",
    "--1",
    "+1",
    "01",
    "007",
    "-0",
    "0.0",
    "1.0",
]
WORDS += [
    "1.00",
    "1,000",
    "1/2",
    "½",
    "１２",
    "٣",
    "１.５",
    "²",
    "०",
    "−1",
    "1e999999999",
    "1e-999999999",
    "1e1000000000000000000",
]
WORDS += ["1" * 4301, "9" * 60_000]


def main(argv: list[str] | None = None) -> int:
    """Run both comparisons on the same pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--python", type=Path, help="a Python that has nvidia-livecodebench")
    arguments = parser.parse_args(argv)
    pairs = list(generate(arguments.pairs, random.Random(arguments.seed), list(read_expected(arguments.paths))))
    theirs = ask_livecodebench(arguments.python or prepare_environment(), pairs)
    ours = [accepts(*pair) for pair in pairs]
    differences = [
        (pair, mine, other) for pair, mine, other in zip(pairs, ours, theirs, strict=True) if mine is not other
    ]
    kinds = Counter(kind for kind, _, _ in pairs)
    print(f"pairs: {len(pairs)} ({kinds['text']} outputs, {kinds['value']} returned values)")
    print(f"accepted by LiveCodeBench: {sum(theirs)}, by the profile: {sum(ours)}")
    print(f"differences: {len(differences)}")
    for (kind, expected, output), mine, other in differences[:20]:
        print(f"  {kind}: expected {expected!r:.100}, output {output!r:.100}: profile {mine}, LiveCodeBench {other}")
    return 1 if differences else 0


def accepts(kind: str, expected: str, output: Any) -> bool:
    """Say what our profile says."""
    if kind == "text":
        return compare(expected, output.encode("utf-8"), PROFILE).matched
    return compare_value(expected, output, PROFILE).matched


def ask_livecodebench(python: Path, pairs: list[Pair]) -> list[bool]:
    """Let LiveCodeBench's own functions judge, in a process of their own."""
    done = subprocess.run([str(python), "-c", REFEREE], input=pickle.dumps(pairs), stdout=subprocess.PIPE, check=True)
    verdicts: list[bool] = pickle.loads(done.stdout)  # written by the line above, in our own child
    return verdicts


def read_expected(paths: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield (kind, expected) of labelled problems."""
    for path in paths:
        for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
            for line in file.read_text("utf-8").splitlines():
                problem = json.loads(line)
                kind = {"stdin": "text", "functional": "value"}.get(problem.get("kind", ""))
                for test in problem.get("tests", []) if kind else []:
                    if test["expected"] is not None and len(test["expected"]) < 20_000:
                        yield kind, test["expected"]


def generate(count: int, chance: random.Random, real: list[tuple[str, str]]) -> Iterator[Pair]:
    """Yield pairs: an expected output, and the same after no, one or several mutations (rarely of both)."""
    for _ in range(count):
        if real and chance.random() < 0.5:
            kind, expected = chance.choice(real)
        else:
            kind = "text" if chance.random() < 0.7 else "value"
            expected = make_text(chance) if kind == "text" else json.dumps(make_value(chance, 3))
        if kind == "text":
            output = expected
            for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 5))):
                output = chance.choice(TEXT_MUTATIONS)(output, chance)
            if chance.random() < 0.15:
                expected = chance.choice(TEXT_MUTATIONS)(expected, chance)
            yield kind, expected, output
        else:
            value = json.loads(expected)
            for _ in range(chance.choice((0, 1, 1, 2, 3))):
                value = mutate_value(value, chance)
            if chance.random() < 0.05:
                expected = chance.choice(TEXT_MUTATIONS)(expected, chance)
            yield kind, expected, value


def make_text(chance: random.Random) -> str:
    """Make an output as contest problems have them."""
    lines = []
    words = chance.choice((make_integer, make_integer, make_decimal, make_word, make_any))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 5, 20))):
        lines.append(" ".join(words(chance) for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 8)))))
    return "\n".join(lines) + chance.choice(("", "\n", "\n", "\n\n"))


def make_integer(chance: random.Random) -> str:
    return str(chance.randint(-(10 ** chance.choice((1, 3, 18))), 10 ** chance.choice((1, 3, 18, 100))))


def make_decimal(chance: random.Random) -> str:
    return chance.choice(("{:.6f}", "{:.12f}", "{!r}", "{:e}", "{:.1f}", "{:g}")).format(chance.uniform(-1e4, 1e4))


def make_word(chance: random.Random) -> str:
    return chance.choice(WORDS[:12])


def make_any(chance: random.Random) -> str:
    return (
        chance.choice((make_integer, make_decimal, make_word))(chance)
        if chance.random() < 0.7
        else chance.choice(WORDS)
    )


def _place(text: str, chance: random.Random) -> int:
    return chance.randint(0, len(text))


def insert_space(text: str, chance: random.Random) -> str:
    place = chance.choice((0, len(text), _place(text, chance)))
    return text[:place] + chance.choice(SPACES) * chance.choice((1, 1, 2)) + text[place:]


def change_space(text: str, chance: random.Random) -> str:
    places = [place for place, character in enumerate(text) if character.isspace()]
    if not places:
        return text
    place = chance.choice(places)
    return text[:place] + chance.choice((*SPACES, "")) + text[place + 1 :]


def change_all_spaces(text: str, chance: random.Random) -> str:
    return text.replace(chance.choice((" ", "\n")), chance.choice((*SPACES, " \n", "\n ", "\n\n")))


def insert_character(text: str, chance: random.Random) -> str:
    place = _place(text, chance)
    return text[:place] + chance.choice("0123456789_+-.eExX １٣²#aN\x00\x1c\x85") + text[place:]


def drop_character(text: str, chance: random.Random) -> str:
    place = _place(text, chance)
    return text[:place] + text[place + 1 :]


def change_token(text: str, chance: random.Random) -> str:
    tokens = text.split(" ")
    place = chance.randrange(len(tokens))
    tokens[place] = chance.choice((make_any(chance), respell(tokens[place], chance), respell(tokens[place], chance)))
    return " ".join(tokens)


def respell(token: str, chance: random.Random) -> str:
    """Write a token otherwise, mostly with the same value."""
    ways: tuple[Callable[[str], str], ...] = (
        lambda text: text + ".0",
        lambda text: text + "0",
        lambda text: "0" + text,
        lambda text: "+" + text,
        lambda text: "-" + text,
        lambda text: text + "e0",
        lambda text: text.replace("1", "１"),
        lambda text: text[:1] + "_" + text[1:],
        lambda text: text.lower(),
        lambda text: text.upper(),
        lambda text: text[::-1],
        lambda text: text.rstrip("0"),
        lambda text: f"{text[:-1]}.{text[-1:]}e1",
    )
    return chance.choice(ways)(token)


def change_lines(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    place = chance.randrange(len(lines))
    change = chance.randrange(5)
    if change == 0:
        lines.insert(place, "")
    elif change == 1:
        lines.pop(place)
    elif change == 2:
        chance.shuffle(lines)
    elif change == 3:
        lines.insert(place, lines[place])
    else:
        lines[place] = " ".join(respell(token, chance) for token in lines[place].split())
    return "\n".join(lines)


TEXT_MUTATIONS = (
    insert_space,
    insert_space,
    change_space,
    change_all_spaces,
    insert_character,
    drop_character,
    change_token,
    change_token,
    change_lines,
)


def make_value(chance: random.Random, depth: int) -> Any:
    """Make a JSON value as functional problems have them."""
    kind = chance.randrange(9 if depth else 6)
    if kind <= 1:
        return chance.choice((0, 1, -1, 2, chance.randint(-(10**9), 10**9), 10**18, 2**53 + 1, 10**400))
    if kind == 2:
        return chance.choice((True, False, None))
    if kind == 3:
        return chance.choice(
            (0.0, -0.0, 0.5, 1.0, 2.0, 1e18, float(2**53), chance.uniform(-10, 10), float("inf"), float("nan"))
        )
    if kind <= 5:
        return chance.choice(("", "a", "abc", "1", "true", "é", "日本", " a"))
    if kind == 8:
        return {
            chance.choice(("a", "b", "1", "true", "")): make_value(chance, depth - 1)
            for _ in range(chance.randrange(4))
        }
    return [make_value(chance, depth - 1) for _ in range(chance.choice((0, 1, 2, 3, 6)))]


def mutate_value(value: Any, chance: random.Random) -> Any:
    """Change one thing, at the top or deeper: the type with the same content, or the content."""
    if isinstance(value, (list, tuple)) and value and chance.random() < 0.6:
        items = list(value)
        place = chance.randrange(len(items))
        items[place] = mutate_value(items[place], chance)
        return type(value)(items)
    if isinstance(value, dict) and value and chance.random() < 0.6:
        key = chance.choice(list(value))
        return {**value, key: mutate_value(value[key], chance)}
    if isinstance(value, (list, tuple)):
        flat = all(isinstance(item, (int, float, str)) for item in value)
        ways = (
            tuple(value),
            list(value),
            [*value, 0],
            list(value)[1:],
            list(value)[::-1],
            set(value) if flat else [value],
        )
        return chance.choice(ways)
    if isinstance(value, dict):
        return chance.choice(
            ({**value, "z": 1}, {1 if key == "1" else key: item for key, item in value.items()}, [*value])
        )
    if isinstance(value, (int, float)):
        return mutate_number(value, chance)
    if isinstance(value, str):
        return chance.choice((value, value + " ", value.encode(), [value], value.upper(), list(value)))
    return make_value(chance, 1)


def mutate_number(number: float, chance: random.Random) -> Any:
    if isinstance(number, float) and not -1e300 < number < 1e300:
        return chance.choice((number, -number, 0, str(number)))
    ways = (lambda: int(number), lambda: bool(number), lambda: -number, lambda: number + 1, lambda: str(number),
            lambda: number, lambda: complex(number % 1000, 0))  # fmt: skip
    if abs(number) < 1e300:
        ways += (lambda: float(number), lambda: float(number) * (1 + 1e-15), lambda: float(number) + 1e-9)
    return chance.choice(ways)()


if __name__ == "__main__":
    sys.exit(main())
