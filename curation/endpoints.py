"""Asking a model behind an OpenAI-compatible endpoint. What it said is kept in a journal, so that it is asked once."""

import os
import threading
from typing import Any

import httpx
from pydantic import Field

from curation.fan import Interrupted
from curation.stage import Params
from evaluator.errors import InvalidSubmission

PAUSES = (1.0, 4.0, 16.0)
"""Seconds before an endpoint that is busy, or away, is asked again."""
BUSY = (408, 409, 425, 429)


class BadEndpoint(InvalidSubmission):
    """An endpoint doesn't answer as it should. The message says which, what it said and what to do."""


class EndpointIn(Params):
    """A model behind an endpoint, and what it may spend on an answer."""

    url: str = Field(pattern=r"^https?://")
    """What comes before `/chat/completions`."""
    model: str = Field(min_length=1)
    temperature: float = Field(1.0, ge=0)
    max_tokens: int = Field(8192, ge=1)
    key_from: str = ""
    """Environment variable that holds the key; nothing: no key is sent. A recipe never holds the key itself."""
    patience: float = Field(600.0, gt=0)
    """Seconds that an answer may take."""

    @property
    def budget(self) -> str:
        """What decides an answer's chances, beside the model."""
        return f"{self.max_tokens} tokens, temperature {self.temperature:g}"


class Endpoint:
    """Asks. Used from several threads."""

    def __init__(self, settings: EndpointIn, seed: int, interrupt: threading.Event) -> None:
        """Prepare; `interrupt` ends the waiting.

        Raises:
            BadEndpoint: the key isn't in the environment.
        """
        self._settings = settings
        self._seed = seed
        self._interrupt = interrupt
        headers = {}
        if settings.key_from:
            if not (key := os.environ.get(settings.key_from)):
                raise BadEndpoint(f"The key of {settings.url} isn't there: set the variable {settings.key_from}.")
            headers["Authorization"] = f"Bearer {key}"
        self._client = httpx.Client(headers=headers, timeout=httpx.Timeout(settings.patience, connect=10.0))

    def ask(self, prompt: str, count: int) -> list[str]:
        """So many answers to a prompt. Endpoints that give one at a time, whatever `n` says, are asked again.

        Raises:
            BadEndpoint: there is no answer, or none that can be read.
            Interrupted: the build is to end.
        """
        answers: list[str] = []
        while len(answers) < count:
            if self._interrupt.is_set():
                raise Interrupted
            answers += self._ask(prompt, count - len(answers), self._seed + len(answers))
        return answers[:count]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, prompt: str, count: int, seed: int) -> list[str]:
        settings = self._settings
        body = {
            "model": settings.model,
            "messages": [{"role": "user", "content": prompt}],
            "n": count,
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "seed": seed,
        }
        response = self._post(body)
        try:
            choices = response.json()["choices"]
            answers = [str(choice["message"]["content"] or "") for choice in choices]
        except (ValueError, KeyError, TypeError):
            answers = []
        if not answers:
            raise BadEndpoint(f"{settings.url} gave no answer that can be read: {response.text[:200]!r}.")
        return answers

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        url = f"{self._settings.url.rstrip('/')}/chat/completions"
        for pause in (*PAUSES, None):
            try:
                response = self._client.post(url, json=body)
                said = f"{response.status_code}: {response.text[:200]!r}"
                is_final = response.status_code < 500 and response.status_code not in BUSY
            except httpx.TransportError as error:
                response, said, is_final = None, f"{type(error).__name__}: {error}", False
            if response is not None and response.is_success:
                return response
            if is_final or pause is None:
                break
            if self._interrupt.wait(pause):
                raise Interrupted
        raise BadEndpoint(f"{url} doesn't answer ({said}): see that it serves {self._settings.model!r}.")
