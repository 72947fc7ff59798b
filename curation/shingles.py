"""Texts as sets of numbers: words, n-grams of words, and tests, hashed so that they can be counted and compared."""

import hashlib
import json
import re
from collections.abc import Sequence

from evaluator.comparison.literals import INVALID, parse
from evaluator.model import Suite, TestCase, TestKind

MINIMUM_TEST = 12
"""Characters of input that make a test telling: `1` and `3 4` are tests of many problems."""
_MARKUP = re.compile(r"[$\\{}_^`*~]|<[a-z/][^<>]{0,80}>|&[a-z]{2,6};")
_WORD = re.compile(r"\w+")


def split_words(text: str) -> list[str]:
    """The words of a text in lower case; markup of HTML, LaTeX and Markdown is no word."""
    return _WORD.findall(_MARKUP.sub(" ", text).casefold())


def hash_text(text: str) -> int:
    """A 64-bit number, the same on every machine; it fits SQLite's signed integers."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True)


def hash_grams(words: Sequence[str], size: int) -> frozenset[int]:
    """The runs of `size` words, hashed; a shorter text is one run."""
    count = max(1, len(words) - size + 1) if words else 0
    return frozenset(hash_text(" ".join(words[place : place + size])) for place in range(count))


def hash_tests(suite: Suite) -> frozenset[int]:
    """The telling tests of a suite, hashed with what is expected; written alike, whatever the source's spacing."""
    return frozenset(hash_text(text) for test in suite.tests if (text := _spell_test(test)) is not None)


def _spell_test(test: TestCase) -> str | None:
    if len(test.input.strip()) < MINIMUM_TEST:
        return None
    if test.kind is TestKind.FUNCTIONAL:
        return f"{_spell_values(test.input)} -> {_spell_values(test.expected or '')}"
    return f"{' '.join(test.input.split())} -> {' '.join((test.expected or '').split())}"


def _spell_values(lines: str) -> str:
    values = [parse(line) for line in lines.strip().split("\n")]
    if INVALID in values:
        return " ".join(lines.split())
    return json.dumps(values, separators=(",", ":"), default=repr)
