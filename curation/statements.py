"""Statements: HTML and LaTeX into Markdown, what a statement asks of a judge, and how an answer is to be given."""

import html
import re
import warnings
from enum import StrEnum
from functools import cache
from typing import Any

from curation.problem import Problem
from evaluator.model import TestKind

_HTML = re.compile(
    r"</?(?:p|pre|br|ul|ol|li|div|h[1-6]|strong|b|em|i|code|table|t[rdh]|span|var|sup|sub|img)\b[^<>]*>", re.I
)
_INDEXES = (
    (re.compile(r"<sup>\s*(.*?)\s*</sup>", re.I | re.S), "^"),
    (re.compile(r"<sub>\s*(.*?)\s*</sub>", re.I | re.S), "_"),
)
_ENTITY = re.compile(r"&(?:lt|gt|le|ge|amp|nbsp|quot|#\d+|#x[0-9a-f]+);", re.I)
_MATHS = re.compile(r"\$\$?.*?\$\$?", re.S)
_LATEX = re.compile(r"\\(?:begin|section\*?|problemname|text(?:bf|it|tt)|emph|item|includegraphics|illustration)\b")
_COMMANDS = (
    (re.compile(r"\\problemname\{([^{}]*)\}"), r"# \1"),
    (re.compile(r"\\(?:sub)?section\*?\{([^{}]*)\}"), r"\n\n## \1\n\n"),
    (re.compile(r"\\(?:textbf|bf)\{([^{}]*)\}"), r"**\1**"),
    (re.compile(r"\\(?:emph|textit|it)\{([^{}]*)\}"), r"*\1*"),
    (re.compile(r"\\(?:texttt|verb|tt|t)\{([^{}]*)\}"), r"`\1`"),
)
_EXAMPLES = re.compile(r"^[ #*<>a-z0-9]{0,12}(?:Examples?|Samples?|Notes?|Explanation)\b", re.M)
_FENCE = re.compile(r"^(```.*?^```[^\S\n]*$)", re.M | re.S)


class Demand(StrEnum):
    """What a statement says that plain tests can't give."""

    IMAGE = "needs images"
    ILLUSTRATION = "images illustrate its examples"
    INTERACTION = "interactive"
    CHECKER = "several right answers, no checker"
    ANY_ORDER = "any order is right"
    ANY_CASE = "any case is right"


_DEMANDS = {
    Demand.IMAGE: (
        r"!\[[^\]]*\]\(|<img\b|\\includegraphics|\\illustration|<image>",
        r"\b(?:figure|picture|image|diagram|illustration)s? (?:above|below)\b",
        r"\b(?:shown|depicted|given|seen) (?:in|on|by) the (?:\w+ )?(?:figure|picture|image|diagram|illustration)\b",
    ),
    Demand.INTERACTION: (
        r"\binteractive (?:problem|task)\b", r"\binteractor\b", r"\bflush(?:ing)? (?:the )?(?:output|stdout|buffer)",
    ),
    Demand.ANY_ORDER: (
        r"\b(?:print|output|return|answer|list|report)\w*\b[^.\n]{0,90}\bin any order\b",
        r"\bany order (?:is|will be) (?:accepted|allowed|fine)",
    ),
    Demand.ANY_CASE: (
        r"\bin (?:any|either) (?:letter )?case\b", r"\b(?:each|every) letter\b[^.\n]{0,40}\bany case\b",
        r"\bupper ?case or lower ?case\b[^.\n]{0,40}\b(?:accepted|print|output)",
    ),
    Demand.CHECKER: (
        r"\b(?:print|output|return|find|report|give|provide|write) any (?:one )?(?:of (?:them|those|the)|valid|"
        r"such|possible|suitable|correct|answer|solution|permutation|array|sequence|string)\b",
        r"\b(?:multiple|several|more than one|many)\b[^.\n]{0,60}\b(?:answer|solution|way|output)s?\b[^.\n]{0,60}"
        r"\b(?:any|one of (?:them|those))\b",
        r"\bany (?:valid|correct|such|of these|of them)\b[^.\n]{0,50}\b(?:accepted|allowed)\b",
    ),
}  # fmt: skip
_PATTERNS = {demand: [re.compile(text, re.I) for text in texts] for demand, texts in _DEMANDS.items()}


def find_demands(statement: str) -> set[Demand]:
    """What the statement says, as it was published: images may be gone once it is Markdown.

    An image that is first spoken of behind the first example, or in a note, illustrates; nothing is missing without it.
    """
    text = " ".join(re.split(r"[^\S\n]+", statement))
    found = {
        demand: [match for one in patterns if (match := one.search(text))] for demand, patterns in _PATTERNS.items()
    }
    demands = {demand for demand, matches in found.items() if matches}
    examples = _EXAMPLES.search(text)
    if found[Demand.IMAGE] and examples and min(match.start() for match in found[Demand.IMAGE]) > examples.start():
        demands ^= {Demand.IMAGE, Demand.ILLUSTRATION}
    return demands


def normalise_statement(text: str) -> str:
    """The statement as Markdown: HTML and LaTeX converted, spaces and blank lines evened out, code left alone."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ").replace("\u200b", "")
    if len(_HTML.findall(_FENCE.sub("", text))) >= 2:
        text = _convert_html(text)
    elif _ENTITY.search(text):
        text = html.unescape(text)
    if _LATEX.search(_MATHS.sub("", _FENCE.sub("", text))):
        text = _convert_latex(text)
    parts = _FENCE.split(text)
    parts[::2] = [_even_out(part) for part in parts[::2]]
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()).strip()


def _convert_html(text: str) -> str:
    from markdownify import markdownify

    for pattern, sign in _INDEXES:
        text = pattern.sub(rf"{sign}\1", text)
    markdown: str = markdownify(
        text, heading_style="ATX", bullets="-", escape_asterisks=False, escape_underscores=False
    )
    return html.unescape(markdown)


def _convert_latex(text: str) -> str:
    for pattern, markdown in _COMMANDS:
        text = pattern.sub(markdown, text)
    converted: str = _open_latex().latex_to_text(text)
    return converted


@cache
def _open_latex() -> Any:
    """Converts all but formulas, which Markdown keeps as they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pylatexenc.latex2text import LatexNodes2Text

    return LatexNodes2Text(math_mode="verbatim", strict_latex_spaces=False, keep_comments=False)


def _even_out(text: str) -> str:
    lines = [re.sub(r"^ (?=\S)", "", line.rstrip()) for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def write_instruction(problem: Problem) -> str:
    """How the answer is to be given: one sentence on the form of the program, one on that of the answer."""
    block = "Answer with one block of code that starts with ```python and holds all that is needed."
    if problem.kind is TestKind.STDIN:
        return f"Write a Python 3 program that reads standard input and writes the answer to standard output. {block}"
    name = (problem.entry_point or "").removeprefix("Solution().")
    if problem.starter.strip():
        return f"Complete the given Python 3 code without changing names and parameters. {block}"
    if name:
        kind, _, method = name.rpartition(".")
        what = f"a class `{kind}` with the method `{method}`" if kind else f"the function `{name}`"
        return f"Write {what} in Python 3; it is called with the arguments in the order given. {block}"
    return f"Write the function in Python 3, under the name that is used above. {block}"


def write_prompt(problem: Problem) -> str:
    """All that a model is asked: statement, code to begin with, instruction."""
    starter = f"```python\n{problem.starter.rstrip()}\n```" if problem.starter.strip() else ""
    return "\n\n".join(part for part in (problem.statement, starter, problem.instruction) if part)
