"""The service in a process of its own beside a training, where no address of one was given."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

GRACE = 40.0
"""Seconds that the service may take to end; it finishes what its workers have in hand."""


class NoService(RuntimeError):
    """No service could be started or chosen. The message says what to do."""


@contextlib.contextmanager
def service_at(url: str | None, *, workers: int | None = None) -> Iterator[str]:
    """The address of a service: the one given, that of `MICROCODER_URL`, or one that is started here and now.

    Args:
        url: of a service that runs.
        workers: of the service that is started; one per CPU by default. Its other settings are MICROCODER_… variables.

    Raises:
        NoService: none can be started here, or several processes train, each of which would start its own.
    """
    known = url or os.environ.get("MICROCODER_URL")
    if known:
        yield known
        return
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise NoService(
            "Several processes train and no service was named: start one (`microcoder serve`) and say where it is, "
            "with --url or MICROCODER_URL."
        )
    command = [sys.executable, "-m", "service.cli", "serve", "--port", "0"]
    if workers is not None:
        command += ["--workers", str(workers)]
    environment = os.environ | {"MICROCODER_PARENT": str(os.getpid())}  # it ends with us even when we are killed
    with tempfile.TemporaryFile() as log:  # a pipe that nobody reads would stop the service when it is full
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            if found is None:
                process.wait(GRACE)
                log.seek(0)
                last = log.read().decode("utf-8", "replace").strip().splitlines()[-1:]
                raise NoService(
                    f"No service was named and none can be started here: {' '.join(last) or 'it said nothing'} "
                    "`microcoder doctor` says what is missing; --url names a service elsewhere."
                )
            yield found[0]
        finally:
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
