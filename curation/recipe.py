"""Recipes: what a corpus is made of, in YAML.

    name: examples
    seed: 1
    data: ../../docs            # folder that the paths below start from; relative to the recipe
    sources:
      - {name: examples, reader: jsonlines, path: examples, licence: Apache-2.0}
    hold_out:
      - {name: humaneval, reader: humaneval, path: HumanEval.jsonl.gz}
    stages:                     # in this order; each with its settings (`registry.py` names them all)
      - process: {languages: [en]}
      - verify:
    expected: {verify: [30, 34]}   # what a stage should keep (`verify of leetcode`: of the sources whose names begin
                                   # so); the data card says expected and found

Every word that isn't known is refused.
"""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from curation.problem import UNKNOWN
from evaluator.errors import InvalidSubmission


class BadRecipe(InvalidSubmission):
    """A recipe that can't be followed. The message names place and remedy."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceIn(_Part):
    """Files of one format, to take problems from or to hold out."""

    name: str = Field(pattern=r"^[\w.+-]+$")
    reader: str
    path: str
    licence: str = UNKNOWN
    """Of the problems' own text."""
    attribution: str = ""
    programs: int = Field(5, ge=0)
    """Reference programs kept of a problem, and as many wrong ones."""
    options: dict[str, Any] = {}


class Recipe(_Part):
    """A recipe, read."""

    name: str = Field(pattern=r"^[\w.-]+$")
    about: str = ""
    """A paragraph for the data card."""
    seed: int = 1
    data: str = "."
    sources: tuple[SourceIn, ...] = Field(min_length=1)
    hold_out: tuple[SourceIn, ...] = ()
    stages: tuple[dict[str, dict[str, Any] | None], ...] = Field(min_length=1)
    expected: dict[str, tuple[int, int]] = {}
    """By a stage's name, the least and the most problems that it should keep. `stage of beginning`: of the sources
    whose names begin so."""

    @field_validator("stages")
    @classmethod
    def _check_stages(cls, stages: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        names = [name for stage in stages for name in stage]
        if any(len(stage) != 1 for stage in stages) or len(set(names)) < len(names):
            raise ValueError("each stage is one name with its settings, and no name comes twice")
        return stages

    @field_validator("sources", "hold_out")
    @classmethod
    def _check_names(cls, sources: tuple[SourceIn, ...]) -> tuple[SourceIn, ...]:
        names = [source.name for source in sources]
        if len(set(names)) < len(names):
            raise ValueError("no two have the same name")
        return sources

    @model_validator(mode="after")
    def _check_expected(self) -> "Recipe":
        stages = {"collect", *(name for stage in self.stages for name in stage)}
        for key in self.expected:
            stage, _, beginning = key.partition(" of ")
            if stage not in stages:
                raise ValueError(f"'expected' names {stage!r}, which isn't a stage of this recipe")
            if not any(source.name.startswith(beginning) for source in self.sources):
                raise ValueError(f"'expected' names {beginning!r}, with which no source's name begins")
        return self

    def settings_of(self, stage: str) -> dict[str, Any]:
        """What the recipe says of a stage; empty where it has none."""
        return next((settings or {} for one in self.stages for name, settings in one.items() if name == stage), {})


def read_recipe(path: Path) -> Recipe:
    """A recipe out of its file.

    Raises:
        BadRecipe: it can't be read, or says something that isn't known.
    """
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise BadRecipe(f"Can't read {path}: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadRecipe(f"{path} isn't YAML: {' '.join(str(error).split())}.") from None
    try:
        return Recipe.model_validate(document)
    except ValidationError as error:
        raise BadRecipe(f"{path}: {explain(error)}") from None


def explain(error: ValidationError) -> str:
    """The first thing that is wrong, in one sentence."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "the whole"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}."
