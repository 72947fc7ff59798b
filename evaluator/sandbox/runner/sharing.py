"""Containers that both processes of an assertion test hold, so that a change on one side is seen on the other.

A list that the test passes is a list of its own in the program. After the call it has to look as the program left it,
also where it lies inside another one; and what the program returns may be that very list. So each container passes
under a key, and before one side hands over, it tells the other what has changed since they last agreed. Only what
belongs to the last few calls is kept in step, and only while it is small: a long history would cost every later call.
"""

import collections
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import values

MAX_CONTAINERS = 2_000
"""How many of one message keep their identity. The others pass as data."""
MAX_GROUPS = 8
MAX_BYTES = 4_096
BLANKS: dict[str, type] = {"dict": dict, "set": set}


class Group:
    """The containers of one message: all keys, and the outermost containers, which hold the others."""

    def __init__(self) -> None:
        self.keys: set[int] = set()
        self.roots: dict[int, bytes | None] = {}
        """How each looked to the other side, where that is known."""
        self.depth = 0

    @contextlib.contextmanager
    def enter(self, key: int, tree: values.Tree = None) -> Iterator[None]:
        """While the members of a container are written or read."""
        self.keys.add(key)
        if self.depth == 0:
            self.roots[key] = None if tree is None else values.dump(tree)
        self.depth += 1
        yield
        self.depth -= 1


class Root:
    """An outermost container and how it looked when both sides last agreed on it."""

    def __init__(self, value: Any, said: bytes | None) -> None:
        self.value = value
        self.said = said


class Shared:
    """One side's table. Keys of the tester's containers are negative, of the program's positive."""

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.objects: dict[int, Any] = {}
        self.keys: dict[int, int] = {}
        self.count = 0
        self.groups: list[tuple[Group, list[Root]]] = []
        self.kept: list[Root] = []
        """What is kept in step to the end: instances of the program's own lists, dictionaries and sets."""

    def add(self, value: Any, key: int | None = None) -> int:
        if key is None:
            self.count += 1
            key = self.sign * self.count
        self.objects[key] = value
        self.keys[id(value)] = key
        return key

    def begin(self, group: Group, write: Callable[[Any], values.Tree]) -> list[Root]:
        """Keep a group in step from now on: both sides agree on how it looks."""
        roots = []
        for key, said in group.roots.items():
            value = self.objects[key]
            roots.append(Root(value, values.dump(write(value)) if said is None else said))
        if roots:
            self.groups.append((group, roots))
        return roots

    def keep(self, value: Any, write: Callable[[Any], values.Tree]) -> None:
        """Keep an instance of the program's own class in step to the end."""
        if len(self.kept) < MAX_CONTAINERS:
            self.kept.append(Root(value, values.dump(write(value))))

    def forget(self, group: Group) -> None:
        """A group that was never kept in step."""
        living = set().union(*(entry.keys for entry, _ in self.groups))
        for key in group.keys - living:
            self.keys.pop(id(self.objects.pop(key, None)), None)

    def settle(self) -> None:
        """A call has come to its end: forget what is large or old."""
        large = [entry for entry in self.groups if sum(len(root.said or b"") for root in entry[1]) > MAX_BYTES]
        rest = [entry for entry in self.groups if entry not in large]
        kept = rest[-MAX_GROUPS:]
        if len(kept) < len(self.groups):
            old, self.groups = self.groups, kept
            for group, _ in old:
                self.forget(group)

    def find_changes(self, write: Callable[[Any], values.Tree], roots: Iterable[Root]) -> list[values.Tree]:
        """What looks otherwise than when both sides last agreed."""
        changes = []
        for root in roots:
            tree = write(root.value)
            text = values.dump(tree)
            if text != root.said:
                root.said = text
                changes.append(tree)
        return changes

    def agree(self, write: Callable[[Any], values.Tree]) -> None:
        """The other side's changes have arrived: this is how everything looks now."""
        for root in self.roots():
            root.said = values.dump(write(root.value))

    def roots(self) -> Iterator[Root]:
        for _, roots in self.groups:
            yield from roots
        yield from self.kept


def make_blank(tree: values.Tree) -> Any:
    """An empty container of the kind that a tree holds, where one can be made before its members are known."""
    if type(tree) is list:
        return []
    kind = BLANKS.get(str(tree.get("$"))) if type(tree) is dict else None
    return None if kind is None else kind()


def fill(mine: Any, content: Any) -> None:
    """Bring a container to the content of another one of its kind, by its base type's own methods."""
    if mine is content:
        return
    if isinstance(mine, list) and isinstance(content, list):
        list.__setitem__(mine, slice(None), list.__getitem__(content, slice(None)))
    elif isinstance(mine, dict) and isinstance(content, dict):
        pairs = list(dict.items(content))
        dict.clear(mine)
        dict.update(mine, pairs)
    elif isinstance(mine, set) and isinstance(content, set):
        set.clear(mine)
        set.update(mine, content)
    elif isinstance(mine, bytearray) and isinstance(content, bytearray):
        mine[:] = content
    elif isinstance(mine, collections.deque) and isinstance(content, collections.deque):
        mine.clear()
        mine.extend(content)
    elif hasattr(mine, "shape") and type(mine) is type(content) and mine.shape == content.shape:
        mine[...] = content
    else:
        raise ValueError("a container has become another kind of thing")
