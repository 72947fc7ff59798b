"""Finding out about a problem: how many attempts solved it, and what a model predicts of it."""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

import evaluator
from curation.attempts import OURS, Attempts, AttemptsIn
from curation.endpoints import Endpoint, EndpointIn
from curation.journal import Journal, make_key
from curation.judging import Judging, Order
from curation.problem import Problem
from curation.recipe import SourceIn
from curation.rubric import read_prediction, write_question
from curation.stage import Params
from curation.statements import write_prompt
from evaluator.extraction import extract_code
from evaluator.model import Verdict


class RubricIn(EndpointIn):
    """Who predicts the rubric's dimensions."""

    predictions: int = Field(3, ge=1)


class CalibrateParams(Params):
    """Settings of `calibrate`. Without attempts nothing is known, and problems pass as they are."""

    attempts: tuple[AttemptsIn, ...] = ()
    """Files of judged generations, counted together; of problems that all of them have."""
    endpoint: EndpointIn | None = None
    """In the place of files: make attempts at the corpus, and judge them here."""
    samples: int = Field(4, ge=1)
    """Attempts at a problem through the endpoint."""
    learn_from: SourceIn | None = None
    """Problems that the files' question ids name, where those aren't in the corpus: a benchmark that is held out."""
    rubric: RubricIn | None = None
    offline: Literal["unlabelled", "all"] = "unlabelled"
    """Whose class the guess from texts decides: a contest's own word ranks problems better than it does."""
    easy_from: float = Field(0.75, ge=0, le=1)
    """Measured rate from which a problem is easy."""
    hard_until: float = Field(0.25, ge=0, le=1)
    """Measured rate until which it is hard."""
    least_tried: int = Field(4, ge=1)
    """Attempts from which a measured rate decides the class. Fewer are learnt from all the same."""
    least_learnt: int = Field(50, ge=10)
    """Measured problems that a fit needs."""
    most_learnt: int = Field(3000, ge=10)
    """Measured problems that are learnt from: where there are more, so many are drawn."""
    workers: int = Field(4, ge=1)
    """Problems that endpoints are asked about at a time."""

    @model_validator(mode="after")
    def _check(self) -> "CalibrateParams":
        if self.attempts and self.endpoint:
            raise ValueError("attempts come from files or from an endpoint, not from both: a rate is of one kind")
        if self.learn_from and not self.attempts:
            raise ValueError("learn_from needs files of attempts at its problems")
        if self.hard_until >= self.easy_from:
            raise ValueError("hard_until must be less than easy_from")
        return self


@dataclass(frozen=True)
class Known:
    """What was found out about a problem. `predictions`: of the rubric, in the order of its dimensions."""

    solved: int = 0
    tried: int = 0
    predictions: tuple[tuple[float, ...], ...] = ()
    without_program: int = 0
    """Of an endpoint's attempts, those in whose answer no program was found: tried, and not solved."""
    unread: int = 0
    """Predictions that couldn't be read: there are so many fewer."""

    def write(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Known":
        """What `write` wrote."""
        record = json.loads(text)
        return cls(**{**record, "predictions": tuple(map(tuple, record["predictions"]))})


class Grading:
    """Looks into the files, and asks the endpoints. `find` may be called from several threads."""

    def __init__(
        self,
        params: CalibrateParams,
        seed: int,
        base: Path,
        memory: Path,
        open_judging: Callable[[], Judging],
        interrupt: threading.Event,
    ) -> None:
        """Read the files beneath `base`, and what `memory` knows.

        Raises:
            UnreadableFile: a file can't be read.
            BadEndpoint: an endpoint's key isn't there.
            SandboxUnavailable: attempts are to be judged, and there can be no boxes here.
        """
        self._params = params
        self._memory = Journal(memory)
        self.attempts = Attempts(params.attempts, base)
        self._solver = Endpoint(params.endpoint, seed, interrupt) if params.endpoint else None
        self._reader = Endpoint(params.rubric, seed, interrupt) if params.rubric else None
        self._judging = open_judging() if params.endpoint else None
        self._turns = threading.Semaphore(self._judging.most if self._judging else 1)

    def find(self, problem: Problem, id: str) -> Known:
        """What is known of a problem, which the files know under `id`.

        Raises:
            BadEndpoint: an endpoint doesn't answer.
            Interrupted: the build is to end.
        """
        settings = self._params
        if settings.endpoint is not None:
            solved, tried, programs = self._attempt(problem, settings.endpoint)
        else:
            count = self.attempts.find(problem, id)
            solved, tried = (count.solved, count.tried) if count is not None else (0, 0)
            programs = tried
        predictions = self._predict(problem, settings.rubric) if settings.rubric is not None else ()
        asked = settings.rubric.predictions if settings.rubric is not None else 0
        return Known(solved, tried, predictions, max(0, tried - programs), asked - len(predictions))

    def stop(self) -> None:
        """Let calls return soon."""
        if self._judging is not None:
            self._judging.stop()

    def close(self) -> None:
        """Close the connections and the journal. What judges is the build's."""
        self._memory.close()
        for endpoint in (self._solver, self._reader):
            if endpoint is not None:
                endpoint.close()

    def _attempt(self, problem: Problem, settings: EndpointIn) -> tuple[int, int, int]:
        """Attempts that solved it, those that count, those that hold a program. Without one an attempt has failed."""
        assert self._solver is not None and self._judging is not None
        prompt, samples = write_prompt(problem), self._params.samples
        rules = (problem.suite.id, problem.entry_point, asdict(problem.limits()), dict(problem.policy))
        key = make_key("attempts", _name_of(settings), samples, prompt, rules, evaluator.__version__)
        known = self._memory.find(key)
        if known is not None:
            return known["solved"], known["tried"], known["programs"]
        answers = self._solver.ask(prompt, samples)
        programs = [program for answer in answers if (program := extract_code(answer)) is not None]
        with self._turns:
            orders = [Order(program, fail_fast=True) for program in programs]
            verdicts = [outcome.verdict for outcome in self._judging.judge(problem, orders)] if orders else []
        lost = sum(verdict in OURS for verdict in verdicts)
        solved = sum(verdict == Verdict.ACCEPTED for verdict in verdicts)
        found = {"solved": solved, "tried": len(answers) - lost, "programs": len(programs) - lost}
        if not lost:
            self._memory.add(key, found)
        return found["solved"], found["tried"], found["programs"]

    def _predict(self, problem: Problem, settings: RubricIn) -> tuple[tuple[float, ...], ...]:
        """The predictions that could be read."""
        assert self._reader is not None
        question = write_question(problem)
        key = make_key("rubric", _name_of(settings), settings.predictions, question)
        found = self._memory.find(key)
        if found is None:
            read = map(read_prediction, self._reader.ask(question, settings.predictions))
            found = [values for values in read if values is not None]
            self._memory.add(key, found)
        return tuple(map(tuple, found))


def _name_of(settings: EndpointIn) -> dict[str, Any]:
    return settings.model_dump(mode="json", include={"url", "model", "temperature", "max_tokens"})
