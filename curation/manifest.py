"""The manifest of a build: all that decides its bytes, and the digests of these bytes."""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from curation.pipeline import Done
from curation.recipe import BadRecipe, Recipe

NAME = "manifest.json"
FILES = ("README.md", "train.jsonl", "validation.jsonl")
FOLDERS = ("charts", "trl", "verl")
PACKAGES = ("datasketch", "markdownify", "matplotlib", "microcoder", "numpy", "pyarrow", "pylatexenc")
"""Whose version may change a byte."""


def write_manifest(folder: Path, recipe: Recipe, done: Sequence[Done]) -> dict[str, Any]:
    """Write it, and return it."""
    manifest = {
        "recipe": recipe.model_dump(mode="json"),
        "stages": {one.name: one.fingerprint for one in done},
        "kept": {one.name: sum(one.ledger.kept.values()) for one in done},
        "packages": {name: version(name) for name in PACKAGES},
        "files": digest_files(folder),
    }
    (folder / NAME).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", "utf-8")
    return manifest


def digest_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file of the corpus, by its relative name."""
    paths = [folder / name for name in FILES]
    paths += sorted(path for name in FOLDERS for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): _digest(path) for path in paths}


def _digest(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest out of its file.

    Raises:
        BadRecipe: it can't be read.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
        if isinstance(document["files"], dict) and isinstance(document["packages"], dict):
            return dict(document)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRecipe(f"{path} is no manifest of a build ({error}).") from None
    raise BadRecipe(f"{path} is no manifest of a build: 'files' and 'packages' must be objects.")


def compare_manifests(wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """A sentence for each difference, files first; none where the bytes are the same."""
    sentences = []
    for name in sorted(wanted["files"].keys() | found["files"].keys()):
        if wanted["files"].get(name) != found["files"].get(name):
            state = (
                "isn't there" if name not in found["files"] else "is new" if name not in wanted["files"] else "differs"
            )
            sentences.append(f"{name} {state}.")
    if sentences:
        for name in sorted(wanted["packages"].keys() | found["packages"].keys()):
            before, now = wanted["packages"].get(name), found["packages"].get(name)
            if before != now:
                sentences.append(f"{name} was {before}, and is {now} here.")
    return sentences
