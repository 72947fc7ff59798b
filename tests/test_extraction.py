"""The program out of a model's answer."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.extraction import extract_between_last_fences, extract_code

CASES = {
    "one block": ("Here:\n```python\nprint(1)\n```\nDone.\n", "print(1)\n"),
    "no text around": ("```python\nprint(1)\n```", "print(1)\n"),
    "no tag": ("```\nprint(1)\n```", "print(1)\n"),
    "capital tag": ("```Python\nprint(1)\n```", "print(1)\n"),
    "short tag": ("```py\nprint(1)\n```", "print(1)\n"),
    "versioned tag": ("```python3.11\nprint(1)\n```", "print(1)\n"),
    "space before the tag": ("``` python\nprint(1)\n```", "print(1)\n"),
    "tag and attributes": ('```python title="a.py"\nprint(1)\n```', "print(1)\n"),
    "tag in braces": ("```{.python .numberLines}\nprint(1)\n```", "print(1)\n"),
    "tildes": ("~~~python\nprint(1)\n~~~\n", "print(1)\n"),
    "tildes with backticks inside": ("~~~\ns = '''\n```\n'''\n~~~\n", "s = '''\n```\n'''\n"),
    "longer fence around a shorter one": (
        "````python\nd = '''\n```\nx\n```\n'''\n````\n",
        "d = '''\n```\nx\n```\n'''\n",
    ),
    "longer closing fence": ("```\nprint(1)\n`````\n", "print(1)\n"),
    "backticks within a line": ("```python\nprint('```')\n```\n", "print('```')\n"),
    "closing fence with spaces": ("```python\nprint(1)\n```   \n", "print(1)\n"),
    "indented fence": ("1. Do\n\n   ```python\n   if x:\n       y()\n   ```\n", "if x:\n    y()\n"),
    "deeply indented fence": ("- a\n    - b\n        ```python\n        x = 1\n        ```\n", "x = 1\n"),
    "indented less than its fence": ("   ```\nx = 1\n  y = 2\n   ```", "x = 1\ny = 2\n"),
    "fence behind a sentence": ("The code: ```python\nprint(1)\n```\n", "print(1)\n"),
    "carriage returns": ("a\r\n```python\r\nprint(1)\r\nprint(2)\r\n```\r\n", "print(1)\nprint(2)\n"),
    "blank lines stay": ("```\n\nx = 1\n\n\ny = 2\n\n```", "\nx = 1\n\n\ny = 2\n\n"),
    "tabs stay": ("```\nif x:\n\ty()\n```", "if x:\n\ty()\n"),
    "inline code is no fence": ("Use `print` and ``x``.\n```python\nprint(1)\n```", "print(1)\n"),
    "inline triple backticks are no fence": ("Call ```f(1)``` first.\n```python\nprint(1)\n```", "print(1)\n"),
    "last of two": ("```python\na\n```\nbetter:\n```python\nb\n```\n", "b\n"),
    "python before an untagged session": ("```python\nprint(2)\n```\nRun:\n```\n$ python a.py\n2\n```\n", "print(2)\n"),
    "python before untagged output": ("```python\nprint(2)\n```\nOutput:\n```\n2\n```\n", "print(2)\n"),
    "python before another language": ("```python\nprint(2)\n```\n```bash\npython a.py\n```\n", "print(2)\n"),
    "untagged before another language": ("```\nprint(2)\n```\n```json\n[1]\n```\n", "print(2)\n"),
    "python session behind the program": (
        "```python\ndef f(): pass\n```\n```python\n>>> f()\n```\n",
        "def f(): pass\n",
    ),
    "session only": ("```python\n>>> f()\n```\n", ">>> f()\n"),
    "another language only": ("```cpp\nint main(){}\n```\n", "int main(){}\n"),
    "blank block behind": ("```python\nx\n```\n```python\n\n```\n", "x\n"),
    "thinking closed": ("<think>\n```python\ndraft\n```\n</think>\n```python\nx\n```\n", "x\n"),
    "thinking opened in the prompt": ("so\n```python\ndraft\n```\n</think>\n```python\nx\n```\n", "x\n"),
    "draft left open in the thinking": ("<think>\n```python\ndraft\n</think>\n```python\nx\n```\n", "x\n"),
    "draft left open, opened in the prompt": ("```python\ndraft\n</think>\n```python\nx\n```\n", "x\n"),
    "fence right behind the tag": ("<think>hm</think>```python\nx\n```", "x\n"),
    "thinking twice": ("<think>a</think>\n```\ny\n```\n<think>b</think>\n```\nx\n```\n", "x\n"),
    "thinking in capitals": ("<THINK>```\na\n```</THINK>\n```\nx\n```", "x\n"),
    "other tags": ("<|begin_of_thought|>\n```\na\n```\n<|end_of_thought|>\n```\nx\n```", "x\n"),
    "square tags": ("[THINK]```\na\n```[/THINK]\n```\nx\n```", "x\n"),
    "tags in a program": ("```python\nprint('<think>')\nx = '</think>'\n```\n", "print('<think>')\nx = '</think>'\n"),
    "tags in inline code": ("I leave out `<think>`.\n```python\nx\n```\n", "x\n"),
    "tags of HTML in prose": ("Use <b>this</b>:\n```python\nx\n```\n", "x\n"),
}
INCOMPLETE = {
    "nothing": "",
    "no fence": "print(1)\n",
    "cut within the block": "```python\nprint(1)\n",
    "cut right behind the fence": "```python",
    "cut within a second block": "```python\nprint(1)\n```\nBetter:\n```python\nprint(",
    "closed with another character": "```python\nprint(1)\n~~~\n",
    "closed with a shorter fence": "````python\nprint(1)\n```\n",
    "thinking without end": "<think>\n```python\nprint(1)\n```\n",
    "thinking without end, in the line": "Well. <think> so ```python\nprint(1)\n```\n",
    "thinking without end behind an answer": "```python\nprint(1)\n```\n<think>\nor else",
    "second thinking without end": "<think>a</think>\n```\nx\n```\n<think>\n```\ny\n```\n",
    "other thinking without end": "<|begin_of_thought|>\n```python\nprint(1)\n```\n",
    "reasoning without end": "<reasoning>\n```python\nprint(1)\n```\n",
    "nothing behind the thinking": "<think>\n```python\nprint(1)\n```\n</think>\n",
    "cut behind the thinking": "<think>a</think>\n```python\nprint(1)\n",
    "text only behind the thinking": "<think>\n```python\nprint(1)\n```\n</think>\nIt prints 1.\n",
    "blank block": "```python\n\n  \n```\n",
    "inline code only": "Use `print(1)` or ```print(2)```.\n",
}


@pytest.mark.parametrize("name", CASES)
def test_complete_block(name: str) -> None:
    """The last complete block that is a program."""
    answer, code = CASES[name]
    assert extract_code(answer) == code
    assert extract_code(answer, whole_text=True) == code


@pytest.mark.parametrize("name", INCOMPLETE)
def test_incomplete_answer(name: str) -> None:
    """No code, which isn't wrong code."""
    assert extract_code(INCOMPLETE[name]) is None


def test_whole_text_only_when_asked_for() -> None:
    """Without any fence, and never with an unclosed one."""
    assert extract_code("print(1)\n", whole_text=True) == "print(1)\n"
    assert extract_code("print(1)") is None
    assert extract_code("", whole_text=True) is None
    assert extract_code(" \n", whole_text=True) is None
    assert extract_code("```python\nprint(1)\n", whole_text=True) is None
    assert extract_code("<think>\nprint(1)\n", whole_text=True) is None
    assert extract_code("<think>a</think>\nprint(1)\n", whole_text=True) == "\nprint(1)\n"


def test_livecodebench_takes_the_text_between_the_last_two_fences() -> None:
    """Whatever the block is: for parity only."""
    assert extract_between_last_fences("```python\na\n```\n```\n$ b\n```\n") == "$ b"
    assert extract_between_last_fences("```python\na\n```\n```python\nb") == ""
    assert extract_between_last_fences("```python\na") == ""
    assert extract_between_last_fences("a") == ""


pieces = st.sampled_from(
    [
        "```",
        "````",
        "~~~",
        "python",
        " ",
        "\n",
        "\r\n",
        "x = 1",
        "<think>",
        "</think>",
        "`",
        "    ",
        "{",
        "}",
        ">>> ",
        "[THINK]",
    ]
)


@given(st.lists(pieces, max_size=30).map("".join) | st.text())
@settings(max_examples=200, deadline=None)
def test_extraction_never_raises_and_finds_only_what_is_there(answer: str) -> None:
    """Every line of the code is a line of the answer, indentation aside."""
    code = extract_code(answer)
    if code is not None:
        assert code.strip()
        lines = {line.strip() for line in answer.split("\n")}
        assert {line.strip() for line in code.split("\n")[:-1]} <= lines
        assert extract_code(answer + "\n```\n") is None
        assert extract_code(f"{answer}\n<think>") is None


@given(st.lists(st.text("abc `~=()", max_size=8).filter(lambda line: "```" not in line), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_fenced_program_comes_back_as_it_was(lines: list[str]) -> None:
    """Round trip."""
    program = "".join(f"{line}\n" for line in lines)
    if program.strip() and not program.lstrip().startswith(">>>"):
        assert extract_code(f"Text\n````python\n{program}````\nmore text") == program


@pytest.mark.parametrize(
    "answer",
    [
        "`" * 2_000_000,
        "```\n" * 500_000,
        "``` " * 500_000,
        "```\n" + " " * 2_000_000,
        " " * 2_000_000 + "```",
        "<think>" * 300_000,
        "<think></think>" * 200_000,
        "a`" * 1_000_000 + "```",
        "```python\n" + "x\n" * 700_000 + "```",
        "<" * 2_000_000,
    ],
)
def test_long_answers_take_linear_time(answer: str) -> None:
    """Seconds at most for megabytes of anything."""
    start = time.process_time()
    extract_code(answer)
    assert time.process_time() - start < 6
