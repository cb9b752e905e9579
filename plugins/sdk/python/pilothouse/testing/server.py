"""An API server in memory: what only a server does with a write.

Whether a write is sent at all is decided before, by `planner`. What it does not do is in the
documentation of `FakeCluster`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..check import group_kind
from ..objects import EPOCH, ObjectRef, rfc3339
from ..selectors import LabelSelector
from .documents import (
    Misfit,
    NoPatch,
    Path,
    at,
    insert,
    json_patch,
    leaves,
    merge,
    remove,
)

_SERVERS = (
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
)
"""Fields of `metadata` that only the server sets."""

Object = dict[str, Any]


@dataclass
class Write:
    """One request that changes one object, or an Event."""

    verb: str
    """`apply`, `create`, `update`, `patch`, `delete`, `delete-all` or `event`."""
    ref: ObjectRef
    subresource: str | None = None
    body: Any = None
    force: bool = False
    patch_type: str = "merge-patch"
    uid: str | None = None
    resource_version: str | None = None
    intent: Any = None
    """Of an apply: what to remember once it is accepted."""
    is_finalizer_removal: bool = False
    is_creation: bool = False
    """Of an apply: whether it may only create its object."""
    note: dict[str, Any] = field(default_factory=dict)
    """Of an Event: what it says."""
    labels: LabelSelector = LabelSelector()
    """Of a deletion of all objects: which."""


class Refused(Exception):
    """The server refuses a write."""

    def __init__(self, result: str, status: str, text: str) -> None:
        super().__init__(text)
        self.result = result
        self.status = status


def _conflict(text: str) -> Refused:
    return Refused("conflict", "HTTP 409 Conflict", text)


def _not_found(ref: ObjectRef) -> Refused:
    return Refused("not-found", "HTTP 404 NotFound", f"{ref} not found")


def _invalid(text: str) -> Refused:
    return Refused("invalid", "HTTP 422 Invalid", text)


def metadata_of(value: Object) -> Object:
    """An object's metadata."""
    found: Object = value.get("metadata") or {}
    return found


def ref_of(value: Object) -> ObjectRef:
    """The name of an object. Raises `ValueError` for one that has none."""
    metadata = metadata_of(value)
    if not (value.get("apiVersion") and value.get("kind") and metadata.get("name")):
        raise ValueError(f"an object of a test has apiVersion, kind and metadata.name: {value!r}")
    kind = f"{value['apiVersion']}/{value['kind']}"
    return ObjectRef(kind, metadata.get("namespace") or "", metadata["name"])


class Server:
    """The objects, and what the plugin has applied to them."""

    def __init__(self) -> None:
        self._objects: dict[ObjectRef, Object] = {}
        self._applied: dict[tuple[ObjectRef, str | None], Any] = {}
        self._unseen: dict[ObjectRef, Object | None] = {}
        """What the watches still show of objects that they have not brought as they are."""
        self._version = 1_000
        self.now: datetime = EPOCH
        self.events: list[tuple[ObjectRef, dict[str, Any]]] = []

    def get(self, ref: ObjectRef) -> Object | None:
        """An object as it is stored."""
        return self._objects.get(ref)

    def all(self, kind: str) -> Iterator[Object]:
        """All objects of a kind, ordered by namespace and name."""
        refs = sorted(ref for ref in self._objects if ref.kind == kind)
        return (self._objects[ref] for ref in refs)

    def seen(self, ref: ObjectRef) -> Object | None:
        """An object as the watches have brought it."""
        return self._unseen[ref] if ref in self._unseen else self.get(ref)

    def all_seen(self, kind: str | None = None) -> Iterator[Object]:
        """The objects (of a kind) as the watches have brought them, ordered as in `all`."""
        refs = sorted(ref for ref in self._objects if kind in (None, ref.kind))
        wanted = (self.seen(ref) for ref in refs)
        return (value for value in wanted if value is not None)

    def hide(self, value: Object) -> None:
        """Stores an object as `place` does, which no watch brings yet."""
        ref, before = self.place(value)
        self._unseen.setdefault(ref, before)

    def bring(self, ref: ObjectRef, before: Object | None) -> tuple[Object | None, Object | None]:
        """The watches bring an object, which they have shown as it was `before` unless it was
        unseen. Returns what they have shown, and what they show now."""
        return self._unseen.pop(ref, before), self.get(ref)

    def unseen(self, kind: str) -> list[ObjectRef]:
        """The objects of a kind that the watches have not brought as they are."""
        return [ref for ref in self._unseen if ref.kind == kind]

    def collection(self, kind: str, namespace: str, labels: LabelSelector) -> list[ObjectRef]:
        """All objects of a kind in a namespace that a selector selects."""
        return [
            ref_of(each)
            for each in self.all(kind)
            if (metadata_of(each).get("namespace") or "") == namespace
            and labels.matches(metadata_of(each).get("labels") or {})
        ]

    def place(self, value: Object) -> tuple[ObjectRef, Object | None]:
        """Stores an object as it is. One without a resourceVersion, or with that of an object that
        it changes, gets the next one. Returns its name, and what was stored before."""
        new, ref = copy.deepcopy(value), ref_of(value)
        have = self._objects.get(ref)
        metadata = new["metadata"]
        names = ("uid", "resourceVersion")
        is_same = have and all(metadata_of(have).get(name) == metadata.get(name) for name in names)
        if not _version_of(new) or (is_same and have != new):
            metadata["resourceVersion"] = self._next_version()
        elif metadata["resourceVersion"].isdecimal():
            self._version = max(self._version, int(metadata["resourceVersion"]))
        self._objects[ref] = new
        return ref, have

    def write(self, write: Write) -> str | None:
        """Carries out a write. Returns the resourceVersion that it has left. Raises `Refused`."""
        if write.verb == "event":
            self.events.append((write.ref, write.note))
            return None
        if write.subresource not in (None, "status"):
            return None
        method = getattr(self, f"_{write.verb}")
        version: str | None = method(write)
        return version

    def delete(self, ref: ObjectRef) -> None:
        """Deletes an object, or marks it as being deleted while it has finalizers."""
        self._delete(Write("delete", ref))

    def _apply(self, write: Write) -> str | None:
        current = self.get(write.ref)
        if write.subresource and current is None:
            raise _not_found(write.ref)
        _check_preconditions(current, write.body)
        wanted, target = _own_part(write.body, write.subresource), (write.ref, write.subresource)
        before = self._applied.get(target, {})
        owned, claimed = leaves(before), leaves(wanted)
        new = copy.deepcopy(current) if current else _nothing_of(write.ref)
        if not write.force:
            _check_conflicts(new, wanted, claimed - owned)
        for path in sorted(owned - claimed):
            if path in _SETS:
                _merge_set(new, path, before, [])
            # The current members of what was an empty object belong to others.
            elif not (at(before, path) == {} and at(new, path)):
                remove(new, path)
        for path in sorted(claimed):
            if path in _SETS:
                _merge_set(new, path, before, at(wanted, path))
            else:
                insert(new, path, at(wanted, path))
        version = self._store(write.ref, new, current)
        self._applied[target] = copy.deepcopy(wanted)
        return version

    def _create(self, write: Write) -> str | None:
        if self.get(write.ref) is not None:
            text = f"{write.ref} already exists"
            raise Refused("already-exists", "HTTP 409 AlreadyExists", text)
        new = merge(_nothing_of(write.ref), _own_part(write.body, None))
        return self._store(write.ref, new, None)

    def _update(self, write: Write) -> str | None:
        current = self._existing(write.ref)
        _check_preconditions(current, write.body)
        new = _replaced(current, write.body, write.subresource)
        return self._store(write.ref, new, current)

    def _patch(self, write: Write) -> str | None:
        current = self._existing(write.ref)
        if write.patch_type == "strategic-merge-patch":
            raise NotImplementedError(
                "FakeCluster cannot do a strategic merge patch: it knows no schemas"
            )
        try:
            is_json = write.patch_type == "json-patch"
            patched = (json_patch if is_json else merge)(current, write.body)
        except Misfit as error:
            raise _conflict(str(error)) from None
        except NoPatch as error:
            raise _invalid(str(error)) from None
        if isinstance(write.body, dict):
            _check_preconditions(current, write.body)
        return self._store(write.ref, _replaced(current, patched, write.subresource), current)

    def _delete(self, write: Write) -> str | None:
        current = self.get(write.ref)
        if current is None:
            return None  # What is gone already is as the delete wants it.
        said = {"uid": write.uid, "resourceVersion": write.resource_version}
        _check_preconditions(current, {"metadata": said})
        new = copy.deepcopy(current)
        new["metadata"].setdefault("deletionTimestamp", rfc3339(self.now))
        return self._store(write.ref, new, current)

    def _existing(self, ref: ObjectRef) -> Object:
        current = self.get(ref)
        if current is None:
            raise _not_found(ref)
        return current

    def _store(self, ref: ObjectRef, new: Object, current: Object | None) -> str | None:
        """Stores what a write has made of an object, with the fields that the server maintains."""
        if current == new:
            return _version_of(new)
        new = copy.deepcopy(new)
        metadata = new["metadata"]
        finalizers = metadata.get("finalizers") or []
        had = metadata_of(current or {}).get("finalizers") or []
        is_ending = bool(metadata.get("deletionTimestamp"))
        if is_ending and not set(finalizers) <= set(had):
            raise _invalid(f"{ref} is being deleted: it takes no new finalizers")
        version = metadata["resourceVersion"] = self._next_version()
        if current is None:
            metadata["uid"] = f"uid-{version}"
            metadata["creationTimestamp"] = rfc3339(self.now)
            if "spec" in new:
                metadata["generation"] = 1
        elif _main_part(current) != _main_part(new) and "generation" in metadata:
            metadata["generation"] += 1
        new["metadata"] = {name: value for name, value in metadata.items() if value is not None}
        if is_ending and not finalizers:
            del self._objects[ref]
            gone = [target for target in self._applied if target[0] == ref]
            for target in gone:
                del self._applied[target]
        else:
            self._objects[ref] = new
        return version

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)


def address(ref: ObjectRef) -> tuple[str, str, str, str]:
    """An object that is written, in any version of its kind."""
    return (*group_kind(ref.kind), ref.namespace, ref.name)


def _check_preconditions(current: Object | None, body: Object) -> None:
    """Whether an object is the one, and at the version, that a body names, if it names them. An
    apply that names a version creates an object all the same."""
    said, have = metadata_of(body), metadata_of(current or {})
    for name in ("uid", "resourceVersion") if current else ("uid",):
        wanted = said.get(name)
        if (
            wanted
            and not (name == "resourceVersion" and wanted == "0")
            and have.get(name) != wanted
        ):
            raise _conflict(
                f"the precondition {name} {wanted!r} does not hold: it is {have.get(name, '')!r}"
            )


def _check_conflicts(current: Object, wanted: Any, new: set[Path]) -> None:
    for path in sorted(new):
        have, want = at(current, path), at(wanted, path)
        # An empty object claims that there is an object, but none of its members.
        is_met = have == want or (want == {} and isinstance(have, dict))
        if path not in _SETS and have is not None and not is_met:
            raise _conflict(
                f"conflict with another manager: .{'.'.join(path)}; with force an apply takes them "
                "over"
            )


def _nothing_of(ref: ObjectRef) -> Object:
    metadata = {"name": ref.name}
    if ref.namespace:
        metadata["namespace"] = ref.namespace
    name = ref.kind.rpartition("/")[2]
    return {"apiVersion": ref.api_version, "kind": name, "metadata": metadata}


def _main_part(value: Object) -> Object:
    return {name: value[name] for name in value if name not in ("metadata", "status")}


def _own_part(body: Object, subresource: str | None) -> Object:
    """The part of a body that a write to the object, or to its `status`, can set."""
    if subresource:
        return {"status": body.get("status")}
    own = {name: body[name] for name in body if name not in ("apiVersion", "kind", "status")}
    metadata = {name: value for name, value in metadata_of(body).items() if name not in _SERVERS}
    own.pop("metadata", None)
    return {**own, "metadata": metadata} if metadata else own


def _replaced(current: Object, body: Object, subresource: str | None) -> Object:
    """The object after it, or its subresource, was replaced, as far as such a write can."""
    source, target = (body, dict(current)) if subresource else (current, dict(body))
    if "status" in source:
        target["status"] = copy.deepcopy(source["status"])
    else:
        target.pop("status", None)
    if subresource:
        return target
    metadata, have = dict(metadata_of(body)), metadata_of(current)
    for name in _SERVERS:
        metadata.pop(name, None)
    metadata.update((name, have[name]) for name in _SERVERS if name in have)
    if "finalizers" not in metadata and "finalizers" in have:
        metadata["finalizers"] = have["finalizers"]
    return {**copy.deepcopy(target), "metadata": copy.deepcopy(metadata)}


def _version_of(value: Object) -> str | None:
    """The resourceVersion of an object. Empty and "0" mean any version and give None."""
    version = metadata_of(value).get("resourceVersion")
    return version if version not in ("", "0") else None


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
