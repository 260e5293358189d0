"""Finds the value of a path, by a trie of segments that is built once."""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class _Node(Generic[T]):
    __slots__ = ("children", "entry", "parameter")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.parameter: _Node[T] | None = None
        self.entry: T | None = None


class Router(Generic[T]):
    """Finds the value of a path template such as `/bookings/{id}`. A literal segment takes
    precedence over a parameter; a parameter is never empty; a trailing slash is significant."""

    def __init__(self, entries: Iterable[tuple[str, T]]) -> None:
        self._root: _Node[T] = _Node()
        self._literal: dict[str, T] = {}
        for path, entry in entries:
            if "{" not in path:
                self._literal[path] = entry
            else:
                self._node(path).entry = entry

    def _node(self, path: str) -> _Node[T]:
        node = self._root
        for segment in path.split("/"):
            if segment.startswith("{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.children.setdefault(segment, _Node())
        return node

    def find(self, path: str) -> tuple[T, Sequence[str]] | None:
        """Return the value at a path and the texts of its parameters in order."""
        if (entry := self._literal.get(path)) is not None:
            return entry, ()
        node, parameters = self._root, []
        for segment in path.split("/"):
            if (child := node.children.get(segment)) is None:
                if not segment or (child := node.parameter) is None:
                    return None
                parameters.append(segment)
            node = child
        return None if node.entry is None else (node.entry, parameters)
