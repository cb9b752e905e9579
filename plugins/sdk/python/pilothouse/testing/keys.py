"""Which keys a controller has, and which of them an object's own change runs."""

from __future__ import annotations

from collections.abc import Iterable

from ..manifest import Manifest
from ..objects import ObjectRef
from .planner import child_key
from .schedule import Key
from .server import Object, metadata_of, ref_of
from .views import Choice, Views


class Keys:
    """The keys of a controller, by its manifest."""

    def __init__(self, manifest: Manifest, views: Views) -> None:
        self._manifest = manifest
        self._views = views
        self._subject = next(iter(manifest.reconciles), None)
        self._choice = Choice(self._subject) if self._subject else None

    def ref(self, key: Key) -> ObjectRef | None:
        """The object of a key. None for a singleton."""
        return ObjectRef(self._subject.kind, *key) if self._subject else None

    def is_gone(self, ref: ObjectRef | None) -> bool:
        """Whether the object of a key is not there, or not selected."""
        return ref is not None and not self._selects(self._views.find(ref))

    def first(self, objects: Iterable[Object]) -> list[Key]:
        """The keys that run at the start, when these objects are there."""
        manifest, subject = self._manifest, self._subject
        if subject is None:
            return [("", "")]
        kept = {write.kind for write in manifest.writes if write.children}
        keys = []
        for value in objects:
            ref = ref_of(value)
            child_of = child_key(manifest, value) if ref.kind in kept else None
            if ref.kind == subject.kind and self._selects(self._views.find(ref)):
                keys.append((ref.namespace, ref.name))
            if self._is_companion(ref, value):
                keys.append((ref.namespace, ref.name))
            if child_of is not None:
                keys.append(child_of)
        return keys

    def _selects(self, value: Object | None) -> bool:
        return value is not None and self._choice is not None and self._choice.has(value)

    def _is_companion(self, ref: ObjectRef, value: Object) -> bool:
        """Whether an object queues the key of its own namespace and name."""
        subject = self._subject
        if subject is None or self._choice is None or ref.kind not in subject.also_enqueued_by:
            return False
        own = self._views.find(ref.of_kind(subject.kind))
        is_key = self._choice.has_namespace(ref.namespace) and (own is None or self._selects(own))
        return is_key and self._views.view(value) is not None

    def is_touched(self, ref: ObjectRef, before: Object | None, after: Object | None) -> bool:
        """Whether the change of an object runs the key of its namespace and name: that is the key's
        own object, or one that queues the key."""
        companions = [each for each in (before, after) if each and self._is_companion(ref, each)]
        views = [self._views.view(each) for each in (before, after)]
        if companions and views[0] != views[1]:
            return True
        if self._subject is None or ref.kind != self._subject.kind:
            return False
        was, now = (
            self._selects(each) and view is not None for each, view in zip((before, after), views)
        )
        if not (was and now):
            return was or now
        uids = [metadata_of(each or {}).get("uid") for each in (before, after)]
        return uids[0] != uids[1] or views[0] != views[1]
