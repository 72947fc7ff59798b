"""In an environment of its own: verl's reward by SandboxFusion from PyPI, unchanged, posting to our service.

    python verl_client.py URL                  a JSON request a line on stdin, a JSON answer a line on stdout

`import verl` wants Ray and torch, which this part of it does not use: the packages above it are stood in for by empty
ones with the same path, and `verl.utils.reward_score.sandbox_fusion` is imported as it is.
"""

import importlib
import importlib.util
import json
import logging
import sys
import types
from pathlib import Path


def load_reward():
    """verl's `compute_score`."""
    spec = importlib.util.find_spec("verl")
    assert spec is not None and spec.submodule_search_locations, "verl isn't installed here"
    folder = Path(spec.submodule_search_locations[0])
    for name in ("verl", "verl.utils", "verl.utils.reward_score"):
        module = types.ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module
    return importlib.import_module("verl.utils.reward_score.sandbox_fusion").compute_score


def main() -> None:
    """Serve. What a test printed is compared token by token as well, to tell verl's comparison from our run."""
    logging.disable(logging.CRITICAL)
    compute_score, url = load_reward(), f"{sys.argv[1]}/run_code"
    for line in sys.stdin:
        request = json.loads(line)
        tests = dict(request["tests"])
        score, details = compute_score(
            url, None, request["memory_mb"], request["completion"], tests, False, request["timeout"]
        )
        tests = [
            {
                "status": detail.get("status"),
                "same_tokens": (detail.get("stdout") or "").split() == (detail.get("expected_output") or "").split(),
            }
            for detail in details
        ]
        print(json.dumps({"score": score, "tests": tests}), flush=True)


if __name__ == "__main__":
    main()
