"""A source's word for how difficult a problem is, as one of three; misspelt ones too, where they are clear."""

from functools import cache

CLASSES_OF_WORDS = {
    "easy": "easy", "medium": "medium", "hard": "hard",
    "introductory": "easy", "interview": "medium", "competition": "hard",  # APPS
    "medium_hard": "medium", "very_hard": "hard",  # TACO
}  # fmt: skip
NOTHING = ("", "unknown", "unknown_difficulty", "none")
"""Words of sources that say that nobody knows."""
MISTAKES = 2
"""Letters missing, added, changed or swapped in a word that is still read; half as many in one of four letters."""


@cache
def read_difficulty(word: str) -> tuple[str, str]:
    """The class, or nothing; and what is to be counted: nothing where the word is one that is known.

    A misspelt word is read as the class whose word is nearest, if no other class is as near.
    """
    word = word.strip().lower().replace(" ", "_").replace("-", "_")
    if word in NOTHING:
        return "", ""
    if word in CLASSES_OF_WORDS:
        return CLASSES_OF_WORDS[word], ""
    distances: dict[str, int] = {}
    for known, name in CLASSES_OF_WORDS.items():
        mistakes = count_mistakes(word, known)
        if mistakes <= (MISTAKES if len(known) > 4 else MISTAKES // 2):
            distances[name] = min(mistakes, distances.get(name, mistakes))
    nearest = [name for name, mistakes in distances.items() if mistakes == min(distances.values())]
    if len(nearest) != 1:
        return "", "the source's word for its difficulty isn't known"
    return nearest[0], f"difficulty {word!r} read as {nearest[0]}"


def count_mistakes(one: str, other: str) -> int:
    """Letters that are missing, added or changed, and neighbours that are swapped, on the shortest way between two."""
    before, row = list[int](), list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        before, last, row = row, before, [place]
        for at, wanted in enumerate(other, start=1):
            steps = [before[at] + 1, row[at - 1] + 1, before[at - 1] + (letter != wanted)]
            if place > 1 and at > 1 and (letter, one[place - 2]) == (other[at - 2], wanted):
                steps.append(last[at - 2] + 1)
            row.append(min(steps))
    return row[-1]
