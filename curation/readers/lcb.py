"""LiveCodeBench's rows: `code_generation_lite` and `code_generation`, by the reader of `evaluator/livecodebench`.

Format: https://huggingface.co/datasets/livecodebench/code_generation_lite. Private tests are read by an unpickler that
knows no names. The texts belong to LeetCode, AtCoder and Codeforces. There are no reference programs.
"""

from pathlib import Path
from typing import Any

from curation.identities import slugify
from curation.problem import Identity, Problem, make_suite
from curation.readers.origins import Origin, Unreadable, clean_text, demand
from evaluator.errors import InvalidSuite
from evaluator.livecodebench.documents import UnreadableFile
from evaluator.livecodebench.errata import Erratum, find_erratum
from evaluator.livecodebench.private_tests import Undecodable
from evaluator.livecodebench.rows import read_problem


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A row.

    Raises:
        Unreadable: it is none, or its tests can't be read.
    """
    demand(row, "question_id", "public_test_cases")
    try:
        problem = read_problem(Path(origin.name), number, row)
        suite = make_suite(problem.read_tests())
    except UnreadableFile as error:
        raise Unreadable("not a row of this format", str(error)) from None
    except (Undecodable, InvalidSuite) as error:
        raise Unreadable("no tests that can be read", str(error)) from None
    fields = {name: clean_text(value) for name, value in problem.fields.items()}
    if find_erratum(problem.id, fields["question_title"]) is Erratum.INTERACTIVE:
        raise Unreadable("interactive", "named in LiveCodeBench's errata")
    site, title = fields["platform"], fields["question_title"]
    return Problem(
        id=f"{origin.name}/{problem.id}",
        statement=fields["question_content"],
        suite=suite,
        source=origin.name,
        identity=Identity(
            site, slugify(title) if site == "leetcode" else "", problem.id.replace("_", "")
            if site == "codeforces" else problem.id, title,
        ),
        entry_point=problem.function,
        starter=fields["starter_code"],
        licence=origin.licence,
        attribution=origin.attribution,
        date=fields["contest_date"][:10] or None,
        difficulty=fields["difficulty"],
    )  # fmt: skip
