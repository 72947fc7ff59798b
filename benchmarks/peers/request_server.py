"""A server that starts an interpreter for each request, one test a request: SandboxFusion's way, restated.

Restated are, of https://github.com/bytedance/SandboxFusion at its documented defaults without isolation: `POST
/run_code` with `code`, `language`, `stdin` and `run_timeout`, answered with `status` and `run_result` (`status`,
`execution_time`, `return_code`, `stdout`, `stderr`); FastAPI under uvicorn in one process; a folder and a file made for
each request; an interpreter started through a shell by asyncio, in a session of its own, and its group killed when it
is over the limit. Left out is what makes the original slower still: its logging, psutil's walks over processes, conda's
activation, and the overlay, cgroup and network namespace of its isolation. So it is a lower bound of its cost.

    python request_server.py SOCKET
"""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class RunCodeRequest(BaseModel):
    """The fields that graders send."""

    code: str
    language: str = "python"
    stdin: str | None = None
    run_timeout: float = 10


@app.post("/run_code")
async def run_code(request: RunCodeRequest) -> dict[str, Any]:
    """Run one program on one input."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(request.code, "utf-8", "surrogatepass")
        start = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", f"exec {shlex.quote(sys.executable)} {shlex.quote(str(file))}",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=folder, start_new_session=True,
        )  # fmt: skip
        try:
            given = (request.stdin or "").encode()
            stdout, stderr = await asyncio.wait_for(process.communicate(given), request.run_timeout)
            status = "Finished"
        except TimeoutError:
            status, stdout, stderr = "TimeLimitExceeded", b"", b""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    code = process.returncode if status == "Finished" else None
    return {
        "status": "Success" if code == 0 else "Failed",
        "message": "",
        "run_result": {
            "status": status,
            "execution_time": time.perf_counter() - start,
            "return_code": code,
            "stdout": stdout.decode("utf-8", "replace"),
            "stderr": stderr.decode("utf-8", "replace"),
        },
    }


if __name__ == "__main__":
    uvicorn.run(app, uds=sys.argv[1], log_level="error", access_log=False)
