"""The language that a statement is written in: by its script, and for Latin letters by the commonest little words."""

import re
import unicodedata
from collections import Counter

UNDETERMINED = "und"
NAMES = {
    "ar": "Arabic", "da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fr": "French", "hi": "Hindi",
    "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pl": "Polish",
    "pt": "Portuguese", "ru": "Russian", "sv": "Swedish", "zh": "Chinese",
}  # fmt: skip
"""English names of languages; others go by their code."""
_SCRIPTS = {
    "CYRILLIC": "ru", "CJK": "zh", "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "ARABIC": "ar", "GREEK": "el",
    "HEBREW": "he", "DEVANAGARI": "hi", "BENGALI": "bn", "THAI": "th", "GEORGIAN": "ka", "ARMENIAN": "hy",
}  # fmt: skip
_WORDS = {
    "en": "the of and to is are you that in with for given if it be which each from return print write there can this",
    "de": "der die das und ist sie ein eine den von zu mit für auf nicht werden dass dem wird aus gegeben gib oder",
    "fr": "le la les des et est une un dans pour que vous sur avec qui nombre pas par ce sont être au du",
    "es": "el la los las de y es una un en para que con por se del entero dado cada como número no al",
    "pt": "o a os as de e é uma um em para que com por se do da dos inteiro cada não número ao você",
    "it": "il la gli le di e è una un in per che con si del della ogni numero non sono come nel",
    "nl": "de het een en is van te dat op met voor zijn niet aan er elk getal je bij wordt als naar",
    "sv": "och att det som en är på för av med den till ett är inte från varje tal du skriv heltal ska",
    "da": "og at det som en er på for af med den til et ikke fra hvert tal du skriv skal der har",
    "pl": "i w na z do jest że się nie to dla liczba każdy oraz po od są jako przez liczby",
    "id": "yang dan di dari untuk dengan adalah pada tidak ini sebuah jika dalam anda setiap bilangan",
}
# A word of one letter is the name of a variable as often as a word.
_SETS = {language: frozenset(word for word in words.split() if len(word) > 1) for language, words in _WORDS.items()}
_WORD = re.compile(r"[^\W\d_]+")
_CODE = re.compile(r"```.*?```|`[^`\n]*`|\$[^$\n]*\$", re.S)
MINIMUM_WORDS = 4
"""Little words that must be there before a language is named."""


def detect_language(text: str) -> str:
    """A code of ISO 639-1, or `und`. What stands in code and formulas says nothing about it."""
    words = _WORD.findall(_CODE.sub(" ", text).casefold())
    letters = Counter(_script_of(sign) for word in words for sign in word[:8])
    total = sum(letters.values())
    foreign = Counter({code: letters[script] for script, code in _SCRIPTS.items() if letters[script]})
    if total and sum(foreign.values()) > 0.3 * total:
        return "ja" if foreign["ja"] else foreign.most_common(1)[0][0]
    hits = {language: sum(word in known for word in words) for language, known in _SETS.items()}
    best = max(hits, key=lambda language: (hits[language], language == "en"))
    return best if hits[best] >= min(MINIMUM_WORDS, max(1, len(words) // 4)) else UNDETERMINED


def is_little_word(word: str, language: str) -> bool:
    """Whether it is one of the commonest little words of a language."""
    return word in _SETS.get(language, ())


def _script_of(sign: str) -> str:
    return "LATIN" if sign.isascii() else unicodedata.name(sign, "UNKNOWN").split(" ")[0]
