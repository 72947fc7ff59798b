"""`results.jsonl`: one line a program, written when it is judged, and read again by a run that goes on.

A line belongs to a problem, a program (its SHA-256) and a suite (its id), so it holds for any file of generations that
has this program; `settings.json` beside it says under which rules it was judged. A line that a killed run left
unfinished is cut off. Lines come in the order of their end, and are sorted when all are there.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import evaluator
from evaluator.livecodebench.score_files import write_whole
from evaluator.model import Verdict

FORMAT = 2
RESULTS, SETTINGS = "results.jsonl", "settings.json"


class OtherRun(Exception):
    """The folder holds results that were made under other rules. The message says what to do."""


@dataclass(frozen=True)
class Rules:
    """What a verdict depends on, beside program and tests."""

    profile: str
    cpu_seconds: float
    fail_fast: bool = True


@dataclass(frozen=True)
class Key:
    """A program of a problem."""

    question_id: str
    digest: str


@dataclass(frozen=True)
class FirstRun:
    """What a program did beside others, where that left its verdict open: the run that counts was made alone."""

    verdict: Verdict
    cpu_seconds: float
    seconds: float
    alone: int
    """Runs alone, of which the last counts."""


@dataclass(frozen=True)
class Outcome:
    """What is known of a judged program without its tests."""

    key: Key
    suite: str
    functional: bool
    verdict: Verdict
    detail: str | None
    first_failed: int | None
    passed: int
    """Tests before the first that failed."""
    given: int
    """Tests of the problem."""
    cpu_seconds: float
    """Of all its tests."""
    slowest: float
    memory_bytes: int
    seconds: float
    """How long a worker had it; where it was run alone, in all of these runs."""
    first_run: FirstRun | None


def digest_of(source: str) -> str:
    """A program's name."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


class Results:
    """The file, open for more lines."""

    def __init__(self, folder: Path, rules: Rules) -> None:
        """Open it, and read what an earlier run has judged.

        Raises:
            OtherRun: the folder was made under other rules.
            OSError: the folder can't be used.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / RESULTS
        self.outcomes: dict[Key, Outcome] = {}
        self._check_rules(folder / SETTINGS, rules)
        self._load()
        self.added = 0
        """Programs that this run has judged."""
        self._file: IO[bytes] = self.path.open("ab")

    def has(self, key: Key, suite: str) -> bool:
        """Whether this program is judged, on these tests."""
        outcome = self.outcomes.get(key)
        return outcome is not None and outcome.suite == suite

    def add(self, line: dict[str, Any]) -> Outcome:
        """Write a judged program. What has failed by our own fault is run again by the next run."""
        outcome = read_outcome(line)
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        self.outcomes[outcome.key] = outcome
        self.added += 1
        return outcome

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def sort(self) -> None:
        """Close the file and put its lines in order: by problem, then by program; of two for one program, the last."""
        self.close()
        places: dict[Key, tuple[int, int]] = {}
        with self.path.open("rb") as lines:
            position = 0
            for text in lines:
                places[_key(json.loads(text))] = (position, len(text))
                position += len(text)
            draft = self.path.with_name(f".{RESULTS}.draft")
            with draft.open("wb") as target:
                for key in sorted(places, key=lambda key: (key.question_id, key.digest)):
                    position, length = places[key]
                    lines.seek(position)
                    target.write(lines.read(length))
        draft.replace(self.path)

    def _check_rules(self, path: Path, rules: Rules) -> None:
        document = {"format": FORMAT, **asdict(rules)}
        if path.exists():
            try:
                before = json.loads(path.read_text("utf-8"))
                told = {name: before.get(name) for name in document}
            except (ValueError, AttributeError):
                told = {}
            if told != document:
                differ = [
                    f"{name} {told.get(name)} instead of {value}"
                    for name, value in document.items()
                    if told.get(name) != value
                ]
                told_apart = f"{path.parent} holds results made with {', '.join(differ)}"
                raise OtherRun(f"{told_apart}: give another --out, or remove the folder.")
        else:
            write_whole(path, json.dumps({**document, "version": evaluator.__version__}, indent=1) + "\n")

    def _load(self) -> None:
        if not self.path.exists():
            return
        whole = 0
        with self.path.open("rb") as lines:
            for text in lines:
                if not text.endswith(b"\n"):
                    break
                whole += len(text)
                outcome = read_outcome(json.loads(text))
                if outcome.verdict is Verdict.INTERNAL_ERROR:
                    self.outcomes.pop(outcome.key, None)
                else:
                    self.outcomes[outcome.key] = outcome
        with self.path.open("r+b") as file:
            file.truncate(whole)


def iterate_lines(folder: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a folder's results."""
    with (folder / RESULTS).open("rb") as lines:
        for text in lines:
            if text.endswith(b"\n"):
                yield json.loads(text)


def _key(line: dict[str, Any]) -> Key:
    return Key(line["question_id"], line["program"])


def read_outcome(line: dict[str, Any]) -> Outcome:
    """A line without its tests."""
    tests = line["tests"]
    passed = next((index for index, test in enumerate(tests) if test["verdict"] != Verdict.ACCEPTED), len(tests))
    first = line.get("first_run")
    return Outcome(
        key=_key(line),
        suite=line["suite"],
        functional=line["functional"],
        verdict=Verdict(line["verdict"]),
        detail=line["detail"],
        first_failed=line["first_failed"],
        passed=passed,
        given=line["tests_given"],
        cpu_seconds=line["cpu_seconds"],
        slowest=max((test["cpu_seconds"] for test in tests), default=0.0),
        memory_bytes=line["memory_bytes"],
        seconds=line["seconds"],
        first_run=first and FirstRun(Verdict(first["verdict"]), first["cpu_seconds"], first["seconds"], first["alone"]),
    )


def make_line(
    key: Key, suite: str, functional: bool, given: int, document: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """The line of a judgement, which is a document of the service."""
    tests = [_test(test) for test in document["tests"] if test["verdict"] != Verdict.SKIPPED]
    return {
        "question_id": key.question_id,
        "program": key.digest,
        "suite": suite,
        "functional": functional,
        "verdict": document["verdict"],
        "detail": document["detail"],
        "first_failed": document["first_failed"],
        "tests_given": given,
        "cpu_seconds": round(document["cpu_seconds"], 4),
        "memory_bytes": document["memory_bytes"],
        "seconds": round(seconds, 4),
        "reason": document.get("reason"),
        "suspicion": document.get("suspicion"),
        "tests": tests,
    }


def add_first_run(runs: list[dict[str, Any]], first: dict[str, Any]) -> dict[str, Any]:
    """The line of a program that was run alone: the last run's, with what the first run said and cost."""
    before = {name: first[name] for name in ("verdict", "cpu_seconds", "seconds")}
    seconds = round(sum(run["seconds"] for run in runs), 4)
    return {**runs[-1], "seconds": seconds, "first_run": {**before, "alone": len(runs)}}


def _test(test: dict[str, Any]) -> dict[str, Any]:
    match = test.get("match") or {}
    return {
        "test": test["index"],
        "verdict": test["verdict"],
        "rung": match.get("rung"),
        "difference": None if test["verdict"] == Verdict.ACCEPTED else test.get("detail"),
        "cpu_seconds": round(test["cpu_seconds"], 4),
        "memory_bytes": test["memory_bytes"],
    }
