"""LiveCodeBench's own evaluator at work: started by `official.py` in an environment that has its package.

Requests come on standard input, answers go to standard output, one JSON object a line. Each program goes through
`evaluate_generations_by_problem`, the unit of work of LiveCodeBench's `codegen_metrics`, unchanged: with its manager,
its process for the program and its global timeout. That runner is no sandbox, so this process stands in one.
"""

import json
import multiprocessing
import os
import resource
import sys
import time

ADDRESS_SPACE = 8 << 30
FILE_BYTES = 64 << 20


def main() -> None:
    """Answer requests until there are no more. Programs find neither requests nor answers on their descriptors."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    empty = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(empty, descriptor)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 — theirs to replace
    multiprocessing.set_start_method("fork")
    for name, limit in ((resource.RLIMIT_AS, ADDRESS_SPACE), (resource.RLIMIT_FSIZE, FILE_BYTES)):
        resource.setrlimit(name, (limit, limit))
    from livecodebench.evaluation.compute_code_generation_metrics import (  # type: ignore[import-not-found]
        evaluate_generations_by_problem,
    )

    for line in requests:
        request = json.loads(line)
        start = time.monotonic()
        arguments = ([request["code"]], request["sample"], False, request["timeout"])
        [results], [metadata] = evaluate_generations_by_problem(arguments)
        answer = {"results": results, "metadata": metadata, "seconds": time.monotonic() - start}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
