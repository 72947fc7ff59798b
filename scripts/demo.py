"""The demo: starts a whole service, sends it every example problem, compares verdicts with the known labels, stops it.

Needs no Docker, no Redis and no root. What it starts, it stops, and then it looks whether a process is left: it adopts
the orphans of its children (a *child subreaper*), so that none can get away by losing its parent. Exit status: 0 when
every verdict is the label's and nothing is left, 1 when not, 2 when the demo can't run.
"""

import argparse
import contextlib
import ctypes
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

try:
    from microcoder_client import Client, MicrocoderError, Submission, Suite, TestCase
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table
except ImportError as error:
    sys.exit(f"demo: {error.name} isn't installed here: run `make install`, and then `make demo`.")

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
KINDS = ("stdin", "functional", "assertion")
COLUMNS = {"accepted": "right", "wrong_answer": "wrong", "runtime_error": "crashing", "time_limit": "too slow"}
START_SECONDS = 120.0
STOP_SECONDS = 60.0
PROBLEMS_AT_A_TIME = 8
_PR_SET_CHILD_SUBREAPER = 36

Problem = dict[str, Any]
Verdicts = dict[str, list[str]]
"""By problem: the verdict of each of its programs, in order."""


class CannotRun(Exception):
    """The demo can't go on. The message says what to do."""


def main() -> int:
    """Run the demo."""
    options = _parse()
    console = Console(width=None if sys.stdout.isatty() else 110)
    begun = time.monotonic()
    try:
        problems = read_problems()
        service = contextlib.nullcontext(options.url) if options.url else running_service(options.sandbox, console)
        with service as url, Client(url, options.api_key, patience=20) as client:
            _tell_runtime(client, url, console)
            verdicts = evaluate_all(client, problems)
    except (CannotRun, MicrocoderError) as error:
        return give_up(error, 2, console)
    except KeyboardInterrupt:
        return give_up("interrupted; what was started is stopped.", 130, console)
    left = [] if options.url else end_leftovers()
    equal, programs = print_verdicts(problems, verdicts, console)
    seconds = time.monotonic() - begun
    console.print(f"{equal} of {programs} verdicts equal the known labels, in {seconds:.0f} seconds.", highlight=False)
    if not options.url:
        found = "No process is left." if not left else f"Left over, and killed now: {', '.join(left)}."
        console.print(found, markup=False, highlight=False)
    return 0 if equal == programs and not left else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sandbox", default="bubblewrap", help="auto, docker or bubblewrap; default: bubblewrap")
    parser.add_argument("--url", help="send the problems to this service instead of starting one")
    parser.add_argument("--api-key", default=os.environ.get("MICROCODER_API_KEY"), help="default: MICROCODER_API_KEY")
    return parser.parse_args()


def give_up(sentence: object, status: int, console: Console) -> int:
    """Say why, and leave nothing running."""
    console.print(f"demo: {sentence}", markup=False, highlight=False, soft_wrap=True)
    if left := end_leftovers():
        console.print(f"Left over, and killed now: {', '.join(left)}.", markup=False, highlight=False)
    return status


def read_problems() -> list[Problem]:
    """All example problems, kind by kind."""
    lines = [line for kind in KINDS for line in (EXAMPLES / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


# The service


@contextlib.contextmanager
def running_service(sandbox: str, console: Console) -> Iterator[str]:
    """A service of our own on a free loopback port, for the length of a `with` block; gives its address.

    Raises:
        CannotRun: it doesn't start.
    """
    adopt_orphans()
    command = shutil.which("microcoder", path=str(Path(sys.executable).parent)) or shutil.which("microcoder")
    if command is None:
        raise CannotRun("the command `microcoder` isn't installed here: run `make install`, and then `make demo`.")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [command, "serve", "--port", "0", "--sandbox", sandbox],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=plain_environment(),
            start_new_session=True,  # Ctrl-C reaches the demo only, which then stops the service in order
        )
        try:
            console.print("Starting a service with a private Redis …", highlight=False)
            yield _await_address(process, log)
        finally:
            _stop(process)


def plain_environment() -> dict[str, str]:
    """This environment without settings of the service: the demo shows its defaults."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper() != "REDIS_URL" and not name.upper().startswith("MICROCODER_")
    }


def _await_address(process: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    """The address in the line that says that the service is ready."""
    lines: queue.Queue[bytes] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=_pass_on, args=(process.stdout, lines), daemon=True).start()
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(queue.Empty):
            line = lines.get(timeout=0.2).decode(errors="replace")
            if found := re.search(r"ready at (\S+)", line):
                return found[1]
        if process.poll() is not None:
            log.seek(0)
            words = log.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise CannotRun(f"the service didn't start: {words[-1].removeprefix('microcoder: ')}")
    raise CannotRun(f"the service wasn't ready within {START_SECONDS:.0f} seconds: run `microcoder doctor`.")


def _pass_on(stream: IO[bytes], lines: "queue.Queue[bytes]") -> None:
    with stream:
        for line in stream:
            lines.put(line)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C would; by force when that doesn't help."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tell_runtime(client: Client, url: str, console: Console) -> None:
    health = client.health()
    runtimes = client.runtimes().get("runtimes", [])
    kinds = ", ".join(f"Python {item['python']} in {item['sandbox']} boxes" for item in runtimes) or "no runtime"
    workers = plural(health["workers"], "worker")
    console.print(f"Service at {url}: {health['status']}, {workers}, {kinds}.", highlight=False)


def plural(count: int, noun: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# No process left


def adopt_orphans() -> None:
    """Become the parent of whatever a descendant leaves behind (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_leftovers(patience: float = 2.0) -> list[str]:
    """Kill the processes below this one that are still there after `patience` seconds; says which they were."""
    deadline = time.monotonic() + patience
    while (left := living_descendants()) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
    return [f"{process} ({name})" for process, name in left.items()]


def living_descendants() -> dict[int, str]:
    """The processes below this one by id, with their names. The dead among our children are reaped."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    names, parents = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, fields = (entry / "stat").read_text(errors="replace").split("(", 1)[1].rsplit(")", 1)
            names[int(entry.name)], parents[int(entry.name)] = name, int(fields.split()[1])
    found = {os.getpid()}
    while below := {process for process, parent in parents.items() if parent in found} - found:
        found |= below
    return {process: names[process] for process in sorted(found - {os.getpid()})}


# Judging


def evaluate_all(client: Client, problems: list[Problem]) -> Verdicts:
    """Send every problem; one evaluation each, some at a time."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    total = sum(len(problem["submissions"]) for problem in problems)
    verdicts: Verdicts = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("programs judged", total=total)
        with ThreadPoolExecutor(PROBLEMS_AT_A_TIME) as threads:
            asked = threads.map(lambda problem: evaluate(client, problem), problems)
            for problem, found in zip(problems, asked, strict=True):
                verdicts[problem["id"]] = found
                progress.advance(task, len(found))
    return verdicts


def evaluate(client: Client, problem: Problem) -> list[str]:
    """The verdicts of a problem's programs."""
    suite = Suite.of(TestCase(problem["kind"], test["input"], test.get("expected")) for test in problem["tests"])
    submissions = [
        Submission(
            source=item.get("source"),
            answer=item.get("answer"),
            entry_point=problem.get("entry_point"),
            suite=suite,
            limits=problem["limits"],
            policy=problem.get("policy"),
        )
        for item in problem["submissions"]
    ]
    return [judgement.verdict for judgement in client.evaluate(submissions, detail="summary", deadline=600)]


# The table


def print_verdicts(problems: list[Problem], verdicts: Verdicts, console: Console) -> tuple[int, int]:
    """Print a row a problem; returns how many verdicts equal their label, of how many."""
    table = Table(title="A ✓ is a program whose verdict is its label", title_justify="left", title_style="")
    table.add_column("problem", no_wrap=True)
    table.add_column("tests", justify="right")
    for heading in (*COLUMNS.values(), "other"):
        table.add_column(heading)
    equal: Counter[bool] = Counter()
    for problem in problems:
        cells: dict[str, list[str]] = {heading: [] for heading in (*COLUMNS.values(), "other")}
        for item, verdict in zip(problem["submissions"], verdicts[problem["id"]], strict=True):
            is_equal = verdict == item["label"]
            equal[is_equal] += 1
            known = item["label"] in COLUMNS
            mark = "[green]✓[/]" if is_equal else f"[bold red]✗ {escape(verdict)}[/]"
            cells[COLUMNS.get(item["label"], "other")].append(mark if known else f"{item['label']} {mark}")
        table.add_row(problem["id"], str(len(problem["tests"])), *(" ".join(marks) for marks in cells.values()))
    console.print(table)
    return equal[True], equal.total()


if __name__ == "__main__":
    sys.exit(main())
