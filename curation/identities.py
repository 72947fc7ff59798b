"""Names of problems: slugs, titles, numbered siblings, families.

Two problems with the same slug or number on the same site are the same problem, whatever their texts look like now.
Numbered siblings ("… I", "… II"; "easy version", "hard version") share most of their text and aren't the same.
"""

import re
import unicodedata
from collections.abc import Iterator

from curation.problem import Identity

MINIMUM_TITLE = 8
"""Characters of a title that mean something without its site: `Paint`, `Sum` and `Game` are many problems' title."""
_LETTER = re.compile(r"^(?:[A-Z]\d?|\d+)[.:)]\s+")
_MARK = re.compile(
    r"-(?P<number>i{1,3}|iv|vi{0,3}|ix|x|[1-9])$|-(?P<version>(?:very-)?(?:easy|hard|medium)(?:-version)?)$"
)
_NUMBERS = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7, "viii": 8, "ix": 9, "x": 10}


def slugify(title: str) -> str:
    """A title as sites write it in their addresses: `Two Sum II` is `two-sum-ii`. Keeps letters of any script."""
    plain = unicodedata.normalize("NFKD", _LETTER.sub("", title.strip())).casefold()
    kept = "".join(sign for sign in plain if not unicodedata.combining(sign))
    return re.sub(r"[\W_]+", "-", kept).strip("-")


def split_mark(slug: str) -> tuple[str, str]:
    """A slug without the number or version at its end, and that: `two-sum-ii` gives `two-sum` and `2`."""
    match = _MARK.search(slug)
    if match is None or match.start() == 0:
        return slug, ""
    number = match["number"]
    mark = match["version"] if number is None else str(_NUMBERS.get(number, number))
    return slug[: match.start()], mark


def name_of(identity: Identity) -> str:
    """The slug, or what the title gives."""
    return identity.slug or slugify(identity.title)


def are_siblings(one: Identity, other: Identity) -> bool:
    """Whether both are numbers or versions of one theme, and not the same number. No number is the first."""
    if one.site and other.site and one.site != other.site:
        return False
    (base, mark), (other_base, other_mark) = split_mark(name_of(one)), split_mark(name_of(other))
    return bool(base) and base == other_base and (mark or "1") != (other_mark or "1")


def family_of(identity: Identity) -> str | None:
    """The same for siblings; None for what has no name."""
    base, _ = split_mark(name_of(identity))
    return f"{identity.site}:{base}" if base else None


def iterate_keys(identity: Identity) -> Iterator[tuple[str, str]]:
    """(rule, key) pairs: two problems that share a key are the same. See `iterate_questions`."""
    site, title = identity.site, slugify(identity.title)
    if identity.slug and site:
        yield "slug", f"slug {site} {identity.slug}"
    if identity.id and site:
        yield "id", f"id {site} {identity.id}"
    if title and site:
        yield "title", f"title {site} {title}"
    if len(title) >= MINIMUM_TITLE:
        yield "title", f"title {'anywhere' if site else 'nowhere'} {title}"


def iterate_questions(identity: Identity) -> Iterator[tuple[str, str]]:
    """(rule, key) pairs to look up among others' keys. A title without a site is compared with those of all sites."""
    title = slugify(identity.title)
    for rule, key in iterate_keys(identity):
        if not key.startswith(("title anywhere ", "title nowhere ")):
            yield rule, key
    if len(title) >= MINIMUM_TITLE:
        yield "title", f"title nowhere {title}"
        if not identity.site:
            yield "title", f"title anywhere {title}"
