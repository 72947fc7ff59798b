"""The real clients of SandboxFusion against our service: the kit from PyPI and verl's reward, on labelled programs.

    python -m benchmarks.foreign_clients PATH… [--url URL] [--programs 200] [--json OUT]

Each client stands in an environment of its own, made once under the user's cache directory by pip. `PATH` is as for
`benchmarks.agreement`; problems with a checker are left out, which neither client's wire can express.
"""

import argparse
import json
import math
import os
import random
import subprocess
import venv
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.labelled import BadInput, Labelled, Problem, find_files, foreign_format, read_problems
from benchmarks.peers.sides import CannotRun
from benchmarks.served import Service
from evaluator.model import CheckerName, NamedChecker, Prelude, TestKind

HERE = Path(__file__).parent / "peers"
PACKAGES = {
    "sandbox_fusion_client": (("sandbox-fusion==0.3.7",),),
    "verl_client": (("--no-deps", "verl==0.9.1"), ("requests",)),
}
MAX_TESTS, MAX_LOOPS = 12, 4
"""Of a problem; and programs that loop, since verl runs each of their tests to its limit."""
TOKENS = NamedChecker(CheckerName.TOKENS)
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A labelled program and its problem."""

    problem: Problem
    program: Labelled

    @property
    def kind(self) -> TestKind:
        """Of its tests."""
        return self.problem.tests[0].kind

    @property
    def is_right(self) -> bool:
        """What its label says."""
        return self.program.label == "accepted"


@dataclass
class Client:
    """A client's process."""

    name: str
    url: str
    _process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare its environment and start it."""
        command = [str(prepare(self.name)), str(HERE / f"{self.name}.py"), self.url]
        environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, request: Figures) -> Figures:
        """What it says of one request.

        Raises:
            CannotRun: it has ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer: Figures = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):
            raise CannotRun(
                f"{self.name} has ended; start benchmarks/peers/{self.name}.py by hand to see why."
            ) from None
        return answer

    def close(self) -> None:
        """End it."""
        with self._process:  # closes its pipes
            self._process.kill()


def prepare(name: str) -> Path:
    """The Python of a client's environment, which is made once.

    Raises:
        CannotRun: pip can't install it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "microcoder" / f"{name}-{PACKAGES[name][0][-1].partition('==')[2]}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    try:
        venv.create(folder, with_pip=True, clear=True)
        for arguments in PACKAGES[name]:
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
            subprocess.run(pip, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotRun(
            f"{PACKAGES[name][0][-1]} can't be installed ({error}): see that pip reaches an index."
        ) from None
    (folder / "complete").touch()
    return python


def draw(paths: list[Path], count: int, seed: int) -> list[Drawn]:
    """So many programs, as many of each kind of tests as there are, by chance."""
    found: dict[TestKind, list[Drawn]] = {kind: [] for kind in TestKind}
    for problem in find_problems(paths):
        for program in problem.submissions:
            if not program.is_answer and "```" not in program.text:
                found[problem.tests[0].kind].append(Drawn(problem, program))
    chance = random.Random(seed)
    for programs in found.values():
        chance.shuffle(programs)
    drawn: list[Drawn] = []
    loops = 0
    while len(drawn) < count and any(found.values()):
        for programs in found.values():
            if not programs or len(drawn) == count:
                continue
            one = programs.pop()
            loops += one.program.label == "time_limit"
            if one.program.label != "time_limit" or loops <= MAX_LOOPS:
                drawn.append(one)
    return drawn


def find_problems(paths: list[Path]) -> Iterator[Problem]:
    """Those that can be said in SandboxFusion's words."""
    for path in find_files(paths):
        if foreign_format(path) is not None:
            continue
        for problem in read_problems(path):
            in_a_class = problem.entry_point is None or problem.entry_point.rpartition(".")[0] in ("", "Solution")
            if (
                problem.skip is None
                and problem.checker in (None, TOKENS)
                and in_a_class
                and len(problem.tests) <= MAX_TESTS
            ):
                yield problem


# The requests


def for_verl(drawn: Drawn) -> Figures:
    """As verl's data sets have it: inputs and outputs, or assertions."""
    problem = drawn.problem
    if drawn.kind is TestKind.ASSERTION:
        tests: Figures = {"assert_case": [test.input for test in problem.tests]}
    elif drawn.kind is TestKind.FUNCTIONAL:
        tests = {
            "inputs": [test.input for test in problem.tests],
            "outputs": [_printed(test.expected or "") for test in problem.tests],
            "fn_name": (problem.entry_point or "").rpartition(".")[2],
        }
    else:
        tests = {
            "inputs": [test.input for test in problem.tests], "outputs": [test.expected for test in problem.tests],
        }  # fmt: skip
    timeout = max(1, math.ceil(problem.limits.cpu_seconds))
    return {"completion": _fence(drawn), "tests": tests, "timeout": timeout, "memory_mb": 1024}


def _printed(expected: str) -> str:
    """A value as verl's wrapper prints it."""
    value = json.loads(expected)
    return json.dumps(value) if isinstance(value, (dict, list, bool)) or value is None else str(value)


def for_submit(drawn: Drawn) -> Figures | None:
    """A problem inside a `/submit`; None for function calls, which its data sets don't have."""
    if drawn.kind is TestKind.FUNCTIONAL:
        return None
    if drawn.kind is TestKind.ASSERTION:
        kind: str = "AutoEvalDataset"
        test: Any = {"code": "\n".join(test.input for test in drawn.problem.tests)}
    else:
        kind = "CommonOJDataset"
        test = [{"input": {"stdin": one.input}, "output": {"stdout": one.expected}} for one in drawn.problem.tests]
    config = {
        "dataset_type": kind, "language": "python", "run_timeout": drawn.problem.limits.cpu_seconds,
        "provided_data": {"id": drawn.program.id, "content": "", "test": test},
    }  # fmt: skip
    return {"dataset": "labelled", "id": drawn.program.id, "completion": _fence(drawn), "config": config}


def _fence(drawn: Drawn) -> str:
    prelude = "from typing import *\n" if drawn.problem.prelude is Prelude.CONTEST else ""
    return f"```python\n{prelude}{drawn.program.text}\n```"


# The figures


def measure(drawn: list[Drawn], kit: Client, verl: Client) -> Figures:
    """What both say of each program, and what they say of programs that they are known to score wrong."""
    counts: dict[str, Counter[str]] = {"submit": Counter(), "verl": Counter()}
    differing: list[Figures] = []
    for one in drawn:
        score = verl.ask(for_verl(one))
        counts["verl"][f"{one.kind}"] += 1
        if (score["score"] == 1.0) == one.is_right:
            counts["verl"][f"{one.kind} right"] += 1
        else:
            differing.append({"client": "verl", "program": one.program.id, "label": one.program.label, **score})
        if (request := for_submit(one)) is not None:
            counts["submit"][f"{one.kind}"] += 1
            accepted = kit.ask(request)["accepted"]
            counts["submit"][f"{one.kind} right"] += accepted == one.is_right
            if accepted != one.is_right:
                differing.append({"client": "submit", "program": one.program.id, "label": one.program.label})
    return {"counts": counts, "differing": differing, "known": measure_known(kit, verl)}


def measure_known(kit: Client, verl: Client) -> Figures:
    """Programs on which SandboxFusion and these clients are known to be wrong."""
    numpy = "import numpy as np\nprint(int(np.arange(int(input())).sum()))"
    large = "print('x' * 1_000_000)"
    early = "import sys\nsys.exit(0)"

    def reward(code: str, tests: Figures) -> float:
        completion = f"```python\n{code}\n```"
        score: float = verl.ask({"completion": completion, "tests": tests, "timeout": 10, "memory_mb": 1024})["score"]
        return score

    data = {"id": 1, "content": "", "test": {"code": "assert f(1) == 2"}}
    config = {"dataset_type": "AutoEvalDataset", "language": "python", "provided_data": data}
    submit = {"dataset": "known", "id": 1, "completion": f"```python\n{early}\n```", "config": config}
    ran = kit.ask({"code": large, "language": "python"})
    return {
        "verl: numpy under 1 GB": reward(numpy, {"inputs": ["5"], "outputs": ["10"]}),
        "verl: an output of 1 MB": reward(large, {"inputs": [""], "outputs": ["x" * 1_000_000]}),
        "kit: an output of 1 MB, characters that came back": len(ran["stdout"]),
        "verl: an end with status 0 before the assertions": reward(early, {"assert_case": ["assert f(1) == 2"]}),
        "submit: the same, accepted": kit.ask(submit)["accepted"],
    }


def show(figures: Figures) -> None:
    """As tables."""
    table = Table("client", "tests", "programs", "as labelled")
    for client, counts in figures["counts"].items():
        for kind in TestKind:
            if counts[kind]:
                table.add_row(client, kind, str(counts[kind]), str(counts[f"{kind} right"]))
    console = Console()
    console.print(table)
    for one in figures["differing"]:
        reasons = Counter((test["status"], test["same_tokens"]) for test in one.get("tests", []))
        said = ", ".join(f"{status}{' (same tokens)' if same else ''} ×{n}" for (status, same), n in reasons.items())
        console.print(f"{one['client']} differs on {one['program']} ({one['label']}): {said or 'see /v1'}")
    for what, value in figures["known"].items():
        console.print(f"{what}: {value}")


def main(arguments: list[str] | None = None) -> int:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.foreign_clients", description=__doc__.split("\n\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="labelled programs: files or folders")
    parser.add_argument("--url", help="a running service; without one, it is started")
    parser.add_argument("--programs", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        try:
            drawn = draw(options.paths, options.programs, options.seed)
            url = options.url
            if url is None:
                service = Service(len(os.sched_getaffinity(0)))
                stack.callback(service.close)
                url = service.url
            clients = [Client(name, url) for name in PACKAGES]
            for client in clients:
                stack.callback(client.close)
            figures = measure(drawn, *clients)
        except (BadInput, CannotRun) as error:
            parser.exit(1, f"{error}\n")
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
