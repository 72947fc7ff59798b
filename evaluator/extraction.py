"""The program out of a model's answer.

Promises: one pass over the lines, linear time, no exception, and None for whatever isn't complete. An answer that was
cut off is incomplete, which isn't incorrect: a draft from its thinking section must not be judged in its place.

Which block, when there are several (policy, not truth; LiveCodeBench takes the text between the last two fences):

1. the last complete block tagged as Python;
2. else the last complete block without a tag;
3. else the last complete block, whatever its tag.

Blank blocks are never taken, and an interactive session (`>>>`, `$`) only when there is nothing else: an example of use
behind the program doesn't displace it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# The spellings in which models announce their thinking: <think>, <|begin_of_thought|>, [THINK], ◁think▷. A tag in
# quotes or inline code is spoken about, not used.
_NAMES = r"(?:think|thinking|thought|reasoning|scratchpad|seed:think)"
_WORDS = r"(?:thought|thinking|reasoning)"
_TAG = re.compile(
    rf"(?<!['\"\\])(?<!^`)(?<!^``)(?<![^`]`)(?<![^`]``)(?:(?P<open><{_NAMES}>|<\|(?:begin|start)_of_{_WORDS}\|>|\[THINK\]|◁think▷)"
    rf"|</{_NAMES}>|<\|end_of_{_WORDS}\|>|\[/THINK\]|◁/think▷)",
    re.I,
)
_INFO = re.compile(r"[\w+#.{}=-]*[ \t]*")
_PYTHON = re.compile(r"(?:python|py|pypy|cpython|sage)[\d.]*", re.I)
_SESSION = re.compile(r"\s*(?:>>>|\$ )")


@dataclass(frozen=True, slots=True)
class _Fence:
    character: str
    length: int
    indent: int
    tag: str


@dataclass(frozen=True, slots=True)
class _Block:
    tag: str
    text: str


def extract_code(answer: str, *, whole_text: bool = False) -> str | None:
    """Return the program of a model's answer, or None when the answer holds no complete one.

    None: the answer ends inside a fence, or inside a thinking section, or holds no fenced block. Only what follows the
    last thinking section counts. `whole_text`: an answer without any fence is itself the program.
    """
    blocks: list[_Block] = []
    prose: list[str] = []
    fence: _Fence | None = None
    content: list[str] = []
    thinking = False
    for line in _lines(answer):
        rest: str | None = line
        if thinking or _is_tagged(line, fence):
            thinking, rest = _follow_tags(line, thinking)
            blocks, prose, fence, content = [], [], None, []
        if rest is None:
            continue
        if fence is not None:
            if _is_closing(rest, fence):
                blocks.append(_Block(fence.tag, "".join(content)))
                fence = None
            else:
                content.append(_outdent(rest, fence.indent) + "\n")
        elif (fence := _opened(rest)) is not None:
            content = []
        else:
            prose.append(rest)
    if thinking or fence is not None:
        return None
    if blocks:
        return _choose(blocks)
    text = "\n".join(prose)
    return text if whole_text and text.strip() else None


def extract_between_last_fences(answer: str) -> str:
    """Return what LiveCodeBench takes for the program: the text between the last two lines with three backticks."""
    lines = answer.split("\n")
    fences = [number for number, line in enumerate(lines) if "```" in line]
    return "\n".join(lines[fences[-2] + 1 : fences[-1]]) if len(fences) >= 2 else ""


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield line.removesuffix("\r")


def _is_tagged(line: str, fence: _Fence | None) -> bool:
    """Say whether the line opens or closes a thinking section.

    Inside a fence only a closing tag that starts its line counts: a program may hold such a text, and a draft's fence
    may be left open. A closing tag without an opening one ends a section that was opened in the prompt.
    """
    if not any(sign in line for sign in "<[◁"):
        return False
    if fence is None:
        return _TAG.search(line) is not None
    tag = _TAG.match(line.lstrip())
    return tag is not None and tag["open"] is None


def _follow_tags(line: str, thinking: bool) -> tuple[bool, str | None]:
    """Return whether the thinking goes on behind this line, and what the line says outside of it."""
    end = 0
    for tag in _TAG.finditer(line):
        thinking = tag["open"] is not None
        end = tag.end()
    return thinking, None if thinking else line[end:]


def _opened(line: str) -> _Fence | None:
    """Read an opening fence: at the start of its line, indented at will, or as the last thing behind a sentence."""
    text = line.lstrip()
    for character in "`~":
        start = line.find(character * 3)
        if start < 0 or (start > 0 and line[start - 1] == character):
            continue
        info = line[start:].lstrip(character)
        indent = len(line) - len(text)
        if character == "`" and ("`" in info or "`" in line[:start]):
            continue
        if start != indent and (character == "~" or not info or _INFO.fullmatch(info) is None):
            continue
        return _Fence(character, len(line) - start - len(info), indent if start == indent else 0, _tag(info))
    return None


def _tag(info: str) -> str:
    words = info.replace("{", " ").replace("}", " ").replace(",", " ").split(maxsplit=1)
    return words[0].lstrip(".") if words else ""


def _is_closing(line: str, fence: _Fence) -> bool:
    text = line.strip()
    return len(text) >= fence.length and text == fence.character * len(text)


def _outdent(line: str, indent: int) -> str:
    spaces = len(line) - len(line.lstrip(" \t"))
    return line[min(indent, spaces) :]


def _choose(blocks: list[_Block]) -> str | None:
    full = [block for block in blocks if block.text.strip()]
    programs = [block for block in full if _SESSION.match(block.text) is None] or full
    for wanted in (_is_python, _is_untagged, _is_any):
        for block in reversed(programs):
            if wanted(block):
                return block.text
    return None


def _is_python(block: _Block) -> bool:
    return _PYTHON.fullmatch(block.tag) is not None


def _is_untagged(block: _Block) -> bool:
    return not block.tag


def _is_any(block: _Block) -> bool:
    return True
