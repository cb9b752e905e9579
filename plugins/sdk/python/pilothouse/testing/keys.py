"""Which keys a controller has, and which of them an object's own change runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..manifest import Manifest, Selection
from ..objects import ObjectRef
from ..check import group_kind
from ..shapes import includes, is_kind, is_pattern
from .children import owner_of
from .parts import Object, metadata_of, ref_of
from .schedule import Key
from .views import Choice, Views

SINGLETON = Key("", "", "")


class _Subject:
    """One kind, or the kinds of a pattern, that are reconciled."""

    def __init__(self, selection: Selection, views: Views, named: set[str]) -> None:
        self.kind = selection.kind
        self._named = named
        self._companions = selection.also_enqueued_by
        self._choice = Choice(selection)
        self._views = views

    def has_kind(self, kind: str) -> bool:
        """Whether objects of this kind are reconciled so."""
        is_of_pattern = includes(self.kind, kind) and group_kind(kind) not in self._named
        return kind == self.kind or (is_of_pattern and self._views.may_read(kind))

    def key_kind(self, ref: ObjectRef) -> str:
        """The kind of the key that a change of an object runs."""
        return ref.kind if is_pattern(self.kind) else self.kind

    def selects(self, value: Object | None) -> bool:
        """Whether an object that is seen is one of those that are reconciled."""
        return value is not None and self._choice.has(value)

    def is_companion(self, ref: ObjectRef, value: Object) -> bool:
        """Whether an object queues the key of its own namespace and name."""
        if ref.kind not in self._companions:
            return False
        own = self._views.find(ref.of_kind(self.kind))
        is_key = self._choice.has_namespace(ref.namespace) and (own is None or self.selects(own))
        return is_key and self._views.view(value) is not None

    def is_touched(self, ref: ObjectRef, before: Object | None, after: Object | None) -> bool:
        """Whether the change of an object runs the key of its namespace and name: that is the key's
        own object, or one that queues the key."""
        companions = [each for each in (before, after) if each and self.is_companion(ref, each)]
        views = [self._views.view(each) for each in (before, after)]
        if companions and views[0] != views[1]:
            return True
        if not self.has_kind(ref.kind):
            return False
        was, now = (
            self.selects(each) and view is not None for each, view in zip((before, after), views)
        )
        if not (was and now):
            return was or now
        uids = [metadata_of(each or {}).get("uid") for each in (before, after)]
        return uids[0] != uids[1] or views[0] != views[1]


class Keys:
    """The keys of a controller, by its manifest."""

    def __init__(self, manifest: Manifest, views: Views) -> None:
        self._manifest = manifest
        self._views = views
        named = {group_kind(each.kind) for each in manifest.reconciles if is_kind(each.kind)}
        self._all = [_Subject(selection, views, named) for selection in manifest.reconciles]

    @property
    def _subjects(self) -> list[_Subject]:
        """The kinds that are reconciled and served."""
        return [each for each in self._all if each.kind not in self._views.absent]

    def has(self, key: Key) -> bool:
        """Whether this is a key that the controller has now."""
        return key == SINGLETON or any(
            each.has_kind(key.kind) for each in self._subjects
        )

    def key_of(self, namespace: str, name: str, kind: str | None) -> Key:
        """The key of an object of this kind, which need not be said if there is one alone. Raises
        `ValueError` for a kind that is not reconciled."""
        kinds = [each.kind for each in self._all]
        if kind is None and (len(kinds) > 1 or any(map(is_pattern, kinds))):
            raise ValueError(
                f"the controller reconciles {', '.join(kinds)}: say the kind of the key with kind="
            )
        if kind is not None and not any(each.has_kind(kind) for each in self._all):
            raise ValueError(f"the manifest's `reconciles` does not name {kind}")
        if not kinds:
            return SINGLETON
        return Key(kind or kinds[0], namespace, name)

    def is_gone(self, key: Key) -> bool:
        """Whether the object of a key is not there, or not selected."""
        if key.ref is None:
            return False
        found = self._views.find(key.ref)
        return not any(each.selects(found) for each in self._subjects if each.has_kind(key.kind))

    def first(self, objects: Iterable[Object]) -> list[Key]:
        """The keys that run at the start, when these objects are there."""
        if not self._all:
            return [SINGLETON]
        return [key for value in objects for key in self._of(value)]

    def _of(self, value: Object) -> Iterator[Key]:
        """The keys that an object has run at the start."""
        ref = ref_of(value)
        for subject in self._subjects:
            if subject.has_kind(ref.kind) and subject.selects(self._views.find(ref)):
                yield Key(ref.kind, ref.namespace, ref.name)
            elif subject.is_companion(ref, value):
                yield Key(subject.kind, ref.namespace, ref.name)
        kept = {write.kind for write in self._manifest.writes if write.children}
        owner = owner_of(self._manifest, value) if ref.kind in kept else None
        if owner is not None and self.has(owner):
            yield owner

    def touched(self, ref: ObjectRef, before: Object | None, after: Object | None) -> list[Key]:
        """The keys of an object's namespace and name that its change runs."""
        return [
            Key(subject.key_kind(ref), ref.namespace, ref.name)
            for subject in self._subjects
            if subject.is_touched(ref, before, after)
        ]
