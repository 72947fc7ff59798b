"""SandboxFusion's data set routes, for problems that come inside the request (`config.provided_data`).

None is stored here, so `/list_datasets` is empty and a request without `provided_data` is refused, as is
`custom_extract_logic`, a program for the server to execute. Tests are judged by the evaluator: outputs by the
comparison ladder, assertions in a process of their own, so that a program that ends before them has not passed.
"""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import FailFast, TypeAdapter, ValidationError
from starlette.responses import JSONResponse, Response

from evaluator.errors import InvalidSubmission
from evaluator.extraction import extract_code
from evaluator.model import Limits, Program, Submission, TestCase, TestKind, Verdict
from evaluator.suites import suite_id, write_suite
from service.api import json_body, read_json, refusals
from service.compat.answer_schemas import PromptOut, SubmitOut, details
from service.compat.performing import QUEUE_SECONDS, NotNow, Performer, Ran
from service.compat.sandboxfusion import Refusal, check_language, read_body
from service.compat.sandboxfusion_wire import (
    CodeTestIn,
    Document,
    PromptByIdIn,
    PromptsIn,
    RowIn,
    StdioTestIn,
    SubmitIn,
    TestConfigIn,
    write_run,
)
from service.evaluations import beside
from service.intake import InlineSuite
from service.settings import Settings

RUN_TIMEOUT = 20.0
"""Seconds for one test, where the request says nothing."""
MAX_PATIENCE = 600.0
_STDIO = TypeAdapter(Annotated[list[StdioTestIn], FailFast()])
_TEXTS = TypeAdapter(Annotated[list[str], FailFast()])


def add_datasets(router: APIRouter, settings: Settings, performer: Performer) -> None:
    """The routes of data sets."""
    _add_problems(router)
    _add_metrics(router)

    @router.post(
        "/submit",
        summary="Judge a completion (SandboxFusion)",
        tags=["SandboxFusion"],
        response_model=SubmitOut,
        responses=details(400, 422, 504),
        openapi_extra={"requestBody": json_body("SubmitIn")},
    )
    async def submit(request: Request) -> Response:
        """`{"dataset", "id", "completion", "config": {"language", "provided_data", "run_timeout"?, "extra"?}}`."""
        try:
            body = await read_json(request)
            asked, row, submission, suite = await beside(True, _read, body, settings)
            tests = suite.tests if submission.fail_fast is False else min(suite.tests, 20)
            patience = min(MAX_PATIENCE, submission.limits.wall * max(1, tests) + QUEUE_SECONDS)
            judgement = await performer.judge(request, submission, suite, patience)
            return JSONResponse(_result(asked, row, submission, judgement))
        except Refusal as refusal:
            return refusal.response()
        except NotNow as error:
            return Refusal(504, str(error)).response()


def _add_problems(router: APIRouter) -> None:
    @router.get("/list_datasets", summary="None is stored here", tags=["SandboxFusion"], responses=refusals(401))
    async def list_datasets() -> list[str]:
        """Problems come inside requests, as `config.provided_data`."""
        return []

    @router.post(
        "/list_ids",
        summary="Ids of the problems in the request",
        tags=["SandboxFusion"],
        response_model=list[int | str],
        responses=details(400, 422),
        openapi_extra={"requestBody": json_body("PromptsIn")},
    )
    async def list_ids(request: Request) -> Response:
        return await _answer(request, PromptsIn, lambda asked: [row.id for row in _page(asked)])

    @router.post(
        "/get_prompts",
        summary="Prompts of the problems in the request",
        tags=["SandboxFusion"],
        response_model=list[PromptOut],
        responses=details(400, 422),
        openapi_extra={"requestBody": json_body("PromptsIn")},
    )
    async def get_prompts(request: Request) -> Response:
        return await _answer(request, PromptsIn, lambda asked: [_prompt(row) for row in _page(asked)])

    @router.post(
        "/get_prompt_by_id",
        summary="Prompt of one problem in the request",
        tags=["SandboxFusion"],
        response_model=PromptOut,
        responses=details(400, 422),
        openapi_extra={"requestBody": json_body("PromptByIdIn")},
    )
    async def get_prompt_by_id(request: Request) -> Response:
        return await _answer(request, PromptByIdIn, lambda asked: _prompt(_find(asked)))


def _add_metrics(router: APIRouter) -> None:
    @router.post("/get_metrics", summary="Nothing", tags=["SandboxFusion"], responses=refusals(401, 413))
    async def get_metrics() -> Document:
        """Results are what `/submit` answered; there is nothing to add."""
        return {}

    @router.post("/get_metrics_function", summary="Nothing", tags=["SandboxFusion"], responses=refusals(401, 413))
    async def get_metrics_function() -> Document:
        """No program of ours is sent to be executed elsewhere."""
        return {"function": None}


async def _answer(request: Request, model: Any, make: Any) -> Response:
    try:
        return JSONResponse(make(read_body(model, await read_json(request))))
    except Refusal as refusal:
        return refusal.response()


# Problems


def _rows(config: TestConfigIn) -> list[RowIn]:
    data = config.provided_data
    if data is None:
        raise Refusal(400, "No data set is stored here: send the problems as config.provided_data.")
    try:
        return [RowIn.model_validate(row) for row in (data if isinstance(data, list) else [data])]
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Refusal(400, f"config.provided_data: {place}: {first['msg']}.") from None


def _page(asked: PromptsIn) -> list[RowIn]:
    return _rows(asked.config)[asked.offset :][: asked.limit]


def _find(asked: PromptByIdIn) -> RowIn:
    rows = _rows(asked.config)
    if len(rows) == 1 and not isinstance(asked.config.provided_data, list):
        return rows[0]
    for row in rows:
        if row.id == asked.id:
            return row
    raise Refusal(400, f"No problem of config.provided_data has the id {str(asked.id)[:80]!r}.")


def _prompt(row: RowIn) -> Document:
    return {"id": row.id, "prompt": row.content, "labels": row.labels}


# Submissions


def _read(body: bytes, settings: Settings) -> tuple[SubmitIn, RowIn, Submission, InlineSuite]:
    asked = read_body(SubmitIn, body)
    config = asked.config
    if config.custom_extract_logic:
        raise Refusal(400, "custom_extract_logic is a program for the server to execute: take the code out yourself.")
    row = _find(asked)
    cases = _read_tests(row, config)
    if len(cases) > settings.max_tests:
        raise Refusal(400, f"There are {len(cases)} tests; at most {settings.max_tests} may be.")
    try:
        data = write_suite(cases)
    except InvalidSubmission as error:
        raise Refusal(400, f"The tests of this problem can't be used: {error}") from None
    code = extract_code(asked.completion, whole_text=True)
    seconds = min(config.run_timeout or RUN_TIMEOUT, settings.max_cpu_seconds)
    submission = Submission(
        program=None if code is None else Program(code),
        suite_id=suite_id(data),
        limits=Limits(cpu_seconds=max(seconds, 0.01)),
        fail_fast=not config.extra.get("run_all_cases", False),
        keep_outputs=True,
    )
    return asked, row, submission, InlineSuite(submission.suite_id, data, len(cases))


def _read_tests(row: RowIn, config: TestConfigIn) -> list[TestCase]:
    """The problem's tests.

    Raises:
        Refusal: they aren't of a kind that is judged here.
    """
    kind = config.dataset_type or "CommonOJDataset"
    if kind not in _READERS:
        raise Refusal(400, f"config.dataset_type {kind[:40]!r} isn't judged here: send {', '.join(_READERS)}.")
    if kind == "CommonOJDataset" and config.language is None:
        raise Refusal(400, "config.language is missing.")
    check_language(config.language or "python", ("body", "config", "language"))
    test = row.test
    try:
        if isinstance(test, str):
            test = json.loads(test)
        cases = _READERS[kind](test, row)
    except (ValueError, RecursionError) as error:  # pydantic's is a ValueError
        raise Refusal(400, f"The tests of this problem aren't those of a {kind}: {_first_line(error)}") from None
    if not cases:
        raise Refusal(400, "This problem has no test.")
    return cases


def _read_stdio(test: Any, row: RowIn) -> list[TestCase]:
    pairs = [(one.input.stdin or "", one.output.stdout or "") for one in _STDIO.validate_python(test)]
    return [TestCase(TestKind.STDIN, given, expected) for given, expected in pairs]


def _read_assertions(test: Any, row: RowIn) -> list[TestCase]:
    """MBPPDataset: statements, after what prepares them."""
    setup, statements = str(row.labels.get("test_setup_code") or ""), _TEXTS.validate_python(test)
    return [TestCase(TestKind.ASSERTION, "\n".join([setup, *statements]))] if statements else []


def _read_code(test: Any, row: RowIn) -> list[TestCase]:
    """AutoEvalDataset: test code that would be appended to the program."""
    asked = CodeTestIn.model_validate(test)
    if asked.asset:
        raise ValueError("files beside the test code ('asset') aren't supported.")
    return [TestCase(TestKind.ASSERTION, asked.code)]


_READERS = {"CommonOJDataset": _read_stdio, "AutoEvalDataset": _read_code, "MBPPDataset": _read_assertions}


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}."
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


# Results


def _result(asked: SubmitIn, row: RowIn, submission: Submission, judgement: Document) -> Document:
    verdict = Verdict(judgement["verdict"])
    cases = json.loads(row.test) if isinstance(row.test, str) else row.test
    return {
        "id": asked.id,
        "accepted": verdict is Verdict.ACCEPTED,
        "extracted_code": "" if submission.program is None else submission.program.source,
        "full_code": None,
        "test_code": None,
        "tests": _write_tests(judgement, cases if asked.config.extra.get("return_full_case") else None),
        "extracted_type": _how_extracted(asked.completion, submission.program),
        "extra": {"verdict": verdict, "detail": judgement["detail"]},
    }


def _how_extracted(completion: str, program: Program | None) -> str:
    if program is None:
        return "empty"
    return "fenced" if extract_code(completion) is not None else "heuristic"


def _write_tests(judgement: Document, cases: Any) -> list[Document]:
    """Those that were run. A program that can't be compiled has run none: it is told of as one."""
    if judgement["verdict"] == Verdict.COMPILE_ERROR:
        return [_write_test(judgement | {"exit_code": 1, "signal": None, "stderr": judgement["detail"]}, None)]
    run = [test for test in judgement["tests"] if test["verdict"] != Verdict.SKIPPED]
    return [_write_test(test, cases[test["index"]] if isinstance(cases, list) else None) for test in run]


def _write_test(test: Document, case: Any) -> Document:
    verdict = Verdict(test["verdict"])
    ran = Ran(
        # A wrong answer is a run that went well, unless it is a failed assertion, which ends a program.
        verdict=Verdict.ACCEPTED if verdict is Verdict.WRONG_ANSWER and test["match"] is not None else verdict,
        exit_code=test["exit_code"],
        signal=test["signal"],
        cpu_seconds=test["cpu_seconds"],
        wall_seconds=test["wall_seconds"],
        memory_bytes=test["memory_bytes"],
        detail=test["detail"] or "",
        stdout=test.get("output") or "",
        stderr=test["stderr"] or "",
    )
    return {"passed": verdict is Verdict.ACCEPTED, "exec_info": write_run(ran), "test_info": case}
