"""Linked lists and binary trees as LeetCode hands them to programs: in a test they are lists.

    ListNode   [1, 2, 3]; the empty list is None
    TreeNode   level by level, null for a child that is missing: [1, null, 2, 3]; the empty tree is None

A list becomes nodes where the signature names their class, and nodes become a list wherever they are found.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat, zip_longest
from typing import Any, NamedTuple

from . import values

Reader = Callable[[Any], Iterator[Any]]
_NAME = re.compile(r"\b(?:ListNode|TreeNode)\b")
_SEQUENCE = re.compile(r"\b(?:list|sequence|iterable|collection|tuple)\[", re.IGNORECASE)
_MAPPING = re.compile(r"\b(?:dict|mapping)\[", re.IGNORECASE)


class ListNode:
    """For programs that have the class in a comment only."""

    __module__ = "program"

    def __init__(self, val: Any = 0, next: "ListNode | None" = None) -> None:
        self.val = val
        self.next = next


class TreeNode:
    """For programs that have the class in a comment only."""

    __module__ = "program"

    def __init__(self, val: Any = 0, left: "TreeNode | None" = None, right: "TreeNode | None" = None) -> None:
        self.val = val
        self.left = left
        self.right = right


CLASSES: dict[str, type] = {"ListNode": ListNode, "TreeNode": TreeNode}


def are_mentioned(source: bytes) -> bool:
    """Whether a program may have to do with nodes at all."""
    return b"ListNode" in source or b"TreeNode" in source


class Shape(NamedTuple):
    """What an annotation says of nodes: `List[List[TreeNode]]` is `TreeNode` at depth 2."""

    name: str
    depth: int

    @property
    def inner(self) -> "Shape":
        """The shape of the items."""
        return Shape(self.name, self.depth - 1)


def read_shape(annotation: str) -> Shape | None:
    """The nodes in an annotation's text. None: there are none, or they are a dictionary's."""
    found = _NAME.search(annotation)
    if found is None or _MAPPING.search(annotation):
        return None
    return Shape(found[0], len(_SEQUENCE.findall(annotation[: found.start()])))


class Forge:
    """Makes nodes for a function's arguments, of the program's own classes where it has some, and reads them again."""

    def __init__(self, scope: dict[str, Any], parameters: list[str], returned: str) -> None:
        """`parameters` and `returned` are the annotations of the function."""
        self.parameters = [read_shape(annotation) for annotation in parameters]
        self.returned = read_shape(returned)
        self.classes = {name: scope.get(name, known) for name, known in CLASSES.items()}
        self.readers: dict[Any, Reader] = {
            ListNode: list_values, self.classes["ListNode"]: list_values,
            TreeNode: tree_values, self.classes["TreeNode"]: tree_values,
        }  # fmt: skip

    def build_arguments(self, arguments: list[Any]) -> list[Any]:
        """The arguments as the signature wants them."""
        return [self.build(*pair) for pair in zip_longest(arguments, self.parameters[: len(arguments)])]

    def build(self, value: Any, shape: Shape | None) -> Any:
        """Nodes for a list. What doesn't have the shape stays as it is."""
        if shape is None or type(value) is not list:
            return value
        if shape.depth:
            return [self.build(item, shape.inner) for item in value]
        return (build_list if shape.name == "ListNode" else build_tree)(value, self.classes[shape.name])

    def fill_arguments(self, arguments: list[Any]) -> list[Any]:
        """The arguments, with an empty list for each empty linked list or tree."""
        return [fill_in(*pair) for pair in zip_longest(arguments, self.parameters[: len(arguments)])]

    def find_reader(self, kind: type) -> Reader | None:
        """How objects of a class are read, if they are nodes."""
        return next((self.readers[base] for base in kind.__mro__ if base in self.readers), None)


def fill_in(value: Any, shape: Shape | None) -> Any:
    """A value with an empty list for each None that stands for an empty linked list or tree."""
    if shape is None:
        return value
    if not shape.depth:
        return [] if value is None else value
    return [fill_in(item, shape.inner) for item in value] if type(value) in (list, tuple) else value


def build_list(items: list[Any], kind: Callable[[Any], Any]) -> Any:
    """The first node of a linked list, or None."""
    node = None
    for item in reversed(items):
        following, node = node, kind(item)
        node.next = following
    return node


def build_tree(items: list[Any], kind: Callable[[Any], Any]) -> Any:
    """The root of a binary tree, or None."""
    if not items or items[0] is None:
        return None
    root = kind(items[0])
    parents, rest = deque([root]), iter(items[1:])
    for left in rest:
        if not parents:
            break
        parent = parents.popleft()
        for side, item in (("left", left), ("right", next(rest, None))):
            if item is not None:
                child = kind(item)
                setattr(parent, side, child)
                parents.append(child)
    return root


def list_values(node: Any) -> Iterator[Any]:
    """The values of a linked list.

    Raises:
        Unencodable: it has no end.
    """
    known = {}
    while node is not None:
        if id(node) in known:
            raise values.Unencodable("the linked list runs in a circle")
        known[id(node)] = node
        yield node.val
        node = node.next


def tree_values(root: Any) -> Iterator[Any]:
    """The values of a binary tree level by level, None for a missing child that another node comes after.

    One node may stand at several places (programs share equal subtrees), but not beneath itself.

    Raises:
        Unencodable: it does.
    """
    known: dict[int, Any] = {}
    level, depth, missing = [root], 0, 0
    while any(node is not None for node in level):
        depth += 1
        known.update((id(node), node) for node in level if node is not None)
        if depth > len(known):
            raise values.Unencodable("a node of the tree is beneath itself")
        following = []
        for node in level:
            if node is None:
                missing += 1
                continue
            yield from repeat(None, missing)
            missing = 0
            yield node.val
            following += [node.left, node.right]
        level = following
