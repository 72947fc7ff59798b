"""A Docker daemon of one's own, to be killed: beside the machine's, with its own data, and without any network."""

import os
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.faults_scene import CannotTry

IMAGE = "microcoder-box:latest"
START_SECONDS = 40


class Daemon:
    """The daemon, with the image of the boxes."""

    def __init__(self) -> None:
        """Start it, and copy the image.

        Raises:
            CannotTry: it doesn't start, or there is no image to copy.
        """
        self._stack = ExitStack()
        # Not ignore_cleanup_errors: what can't be removed is still mounted.
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-", dir="/tmp")))
        self.address = f"unix://{self._folder}/d.sock"
        self._stack.callback(self._end)
        try:
            self._start()
            self._load()
        except BaseException:
            self._stack.close()
            raise

    def _start(self) -> None:
        folder = self._folder
        command = [
            "dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/run", "--host", self.address,
            "--pidfile", f"{folder}/pid", "--bridge=none", "--iptables=false", "--ip-forward=false",
        ]  # fmt: skip
        try:
            with (folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        except FileNotFoundError:
            raise CannotTry("there is no dockerd") from None
        deadline = time.monotonic() + START_SECONDS
        while self._ask("version").returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                last = (folder / "log").read_text(errors="replace").strip().splitlines()[-1:]
                raise CannotTry(f"a second dockerd doesn't start: {' '.join(last)[:200]}")
            time.sleep(0.1)

    def _ask(self, *words: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(["docker", "--host", self.address, *words], capture_output=True)

    def _load(self) -> None:
        with subprocess.Popen(
            ["docker", "save", IMAGE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as saved:  # from the machine's own daemon
            loaded = subprocess.run(["docker", "--host", self.address, "load"], stdin=saved.stdout, capture_output=True)
        if saved.returncode or loaded.returncode:
            raise CannotTry(f"the machine's daemon has no image {IMAGE}: run scripts/build_images.sh")

    def restart(self) -> None:
        """As after a crash: killed, its containers ended by the next, which takes over what it finds."""
        self._process.kill()
        self._process.wait()
        (self._folder / "pid").unlink(missing_ok=True)
        self._start()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for path in Path("/proc").glob("[0-9]*/cmdline"):  # the shims of containers outlive a daemon that was killed
            with suppress(OSError):
                if str(self._folder).encode() in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if (place := line.split()[1]).startswith(str(self._folder)):
                subprocess.run(["umount", "--lazy", place], check=False)

    def __enter__(self) -> "Daemon":
        """The daemon."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End it, and remove all that it had."""
        self._stack.close()
