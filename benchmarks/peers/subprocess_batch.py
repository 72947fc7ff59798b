"""A fresh interpreter for each test: what most home-made graders do. Started by `sides`, in a room of its own.

As many threads as processors take programs from a list; each writes the program to a file, and for each test, up to the
first that fails, starts `python -I FILE` with the input on stdin, under the time limit (on the wall, as `subprocess`
has it). One request a line on standard input, one answer a line on standard output, both JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.peers.driver import is_right


def main() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin.buffer:
        print(json.dumps(judge(**json.loads(line))), flush=True)


def judge(programs: list[dict[str, Any]], processes: int) -> dict[str, Any]:
    """Judge all programs."""
    start = time.perf_counter()
    with ThreadPoolExecutor(processes) as threads:
        accepted = list(threads.map(lambda program: judge_one(**program), programs))
    return {"seconds": time.perf_counter() - start, "accepted": accepted}


def judge_one(source: str, entry_point: str | None, tests: list[list[str]], seconds: float) -> bool:
    """Whether every test passes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(source, "utf-8", "surrogatepass")
        for given, expected in tests:
            command = [sys.executable, "-I", str(file)]
            try:
                done = subprocess.run(
                    command, input=given.encode(), capture_output=True, timeout=seconds, cwd=folder, env={**os.environ}
                )
            except subprocess.TimeoutExpired:
                return False
            if done.returncode != 0 or not is_right(done.stdout.decode("utf-8", "replace"), expected, entry_point):
                return False
    return True


if __name__ == "__main__":
    main()
