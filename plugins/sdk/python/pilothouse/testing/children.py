"""How the members of a `children` action are marked, and what is derived for a key."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

from ..check import check_key, group_kind
from ..manifest import Manifest
from .identity import ActionRefused
from .parts import Object, metadata_of
from .schedule import Key

LABEL = "pilothouse.dev/children-of"
ANNOTATION = "pilothouse.dev/children-of-key"


def digest(plugin: str, key: Key, *parts: str) -> str:
    """64 hex digits that depend only on the plugin's name, the key and `parts`."""
    hasher = hashlib.sha256()
    kind = "/".join(group_kind(key.kind)) if key.kind else ""
    for part in (plugin, kind, key.namespace, key.name, *parts):
        data = part.encode()
        hasher.update(len(data).to_bytes(8, "big") + data)
    return hasher.hexdigest()


def label(plugin: str, key: Key) -> str:
    """The value of the label of a key's members."""
    return digest(plugin, key, "children")[:32]


def mark(body: Object, plugin: str, key: Key) -> Object:
    """An object as a member of a key's children. Raises `ActionRefused`."""
    marked = copy.deepcopy(body)
    metadata = marked["metadata"]
    name = "/".join(filter(None, (key.namespace, key.name)))
    for place, mark_name, value in (
        ("labels", LABEL, label(plugin, key)),
        ("annotations", ANNOTATION, f"{plugin} {name}"),
    ):
        if not isinstance(metadata.setdefault(place, {}), dict):
            raise ActionRefused("invalid JSON: metadata.labels and .annotations must be objects")
        metadata[place][mark_name] = value
    return marked


def owner_of(manifest: Manifest, value: Object) -> Key | None:
    """The key whose member an object is. None: no child of this plugin. The label tells which of
    the kinds it is that the plugin reconciles."""
    metadata = metadata_of(value)
    own: Any = (metadata.get("labels") or {}).get(LABEL)
    said = (metadata.get("annotations") or {}).get(ANNOTATION, "")
    plugin, space, text = said.partition(" ")
    if own is None or not space or plugin != manifest.name:
        return None
    namespace, _, name = text.rpartition("/")
    if text and check_key(namespace, name):
        return None
    keys = [Key(each.kind, namespace, name) for each in manifest.reconciles]
    if not keys and not text:
        keys.append(Key("", "", ""))
    return next((key for key in keys if label(plugin, key) == own), None)
