"""Calibrate: how difficult each problem is, for a model, a budget and an evaluator that are named.

Three ways, the best that a problem allows:

- measured: a model solved k of n attempts, read from files of judged generations or made through an endpoint;
- rubric: five dimensions that a model predicts three times, made a solve rate by a monotone fit to measured ones;
- offline: features of statement and reference, by a regression that has learnt from measured ones.

Measured rates are parted at two rates that the settings name; the borders on the other ways' scores are found by data.
The note `difficulty` holds class, way, rate and what they hold for; `select` takes its class before the source's word.
Where the source has a word, the guess from texts leaves it be (`offline: all` doesn't).
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from curation.attempts import digest_file
from curation.fan import fan_out
from curation.grading import CalibrateParams, Grading, Known
from curation.judging import Judging
from curation.problem import Problem, read_problem, write_problem
from curation.scales import Scales
from curation.shelf import Shelf
from curation.sources import digest_source, iterate_source
from curation.stage import Stage
from curation.statements import normalise_statement


class Calibrate(Stage):
    """See the module. Nothing is dropped."""

    name = "calibrate"

    def __init__(
        self,
        params: CalibrateParams,
        seed: int,
        base: Path,
        memory: Path,
        open_judging: Callable[[], Judging],
        interrupt: threading.Event,
    ) -> None:
        """Read files beneath `base`; what endpoints say is kept in `memory`, and not asked again.

        Raises:
            UnreadableFile, BadRecipe: a file isn't there, or isn't what it should be.
        """
        super().__init__()
        self._params = params
        self._seed = seed
        self._base = base
        self._interrupt = interrupt
        self._open_grading = partial(Grading, params, seed, base, memory, open_judging, interrupt)
        self._digests = [digest_file(base / file.path) for file in params.attempts]
        if params.learn_from is not None:
            self._digests.append(digest_source(params.learn_from, base))

    @property
    def params(self) -> dict[str, Any]:
        """The settings, the seed, and the bytes of the files. Not how many threads ask."""
        settings = self._params.model_dump(mode="json", exclude={"workers"})
        return {**settings, "seed": self._seed, "files": self._digests}

    def work(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """All are looked at before the first is given: they wait on disk.

        Raises:
            Interrupted: the build is to end.
            BadEndpoint: an endpoint doesn't answer.
        """
        params = self._params
        if not params.attempts and params.endpoint is None:
            for problem in problems:
                self.mark("not calibrated: no attempts to learn from")
                yield problem
            return
        grading = self._open_grading()
        scales = Scales(params, self._seed)
        with Shelf("CREATE TABLE waiting (n INTEGER PRIMARY KEY, known TEXT, data BLOB)") as shelf:
            try:
                for problem, known in self._ask(grading, self._iterate_lessons(grading)):
                    scales.add(problem, known)
                for problem, known in self._ask(grading, ((one, one.id) for one in problems)):
                    scales.add(problem, known)
                    row = (known.write(), write_problem(problem))
                    shelf.do("INSERT INTO waiting (known, data) VALUES (?, ?)", row)
            finally:
                grading.close()
            scales.learn()
            for n, known, data in shelf.do("SELECT n, known, data FROM waiting ORDER BY n"):
                problem = read_problem(json.loads(data), f"waiting problem {n}")
                yield self._note(problem, Known.read(known), scales)

    def _iterate_lessons(self, grading: Grading) -> Iterator[tuple[Problem, str]]:
        """The problems of `learn_from` that were attempted, with the ids that the files have."""
        source = self._params.learn_from
        if source is None:
            return
        for item in iterate_source(source, self._base):
            if isinstance(item, Problem):
                id = item.id.removeprefix(f"{source.name}/")
                if grading.attempts.find(item, id) is not None:
                    yield replace(item, statement=normalise_statement(item.statement)), id

    def _ask(self, grading: Grading, named: Iterable[tuple[Problem, str]]) -> Iterator[tuple[Problem, Known]]:
        """What is known of each, several at a time, in their order."""
        known = fan_out(named, lambda one: grading.find(*one), self._params.workers, self._interrupt, grading.stop)
        for (problem, _), found in known:
            yield problem, found

    def _note(self, problem: Problem, known: Known, scales: Scales) -> Problem:
        note = scales.judge(problem, known)
        if "way" not in note:
            self.mark("not calibrated: too few measured problems to learn from")
        else:
            self.mark(f"{note.get('class', 'class of the source')}, {note['way']}")
        if known.without_program:
            self.mark(
                "attempts without a program" if known.without_program < known.tried else "no attempt has a program"
            )
        if known.unread:
            self.mark("predictions that can't be read" if known.predictions else "no prediction can be read")
        return problem.with_note("difficulty", note) if note else problem
