"""Containers that both processes of an assertion test hold, so that a change on one side is seen on the other.

A list that the test passes is a list of its own in the program. After the call it has to look as the program left it,
also where it lies inside another one; and what the program returns may be that very list. So each container passes
under a key, and before one side hands over, it tells the other what has changed since they last agreed. Only what
belongs to the last few calls is kept in step, and only while it is small: a long history would cost every later call.
"""

import collections
import sys
from collections.abc import Callable, Iterable
from typing import Any

from . import exchange, values

MAX_CONTAINERS = 2_000
"""How many of one message keep their identity. The others pass as data."""
MAX_GROUPS = 8
MAX_TEXT = 4_096
OWN_REFERENCES = 3
"""To a container that only the table holds: the table's, a variable's, and an argument's."""
BLANKS: dict[str, type] = {"dict": dict, "set": set}


class Group:
    """The containers of one message: all keys, and the outermost containers, which hold the others."""

    def __init__(self) -> None:
        self.keys: set[int] = set()
        self.roots: dict[int, str | None] = {}
        """How each looked to the other side, where that is known."""
        self.depth = 0

    def enter(self, key: int, tree: values.Tree = None) -> None:
        """The members of a container come next."""
        self.keys.add(key)
        if self.depth == 0:
            self.roots[key] = None if tree is None else exchange.dump(tree)
        self.depth += 1

    def leave(self) -> None:
        self.depth -= 1


class Shared:
    """One side's table. Keys of the tester's containers are negative, of the program's positive."""

    def __init__(self, sign: int, write: Callable[[Any], values.Tree]) -> None:
        self.sign = sign
        self.write = write
        self.objects: dict[int, Any] = {}
        self.keys: dict[int, int] = {}
        self.count = 0
        self.groups: list[Group] = []
        self.lasting: list[tuple[Any, list[str]]] = []
        """What is kept in step to the end, and how it looked: instances of the program's own lists and the like."""

    def add(self, value: Any, key: int | None = None) -> int:
        """Share a container, under a new key or the other side's."""
        if key is None:
            self.count += 1
            key = self.sign * self.count
        self.objects[key] = value
        self.keys[id(value)] = key
        return key

    def begin(self, group: Group) -> None:
        """Keep a group in step from now on: both sides agree on how it looks."""
        group.roots = {key: said for key, said in group.roots.items() if key in self.objects}
        for key, said in group.roots.items():
            if said is None:
                group.roots[key] = exchange.dump(self.write(self.objects[key]))
        self.groups = [known for known in self.groups if not known.roots.keys() <= group.roots.keys()]
        self.groups.append(group)

    def keep(self, value: Any) -> None:
        """Keep an instance of the program's own class in step to the end."""
        if len(self.lasting) < MAX_CONTAINERS:
            self.lasting.append((value, [exchange.dump(self.write(value))]))

    def is_held(self, group: Group) -> bool:
        """Whether anyone but this table holds a container of a group: else it can't change any more."""
        for key in group.keys:
            value = self.objects[key]
            count = sys.getrefcount(value) - OWN_REFERENCES
            if count > (key not in group.roots):  # an inner one is in its outer one
                return True
        return False

    def forget(self, group: Group) -> None:
        """A group that is no longer kept in step."""
        if not group.keys:
            return
        self.groups = [known for known in self.groups if known is not group]
        living = set().union(*(known.keys for known in self.groups))
        for key in group.keys - living:
            self.keys.pop(id(self.objects.pop(key, None)), None)

    def settle(self) -> None:
        """A call has come to its end: forget what is large or old."""
        large = [known for known in self.groups if sum(len(said or "") for said in known.roots.values()) > MAX_TEXT]
        rest = [known for known in self.groups if known not in large]
        for group in (*large, *rest[:-MAX_GROUPS]):
            self.forget(group)

    def find_changes(self, groups: Iterable[Group]) -> list[values.Tree]:
        """What looks otherwise than when both sides last agreed."""
        changes = []
        for group in groups:
            for key, said in group.roots.items():
                tree = self.write(self.objects[key])
                text = exchange.dump(tree)
                if text != said:
                    group.roots[key] = text
                    changes.append(tree)
        return changes

    def agree(self, changed: list[Any]) -> None:
        """These containers have been brought to what the other side has."""
        numbers = set(map(id, changed))
        for group in self.groups:
            for key in group.roots:
                if id(self.objects[key]) in numbers:
                    group.roots[key] = exchange.dump(self.write(self.objects[key]))
        for value, said in self.lasting:
            if id(value) in numbers:
                said[0] = exchange.dump(self.write(value))

    def find_all_changes(self) -> list[values.Tree]:
        changes = self.find_changes(self.groups)
        for value, said in self.lasting:
            tree = self.write(value)
            if (text := exchange.dump(tree)) != said[0]:
                said[0] = text
                changes.append(tree)
        return changes


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
