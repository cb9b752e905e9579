"""An API server in memory: what only a server does with a write.

Whether a write is sent at all is decided before, by `planner`. What it does not do is in the
documentation of `FakeCluster`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from ..check import group_kind
from ..host import ServedKind
from ..objects import EPOCH, ObjectRef, rfc3339
from ..shapes import group_of
from ..selectors import LabelSelector
from .documents import Misfit, NoPatch, json_patch, merge
from .failing import FailingWrites, Refused, conflict, invalid, not_found
from .ownership import Foreign, Owned
from .parts import (
    Object,
    generation,
    metadata_of,
    nothing_of,
    own_part,
    ref_of,
    replaced,
    version_of,
)

T = TypeVar("T")


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

    @property
    def is_of_one_state(self) -> bool:
        """Whether it creates its object, or names the resourceVersion that it changes: then what it
        changes can be told from what others change."""
        if self.verb == "patch" and self.patch_type == "json-patch":
            tests = [step.get("path") for step in self.body if step.get("op") == "test"]
            return "/metadata/resourceVersion" in tests
        if self.verb in ("apply", "patch"):
            return self.is_creation or "resourceVersion" in self.body.get("metadata", {})
        return True


class Server:
    """The objects, and what the plugin has applied to them."""

    def __init__(self) -> None:
        self._objects: dict[ObjectRef, Object] = {}
        self._owned: dict[ObjectRef, dict[str | None, Owned]] = {}
        """What the plugin owns of each object, and of its `status`."""
        self.failing = FailingWrites()
        self._unseen: dict[ObjectRef, Object | None] = {}
        """What the watches still show of objects that they have not brought as they are."""
        self._version = 1_000
        self._uids = 0
        self.now: datetime = EPOCH
        self.events: list[tuple[ObjectRef, dict[str, Any]]] = []

    def get(self, ref: ObjectRef) -> Object | None:
        """An object as it is stored."""
        return self._objects.get(ref)

    def all(self, kind: str | None) -> Iterator[Object]:
        """All objects of a kind, or of every kind, ordered by kind, namespace and name."""
        refs = sorted(ref for ref in self._objects if kind in (None, ref.kind))
        return (self._objects[ref] for ref in refs)

    def kinds(self) -> list[ServedKind]:
        """The kinds of the objects that are there, as discovery would describe them."""
        scopes: dict[str, bool] = {}
        for ref in self._objects:
            scopes[ref.kind] = scopes.get(ref.kind, False) or bool(ref.namespace)
        found = sorted(scopes, key=lambda kind: (group_of(kind), kind))
        return [_served(kind, scopes[kind]) for kind in found]

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
        """Stores an object as another client would, as far as it says what the server sets; what it
        does not say is as the server would set it. Returns its name, and what was stored before."""
        new, ref = copy.deepcopy(value), ref_of(value)
        have, given = self._objects.get(ref), version_of(value)
        self._complete(new, have)
        metadata = new["metadata"]
        names = ("uid", "resourceVersion")
        is_same = have and all(metadata_of(have).get(name) == metadata.get(name) for name in names)
        if given is None or (is_same and have != new):
            metadata["resourceVersion"] = self._next_version()
        elif given.isdecimal():
            self._version = max(self._version, int(given))
        self._disown(ref, have, new)
        self._objects[ref] = new
        return ref, have

    def _complete(self, new: Object, have: Object | None) -> None:
        """Gives an object of another client what it does not say of uid, creationTimestamp and
        generation: those of the object that it changes, or those of a new object."""
        metadata = new["metadata"]
        if have and metadata.get("uid") not in (None, "", metadata_of(have).get("uid")):
            have = None
        before = metadata_of(have or {})
        if not metadata.get("uid"):
            metadata["uid"] = before.get("uid") or self._next_uid()
        if not metadata.get("creationTimestamp"):
            metadata["creationTimestamp"] = before.get("creationTimestamp") or rfc3339(self.now)
        if "generation" not in metadata and (moved := generation(new, have)) is not None:
            metadata["generation"] = moved

    def _disown(self, ref: ObjectRef, before: Object | None, after: Object | None) -> None:
        """A write has made something else of an object. What has changed no longer belongs to the
        plugin; of an object that is gone or another one, nothing does."""
        uids = [metadata_of(each or {}).get("uid") for each in (before, after)]
        if before is None or after is None or uids[0] != uids[1]:
            self._owned.pop(ref, None)
            return
        for owned in self._owned.get(ref, {}).values():
            owned.disown(before, after)

    def write(self, write: Write) -> str | None:
        """Carries out a write. Returns the resourceVersion that it has left. Raises `Refused`."""
        return self.attempt(write, lambda: self._carry_out(write))

    def attempt(self, write: Write, carry_out: Callable[[], T]) -> T:
        """Carries out a write, unless the test wants it to fail. Raises `Refused`."""
        failing = self.failing.of(write)
        if failing is None:
            return carry_out()
        if failing.is_done:
            with contextlib.suppress(Refused):
                carry_out()
        raise failing.refusal()

    def _carry_out(self, write: Write) -> str | None:
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
            raise not_found(write.ref)
        _check_preconditions(current, write.body)
        wanted = own_part(write.body, write.subresource)
        owned = self._owned.get(write.ref, {}).get(write.subresource, Owned())
        new = copy.deepcopy(current) if current else nothing_of(write.ref)
        try:
            shared = owned.check(new, wanted, write.force)
        except Foreign as error:
            raise conflict(str(error)) from None
        owned.replace(new, wanted)
        version = self._store(write.ref, new, current)
        if self.get(write.ref) is not None:
            applied = Owned(copy.deepcopy(wanted), shared)
            self._owned.setdefault(write.ref, {})[write.subresource] = applied
        return version

    def _create(self, write: Write) -> str | None:
        if self.get(write.ref) is not None:
            text = f"{write.ref} already exists"
            raise Refused("already-exists", "HTTP 409 AlreadyExists", text)
        new = merge(nothing_of(write.ref), own_part(write.body, None))
        return self._store(write.ref, new, None)

    def _update(self, write: Write) -> str | None:
        current = self._existing(write.ref)
        _check_preconditions(current, write.body)
        new = replaced(current, write.body, write.subresource)
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
            raise conflict(str(error)) from None
        except NoPatch as error:
            raise invalid(str(error)) from None
        if isinstance(write.body, dict):
            _check_preconditions(current, write.body)
        return self._store(write.ref, replaced(current, patched, write.subresource), current)

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
            raise not_found(ref)
        return current

    def _store(self, ref: ObjectRef, new: Object, current: Object | None) -> str | None:
        """Stores what a write has made of an object, with the fields that the server maintains."""
        if current == new:
            return version_of(new)
        new = copy.deepcopy(new)
        metadata = new["metadata"]
        finalizers = metadata.get("finalizers") or []
        had = metadata_of(current or {}).get("finalizers") or []
        is_ending = bool(metadata.get("deletionTimestamp"))
        if is_ending and not set(finalizers) <= set(had):
            raise invalid(f"{ref} is being deleted: it takes no new finalizers")
        version = metadata["resourceVersion"] = self._next_version()
        if current is None:
            metadata["uid"] = self._next_uid()
            metadata["creationTimestamp"] = rfc3339(self.now)
        if (moved := generation(new, current)) is not None:
            metadata["generation"] = moved
        new["metadata"] = {name: value for name, value in metadata.items() if value is not None}
        is_gone = is_ending and not finalizers
        self._disown(ref, current, None if is_gone else new)
        if is_gone:
            del self._objects[ref]
        else:
            self._objects[ref] = new
        return version

    def _next_uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    @property
    def version(self) -> int:
        """The version of the last change."""
        return self._version

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
            raise conflict(
                f"the precondition {name} {wanted!r} does not hold: it is {have.get(name, '')!r}"
            )


def _served(kind: str, is_namespaced: bool) -> ServedKind:
    """A kind that supports every verb."""
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    version, name = kind.split("/")[-2:]
    return ServedKind(kind, [version], name.lower() + "s", is_namespaced, verbs, ["status"])
