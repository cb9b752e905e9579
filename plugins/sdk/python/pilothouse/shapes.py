"""Reads JSON documents into dataclasses, and refuses what does not fit by its place and name.

A class says of each field how its value is read (`member`), so that a new member of a document is
added in one place. The messages are those of the host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from .paths import quoted
from .selectors import SelectorError, cut, parse_labels

Read = Callable[[Any, str], Any]
"""Reads a value at a place of a document. Raises `ShapeError`."""


class ShapeError(ValueError):
    """A value that does not fit, with its place."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}" if place else problem)


def member(read: Read, *, required: bool = False, **options: Any) -> Any:
    """A field of a dataclass that is a member of its document."""
    return dataclasses.field(metadata={"read": read, "required": required}, **options)


def camel(name: str) -> str:
    """`also_enqueued_by` as the document has it: `alsoEnqueuedBy`."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def to_document(value: Any) -> Any:
    """A dataclass as its document, without the members that have their default."""
    if isinstance(value, (list, tuple)):
        return [to_document(each) for each in value]
    if not dataclasses.is_dataclass(value):
        return value
    return {
        camel(field.name): to_document(getattr(value, field.name))
        for field in dataclasses.fields(value)
        if field.metadata["required"] or getattr(value, field.name) != _default(field)
    }


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def record(cls: type) -> Read:
    """Reads a document of this class."""

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            raise _unexpected(value, place, f"struct {cls.__name__}")
        members = {camel(field.name): field for field in dataclasses.fields(cls)}
        found = {}
        for name, said in value.items():
            at = f"{place}.{name}" if place else name
            if name not in members:
                expected = ", ".join(f"`{known}`" for known in members)
                raise ShapeError(at, f"unknown field `{name}`, expected one of {expected}")
            found[members[name].name] = members[name].metadata["read"](said, at)
        for name, field in members.items():
            if field.metadata["required"] and name not in value:
                raise ShapeError(place, f"missing field `{name}`")
        return cls(**found)

    return read


def records(cls: type) -> Read:
    """Reads a list of documents of this class."""
    return sequence(record(cls))


def sequence(read: Read) -> Read:
    """Reads a list of values."""

    def each(value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise _unexpected(value, place, "a sequence")
        return tuple(read(element, f"{place}[{at}]") for at, element in enumerate(value))

    return each


def optional(read: Read) -> Read:
    """Reads a value, or null."""
    return lambda value, place: None if value is None else read(value, place)


def string(value: Any, place: str) -> str:
    """Reads a text."""
    if not isinstance(value, str):
        raise _unexpected(value, place, "a string")
    return value


def boolean(value: Any, place: str) -> bool:
    """Reads true or false."""
    if not isinstance(value, bool):
        raise _unexpected(value, place, "a boolean")
    return value


def unsigned(bits: int) -> Read:
    """Reads a whole number from 0 on that fits into so many bits."""

    def read(value: Any, place: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _unexpected(value, place, f"u{bits}")
        if not 0 <= value < 1 << bits:
            raise ShapeError(place, f"invalid value: integer `{value}`, expected u{bits}")
        return value

    return read


def one_of(*names: str) -> Read:
    """Reads one of these texts."""

    def read(value: Any, place: str) -> str:
        name = string(value, place)
        if name not in names:
            expected = ", ".join(f"`{known}`" for known in names)
            raise ShapeError(place, f"unknown variant `{name}`, expected one of {expected}")
        return name

    return read


def kind(value: Any, place: str) -> str:
    """Reads a kind, `v1/Pod` or `apps/v1/Deployment`, or a pattern."""
    text = string(value, place)
    if not is_kind(text) and not is_pattern(text):
        raise ShapeError(place, not_a_kind(text))
    return text


def is_kind(text: str) -> bool:
    """Whether a text is an `apiVersion`, a slash, and a `kind`."""
    return text.count("/") in (1, 2) and all(text.split("/")) and "*" not in text


def is_pattern(text: str) -> bool:
    """Whether a text is a pattern of kinds: `*`, `apps/*`, or `v1/*` for the core group."""
    group, slash, name = text.partition("/")
    return text == "*" or bool(group and slash and name == "*" and "*" not in group)


def includes(pattern: str, kind: str) -> bool:
    """Whether a kind, or all that another pattern stands for, belongs to a pattern."""
    return is_pattern(pattern) and group_of(pattern) in ("*", group_of(kind))


def group_of(kind: str) -> str:
    """The API group of a kind or a pattern. Of `*` it is `*`."""
    if is_pattern(kind):
        group = kind.partition("/")[0]
        return "" if group == "v1" else group
    *group, _version, _name = kind.split("/")
    return group[0] if group else ""


def not_a_kind(text: str) -> str:
    """Why a text is no kind."""
    return (
        f"{quoted(cut(text, 80))} is not a kind: write apiVersion, a slash and the kind, as in "
        "apps/v1/Deployment or v1/Pod; a pattern is *, apps/* or v1/*"
    )


def kinds(value: Any, place: str) -> tuple[str, ...]:
    """Reads a list of kinds. The place of a wrong one is that of the list."""
    return tuple(kind(text, place) for text in sequence(string)(value, place))


def labels(value: Any, place: str) -> Any:
    """Reads a label selector, and leaves it as it was written."""
    try:
        parse_labels(value)
    except SelectorError as error:
        raise ShapeError(place, str(error)) from None
    return value


def anything(value: Any, _place: str) -> Any:
    """Reads any value."""
    return value


def _unexpected(value: Any, place: str, wanted: str) -> ShapeError:
    return ShapeError(place, f"invalid type: {_shown(value)}, expected {wanted}")


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int):
        return f"integer `{value}`"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return f"string {quoted(value)}"
    if isinstance(value, (list, tuple)):
        return "sequence"
    return "map" if isinstance(value, dict) else f"a {type(value).__name__}"
