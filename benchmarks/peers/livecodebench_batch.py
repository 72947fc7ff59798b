"""LiveCodeBench's own evaluator on a whole batch: started by `sides` in the environment that has its package.

Each program is an item of its own for `evaluate_generations`, as LiveCodeBench's `codegen_metrics` makes it; nothing of
it is changed. The clock runs around that call alone. One request a line on standard input, one answer a line on
standard output, both JSON.
"""

import json
import os
import time
from typing import Any

import numpy
from livecodebench.evaluation.compute_code_generation_metrics import (  # type: ignore[import-not-found]
    evaluate_generations,
)


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    silence = os.open(os.devnull, os.O_RDWR)
    requests = os.fdopen(os.dup(0), "rb")
    for descriptor in (0, 1, 2):  # its progress bar, and what programs write
        os.dup2(silence, descriptor)
    for line in requests:
        answers.write(json.dumps(judge(**json.loads(line))) + "\n")
        answers.flush()


def judge(samples: list[dict[str, str]], programs: list[str], seconds: int, processes: int) -> dict[str, Any]:
    """Judge all programs, each by the sample at its place."""
    start = time.perf_counter()
    results, _ = evaluate_generations(
        samples, [[program] for program in programs], num_process_evaluate=processes, timeout=seconds
    )
    took = time.perf_counter() - start
    return {"seconds": took, "accepted": [passes(results[number][0]) for number in range(len(programs))]}


def passes(tests: list[Any]) -> bool:
    """Whether LiveCodeBench counts the program as right: every test's result is above 0."""
    return bool(numpy.all(numpy.array(tests) > 0))


if __name__ == "__main__":
    main()
