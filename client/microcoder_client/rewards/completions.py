"""A model's answer as text, out of what trainers pass on."""

import re
from collections.abc import Mapping
from typing import Any

# What decoding with special tokens leaves at an answer's end. It would stand behind the closing fence, on its line.
_END = re.compile(
    r"(?:\s*(?:<\|[^<>|\s]{1,40}\|>|<｜[^<>｜]{1,40}｜>|</s>|<eos>|<pad>|<end_of_turn>|<end_of_text>|\[EOS\]))+\s*\Z"
)
_TAIL = 4096


def read_answer(completion: Any) -> str:
    """The text of a completion: a text, a message, or messages, of which the assistant's last counts.

    Special tokens at its end are taken off, and halves of surrogate pairs, which no text holds, are replaced.
    """
    text = _text(completion)
    head, tail = text[:-_TAIL], text[-_TAIL:]
    if (found := _END.search(tail)) is not None:
        tail = tail[: found.start()]
    return (head + tail).encode("utf-8", "replace").decode("utf-8")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        own = [item for item in value if _get(item, "role") == "assistant"]
        return _text(_get(own[-1], "content")) if own else "".join(_text(_get(item, "text")) for item in value)
    return _text(_get(value, "content"))


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
