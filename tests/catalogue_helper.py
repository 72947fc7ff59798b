"""The list of attacks (`attacks/catalogue.toml`): read, matched with tests' ids, and spelled as the table of a page."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "attacks"
PAGE = Path(__file__).parent.parent / "docs" / "security.md"
BEGIN, END = "<!-- made of tests/attacks/catalogue.toml by `python -m tests.attacks --write` -->", "<!-- end -->"
KINDS = ("bubblewrap-root", "bubblewrap-user", "docker")


@dataclass(frozen=True)
class Attack:
    """One attack. `tests` are ids without the kind of box; empty where `not_applicable` says why."""

    number: int
    title: str
    family: str
    asserted: str
    stops: str = ""
    user: str = ""
    note: str = ""
    not_applicable: str = ""
    tests: tuple[str, ...] = ()


def read_catalogue() -> list[Attack]:
    """All attacks, by number."""
    entries = tomllib.loads((FOLDER / "catalogue.toml").read_text("utf-8"))["attack"]
    return [Attack(**{**entry, "tests": tuple(entry.get("tests", ()))}) for entry in entries]


def split_id(identity: str) -> tuple[str, str, str]:
    """(file and function, parameters without the kind of box, kind of box or an empty text)."""
    function, bracket, rest = identity.partition("[")
    parameters = rest.removesuffix("]") if bracket else ""
    for kind in KINDS:
        if parameters == kind:
            return function, "", kind
        if parameters.startswith(f"{kind}-"):
            return function, parameters.removeprefix(f"{kind}-"), kind
        if parameters.endswith(f"-{kind}"):
            return function, parameters.removesuffix(f"-{kind}"), kind
    return function, parameters, "docker" if "docker" in function else ""


def is_named(reference: str, identity: str) -> bool:
    """Whether a catalogue's reference means a collected test. Parameters may end in a star, for whatever follows."""
    if reference == identity:
        return True
    function, parameters, _ = split_id(identity)
    wanted, bracket, rest = reference.partition("[")
    pattern = rest.removesuffix("]")
    fits = parameters.startswith(pattern[:-1]) if pattern.endswith("*") else parameters == pattern
    return function == wanted and (not bracket or fits)


def spell_table(attacks: list[Attack]) -> str:
    """The coverage table in Markdown."""
    lines: list[str] = []
    family = ""
    for attack in attacks:
        if attack.family != family:
            family = attack.family
            lines += ["", f"**{family[0].upper()}{family[1:]}**", ""]
            lines += ["| # | attack | seen from | what stops it | tests |", "| --- | --- | --- | --- | --- |"]
        stops = attack.stops or f"does not apply: {attack.not_applicable}"
        stops += f". Ordinary user: {attack.user}" if attack.user else ""
        stops += f". {attack.note[0].upper()}{attack.note[1:]}" if attack.note else ""
        cells = [str(attack.number), attack.title, attack.asserted if attack.tests else "–", stops, spell_tests(attack)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines).strip()


def spell_tests(attack: Attack) -> str:
    """Files, each with the functions in it that are about an attack."""
    found: dict[str, dict[str, None]] = {}
    for reference in attack.tests:
        file, _, rest = reference.partition("::")
        function, bracket, parameters = rest.partition("[")
        name = f"`{parameters.removesuffix(']')}`" if bracket else f"`{function.removeprefix('test_')}`"
        found.setdefault(file.removeprefix("tests/"), {})[name] = None
    return "; ".join(f"{file}: {', '.join(names)}" for file, names in found.items()) or "–"


def place_table(page: str, table: str) -> str:
    """The page with a table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"
