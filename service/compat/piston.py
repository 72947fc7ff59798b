"""Piston's `/api/v2/execute` and `/runtimes`, as https://github.com/engineer-man/piston documents and answers them.

Limits are in its units (milliseconds, bytes), refusals in its shape (`{"message": …}`). What can't be done now is 503:
its clients repeat everything that isn't 200.
"""

import base64
import binascii
import signal
import time
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json
from starlette.responses import JSONResponse, Response

from evaluator.executions import Execution
from evaluator.model import Limits, Verdict
from service.api import SMALL_BODY, json_body, refusals
from service.compat.answer_schemas import ExecuteOut, PistonRuntimeOut, messages
from service.compat.file_names import BadFiles, check_files
from service.compat.performing import QUEUE_SECONDS, RETRY_AFTER, NotNow, Performer, Ran, exit_status
from service.compat.piston_versions import BadSelector, parse_version, satisfies
from service.evaluations import Evaluations, beside
from service.settings import Settings

ALIASES = ("py", "py3", "python3", "python3.x")
NAMES = frozenset({"python", *ALIASES})
DEFAULT_MILLISECONDS = 3000
KNOWN_SECONDS = 5.0
"""How long the versions that the workers run are taken for unchanged."""
LARGE_ANSWER = 1 << 20
Document = dict[str, Any]


class FileIn(BaseModel):
    """A file of a job."""

    model_config = ConfigDict(extra="ignore", strict=True)

    content: str
    name: str | None = None
    encoding: Literal["utf8", "base64", "hex"] = "utf8"


class JobIn(BaseModel):
    """`POST /api/v2/execute`, once language, version and files are known to be there."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    language: str
    version: str
    files: list[FileIn] = Field(fail_fast=True)
    stdin: str = ""
    args: list[str] = Field(default_factory=list, fail_fast=True)
    run_timeout: float = Field(DEFAULT_MILLISECONDS, gt=0)
    compile_timeout: float = Field(10_000, gt=0)
    run_cpu_time: float = Field(DEFAULT_MILLISECONDS, gt=0)
    compile_cpu_time: float = Field(10_000, gt=0)
    run_memory_limit: int = -1
    compile_memory_limit: int = -1


class Refusal(Exception):
    """A request that can't be used."""

    def __init__(self, message: str, status: int = 400) -> None:
        """The message is all that the client gets."""
        super().__init__(message)
        self.status = status

    def response(self) -> Response:
        """The answer to send."""
        headers = {"Retry-After": str(RETRY_AFTER)} if self.status == 503 else None
        return JSONResponse({"message": str(self)}, self.status, headers)


class Runtimes:
    """The versions of Python that the living workers run."""

    def __init__(self, evaluations: Evaluations) -> None:
        """Ask when first needed, and again now and then."""
        self._evaluations = evaluations
        self._versions: list[str] = []
        self._ask_again = 0.0

    async def versions(self) -> list[str]:
        """The newest first."""
        if not self._versions or time.monotonic() > self._ask_again:
            found = {worker["runtime"]["python"] for worker in await self._evaluations.workers()}
            self._versions = sorted(found, key=parse_version, reverse=True)
            self._ask_again = time.monotonic() + KNOWN_SECONDS
        return self._versions

    async def choose(self, language: str, selector: str) -> str:
        """The version to run.

        Raises:
            Refusal: there is none.
        """
        versions = await self.versions()
        if language in NAMES and not versions:
            raise Refusal("No worker is alive: start one with `microcoder worker`.", 503)
        try:
            fit = [version for version in versions if satisfies(parse_version(version), selector)]
        except BadSelector:
            fit = []
        if language not in NAMES or not fit:
            raise Refusal(f"{language[:40]}-{selector[:40]} runtime is unknown")
        return fit[0]


def add_piston(router: APIRouter, settings: Settings, evaluations: Evaluations, performer: Performer) -> None:
    """The routes."""
    runtimes = Runtimes(evaluations)

    @router.get(
        "/api/v2/runtimes",
        summary="Languages (Piston)",
        tags=["Piston"],
        response_model=list[PistonRuntimeOut],
        responses=refusals(401, 503),
    )
    async def get_runtimes() -> list[Document]:
        """One entry for each version of Python that a living worker runs."""
        versions = await runtimes.versions()
        return [{"language": "python", "version": version, "aliases": list(ALIASES)} for version in versions]

    @router.post(
        "/api/v2/execute",
        summary="Run a program (Piston)",
        tags=["Piston"],
        response_model=ExecuteOut,
        responses=messages(400, 415, 503),
        openapi_extra={"requestBody": json_body("JobIn")},
    )
    async def execute(request: Request) -> Response:
        """`{"language", "version", "files", "stdin"?, "args"?, "run_timeout"?, "run_memory_limit"?, …}`."""
        try:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Refusal("requests must be of type application/json", 415)
            body = await request.body()
            job, source, execution = await beside(len(body) > SMALL_BODY, _read, body, settings)
            version = await runtimes.choose(job.language, job.version)
            limits = _limits(job, settings, performer)
            patience = limits.wall + QUEUE_SECONDS
            ran = await performer.run(request, source, execution, limits, patience)
            document = {"run": _write(ran), "language": "python", "version": version}
            large = len(ran.stdout) + len(ran.stderr) > LARGE_ANSWER
            return Response(await beside(large, to_json, document), media_type="application/json")
        except Refusal as refusal:
            return refusal.response()
        except NotNow as error:
            return Refusal(str(error), 503).response()


def _read(body: bytes, settings: Settings) -> tuple[JobIn, str, Execution]:
    try:
        job = JobIn.model_validate_json(body)
    except ValidationError as error:
        raise _wrong_field(error) from None
    main = next((file for file in job.files if file.encoding == "utf8"), None)
    if main is None:
        raise Refusal("files must include at least one utf8 encoded file")
    size = len(main.content.encode())
    if size > settings.max_source_bytes:
        raise Refusal(f"The program takes {size} bytes; at most {settings.max_source_bytes} may be.")
    others = [(file.name or f"file{at}.code", file) for at, file in enumerate(job.files) if file is not main]
    files = tuple((name, _encode(name, file)) for name, file in others)
    try:
        check_files(files)
    except BadFiles as error:
        raise Refusal(str(error)) from None
    stdin = job.stdin if job.stdin.endswith("\n") else f"{job.stdin}\n"
    return job, main.content, Execution(stdin, tuple(job.args), files)


def _wrong_field(error: ValidationError) -> Refusal:
    """In Piston's words where the field is one that it asks for."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    kinds = {"language": "string", "version": "string", "files": "array", "files.0.content": "string"}
    if place in kinds:
        return Refusal(f"{place} is required as {'an' if place == 'files' else 'a'} {kinds[place]}")
    return Refusal(f"{place}: {first['msg']}" if place else first["msg"])


def _encode(name: str, file: FileIn) -> str:
    """A file's content in base 64, as a run takes it."""
    if file.encoding == "base64":
        return file.content
    if file.encoding == "utf8":
        return base64.b64encode(file.content.encode()).decode()
    try:
        return base64.b64encode(binascii.a2b_hex(file.content)).decode()
    except ValueError:
        raise Refusal(f"The content of {name[:80]!r} isn't hexadecimal.") from None


def _limits(job: JobIn, settings: Settings, performer: Performer) -> Limits:
    bound = int(settings.max_cpu_seconds * 1000)
    for name in ("run_timeout", "run_cpu_time", "compile_timeout", "compile_cpu_time"):
        if getattr(job, name) > bound:
            raise Refusal(f"{name} cannot exceed the configured limit of {bound}")
    if job.run_memory_limit > settings.max_memory_bytes:
        raise Refusal(f"run_memory_limit cannot exceed the configured limit of {settings.max_memory_bytes}")
    memory = job.run_memory_limit if job.run_memory_limit > 0 else None
    # Who gives only `run_timeout`, as most do, means that time and not Piston's smaller default of processor time.
    cpu = job.run_cpu_time if "run_cpu_time" in job.model_fields_set else job.run_timeout
    return performer.limits(job.run_timeout / 1000, memory, cpu_seconds=cpu / 1000)


def _write(ran: Ran) -> Document:
    status, message = _status(ran)
    killed = status in ("TO", "OL", "EL")
    return {
        "signal": signal.Signals.SIGKILL.name if killed else None,
        "stdout": ran.stdout,
        "stderr": ran.stderr,
        "code": None if killed else exit_status(ran),
        "output": ran.stdout + ran.stderr,
        "memory": ran.memory_bytes,
        "message": message,
        "status": status,
        "cpu_time": round(ran.cpu_seconds * 1000),
        "wall_time": round(ran.wall_seconds * 1000),
    }


def _status(ran: Ran) -> tuple[str | None, str | None]:
    match ran.verdict:
        case Verdict.ACCEPTED:
            return None, None
        case Verdict.TIME_LIMIT:
            on_the_wall = "on the wall" in ran.detail
            return "TO", f"Time limit exceeded{' (wall clock)' if on_the_wall else ''}"
        case Verdict.OUTPUT_LIMIT:
            more = len(ran.stderr) > len(ran.stdout)
            return ("EL", "stderr length exceeded") if more else ("OL", "stdout length exceeded")
        case Verdict.MEMORY_LIMIT:
            return "RE", ran.detail
    return "RE", f"Exited with error status {exit_status(ran)}"
