"""Problems that LiveCodeBench's own list of errata names: no verdict on them says much about a program.

Source: ERRATA.md of https://github.com/LiveCodeBench/LiveCodeBench. It names AtCoder's problems by id, LeetCode's by
title.
"""

from enum import StrEnum


class Erratum(StrEnum):
    """What is wrong with a problem."""

    MULTIPLE_ANSWERS = "multiple answers are right, and the tests know one"
    INTERACTIVE = "it is interactive, and the tests don't answer"
    BAD_TESTS = "its tests are wrong"


_ERRATA = {
    Erratum.MULTIPLE_ANSWERS: (
        "abc311_c", "abc326_d", "abc327_b", "abc333_e", "abc343_e", "abc362_c", "abc343_a", "arc185_c",
        "find-words-containing-character", "find-the-peaks", "generate-binary-strings-without-adjacent-zeros",
    ),
    Erratum.INTERACTIVE: ("abc337_e", "abc355_e"),
    Erratum.BAD_TESTS: (
        "abc350_c", "apply-operations-to-make-string-empty", "most-frequent-ids", "arc189_a",
    ),
}  # fmt: skip
_BY_NAME = {name: erratum for erratum, names in _ERRATA.items() for name in names}


def find_erratum(question_id: str, title: str) -> Erratum | None:
    """What the list says about a problem."""
    return _BY_NAME.get(question_id) or _BY_NAME.get(title.strip().lower().replace(" ", "-"))
