"""Fuzzes the API: schemathesis against the OpenAPI document of a service that really runs, with one worker and a key.

Every check of schemathesis is on but two, which ask for what isn't so here:

- positive_data_acceptance: JSON Schema can't say everything that a request must be (the arguments of a functional test
  are JSON inside of a text, say), so what fits the schema may be refused, with 422 and the field's name;
- use_after_free: DELETE cancels an evaluation, it doesn't forget it.

Exit status: schemathesis's own, 0 when nothing was found. `make fuzz` installs it into an environment of its own.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOOKS = "fuzz_hooks"
KEY = "a-key-to-fuzz-with"
NOT_SO_HERE = ("positive_data_acceptance", "use_after_free")
TOLD = 4000
"""Characters of the service's log that are shown when it fails."""


def main() -> int:
    """Start the service, fuzz it, stop it."""
    options = _parse()
    with tempfile.TemporaryFile() as log:
        environment = {name: value for name, value in os.environ.items() if "REDIS_URL" not in name}
        service = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--port=0", "--workers=1", f"--sandbox={options.sandbox}"],
            env=environment | {"MICROCODER_API_KEYS": KEY, "MICROCODER_WAIT_MAXIMUM": "2"},
            cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        try:
            assert service.stdout is not None
            found = re.search(r"http://\S+", service.stdout.readline())
            if found is None:
                return _say("the service doesn't start.", log.fileno())
            status = _fuzz(found[0], options)
            if service.poll() is not None:
                return _say("the service has ended.", log.fileno())
            failures = os.pread(log.fileno(), 1 << 30, 0).count(b"event=failed ")
            if failures:
                return _say(f"the service tells of {failures} failures of its own.", log.fileno())
            return status
        finally:
            service.terminate()
            service.wait()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--schemathesis", default="schemathesis", metavar="PATH", help="the program; default: of the PATH"
    )
    parser.add_argument("--max-examples", type=int, default=100, metavar="N", help="cases an operation; default: 100")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument("--sandbox", default="bubblewrap", help="default: bubblewrap")
    return parser.parse_args()


def _fuzz(url: str, options: argparse.Namespace) -> int:
    command = [
        options.schemathesis, "run", f"{url}/openapi.json",
        "--checks", "all", "--exclude-checks", ",".join(NOT_SO_HERE),
        "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", str(options.max_examples),
        "--seed", str(options.seed), "--continue-on-failure", "--request-timeout", "90",
        "--header", f"Authorization: Bearer {KEY}", "--suppress-health-check", "all", "--warnings", "off",
    ]  # fmt: skip
    environment = os.environ | {"SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.run(command, env=environment, cwd=tempfile.gettempdir()).returncode


def _say(sentence: str, log: int) -> int:
    print(f"fuzz: {sentence} It says:\n{os.pread(log, 1 << 30, 0).decode('utf-8', 'replace')[-TOLD:]}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
