"""What a plugin sees of the objects: which of them, how much of each, and by which questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..check import group_kind
from ..host import ServedKind
from ..manifest import Manifest, Read, Selection
from ..objects import ObjectRef
from ..outcome import Denied
from ..paths import Projection, parse_path, quoted, values_at
from ..selectors import FieldSelector, LabelSelector, parse_labels
from ..shapes import group_of, includes, is_pattern
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
    """`get`, `list`, `kinds`, or for an object that was applied `main` or `status`."""
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
        is_of_pattern = any(includes(each.kind, read.kind) for each in manifest.reads)
        kind = (".apiVersion", ".kind") if is_of_pattern else ()
        self.projection = Projection([*read.fields, *_IDENTITY, *kind])
        self.indexes = {
            index.name: [parse_path(path) for path in index.paths]
            for index in sorted(manifest.indexes, key=lambda index: index.kind == read.kind)
            if index.kind == read.kind or includes(index.kind, read.kind)
        }

    def cut(self, value: Object) -> Object:
        kept = normalised(value)
        cut: Object = kept if self.is_whole else self.projection.cut(kept)
        return cut


class Views:
    """All that a plugin may read, by its manifest."""

    def __init__(self, manifest: Manifest, server: Server) -> None:
        self._kinds = {read.kind: _KindView(read, manifest) for read in manifest.reads}
        self._patterns = [kind for kind in self._kinds if is_pattern(kind)]
        self._excepted = {group_kind(kind) for read in manifest.reads for kind in read.except_}
        self._server = server
        self.absent: set[str] = set()
        """The optional kinds that the cluster does not serve."""

    def _view(self, kind: str) -> _KindView | None:
        """What the plugin sees of a kind, or of a pattern that it reads or a narrower one."""
        if kind in self._kinds:
            return self._kinds[kind]
        if any(group_kind(named) == group_kind(kind) for named in self._kinds):
            return None
        if group_kind(kind) in self._excepted:
            return None
        pattern = next((each for each in self._patterns if includes(each, kind)), None)
        return self._kinds[pattern] if pattern else None

    def check(self, kind: str, namespace: str | None) -> None:
        """Raises `Denied` unless the plugin reads this kind, and in this namespace."""
        view = self._view(kind)
        if view is None:
            raise denied(f"{kind} is not among the manifest's reads")
        if namespace is not None and not view.choice.has_namespace(namespace):
            raise denied(f"the plugin reads {kind} in other namespaces, not in {quoted(namespace)}")

    def check_index(self, kind: str, name: str) -> None:
        """Ends the run unless the manifest declares this index of the kind."""
        view = self._view(kind)
        if view is None or name not in view.indexes:
            raise RunEnded(f"the manifest declares no index {quoted(name)} of {kind}")

    def may_read(self, kind: str) -> bool:
        """Whether the manifest reads this kind."""
        return self._view(kind) is not None

    def readable_as(self, kind: str) -> str | None:
        """The kind itself if the manifest reads it, otherwise a version of it that it reads."""
        if kind in self._kinds:
            return kind
        named = (have for have in self._kinds if group_kind(have) == group_kind(kind))
        return next(named, kind if self._view(kind) else None)

    def is_whole(self, kind: str) -> bool:
        """Whether the plugin sees whole objects of this kind."""
        return kind in self._kinds and self._kinds[kind].is_whole

    def shows(self, ref: ObjectRef, names: tuple[str, ...]) -> bool:
        """Whether the plugin sees all of what is at this path of an object."""
        view = self._view(ref.kind)
        if view is None or not view.choice.has_namespace(ref.namespace):
            return False
        is_selected = not view.is_narrowed or self.find(ref) is not None
        return is_selected and (view.is_whole or view.projection.keeps(names))

    def knows(self, ref: ObjectRef) -> bool:
        """Whether an object that is not found cannot exist."""
        kind = self.readable_as(ref.kind)
        view = self._view(kind) if kind else None
        return (
            view is not None and not view.is_narrowed and view.choice.has_namespace(ref.namespace)
        )

    def find(self, ref: ObjectRef) -> Object | None:
        """A whole object, if it is among those that the plugin reads."""
        if ref.kind in self.absent:
            return None
        found = self._server.seen(ref)
        view = self._view(ref.kind)
        is_there = found is not None and view is not None and view.choice.has(found)
        return found if is_there else None

    def view(self, value: Object | None) -> Object | None:
        """An object as the plugin sees it. None: it does not."""
        if value is None:
            return None
        view = self._view(ref_of(value).kind)
        return view.cut(value) if view and view.choice.has(value) else None

    def matching(self, question: Question) -> Iterator[Object]:
        """The objects that are in the answer, whole."""
        if not is_pattern(question.kind):
            objects = self._server.all_seen(question.kind)
            return (each for each in objects if self.answers(question, each))
        found = [each for each in self._server.all_seen() if self.answers(question, each)]
        return iter(sorted(found, key=lambda each: order_of(ref_of(each))))

    def kinds(self, pattern: str) -> list[ServedKind]:
        """The kinds that the cluster serves and that a pattern includes. Raises `Denied`."""
        if not any(includes(each, pattern) for each in self._patterns):
            raise denied(f"{pattern} is not among the manifest's reads")
        return [each for each in self._server.kinds() if _is_asked(pattern, each.kind)]

    def answers(self, question: Question, value: Object) -> bool:
        """Whether an object is in the answer to a question."""
        ref, view = ref_of(value), self._view(ref_of(value).kind)
        is_asked = ref.kind == question.kind or includes(question.kind, ref.kind)
        if view is None or not is_asked or not view.choice.has(value):
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
        if question.what == "kinds":
            kind = ref_of(old or new or {}).kind
            others = [each for each in self._server.all(kind) if each not in (old, new)]
            return not (old and new) and not others and _is_asked(question.kind, kind)
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


def _is_asked(pattern: str, kind: str) -> bool:
    """Whether a question about kinds is about this one."""
    return includes(pattern, kind) or group_kind(pattern) == group_kind(kind)


def order_of(ref: ObjectRef) -> tuple[str, ...]:
    """The place of an object in a list of a pattern."""
    *_, version, name = ref.kind.split("/")
    return (group_of(ref.kind), version, name, ref.namespace, ref.name)


def side(value: Object, which: str) -> Any:
    """The status of an object, or all else, without what the server maintains."""
    if which == "status":
        return value.get("status")
    metadata = dict(normalised(value)["metadata"])
    for name in ("resourceVersion", "generation"):
        metadata.pop(name, None)
    rest = {name: each for name, each in value.items() if name not in ("metadata", "status")}
    return {**rest, "metadata": metadata}
