"""What a reconcile is given: the request, and the host."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from .changes import Effect, selector_text
from .objects import EPOCH, ObjectRef
from .shapes import is_pattern

if TYPE_CHECKING:
    from typing import Unpack

# `list` is a method of `Host`, so its annotations cannot name the type.
Objects = list[dict[str, Any]]
Fields = list[tuple[str, str]]

Kinds = list["ServedKind"]

LEVELS = ("debug", "info", "warn", "error")


@dataclass(frozen=True)
class Request:
    """One reconcile of one key."""

    key: ObjectRef | None
    """The object to look at. None: the plugin is a singleton, whose only key has no object."""
    object: dict[str, Any] | None = None
    """That object, cut down to the manifest's fields. None: it is gone, or not selected."""
    attempt: int = 1
    """1 for the first try, and one more for each retry after a failure."""
    previous: list[Effect] = field(default_factory=list)
    """What became of this key's previous outcome: one effect for each write."""
    config: dict[str, Any] = field(default_factory=dict)
    """The plugin's configuration. Empty when it has none."""
    memo: Any = None
    """What this key's last outcome asked to be remembered (`Outcome.remember`). None: nothing, or
    the host has forgotten it."""


@dataclass(frozen=True)
class Filter:
    """Which objects of a kind. Without labels and index: all of them."""

    labels: str | None = None
    """A selector as text, in kubectl's form or as JSON."""
    index: tuple[str, str] | None = None
    """The name of an index of the manifest, and the value."""


class Which(TypedDict, total=False):
    """Which objects of a kind, as the arguments of `Host.list` say it: at most one of these."""

    labels: str | Mapping[str, Any] | None
    """A selector as kubectl writes it, or a LabelSelector as objects hold it."""
    match_labels: Mapping[str, str] | None
    """The labels that the objects have."""
    index: tuple[str, str] | None
    """The name of an index of the manifest, and the value."""


@dataclass(frozen=True)
class Query:
    """A question about the objects of a kind."""

    kind: str
    namespace: str | None = None
    """None: all namespaces that the manifest reads."""
    which: Filter = Filter()

    @classmethod
    def of(
        cls,
        kind: str,
        namespace: str | None,
        labels: str | Mapping[str, Any] | None = None,
        match_labels: Mapping[str, str] | None = None,
        index: tuple[str, str] | None = None,
    ) -> Query:
        """The question that the arguments of `Host.list` ask. Raises `ValueError` or `TypeError`
        for those that do not fit together."""
        if sum(given is not None for given in (labels, match_labels, index)) > 1:
            raise ValueError("give one of labels, match_labels and index")
        if match_labels is not None:
            labels = {"matchLabels": dict(match_labels)}
        if index is not None and not (isinstance(index, tuple) and len(index) == 2):
            raise TypeError(f'index is {index!r}, and not a name and a value: ("node", "n1")')
        return cls(kind, namespace, Filter(selector_text(labels), index))


@dataclass(frozen=True)
class ServedKind:
    """A kind that the cluster serves, as discovery describes it."""

    kind: str
    """In the version that the server prefers."""
    versions: list[str]
    """All versions in which the server serves it."""
    resource: str
    """Its name in paths and in RBAC rules: `deployments`."""
    namespaced: bool
    verbs: list[str]
    """`get`, `list`, `deletecollection`, …"""
    subresources: list[str]
    """`status`, `scale`, …"""
    unavailable: str | None = None
    """Why its objects cannot be read now, if the host has found that out."""


class Host(ABC):
    """The host during one reconcile. Its reads are answered from one frozen snapshot.

    Every read is recorded, also one that found nothing: when a change alters its answer, the key
    runs again.
    """

    @abstractmethod
    def _get(self, ref: ObjectRef) -> str | None:
        """The object as JSON. Raises `Denied`."""

    @abstractmethod
    def _list(self, query: Query) -> str:
        """The objects as a JSON list. Raises `Denied`."""

    @abstractmethod
    def _list_page(self, query: Query, after: ObjectRef | None, limit: int) -> str:
        """Those of the same objects that come after this one, as a JSON list. Raises `Denied`."""

    @abstractmethod
    def _kinds(self, pattern: str) -> Kinds:
        """The kinds that the cluster serves and that a pattern includes. Raises `Denied`."""

    @abstractmethod
    def _now(self) -> int:
        """Milliseconds since the Unix epoch."""

    @abstractmethod
    def _log(self, level: str, message: str, fields: Fields) -> None:
        """Writes a line to the host's log."""

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Reads an object, cut down to the manifest's fields. None: there is none.

        The namespace of a cluster-scoped object is empty. Raises `Denied` for what the plugin may
        not read, and `Unavailable` for a kind of a pattern that cannot be listed. If such a kind
        can be got, the host fetches the object: this run ends, the key runs again with the answer,
        and nothing wakes it when that changes.
        """
        found = self._get(ObjectRef(kind, namespace, name))
        return None if found is None else json.loads(found)

    def list(
        self,
        kind: str,
        namespace: str | None = None,
        **which: Unpack[Which],
    ) -> Objects:
        """Lists the objects of a kind, ordered by namespace and name. Or of a pattern that the
        manifest reads (`"*"`, `"apps/*"`): of all its kinds that can be listed, ordered by kind.

        Without a namespace: those in all namespaces that the manifest reads. At most one of these
        says which:

        - `labels`: a selector as kubectl writes it (`"app=web,!canary"`), or a LabelSelector as
          objects hold it (`{"matchLabels": {"app": "web"}}`).
        - `match_labels`: the labels that the objects have, such as a Service's `spec.selector`.
        - `index`: the name of an index of the manifest, and the value: `("node", "n1")`.

        Raises `Denied` for what the plugin may not read.
        """
        query = Query.of(kind, namespace, **which)
        found: Objects = json.loads(self._list(query))
        return found

    def list_page(
        self,
        kind: str,
        namespace: str | None = None,
        *,
        after: ObjectRef | None = None,
        limit: int,
        **which: Unpack[Which],
    ) -> Objects:
        """Lists as `list` does those objects that come after this one, at most `limit` of them.

        Without `after`: the first ones. Fewer than `limit` objects are the last ones. The pages of
        one reconcile agree with each other, and all of them are one read: that of the whole list.
        """
        query = Query.of(kind, namespace, **which)
        return self._page(query, after, limit)

    def pages(
        self,
        kind: str,
        namespace: str | None = None,
        *,
        size: int = 500,
        **which: Unpack[Which],
    ) -> Iterator[Objects]:
        """Lists as `list` does, in pages of at most `size` objects: for a list that does not fit
        into the memory at once. No page is empty."""
        query = Query.of(kind, namespace, **which)
        after = None
        while page := self._page(query, after, size):
            yield page
            if len(page) < size:
                return
            last, own = page[-1], kind
            if is_pattern(kind):
                own = f"{last['apiVersion']}/{last['kind']}"
            metadata = last["metadata"]
            after = ObjectRef(own, metadata.get("namespace", ""), metadata["name"])

    def _page(self, query: Query, after: ObjectRef | None, limit: int) -> Objects:
        if not 1 <= limit < 1 << 32:
            raise ValueError(f"a page of {limit} objects: write a number from 1 to {(1 << 32) - 1}")
        found: Objects = json.loads(self._list_page(query, after, limit))
        return found

    def kinds(self, pattern: str) -> Kinds:
        """The kinds that the cluster serves and that this pattern includes (`"*"`, `"apps/*"`,
        `"v1/*"`), ordered by group and kind; or the one kind of this name, in whatever version.

        Which they are counts as read. Raises `Denied` for a pattern that the plugin may not read.
        """
        return self._kinds(pattern)

    def now(self) -> datetime:
        """The time of this reconcile, in UTC. It does not pass while a reconcile runs."""
        return EPOCH + timedelta(milliseconds=self._now())

    def log(self, level: str, message: str, /, **fields: Any) -> None:
        """Writes a line to the host's log: a constant message, and what varies as fields."""
        if level not in LEVELS:
            raise ValueError(f"{level!r} is not a level: {', '.join(LEVELS)}")
        self._log(level, message, [(name, str(value)) for name, value in fields.items()])

    def debug(self, message: str, /, **fields: Any) -> None:
        """Logs a line for debugging this plugin. The host hides such lines by default."""
        self.log("debug", message, **fields)

    def info(self, message: str, /, **fields: Any) -> None:
        """Logs a line for the operator."""
        self.log("info", message, **fields)

    def warn(self, message: str, /, **fields: Any) -> None:
        """Logs a line about a problem that does not stop this plugin from working."""
        self.log("warn", message, **fields)

    def error(self, message: str, /, **fields: Any) -> None:
        """Logs a line about a problem that stops this plugin from working."""
        self.log("error", message, **fields)
