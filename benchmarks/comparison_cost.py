"""What comparing large outputs costs, against `bytes ==` and `split()` on the same bytes.

    python -m benchmarks.comparison_cost [--megabytes 10] [--json OUT]

Prints seconds, the ratio to `bytes ==` and the memory that the comparison itself took at its peak. All but the rows
"accepted" are rejected, most of them for their last token.
"""

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evaluator.comparison.ladder import compare
from evaluator.model import Policy


def main(argv: list[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    arguments = parser.parse_args(argv)
    size = arguments.megabytes * 1_000_000
    numbers = "\n".join(str(number % 97) for number in range(size * 35 // 100))
    data, same = numbers.encode(), numbers.encode()[:-1] + b"x"
    equality = min(seconds(lambda: data == same) for _ in range(7))
    split = min(seconds(data.split) for _ in range(3))
    table = Table("outputs", "seconds", "× bytes ==", "MB at peak", title=f"{len(data) / 1e6:.1f} MB a side")
    table.add_row("bytes ==", f"{equality:.4f}", "1", "")
    table.add_row("split() of one side", f"{split:.3f}", f"{split / equality:.0f}", "")
    rows = []
    for name, expected, actual in make_cases(numbers, size):
        spent = min(seconds(lambda pair=(expected, actual): compare(*pair, Policy())) for _ in range(2))
        peak = peak_megabytes(lambda pair=(expected, actual): compare(*pair, Policy()))
        match = compare(expected, actual, Policy())
        rows.append(
            {"name": name, "seconds": spent, "ratio": spent / equality, "megabytes": peak, "said": match.explanation}
        )
        table.add_row(name, f"{spent:.3f}", f"{spent / equality:.0f}", f"{peak:.0f}")
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"equality_seconds": equality, "split_seconds": split, "cases": rows}, indent=1)
        )
    return 0


def make_cases(numbers: str, size: int) -> list[tuple[str, str, bytes]]:
    """Return names, expected and actual outputs."""
    row = numbers.replace("\n", " ")
    decimals = [number / 7 for number in range(size // 14)]
    return [
        ("one token a line, last differs", f"{numbers} 1\n", f"{numbers} 2\n".encode()),
        ("one line, last differs", f"{row} 1\n", f"{row} 2\n".encode()),
        ("CRLF, last differs", f"{numbers} 1\n", f"{numbers} 2\n".replace("\n", "\r\n").encode()),
        ("CRLF, accepted", f"{numbers}\n", f"{numbers}\n".replace("\n", "\r\n").encode()),
        ("first differs", f"1 {row}", f"2 {row}".encode()),
        ("double spaces, last differs", f"{row} 1\n", f"{row} 2\n".replace(" ", "  ").encode()),
        ("blank lines, last differs", f"{numbers} 1\n", f"{numbers} 2\n".replace("\n", "\n\n").encode()),
        ("decimals, all respelled, accepted", lines(decimals, 9), lines(decimals, 8).encode()),
        (
            "JSON list, other spaces, last differs",
            f"[{row} 1]".replace(" ", ", "),
            f"[{row} 2]".replace(" ", ",").encode(),
        ),
        ("digits, last differs", "1" * size + "1", b"1" * size + b"2"),
        ("digits for a small number", "1.5", b"1" * size),
        ("exponent of a billion", "1.5", b"1e999999999"),
        ("open brackets", "[1]", b"[" * size),
    ]


def lines(numbers: list[float], digits: int) -> str:
    """Write numbers one a line."""
    return "\n".join(f"{number:.{digits}f}" for number in numbers)


def seconds(action: Callable[[], object]) -> float:
    """Return how long it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def peak_megabytes(action: Callable[[], object]) -> float:
    """Return the most memory that it takes beside its arguments."""
    tracemalloc.start()
    action()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


if __name__ == "__main__":
    sys.exit(main())
