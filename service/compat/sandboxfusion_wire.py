"""SandboxFusion's wire, as https://github.com/bytedance/SandboxFusion (sandbox/server) documents and answers it.

Unknown fields are passed over, as there. Two fields differ: `language` has a default, and `memory_limit_MB` means
resident memory.
"""

import base64
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from evaluator.model import Verdict
from service.compat.performing import Ran, exit_status

LANGUAGES = (
    "python", "cpp", "nodejs", "go", "go_test", "java", "php", "csharp", "bash", "typescript", "sql", "rust", "cuda",
    "lua", "R", "perl", "D_ut", "ruby", "scala", "julia", "pytest", "junit", "kotlin_script", "jest", "verilog",
    "python_gpu", "lean", "swift", "racket",
)  # fmt: skip
"""What SandboxFusion takes for `language`."""
OURS = "python"
IGNORED_NAME = "IGNORE_THIS_FILE"
Seconds = Annotated[float, Field(gt=0, le=1e6)]
FileText = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})]
"""Looked at one by one: pydantic would tell of each of a million that is wrong."""
Document = dict[str, Any]
Id = int | str


class Asked(BaseModel):
    """Base of what is sent."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class RunCodeIn(Asked):
    """`POST /run_code`."""

    code: str
    language: str = OURS
    stdin: str | None = None
    compile_timeout: Seconds = 10
    run_timeout: Seconds = 10
    memory_limit_MB: int = -1
    files: dict[str, FileText] = Field(default_factory=dict, description="Names and contents in base 64.")
    fetch_files: list[str] = Field(default_factory=list, fail_fast=True)


class TestConfigIn(Asked):
    """`config` of the data set endpoints."""

    __test__ = False

    dataset_type: str | None = None
    language: str | None = None
    compile_timeout: Seconds | None = None
    run_timeout: Seconds | None = None
    custom_extract_logic: str | None = None
    provided_data: dict[str, Any] | list[Any] | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


class PromptsIn(Asked):
    """`POST /get_prompts` and `/list_ids`."""

    dataset: str
    config: TestConfigIn
    offset: int = Field(0, ge=0)
    limit: int = Field(1_000_000, ge=0)


class PromptByIdIn(Asked):
    """`POST /get_prompt_by_id`."""

    dataset: str
    config: TestConfigIn
    id: Id


class SubmitIn(PromptByIdIn):
    """`POST /submit`."""

    completion: str


class RowIn(Asked):
    """One problem of `provided_data`."""

    id: Id
    content: str = ""
    labels: dict[str, Any] = Field(default_factory=dict)
    test: Any = None


class StreamsIn(BaseModel):
    """Standard input or output of a test. Other names would be files, which the judge doesn't compare."""

    model_config = ConfigDict(extra="forbid")

    stdin: str | None = None
    stdout: str | None = None


class StdioTestIn(Asked):
    """A test of a CommonOJDataset."""

    input: StreamsIn = StreamsIn()
    output: StreamsIn = StreamsIn()


class CodeTestIn(Asked):
    """The test of an AutoEvalDataset."""

    code: str
    asset: Any = None


def write_run(ran: Ran) -> Document:
    """A run as `/run_code` answers it."""
    return {
        "status": "Success" if ran.verdict is Verdict.ACCEPTED else "Failed",
        "message": ran.detail,
        "compile_result": None,  # as for every language that isn't compiled beforehand
        "run_result": {
            "status": "TimeLimitExceeded" if ran.verdict is Verdict.TIME_LIMIT else "Finished",
            "execution_time": ran.wall_seconds,
            "return_code": None if ran.verdict is Verdict.TIME_LIMIT else exit_status(ran),
            "stdout": ran.stdout,
            "stderr": ran.stderr,
        },
        "executor_pod_name": None,
        "files": {name: base64.b64encode(data).decode() for name, data in ran.files},
    }
