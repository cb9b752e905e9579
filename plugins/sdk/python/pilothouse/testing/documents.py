"""Edits JSON documents: the fields of an apply, merge patches (RFC 7386) and JSON Patches (RFC
6902)."""

from __future__ import annotations

import copy
from typing import Any

Path = tuple[str, ...]


class Misfit(Exception):
    """A JSON Patch does not fit the object as it is."""


class NoPatch(Exception):
    """The body is not a JSON Patch."""


def leaves(value: Any, path: Path = ()) -> set[Path]:
    """The paths of all values that an apply sets: everything except objects that have members."""
    if isinstance(value, dict) and value:
        return set().union(*(leaves(below, (*path, name)) for name, below in value.items()))
    # A null in an apply sets nothing.
    return set() if value is None or not path else {path}


def at(value: Any, path: Path) -> Any:
    """The value at a path of names. None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def insert(value: dict[str, Any], path: Path, new: Any) -> None:
    """Sets the value at a path, and makes the objects that lead there."""
    *above, name = path
    for step in above:
        if not isinstance(value.get(step), dict):
            value[step] = {}
        value = value[step]
    if not (new == {} and isinstance(value.get(name), dict)):
        value[name] = copy.deepcopy(new)


def remove(value: Any, path: Path) -> None:
    """Removes a value, and the objects that become empty thereby."""
    name, *rest = path
    if not isinstance(value, dict) or name not in value:
        return
    if rest:
        remove(value[name], tuple(rest))
        if value[name] != {}:
            return
    del value[name]


def merge(value: Any, patch: Any) -> Any:
    """The value after a merge patch."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(value) if isinstance(value, dict) else {}
    for name, new in patch.items():
        if new is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), new)
    return merged


def json_patch(value: Any, steps: list[dict[str, Any]]) -> Any:
    """The value after a JSON Patch. As on the server, a test takes an absent value as null.

    Raises `Misfit` and `NoPatch`.
    """
    value = copy.deepcopy(value)
    for step in steps:
        path, operation = pointer(step.get("path", "")), step.get("op")
        if operation == "test":
            if _found(value, path) != step.get("value"):
                raise Misfit(f"the test of {step.get('path', '')} failed")
        elif operation == "add":
            value = _add(value, path, step.get("value"))
        elif operation == "replace":
            _take(value, path)
            value = _add(value, path, step.get("value"))
        elif operation == "remove":
            _take(value, path)
        elif operation == "move":
            value = _add(value, path, _take(value, pointer(step.get("from", ""))))
        elif operation == "copy":
            place, name = _parent(value, pointer(step.get("from", "")))
            value = _add(value, path, _member(place, name, step.get("from", "")))
        else:
            raise NoPatch(f"{operation!r} is not an operation of a JSON Patch")
    return value


def pointer(text: str) -> Path:
    """The names of a JSON Pointer (RFC 6901). Raises `NoPatch`."""
    if not text:
        return ()
    if not text.startswith("/"):
        raise NoPatch(f'"{text}" is not a JSON Pointer; it is empty or begins with /')
    return tuple(name.replace("~1", "/").replace("~0", "~") for name in text[1:].split("/"))


def _missing(path: Any) -> Misfit:
    return Misfit(f"there is no value at {path!r}")


def _member(place: Any, name: str, path: Any) -> Any:
    try:
        return copy.deepcopy(place[int(name)] if isinstance(place, list) else place[name])
    except (KeyError, IndexError, ValueError, TypeError):
        raise _missing(path) from None


def _parent(value: Any, path: Path) -> tuple[Any, str]:
    if not path:
        raise _missing("")
    for name in path[:-1]:
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise _missing("/".join(path)) from None
    return value, path[-1]


def _found(value: Any, path: Path) -> Any:
    try:
        return _member(*_parent(value, path), path) if path else value
    except Misfit:
        return None


def _add(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    place, name = _parent(value, path)
    if isinstance(place, dict):
        place[name] = copy.deepcopy(new)
    elif isinstance(place, list):
        index = len(place) if name == "-" else int(name) if name.isdecimal() else -1
        if not 0 <= index <= len(place):
            raise _missing("/".join(path))
        place.insert(index, copy.deepcopy(new))
    else:
        raise _missing("/".join(path))
    return value


def _take(value: Any, path: Path) -> Any:
    place, name = _parent(value, path)
    taken = _member(place, name, "/".join(path))
    del place[int(name) if isinstance(place, list) else name]
    return taken
