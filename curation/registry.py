"""The stages that a recipe can name, each with its settings and how it is made.

A new stage is one more row here: a name, its settings' model, a function that makes it.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from curation.admission import Admit, AdmitParams, Trim, TrimParams
from curation.calibration import Calibrate
from curation.contamination import Contamination, ContaminationParams
from curation.duplicates import Duplicates, DuplicatesParams
from curation.grading import CalibrateParams
from curation.judging import Judging
from curation.mixture import Select, SelectParams
from curation.processing import Process, ProcessParams
from curation.recipe import BadRecipe, Recipe, explain
from curation.sources import Collect
from curation.stage import Params, Stage
from curation.strengthening import Strengthen
from curation.verification import Verify, VerifyParams
from curation.weaknesses import StrengthenParams


@dataclass(frozen=True)
class Workshop:
    """What stages may need beside their settings."""

    recipe: Recipe
    base: Path
    """Folder that the recipe's paths start from."""
    folder: Path
    """Folder of the build: a stage that can go on in its middle keeps a journal here."""
    open_judging: Callable[[], Judging]
    """Boxes, or a service; opened once, when first asked for."""
    workers: int
    interrupt: threading.Event


Make = Callable[[Any, Workshop], Stage]


def _make_process(params: ProcessParams, shop: Workshop) -> Stage:
    return Process(params, shop.recipe.seed, shop.folder / "translation.jsonl", shop.interrupt)


def _make_verify(params: VerifyParams, shop: Workshop) -> Stage:
    return Verify(params, shop.open_judging, shop.workers, shop.folder / "verification.jsonl", shop.interrupt)


def _make_strengthen(params: StrengthenParams, shop: Workshop) -> Stage:
    journal = shop.folder / "strengthening.jsonl"
    return Strengthen(params, shop.recipe.seed, shop.open_judging, shop.workers, journal, shop.interrupt)


def _make_calibrate(params: CalibrateParams, shop: Workshop) -> Stage:
    journal = shop.folder / "calibration.jsonl"
    return Calibrate(params, shop.recipe.seed, shop.base, journal, shop.open_judging, shop.interrupt)


STAGES: dict[str, tuple[type[Params], Make]] = {
    "process": (ProcessParams, _make_process),
    "admit": (AdmitParams, lambda params, shop: Admit(params)),
    "duplicates": (DuplicatesParams, lambda params, shop: Duplicates(params, shop.recipe.seed)),
    "contamination": (ContaminationParams, lambda params, shop: Contamination(params, shop.recipe, shop.base)),
    "trim": (TrimParams, lambda params, shop: Trim(params)),
    "verify": (VerifyParams, _make_verify),
    "strengthen": (StrengthenParams, _make_strengthen),
    "calibrate": (CalibrateParams, _make_calibrate),
    "select": (SelectParams, lambda params, shop: Select(params, shop.recipe.seed)),
}


def make_stages(shop: Workshop) -> list[Stage]:
    """Collect, and then the recipe's stages in its order.

    Raises:
        BadRecipe: a stage or a setting isn't known, or a file isn't there.
    """
    stages: list[Stage] = [Collect(shop.recipe, shop.base)]
    for one in shop.recipe.stages:
        for name, settings in one.items():
            if name not in STAGES:
                raise BadRecipe(f"There is no stage {name!r}; choose among {', '.join(STAGES)}.")
            model, make = STAGES[name]
            try:
                params = model.model_validate(settings or {})
            except ValidationError as error:
                raise BadRecipe(f"The stage {name!r}: {explain(error)}") from None
            stages.append(make(params, shop))
    return stages
