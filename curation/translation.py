"""Statements in other languages, translated by a model behind an OpenAI-compatible endpoint, and checked.

A translation that isn't whole is worse than none: code, formulas, numbers, and what tests read and print must all be
there, unchanged, and nothing may be added. A model that failed is told what was wrong and asked again.
"""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from curation.endpoints import Endpoint, EndpointIn
from curation.journal import Journal, make_key
from curation.languages import NAMES, detect_language, is_little_word
from curation.problem import Problem
from curation.statements import normalise_statement
from evaluator.model import TestCase

SAMPLES = 20
"""Tests, the shortest ones, whose lines must survive where the statement quotes them."""
WORDED = frozenset(map(str, (*range(21), 100, 1000, 1_000_000)))
"""Numbers that a statement may have as words, and a translation as digits."""
_ANSWER = re.compile(r"<translation>\s*(.*?)\s*</translation>", re.S)
_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```[^\S\n]*$", re.M | re.S)
_SPAN = re.compile(r"`([^`\n]+)`")
_FORMULA = re.compile(r"\$\$?(?=\S)([^$]{1,400}?)(?<=\S)\$\$?")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:[ ,.'\u00a0\u202f]\d{3})+(?!\d)")
_WORD = re.compile(r"[^\W\d_]{2,}")


class TranslateIn(EndpointIn):
    """Who translates."""

    temperature: float = Field(0.0, ge=0)
    tries: int = Field(2, ge=1)
    """Answers that may fail before the problem is left out."""
    workers: int = Field(4, ge=1)
    """Statements at a time."""


class Fault(StrEnum):
    """What can be wrong with a translation."""

    UNREADABLE = "no whole translation in the answer"
    LANGUAGE = "the translation is in another language"
    CODE = "the translation changes code"
    FORMULAS = "the translation changes formulas"
    NUMBERS = "the translation loses or adds numbers"
    TESTS = "the translation changes what tests read or print"


@dataclass(frozen=True)
class Translation:
    """A statement that is whole; or the last fault, and where it is."""

    text: str = ""
    fault: Fault | None = None
    detail: str = ""


class Translator:
    """Asks, and remembers. Used from several threads."""

    def __init__(
        self, settings: TranslateIn, languages: Sequence[str], seed: int, journal: Path, interrupt: threading.Event
    ) -> None:
        """Translate into the first of the languages; an answer in any of them will do.

        Raises:
            BadEndpoint: the key isn't in the environment.
        """
        self._settings = settings
        self._languages = tuple(languages)
        self._endpoint = Endpoint(settings, seed, interrupt)
        self._journal = Journal(journal)

    def translate(self, problem: Problem, language: str) -> Translation:
        """The problem's statement, which is in this language.

        Raises:
            BadEndpoint: the endpoint doesn't answer.
            Interrupted: the build is to end.
        """
        made = Translation(fault=Fault.UNREADABLE)
        for _ in range(self._settings.tries):
            question = write_question(problem.statement, language, self._languages[0], made)
            made = self._check(problem, language, self._ask(question))
            if made.fault is None:
                break
        return made

    def close(self) -> None:
        """Close the connections and the journal."""
        self._endpoint.close()
        self._journal.close()

    def _ask(self, question: str) -> str:
        settings = self._settings.model_dump(mode="json", include={"url", "model", "temperature", "max_tokens"})
        key = make_key("translation", settings, question)
        known = self._journal.find(key)
        if known is None:
            [known] = self._endpoint.ask(question, 1)
            self._journal.add(key, known)
        return str(known)

    def _check(self, problem: Problem, language: str, answer: str) -> Translation:
        found = _ANSWER.findall(answer)
        if not found or not found[-1]:
            return Translation(fault=Fault.UNREADABLE, detail=f"{answer[-100:]!r} is its end")
        text = normalise_statement(found[-1])
        if detect_language(text) not in self._languages:
            return Translation(fault=Fault.LANGUAGE, detail=f"{text[:100]!r} is its beginning")
        for fault, detail in iterate_faults(problem, language, text):
            return Translation(fault=fault, detail=detail)
        return Translation(text)


def write_question(statement: str, language: str, wanted: str, before: Translation) -> str:
    """The prompt; after a translation that failed, with what was wrong."""
    complaint = f"\n\nAn earlier try failed: {before.fault}: {before.detail}. Avoid that." if before.detail else ""
    return (
        f"Translate the statement of a programming problem below from {NAMES.get(language, language)} into "
        f"{NAMES.get(wanted, wanted)}. Translate all of its prose; add nothing, leave nothing out, don't solve it. "
        "Copy without any change: code (in fences or between backticks), formulas between dollar signs, numbers "
        "(digits stay digits), examples of input and output, and every word that a program has to read or print, even "
        "one of the other language. Keep the Markdown. Write the translation between <translation> and "
        f"</translation>, and nothing behind it.{complaint}\n\nThe statement:\n\n{statement}"
    )


def iterate_faults(problem: Problem, language: str, text: str) -> Iterator[tuple[Fault, str]]:
    """What is wrong with a translation of the problem's statement into `text`."""
    before, after = problem.statement, text
    blocks, blocks_after = _count(_FENCE, before), _count(_FENCE, after)
    if blocks != blocks_after:
        yield Fault.CODE, _name(blocks - blocks_after or blocks_after - blocks)
    before, after = _FENCE.sub("", before), _FENCE.sub("", after)
    if lost := _count(_SPAN, before) - _count(_SPAN, after):
        yield Fault.CODE, _name(lost)
    if lost := _count(_FORMULA, _SPAN.sub("", before)) - _count(_FORMULA, _SPAN.sub("", after)):
        yield Fault.FORMULAS, _name(lost)
    numbers, numbers_after = count_numbers(problem.statement), count_numbers(text)
    if lost := numbers - numbers_after:
        yield Fault.NUMBERS, f"without {_name(lost)}"
    if added := numbers_after.keys() - numbers.keys() - WORDED:
        yield Fault.NUMBERS, f"new is {min(added)!r}"
    if words := _find_lost_words(problem, language, text):
        yield Fault.TESTS, ", ".join(map(repr, words[:5]))


def count_numbers(text: str) -> Counter[str]:
    """Runs of digits, of any script. 1 000 000, 1,000,000 and 1000000 are one; raised digits are apart."""
    spelt = "".join(map(_spell_digit, text))
    joined = _GROUPED.sub(lambda match: re.sub(r"\D", "", match[0]), spelt)
    return Counter(re.findall(r"\d+", joined))


def _spell_digit(sign: str) -> str:
    if sign.isdecimal():
        return str(unicodedata.decimal(sign))
    return f" {unicodedata.digit(sign)} " if sign.isdigit() else sign


def _find_lost_words(problem: Problem, language: str, text: str) -> list[str]:
    """Lines of short tests that the statement quotes, and words of its prose that tests expect, which are lost."""
    before, after = _even_out(problem.statement), _even_out(text)
    tests = sorted(problem.suite.tests, key=lambda test: len(test.input) + len(test.expected or ""))
    lines = {_even_out(line) for test in tests[:SAMPLES] for line in _iterate_lines(test)}
    lost = {line for line in lines if line in before and line not in after}
    stated, translated = (set(_WORD.findall(_FENCE.sub("", one))) for one in (problem.statement, text))
    for test in tests:
        words = stated.intersection(_WORD.findall(test.expected or ""))
        lost |= {word for word in words - translated if not is_little_word(word.casefold(), language)}
    return sorted(lost)


def _iterate_lines(test: TestCase) -> Iterator[str]:
    yield from test.input.splitlines()
    yield from (test.expected or "").splitlines()


def _count(pattern: re.Pattern[str], text: str) -> Counter[str]:
    return Counter("".join(found.split()) for found in pattern.findall(text))


def _name(lost: Counter[str]) -> str:
    return repr(min(lost))[:100]


def _even_out(text: str) -> str:
    return " ".join(text.split())
