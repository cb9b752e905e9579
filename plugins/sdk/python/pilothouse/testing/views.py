"""What a plugin sees of the objects: which of them, how much of each, and by which questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..check import group_kind
from ..manifest import Manifest, Read, Selection
from ..objects import ObjectRef
from ..outcome import Denied
from ..paths import Projection, parse_path, quoted, values_at
from ..selectors import FieldSelector, LabelSelector, parse_labels
from .parts import Object, metadata_of, ref_of
from .server import Server

_IDENTITY = (
    ".metadata.namespace",
    ".metadata.name",
    ".metadata.uid",
    ".metadata.deletionTimestamp",
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class RunEnded(BaseException):
    """What the host ends a run for: a mistake of the plugin's author, which no code can catch."""


@dataclass(frozen=True)
class Question:
    """What a reconcile has read: when its answer changes, the key runs again."""

    kind: str
    what: str
    """`get`, `list`, or for an object that was applied `main` or `status`."""
    namespace: str | None = None
    name: str = ""
    selector: LabelSelector | None = None
    index: tuple[str, str] | None = None


def denied(text: str) -> Denied:
    """The error of a read, as the plugin gets it."""
    return Denied(f"denied: {text}")


def normalised(value: Object) -> Object:
    """An object as the host keeps it."""
    metadata = {name: each for name, each in metadata_of(value).items() if name != "managedFields"}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        kept = {name: each for name, each in annotations.items() if name != _LAST_APPLIED}
        metadata["annotations"] = kept
    return {**value, "metadata": metadata}


def labels_of(value: Object) -> dict[str, str]:
    """An object's labels."""
    return metadata_of(value).get("labels") or {}


class Choice:
    """Which objects of a kind a manifest names, in `reads` or `reconciles`."""

    def __init__(self, declared: Read | Selection) -> None:
        self._namespaces = declared.namespaces
        self._labels = parse_labels(declared.labels)
        self._fields = FieldSelector(declared.kind, declared.field_selector or "")

    def has_namespace(self, namespace: str) -> bool:
        """Whether objects of this namespace are among them."""
        return not self._namespaces or namespace in self._namespaces

    def has(self, value: Object) -> bool:
        """Whether an object is among them."""
        return (
            self.has_namespace(metadata_of(value).get("namespace") or "")
            and self._labels.matches(labels_of(value))
            and self._fields.matches(value)
        )


class _KindView:
    """One readable kind."""

    def __init__(self, read: Read, manifest: Manifest) -> None:
        self.choice = Choice(read)
        self.is_narrowed = bool(
            parse_labels(read.labels).requirements or read.field_selector is not None
        )
        self.is_whole = not read.fields
        self.projection = Projection([*read.fields, *_IDENTITY])
        self.indexes = {
            index.name: [parse_path(path) for path in index.paths]
            for index in manifest.indexes
            if index.kind == read.kind
        }

    def cut(self, value: Object) -> Object:
        kept = normalised(value)
        cut: Object = kept if self.is_whole else self.projection.cut(kept)
        return cut


class Views:
    """All that a plugin may read, by its manifest."""

    def __init__(self, manifest: Manifest, server: Server) -> None:
        self._kinds = {read.kind: _KindView(read, manifest) for read in manifest.reads}
        self._server = server
        self.absent: set[str] = set()
        """The optional kinds that the cluster does not serve."""

    def check(self, kind: str, namespace: str | None) -> None:
        """Raises `Denied` unless the plugin reads this kind, and in this namespace."""
        if kind not in self._kinds:
            raise denied(f"{kind} is not among the manifest's reads")
        if namespace is not None and not self._kinds[kind].choice.has_namespace(namespace):
            raise denied(f"the plugin reads {kind} in other namespaces, not in {quoted(namespace)}")

    def check_index(self, kind: str, name: str) -> None:
        """Ends the run unless the manifest declares this index of the kind."""
        if name not in self._kinds[kind].indexes:
            raise RunEnded(f"the manifest declares no index {quoted(name)} of {kind}")

    def may_read(self, kind: str) -> bool:
        """Whether the manifest reads this kind."""
        return kind in self._kinds

    def readable_as(self, kind: str) -> str | None:
        """The kind itself if the manifest reads it, otherwise a version of it that it reads."""
        if kind in self._kinds:
            return kind
        return next((have for have in self._kinds if group_kind(have) == group_kind(kind)), None)

    def is_whole(self, kind: str) -> bool:
        """Whether the plugin sees whole objects of this kind."""
        return kind in self._kinds and self._kinds[kind].is_whole

    def shows(self, ref: ObjectRef, names: tuple[str, ...]) -> bool:
        """Whether the plugin sees all of what is at this path of an object."""
        view = self._kinds.get(ref.kind)
        if view is None or not view.choice.has_namespace(ref.namespace):
            return False
        is_selected = not view.is_narrowed or self.find(ref) is not None
        return is_selected and (view.is_whole or view.projection.keeps(names))

    def knows(self, ref: ObjectRef) -> bool:
        """Whether an object that is not found cannot exist."""
        kind = self.readable_as(ref.kind)
        view = self._kinds.get(kind or "")
        return (
            view is not None and not view.is_narrowed and view.choice.has_namespace(ref.namespace)
        )

    def find(self, ref: ObjectRef) -> Object | None:
        """A whole object, if it is among those that the plugin reads."""
        if ref.kind in self.absent:
            return None
        found = self._server.seen(ref)
        view = self._kinds.get(ref.kind)
        is_there = found is not None and view is not None and view.choice.has(found)
        return found if is_there else None

    def view(self, value: Object | None) -> Object | None:
        """An object as the plugin sees it. None: it does not."""
        if value is None:
            return None
        view = self._kinds.get(ref_of(value).kind)
        return view.cut(value) if view and view.choice.has(value) else None

    def matching(self, question: Question) -> Iterator[Object]:
        """The objects that are in the answer, whole."""
        objects = self._server.all_seen(question.kind)
        return (each for each in objects if self.answers(question, each))

    def answers(self, question: Question, value: Object) -> bool:
        """Whether an object is in the answer to a question."""
        ref, view = ref_of(value), self._kinds.get(question.kind)
        if view is None or ref.kind != question.kind or not view.choice.has(value):
            return False
        if ref.kind in self.absent:
            return False
        if question.namespace not in (None, ref.namespace):
            return False
        if question.what != "list":
            return ref.name == question.name
        if question.selector is not None:
            return question.selector.matches(labels_of(value))
        if question.index is not None:
            name, wanted = question.index
            kept = normalised(value)
            return any(wanted in values_at(kept, path) for path in view.indexes[name])
        return True

    def is_touched(self, question: Question, old: Object | None, new: Object | None) -> bool:
        """Whether a change of an object alters the answer to a question."""
        was = old is not None and self.answers(question, old)
        now = new is not None and self.answers(question, new)
        if not (was and now):
            return was or now
        assert old is not None and new is not None
        if metadata_of(old).get("uid") != metadata_of(new).get("uid"):
            return True
        if question.what in ("main", "status"):
            is_changed: bool = side(old, question.what) != side(new, question.what)
            return is_changed
        return self.view(old) != self.view(new)


def side(value: Object, which: str) -> Any:
    """The status of an object, or all else, without what the server maintains."""
    if which == "status":
        return value.get("status")
    metadata = dict(normalised(value)["metadata"])
    for name in ("resourceVersion", "generation"):
        metadata.pop(name, None)
    rest = {name: each for name, each in value.items() if name not in ("metadata", "status")}
    return {**rest, "metadata": metadata}
