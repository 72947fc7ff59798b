"""The time limit of a re-scored program, held so that a busy machine doesn't change a verdict.

A program's processor time isn't the same twice: alone it varies by a few percent, beside others, with which it shares
caches and memory, by more. So a program isn't stopped at its limit, but at `ROOM` times that, and then:

- no test needed more than `TOLERANCE` times the limit: what it did counts, whatever ran beside it;
- it was still running at `ROOM` times the limit: a time limit, at once. That is what programs do that never end, and to
  run them again would cost more than everything else;
- in between: it is run again alone, until a run is decided in one of the two ways, or `RUNS` of them were not. Then it
  is a time limit.

So what counts is the least of up to four runs. `docs/rescoring.md` says what that holds for, and what not.
"""

from collections.abc import Callable
from typing import Any

from evaluator.model import Limits, Verdict

TOLERANCE = 1.05
"""Times the limit: what is below is within the limit."""
ROOM = 1.15
"""Times the limit: where a program is stopped."""
RUNS = 3
"""Times that a program is run alone, at most."""
_LIMITS = (Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT, Verdict.OUTPUT_LIMIT)
"""What stopped a program. A limit that was met before that of time is not made one of time."""


def limits_of_run(cpu_seconds: float) -> Limits:
    """What a run of a program gets whose limit is `cpu_seconds`. On the wall it has no more time than ever."""
    return Limits(min(ROOM * cpu_seconds, 3600.0), Limits(cpu_seconds).wall)


def hold(judgement: dict[str, Any], cpu_seconds: float, fail_fast: bool) -> dict[str, Any]:
    """A judgement under such limits as it is under the limit: a test that ended too late is a time limit.

    `judgement` is a document of the service (`verdict`, `tests`, …). With `fail_fast`, tests behind the first one that
    failed are left out of it, as if they hadn't been run.
    """
    if judgement["verdict"] in (Verdict.INTERNAL_ERROR, Verdict.CANCELLED):
        return judgement
    tests = [_hold_test(test, cpu_seconds) for test in judgement["tests"]]
    if tests == judgement["tests"]:
        return judgement
    failed = next(number for number, test in enumerate(tests) if test["verdict"] != Verdict.ACCEPTED)
    if fail_fast:
        tests = tests[: failed + 1]
    told = {"verdict": tests[failed]["verdict"], "detail": tests[failed]["detail"]}
    spent = {"cpu_seconds": sum(test["cpu_seconds"] for test in tests)}
    return {**judgement, **told, **spent, "first_failed": tests[failed]["index"], "tests": tests}


def _hold_test(test: dict[str, Any], limit: float) -> dict[str, Any]:
    spent = test["cpu_seconds"]
    if test["verdict"] in _LIMITS or spent <= TOLERANCE * limit:
        return test
    detail = f"The program used {spent:.2f} s of processor time, and the limit is {limit:g} s."
    return {**test, "verdict": str(Verdict.TIME_LIMIT), "match": None, "detail": detail}


def needs_run_alone(judgement: dict[str, Any], cpu_seconds: float) -> bool:
    """Whether a run beside others leaves open if this is a time limit: the program ended soon after the limit, or by
    the clock on the wall. A line of the results may be asked too."""
    spent = _late(judgement)
    return spent is not None and spent <= ROOM * cpu_seconds


def judge_alone(judge: Callable[[], dict[str, Any]], cpu_seconds: float) -> list[dict[str, Any]]:
    """Run a program again as often as it takes; the last run counts. The caller sees to it that no other runs."""
    runs = [judge()]
    while len(runs) < RUNS and _is_open(runs[-1], cpu_seconds):
        runs.append(judge())
    return runs


def _is_open(judgement: dict[str, Any], limit: float) -> bool:
    spent = _late(judgement)
    return spent is not None and TOLERANCE * limit < spent <= ROOM * limit


def _late(judgement: dict[str, Any]) -> float | None:
    """Processor seconds of the test that made this a time limit; None where it is none."""
    if judgement["verdict"] != Verdict.TIME_LIMIT:
        return None
    seconds: float = next(test["cpu_seconds"] for test in judgement["tests"] if test["verdict"] == Verdict.TIME_LIMIT)
    return seconds
