"""Field paths, as a manifest writes them: `.spec.ports[*].name`, `.metadata.labels['a/b']`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

EACH = object()
"""The step `[*]`: every element of a list, every value of a map."""

MAX_STEPS = 64
_SHOWN = 200


class FieldPathError(ValueError):
    """A text that is no field path."""

    def __init__(self, path: str, problem: str, at: int) -> None:
        super().__init__(
            f"field path {quoted(path)}: {problem} at byte {at}; write .name, ['name'] or [*]"
        )


def quoted(text: str) -> str:
    """A text in double quotes, as the host's messages show it."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(char, char) for char in text) + '"'


def parse_path(path: str) -> list[Any]:
    """The steps of a path: names, and `EACH`. Raises `FieldPathError`."""
    steps: list[Any] = []
    rest = path
    while rest:
        at = len(path.encode()) - len(rest.encode())
        try:
            step, rest = _step(rest)
        except ValueError as problem:
            raise FieldPathError(path, str(problem), at) from None
        steps.append(step)
        if len(steps) > MAX_STEPS:
            at = len(path.encode()) - len(rest.encode())
            raise FieldPathError(path[:_SHOWN], "has too many steps", at)
    if not steps:
        raise FieldPathError(path, "is empty", 0)
    return steps


def _step(text: str) -> tuple[Any, str]:
    if text.startswith("[*]"):
        return EACH, text[3:]
    if text.startswith("['"):
        name, quote, after = text[2:].partition("']")
        if not quote:
            raise ValueError("no closing ']")
        return name, after
    if not text.startswith("."):
        raise ValueError("a step must begin with . or [")
    named = text[1:]
    end = min((at for at in (named.find("."), named.find("[")) if at >= 0), default=len(named))
    if end == 0:
        raise ValueError("a name is missing")
    return named[:end], named[end:]


def values_at(value: Any, steps: list[Any]) -> Iterator[str]:
    """The strings, numbers and booleans that a path leads to, as text."""
    if not steps:
        if value is None or isinstance(value, (dict, list)):
            return
        yield value if isinstance(value, str) else _scalar(value)
        return
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        below: Iterable[Any] = value.values() if step is EACH else [value.get(step)]
    elif isinstance(value, list) and step is EACH:
        below = value
    else:
        return
    for each in below:
        yield from values_at(each, rest)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Projection:
    """Cuts objects down to some of their fields, as the host does.

    The result has the shape of the whole object: parents stay, elements of a list keep their
    positions, and a value that has not the shape that a path expects is None.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._root = _Node()
        for path in paths:
            node = self._root
            for step in parse_path(path):
                node = node.below.setdefault(step, _Node())
            node.is_kept = True

    def cut(self, value: Any) -> Any:
        """The wanted parts of a value, which is not copied."""
        return _cut(value, [self._root])

    def keeps(self, names: Iterable[str]) -> bool:
        """Whether the value at this path is kept whole. A position in a list is a name, too."""
        nodes = [self._root]
        for name in names:
            if any(node.is_kept for node in nodes):
                return True
            nodes = _member(nodes, name)
        return any(node.is_kept for node in nodes)


class _Node:
    """How all paths go on from one position."""

    def __init__(self) -> None:
        self.is_kept = False
        self.below: dict[Any, _Node] = {}


def _member(nodes: list[_Node], name: str) -> list[_Node]:
    return [node.below[step] for node in nodes for step in (name, EACH) if step in node.below]


def _cut(value: Any, nodes: list[_Node]) -> Any:
    if any(node.is_kept for node in nodes):
        return value
    if isinstance(value, dict):
        found = ((name, _member(nodes, name)) for name in value)
        return {name: _cut(value[name], below) for name, below in found if below}
    each = [node.below[EACH] for node in nodes if EACH in node.below]
    if isinstance(value, list) and each:
        return [_cut(element, each) for element in value]
    return None
