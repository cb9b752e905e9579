"""Actions: the writes that a reconcile asks for, and what became of them.

An action is only a value: the host checks the whole outcome before it performs any of it. Each
class here is a record of `wit/changes.wit`, with the same fields in the same order, so that a new
action, or a new field of one, is added in one place.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .objects import ObjectRef

PATCH_TYPES = ("json-patch", "merge-patch", "strategic-merge-patch")
PROPAGATIONS = ("background", "foreground", "orphan")
EVENT_TYPES = ("normal", "warning")


def to_json(document: Any) -> str:
    """A document as JSON text. Raises `TypeError` or `ValueError` for what has no JSON form."""
    return json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def selector_text(labels: str | Mapping[str, Any] | None) -> str | None:
    """A label selector as text: as kubectl writes it, or a LabelSelector as JSON."""
    return labels if labels is None or isinstance(labels, str) else to_json(labels)


def choice(type_name: str, names: tuple[str, ...], **options: Any) -> Any:
    """A field that is a case of an enum of the contract."""
    return dataclasses.field(metadata={"enum": type_name, "names": names}, **options)


def document(**options: Any) -> Any:
    """A field that crosses to the host as JSON text."""
    return dataclasses.field(metadata={"is_document": True}, **options)


def kebab(name: str) -> str:
    """A name of a type as the contract has it: `delete-all`."""
    words = "".join(f"-{char.lower()}" if char.isupper() else char for char in name)
    return words.removeprefix("-")


@dataclass(frozen=True)
class Action:
    """One write."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, names = getattr(self, field.name), field.metadata.get("names")
            if names and value is not None and value not in names:
                raise ValueError(f"{field.name} is {value!r}, and not one of {', '.join(names)}")
            if field.type == "ObjectRef" and not isinstance(value, ObjectRef):
                raise TypeError(f"{field.name} is {value!r}, and not an ObjectRef")

    @property
    def verb(self) -> str:
        """What the action is called in the contract: `apply`, `delete-all`."""
        return kebab(type(self).__name__)

    def to_json(self) -> dict[str, Any]:
        """The action as data, for comparisons: `{"apply": {"object": {…}, "force": True}}`.

        The names are those of the contract. Options that are not set are left out.
        """
        members = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, ObjectRef):
                value = value._asdict()
            if value is not None:
                members[field.name.replace("_", "-")] = value
        return {self.verb: json.loads(to_json(members))}


@dataclass(frozen=True)
class Apply(Action):
    """Server-side apply of `object`: a whole object, or only the fields to set.

    `subresource`: `status`, `scale`. `force` takes over fields that another field manager owns;
    without it, applying such a field is a conflict.
    """

    object: dict[str, Any] = document()
    subresource: str | None = None
    force: bool = False


@dataclass(frozen=True)
class Create(Action):
    """Creates `object`, or its subresource `eviction` or `binding`.

    With `metadata.generateName` the host derives a name: the same on every retry from the same
    state, and not that of an object that this reconcile has read.
    """

    object: dict[str, Any] = document()
    subresource: str | None = None


@dataclass(frozen=True)
class Update(Action):
    """Replaces an object, at the version that the snapshot shows: else it is a conflict."""

    object: dict[str, Any] = document()
    subresource: str | None = None


@dataclass(frozen=True)
class Patch(Action):
    """Patches an object: a merge patch (RFC 7386), a JSON Patch (RFC 6902), or a strategic one."""

    object: ObjectRef
    subresource: str | None = dataclasses.field(default=None, kw_only=True)
    patch_type: str = choice("PatchType", PATCH_TYPES, default="merge-patch", kw_only=True)
    body: dict[str, Any] | list[Any] = document()


@dataclass(frozen=True)
class Delete(Action):
    """Deletes an object. One that is already gone is success.

    Without `uid` and `resource_version` only the object is deleted that the snapshot shows, and
    only if it has not changed since.
    """

    object: ObjectRef
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = choice("Propagation", PROPAGATIONS, default=None)
    grace_period_seconds: int | None = None


@dataclass(frozen=True)
class DeleteAll(Action):
    """Deletes all objects of a kind in a namespace, as they are on the server: also those that the
    snapshot does not show.

    The namespace of a kind without namespaces is empty. `labels` is a selector as in `host.list`.
    The verb to declare is `deletecollection`, which the operator grants by name only.
    """

    kind: str
    namespace: str
    labels: str | Mapping[str, Any] | None = None
    propagation: str | None = choice("Propagation", PROPAGATIONS, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "labels", selector_text(self.labels))


@dataclass(frozen=True)
class Event(Action):
    """A Kubernetes Event about an object. It never fails the reconcile.

    `reason` and `action` (what was done) are CamelCase, for machines; `note` is for people. Its
    effect is `done` as soon as the host has taken it. The host writes it later, so that the key
    need not wait, and may still drop it.
    """

    object: ObjectRef
    event_type: str = choice("EventType", EVENT_TYPES, default="normal", kw_only=True)
    reason: str
    action: str
    note: str


@dataclass(frozen=True)
class Finalizer(Action):
    """Makes sure that an object has a finalizer, or (`present=False`) that it does not."""

    object: ObjectRef
    name: str
    present: bool = True


@dataclass(frozen=True)
class Children(Action):
    """All objects that should exist for this key.

    The host applies each, and deletes those that it applied for this key before and that are no
    longer listed. At most one in an outcome.
    """

    objects: Sequence[dict[str, Any]] = dataclasses.field(metadata={"is_documents": True})

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", list(self.objects))


@dataclass(frozen=True)
class Call(Action):
    """A request to a source of the manifest. No host offers it yet: such an outcome is refused."""

    source: str
    method: str
    path: str
    body: Any = document(default=None)


@dataclass(frozen=True)
class Answer:
    """What a source has answered to a call."""

    status: int
    """HTTP's status code."""
    body: str
    at: datetime
    """When the answer came, in UTC."""


@dataclass(frozen=True)
class Effect:
    """What became of one write of this key's previous outcome."""

    object: ObjectRef
    """With the name that the host derived from `generateName`. That of `delete-all` has none."""
    verb: str
    """`apply`, `create`, `update`, `patch`, `delete`, `delete-all`, `event`, `finalizer` or
    `call`."""
    result: str
    """`done`, `unchanged`, `skipped`, `conflict`, `already-exists`, `not-found`, `forbidden`,
    `invalid`, `failed` or `answered`."""
    text: str | None = None
    """Of `done`: the object's resourceVersion afterwards. Of an error: why, for people."""
    answer: Answer | None = None
    """Of `answered`."""

    @property
    def is_error(self) -> bool:
        """Whether the write has failed, or was skipped."""
        return self.result not in ("done", "unchanged", "answered")
