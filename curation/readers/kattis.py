"""Kattis and ICPC problem packages: folders, or rows in which somebody has gathered their parts.

Format: https://www.kattis.com/problem-package-format/spec/legacy.html. A package has `problem.yaml`,
`problem_statement/problem[.en].{md,tex,html}` (newer ones: `statement/`), `data/{sample,secret}/**/*.{in,ans}`,
`output_validators/`, `submissions/{accepted,wrong_answer,…}/`. Without `validation: custom` the default validator
decides: tokens in any case unless `case_sensitive`, numbers within the tolerances that its flags name.

A row has `repo, commit, problem, license, validation, flags, tl, mult, tests, validator, subs, author`, and no
statement: a verification fixture.
"""

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from curation.identities import slugify
from curation.problem import Identity, Problem, make_suite
from curation.readers.origins import Origin, Unreadable, clean_text, demand
from evaluator.errors import InvalidSuite
from evaluator.model import Checker, CheckerName, CheckerProgram, Convention, NamedChecker, TestCase, TestKind

LICENCES = {
    "cc by-sa": "CC-BY-SA", "cc-by-sa": "CC-BY-SA", "cc by": "CC-BY", "cc0": "CC0", "public domain": "public-domain",
    "public-domain": "public-domain", "educational": "educational", "permission": "permission", "unknown": "unknown",
}  # fmt: skip
WRONG = ("wrong_answer", "runtime_error", "run_time_error")
"""Verdicts of submissions that are wrong on any machine."""
_SOURCES = {".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".c++": "cpp", ".py": "python"}


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A row.

    Raises:
        Unreadable: it is none, or its validator can't be run here.
    """
    row = demand(row, "problem", "tests")
    subs = [(sub["published"], sub["code"]) for sub in row.get("subs") or []]
    name = str(row["problem"])
    slug = slugify(f"{str(row.get('repo') or '').rpartition('/')[2]} {name}")
    tests = [TestCase(TestKind.STDIN, one["input"], one["expected"], one.get("name")) for one in row["tests"]]
    return _make_problem(
        origin,
        slug=slug,
        title=name.rpartition("/")[2],
        statement=clean_text(row.get("statement")),
        tests=tests,
        checker=_make_checker(
            str(row.get("validation") or ""), str(row.get("flags") or ""), row.get("validator") or {}
        ),
        programs=subs,
        licence=str(row.get("license") or ""),
        attribution=f"{row.get('author') or ''}, {row.get('repo') or ''}@{str(row.get('commit') or '')[:12]}",
        seconds=float(row["tl"]) if row.get("tl") else None,
    )


def iterate_packages(path: Path) -> Iterator[Path]:
    """The packages in a folder: each folder with a `problem.yaml`."""
    for file in sorted(path.rglob("problem.yaml")):
        yield file.parent


def read_package(folder: Path, origin: Origin) -> Problem:
    """A package.

    Raises:
        Unreadable: it is interactive, scored by its validator, or has no tests.
    """
    settings = _load_yaml(folder / "problem.yaml")
    validation = settings.get("validation", settings.get("type", "default"))
    validation = " ".join(validation) if isinstance(validation, list) else str(validation)
    files = {
        str(file.relative_to(folder / base)): file.read_text("utf-8", "replace")
        for base in ("output_validators", "output_validator")
        for file in sorted((folder / base).rglob("*"))
        if file.is_file() and file.suffix in {*_SOURCES, ".h", ".hpp"}
    }
    limits = settings.get("limits") or {}
    title = settings.get("name") or folder.name
    return _make_problem(
        origin,
        slug=slugify(folder.name),
        title=str(next(iter(title.values())) if isinstance(title, dict) else title),
        statement=_read_statement(folder),
        tests=list(_iterate_tests(folder)),
        checker=_make_checker(validation, str(settings.get("validator_flags") or ""), files),
        programs=list(_iterate_submissions(folder)),
        licence=str(settings.get("license") or "unknown"),
        attribution=str(settings.get("rights_owner") or settings.get("author") or settings.get("source") or ""),
        seconds=limits.get("time_limit"),
        memory_mebibytes=limits.get("memory"),
    )


def _make_problem(
    origin: Origin,
    *,
    slug: str,
    title: str,
    statement: str,
    tests: list[TestCase],
    checker: Checker,
    programs: Iterable[tuple[str, str]],
    licence: str,
    attribution: str,
    seconds: float | None,
    memory_mebibytes: int | None = None,
) -> Problem:
    try:
        suite = make_suite(tests, checker)
    except InvalidSuite as error:
        raise Unreadable("no tests that can be judged", str(error)) from None
    programs = list(programs)
    return Problem(
        id=f"{origin.name}/{slug}",
        statement=statement,
        suite=suite,
        source=origin.name,
        identity=Identity("kattis", slug, "", title),
        references=origin.pick(code for verdict, code in programs if verdict == "accepted"),
        wrong=origin.pick(code for verdict, code in programs if verdict in WRONG),
        licence=LICENCES.get(licence.lower(), licence or "unknown"),
        attribution=origin.attribution or attribution,
        cpu_seconds=seconds,
        memory_bytes=None if memory_mebibytes is None else max(16, int(memory_mebibytes)) << 20,
    )


def _make_checker(validation: str, flags: str, files: dict[str, str]) -> Checker:
    """The default validator's rules as a built-in checker; a custom validator as a program."""
    words = validation.split()
    if {"interactive", "multi-pass", "submit-answer"} & set(words):
        raise Unreadable("interactive")
    if "score" in words or "scoring" in words:
        raise Unreadable("scored by its validator")
    if "custom" not in words and not files:
        return _read_flags(flags.split())
    languages = {_SOURCES[Path(name).suffix] for name in files if Path(name).suffix in _SOURCES}
    if len(languages) != 1:
        raise Unreadable("needs a checker", f"its validator is written in {', '.join(sorted(languages)) or 'nothing'}")
    main = next((name for name in files if name.endswith(".py")), None) if languages == {"python"} else None
    return CheckerProgram(tuple(sorted(files.items())), Convention.KATTIS, languages.pop(), main, tuple(flags.split()))


def _read_flags(flags: list[str]) -> NamedChecker:
    tolerances: dict[str, float] = {}
    for place, flag in enumerate(flags[:-1]):
        if flag in ("float_tolerance", "float_absolute_tolerance"):
            tolerances["absolute_tolerance"] = float(flags[place + 1])
        if flag in ("float_tolerance", "float_relative_tolerance"):
            tolerances["relative_tolerance"] = float(flags[place + 1])
    if tolerances:
        return NamedChecker(CheckerName.FLOAT_TOLERANCE, **tolerances)
    return NamedChecker(CheckerName.TOKENS if "case_sensitive" in flags else CheckerName.CASE_INSENSITIVE)


def _load_yaml(path: Path) -> dict[str, Any]:
    yaml = importlib.import_module("yaml")
    try:
        settings = yaml.safe_load(path.read_text("utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise Unreadable("not a row of this format", f"{path.name}: {error}") from None
    if not isinstance(settings, dict):
        raise Unreadable("not a row of this format", f"{path.name} holds a {type(settings).__name__}")
    return settings


def _read_statement(folder: Path) -> str:
    """The English statement, else the only one."""
    found = [
        file
        for base in ("statement", "problem_statement")
        for kind in ("md", "tex", "html")
        for file in sorted((folder / base).glob(f"problem*.{kind}"))
    ]
    english = [file for file in found if file.name.split(".")[1:-1] in ([], ["en"])]
    chosen = english or (found if len(found) == 1 else [])
    return chosen[0].read_text("utf-8", "replace") if chosen else ""


def _iterate_tests(folder: Path) -> Iterator[TestCase]:
    for part in ("sample", "secret"):
        for given in sorted((folder / "data" / part).rglob("*.in")):
            answer = given.with_suffix(".ans")
            if answer.is_file():
                name = f"{part}/{given.relative_to(folder / 'data' / part).with_suffix('')}"
                texts = (given.read_text("utf-8", "replace"), answer.read_text("utf-8", "replace"))
                yield TestCase(TestKind.STDIN, *texts, name)


def _iterate_submissions(folder: Path) -> Iterator[tuple[str, str]]:
    for file in sorted((folder / "submissions").rglob("*.py")):
        yield file.relative_to(folder / "submissions").parts[0], file.read_text("utf-8", "replace")
