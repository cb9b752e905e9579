"""A plugin's manifest: what it reconciles, reads and writes.

The members are those of `wit/manifest.schema.json`, in snake_case. `check` has the host's rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import shapes
from .shapes import member

VERBS = ("apply", "create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True)
class Selection:
    """The objects of one kind, or of every kind of a pattern, that a plugin reconciles."""

    kind: str = member(shapes.kind, required=True)
    """`v1/Pod`, `apps/v1/Deployment`, or a pattern that the plugin reads, as `*`. Of a pattern,
    labels and namespaces are all that selects."""
    labels: str | dict[str, Any] = member(shapes.labels, default="", kw_only=True)
    """Only objects with these labels: a selector as kubectl writes it, or a LabelSelector."""
    field_selector: str | None = member(shapes.optional(shapes.string), default=None, kw_only=True)
    """Only objects that match this field selector, in the API server's syntax."""
    namespaces: Sequence[str] = member(shapes.sequence(shapes.string), default=(), kw_only=True)
    """Only objects in these namespaces. Empty: all of them."""
    also_enqueued_by: Sequence[str] = member(shapes.kinds, default=(), kw_only=True)
    """Kinds whose objects have the namespace and name of a reconciled object."""
    optional: bool = member(shapes.boolean, default=False, kw_only=True)
    """The plugin works without this kind."""

    def read(self, fields: Sequence[str] = ()) -> Read:
        """A read of these fields of the selected objects, and of no others.

        The host then neither keeps nor watches the others, and for the plugin there are none: a
        read of another object finds nothing. So objects of the kind cannot be children. Without
        fields: the whole objects.
        """
        return Read(
            self.kind,
            fields,
            namespaces=self.namespaces,
            labels=self.labels,
            field_selector=self.field_selector,
            optional=self.optional,
        )


@dataclass(frozen=True)
class Read:
    """A kind that a plugin reads, how much of each object, and which objects."""

    kind: str = member(shapes.kind, required=True)
    """`v1/Pod`, `apps/v1/Deployment`."""
    fields: Sequence[str] = member(shapes.sequence(shapes.string), default=())
    """The fields that the plugin sees: `.spec.nodeName`. Empty: the whole object."""
    namespaces: Sequence[str] = member(shapes.sequence(shapes.string), default=(), kw_only=True)
    """Only objects in these namespaces. Empty: all of them."""
    labels: str | dict[str, Any] = member(shapes.labels, default="", kw_only=True)
    """Only objects with these labels: a selector as kubectl writes it, or a LabelSelector."""
    field_selector: str | None = member(shapes.optional(shapes.string), default=None, kw_only=True)
    """Only objects that match this field selector, in the API server's syntax."""
    except_: Sequence[str] = member(shapes.kinds, default=(), kw_only=True)
    """Kinds of a pattern that are not read by it."""
    optional: bool = member(shapes.boolean, default=False, kw_only=True)
    """The plugin works without this kind."""


@dataclass(frozen=True)
class Index:
    """A question that the host can answer without looking at every object."""

    name: str = member(shapes.string, required=True)
    """Unique among the plugin's indexes of this kind."""
    kind: str = member(shapes.kind, required=True)
    """`v1/Pod`, `apps/v1/Deployment`."""
    paths: Sequence[str] = member(shapes.sequence(shapes.string), required=True)
    """Where the indexed values lie: `.spec.nodeName`."""


@dataclass(frozen=True)
class Write:
    """Writes to one kind, or to one of its subresources."""

    kind: str = member(shapes.kind, required=True)
    """`v1/Pod`, `apps/v1/Deployment`."""
    verbs: Sequence[str] = member(shapes.sequence(shapes.one_of(*VERBS)), required=True)
    """`apply`, `create`, `update`, `patch`, `delete`, or `deletecollection`, which is for
    `delete_all` and which the operator grants by name only."""
    subresource: str | None = member(shapes.optional(shapes.string), default=None, kw_only=True)
    """`status`, `scale`, `eviction`, `binding`, …. None: the object itself."""
    children: bool = member(shapes.boolean, default=False, kw_only=True)
    """Objects of this kind can be members of a `children` action. `keeps_children` says it."""
    optional: bool = member(shapes.boolean, default=False, kw_only=True)
    """The plugin works without this kind."""


def keeps_children(kind: str) -> Write:
    """The writes of a kind whose objects can be members of a `children` action.

    The plugin must read the kind, without selectors.
    """
    return Write(kind, ["apply", "delete"], children=True)


@dataclass(frozen=True)
class Limits:
    """What a plugin asks for beyond the host's defaults. None: the default."""

    memory_bytes: int | None = member(
        shapes.optional(shapes.unsigned(64)), default=None, kw_only=True
    )
    """Bytes of linear memory for one reconcile."""
    fuel: int | None = member(shapes.optional(shapes.unsigned(64)), default=None, kw_only=True)
    """Fuel for one reconcile: about one for each wasm instruction."""
    timeout_milliseconds: int | None = member(
        shapes.optional(shapes.unsigned(64)), default=None, kw_only=True
    )
    """CPU time for one reconcile."""
    concurrency: int | None = member(
        shapes.optional(shapes.unsigned(32)), default=None, kw_only=True
    )
    """Reconciles (of different keys) that may run at the same time."""


@dataclass(frozen=True)
class Manifest:
    """What a plugin declares about itself."""

    name: str = member(shapes.string, required=True)
    """A DNS label, unique among the plugins of a host."""
    version: str = member(shapes.string, required=True)
    """The plugin's own version, for people."""
    reconciles: Sequence[Selection] = member(shapes.records(Selection), default=(), kw_only=True)
    """The objects whose keys it reconciles, each kind once. Empty for a singleton."""
    singleton: bool = member(shapes.boolean, default=False, kw_only=True)
    """True: its only key stands for the whole cluster."""
    reads: Sequence[Read] = member(shapes.records(Read), default=(), kw_only=True)
    """The kinds that it may read."""
    indexes: Sequence[Index] = member(shapes.records(Index), default=(), kw_only=True)
    """The indexes that the host keeps for it."""
    writes: Sequence[Write] = member(shapes.records(Write), default=(), kw_only=True)
    """The writes that it may ask for."""
    limits: Limits = member(shapes.record(Limits), default=Limits(), kw_only=True)
    """What it asks for beyond the host's defaults."""
    config_schema: dict[str, Any] | bool | None = member(
        shapes.anything, default=None, kw_only=True
    )
    """The JSON Schema of its configuration."""
    sources: Sequence[Any] = member(shapes.sequence(shapes.anything), default=(), kw_only=True)
    """What its calls ask. No host offers them yet: a manifest that names one is refused."""

    def read_of(self, kind: str) -> Read | None:
        """How it reads a kind. None: it does not."""
        return next((read for read in self.reads if read.kind == kind), None)

    def optional_kinds(self) -> set[str]:
        """The kinds that it works without."""
        declared: list[Selection | Read | Write] = [*self.reconciles, *self.reads, *self.writes]
        return {each.kind for each in declared if each.optional}

    def to_document(self) -> dict[str, Any]:
        """The document that the host is given."""
        document: dict[str, Any] = shapes.to_document(self)
        return document
