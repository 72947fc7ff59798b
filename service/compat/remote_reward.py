"""Reward URLs: OpenRLHF's `--reward.remote_url` and slime's `--rm-type remote_rm --rm-url`.

OpenRLHF (https://github.com/OpenRLHF/OpenRLHF) posts `{"query": […], "prompts": […], "labels": […]}` and reads
`rewards`, `scores` and `extra_logs`; slime (https://github.com/THUDM/slime) posts `{"prompt", "response", "label"}` and
takes the JSON that comes back for the reward. Both repeat what isn't 200: so a sample about which nothing was learnt is
503, never a reward.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from microcoder_client.rewards.completions import read_answer
from microcoder_client.rewards.openrlhf import take_response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import JSONResponse, Response

from evaluator.model import Submission, Verdict
from service.api import json_body, read_json, refusals
from service.compat.answer_schemas import RewardsOut
from service.compat.labels import BadLabel, read_label
from service.compat.performing import RETRY_AFTER, NotNow, Performer
from service.evaluations import UnknownSuites, beside
from service.intake import InlineSuite, Refused, prepare
from service.problems import Problem, from_validation, invalid
from service.schemas import EvaluationIn
from service.settings import Settings

PATIENCE = 110.0
"""Seconds. slime's client waits 120, OpenRLHF's 180."""
VERDICTS_LOGGED = tuple(verdict for verdict in Verdict if verdict not in (Verdict.SKIPPED, Verdict.CANCELLED))


class OpenRlhfIn(BaseModel):
    """What OpenRLHF posts."""

    model_config = ConfigDict(extra="ignore", strict=True)

    query: list[str] = Field(min_length=1, fail_fast=True)
    prompts: list[str] | None = Field(None, fail_fast=True)
    labels: list[Any]


class SlimeIn(BaseModel):
    """What slime posts."""

    model_config = ConfigDict(extra="ignore", strict=True)

    prompt: Any = None
    response: str
    label: Any


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer, ready to be judged."""

    submission: Submission
    suite: InlineSuite | None


def add_remote_rewards(router: APIRouter, settings: Settings, performer: Performer) -> None:
    """The routes."""

    @router.post(
        "/rewards/openrlhf",
        summary="Rewards (OpenRLHF)",
        tags=["Rewards"],
        response_model=RewardsOut,
        responses=refusals(400, 401, 404, 413, 415, 422, 503),
        openapi_extra={"requestBody": json_body("OpenRlhfIn")},
    )
    async def openrlhf(request: Request) -> Response:
        """Rewards of answers, each judged against the tests in its label."""
        asked = _parse(OpenRlhfIn, await read_json(request))
        if len(asked.labels) != len(asked.query) or len(asked.prompts or asked.query) != len(asked.query):
            raise invalid([("labels", f"There must be as many as in `query`, {len(asked.query)}.")])
        if len(asked.query) > settings.max_submissions:
            raise invalid([("query", f"There are {len(asked.query)}; at most {settings.max_submissions} may be.")])
        prompts = asked.prompts or [""] * len(asked.query)
        answers = [take_response(query, prompt) for query, prompt in zip(asked.query, prompts, strict=True)]
        judged = await _judge_all(request, settings, performer, answers, asked.labels)
        rewards = [judgement["reward"] for judgement in judged]
        logs = {f"verdict_{verdict}": [float(j["verdict"] == verdict) for j in judged] for verdict in VERDICTS_LOGGED}
        return JSONResponse({"rewards": rewards, "scores": rewards, "extra_logs": logs})

    @router.post(
        "/rewards/slime",
        summary="A reward (slime)",
        tags=["Rewards"],
        response_model=float,
        responses=refusals(400, 401, 404, 413, 415, 422, 503),
        openapi_extra={"requestBody": json_body("SlimeIn")},
    )
    async def slime(request: Request) -> Response:
        """The reward of one answer: a number."""
        asked = _parse(SlimeIn, await read_json(request))
        [judgement] = await _judge_all(request, settings, performer, [asked.response], [asked.label])
        return JSONResponse(judgement["reward"])


def _parse(model: Any, body: bytes) -> Any:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise from_validation(error, body) from None


async def _judge_all(
    request: Request, settings: Settings, performer: Performer, answers: Sequence[str], labels: Sequence[Any]
) -> list[dict[str, Any]]:
    samples = await beside(True, _prepare_all, answers, labels, settings)
    try:
        work = (performer.judge(request, sample.submission, sample.suite, PATIENCE) for sample in samples)
        return list(await asyncio.gather(*work))
    except NotNow as error:
        raise Problem(503, "not-now", str(error), headers={"Retry-After": str(RETRY_AFTER)}) from None
    except UnknownSuites as error:
        detail = "The label's suite isn't stored: upload it with PUT /v1/suites/{sha256} and send this again."
        raise Problem(404, "unknown-suite", detail, suites=error.ids) from None


def _prepare_all(answers: Sequence[str], labels: Sequence[Any], settings: Settings) -> list[Sample]:
    return [
        _prepare(answer, label, at, settings) for at, (answer, label) in enumerate(zip(answers, labels, strict=True))
    ]


def _prepare(answer: str, label: Any, at: int, settings: Settings) -> Sample:
    try:
        document = {"submission": {**read_label(label), "answer": read_answer(answer)}}
        intake = prepare(EvaluationIn.model_validate_json(json.dumps(document)), settings)
    except BadLabel as error:
        raise invalid([(f"labels[{at}]", str(error))]) from None
    except ValidationError as error:
        raise from_validation(error) from None
    except Refused as error:
        raise invalid(error.errors) from None
    [submission] = intake.submissions.values()
    return Sample(submission, intake.suites.get(submission.suite_id))
