"""verl's `prime_code` on a whole batch: started by `sides` where verl can be imported.

Each program is one call of its `compute_score`, unchanged, by as many processes as there are processors (verl's own
reward managers call it from a process pool). One request a line on standard input, one answer a line on standard
output, both JSON. It knows no limit of the caller's: its own is 5 s for a test.
"""

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from verl.utils.reward_score.prime_code import compute_score  # type: ignore[import-not-found]


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    silence = os.open(os.devnull, os.O_RDWR)
    requests = os.fdopen(os.dup(0), "rb")
    for descriptor in (0, 1, 2):
        os.dup2(silence, descriptor)
    for line in requests:
        answers.write(json.dumps(judge(**json.loads(line))) + "\n")
        answers.flush()


def judge(samples: list[dict[str, str]], programs: list[str], processes: int) -> dict[str, Any]:
    """Judge all programs, each by the sample at its place."""
    cases = [json.loads(sample["input_output"]) for sample in samples]
    start = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        scores = list(pool.map(score, programs, cases))
    return {"seconds": time.perf_counter() - start, "accepted": scores}


def score(program: str, cases: dict[str, Any]) -> bool:
    """Whether it accepts."""
    success, _ = compute_score(program, cases)
    return success is True


if __name__ == "__main__":
    main()
