"""Who owns which field, for server-side apply: the plugin, or everybody else.

As on the server, a value that somebody else changes is no longer the plugin's, and one that the
plugin applies as it is belongs to both. Its own updates and patches count as somebody else's: they
are another entry of `managedFields`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from .documents import Path, at, insert, leaves, remove
from .parts import Object

_SETS: dict[Path, str | None] = {
    ("metadata", "finalizers"): None,
    ("metadata", "ownerReferences"): "uid",
}
"""Lists that are sets, because their elements have separate owners, and what tells these apart."""


def _merge_set(value: Object, path: Path, before: Object, wanted: list[Any]) -> None:
    """Replaces the elements of a set that the plugin had applied. Those of others stay."""
    key = _SETS[path]

    def identity(element: Any) -> Any:
        return element.get(key) if key else element

    own = [identity(element) for element in [*(at(before, path) or []), *wanted]]
    others = [each for each in at(value, path) or [] if identity(each) not in own]
    remove(value, path)
    if others or wanted:
        insert(value, path, [*others, *wanted])


class Foreign(Exception):
    """Somebody else owns a field with another value."""


@dataclass
class Owned:
    """What the plugin has applied to an object or to its status, as far as it still owns that."""

    fields: Any = field(default_factory=dict)
    shared: set[Path] = field(default_factory=set)
    """The paths of those values that somebody else owns as well."""

    def check(self, value: Object, wanted: Any, force: bool) -> set[Path]:
        """Which of the applied values are somebody else's as well. Raises `Foreign`."""
        own = leaves(self.fields) - self.shared
        foreign = {
            path
            for path in leaves(wanted) - own
            if path not in _SETS and at(value, path) is not None
        }
        shared = {path for path in foreign if _is_as(at(value, path), at(wanted, path))}
        if foreign > shared and not force:
            path = min(foreign - shared)
            raise Foreign(
                f"conflict with another manager: .{'.'.join(path)}; with force an apply takes them "
                "over"
            )
        return shared

    def replace(self, value: Object, wanted: Any) -> None:
        """Replaces what was applied to an object by what is wanted."""
        own, claimed = leaves(self.fields), leaves(wanted)
        for path in sorted(own - claimed):
            if path in _SETS:
                _merge_set(value, path, self.fields, [])
            # The current members of what was an empty object belong to others.
            elif path not in self.shared and not (at(self.fields, path) == {} and at(value, path)):
                remove(value, path)
        for path in sorted(claimed):
            if path in _SETS:
                _merge_set(value, path, self.fields, at(wanted, path))
            else:
                insert(value, path, at(wanted, path))

    def disown(self, before: Object, after: Object) -> None:
        """Another write has changed the object. What has changed is no longer the plugin's."""
        kept = copy.deepcopy(self.fields)
        for path in leaves(self.fields) - set(_SETS):
            if not _is_as(at(after, path), at(before, path)):
                remove(kept, path)
        self.fields = kept


def _is_as(have: Any, want: Any) -> bool:
    """Whether a value is as it is wanted. An empty object claims that there is an object, but none
    of its members."""
    return bool(have == want or (want == {} and isinstance(have, dict)))
