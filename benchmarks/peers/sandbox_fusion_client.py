"""In an environment of its own: the package `sandbox-fusion` from PyPI, unchanged, posting to our service.

    python sandbox_fusion_client.py URL        a JSON request a line on stdin, a JSON answer a line on stdout

`{"code", "language": "python", …}` is run by `run_code`; one with `dataset` is judged by `submit`.
"""

import json
import sys

import sandbox_fusion as kit


def answer(request: dict) -> dict:
    """What the kit makes of it."""
    if "dataset" in request:
        result = kit.submit(kit.SubmitRequest(**request), client_timeout=600)
        return {"accepted": result.accepted, "tests": len(result.tests)}
    result = kit.run_code(kit.RunCodeRequest(**request), client_timeout=120)
    run = result.run_result
    return {
        "status": result.status.value, "run_status": run.status.value, "return_code": run.return_code,
        "stdout": run.stdout, "stderr": run.stderr,
    }  # fmt: skip


def main() -> None:
    """Serve."""
    kit.set_endpoint(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
