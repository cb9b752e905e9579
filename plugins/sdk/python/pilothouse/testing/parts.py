"""Parts of an object: what a write can set, what the server maintains, and what its rules ask."""

from __future__ import annotations

import copy
from typing import Any

from ..check import group_kind
from ..objects import ObjectRef

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


def nothing_of(ref: ObjectRef) -> Object:
    metadata = {"name": ref.name}
    if ref.namespace:
        metadata["namespace"] = ref.namespace
    name = ref.kind.rpartition("/")[2]
    return {"apiVersion": ref.api_version, "kind": name, "metadata": metadata}


def main_part(value: Object) -> Object:
    return {name: value[name] for name in value if name not in ("metadata", "status")}


def own_part(body: Object, subresource: str | None) -> Object:
    """The part of a body that a write to the object, or to its `status`, can set."""
    if subresource:
        return {"status": body.get("status")}
    own = {name: body[name] for name in body if name not in ("apiVersion", "kind", "status")}
    metadata = {name: value for name, value in metadata_of(body).items() if name not in _SERVERS}
    own.pop("metadata", None)
    return {**own, "metadata": metadata} if metadata else own


def replaced(current: Object, body: Object, subresource: str | None) -> Object:
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


def version_of(value: Object) -> str | None:
    """The resourceVersion of an object. Empty and "0" mean any version and give None."""
    version = metadata_of(value).get("resourceVersion")
    return version if version not in ("", "0") else None


def generation(value: Object, current: Object | None) -> int | None:
    """The generation that a write to an object leaves. None: it has none.

    As on the server, it moves with everything but `metadata` and `status`, and when the deletion of
    the object begins; that of a Deployment also with its annotations. A new object has one if it
    has a `spec`.
    """
    if current is None:
        return 1 if "spec" in value else None
    before, after = metadata_of(current), metadata_of(value)
    if "generation" not in before:
        return None
    kind = f"{value.get('apiVersion')}/{value.get('kind')}"
    counted = ["deletionTimestamp"]
    if group_kind(kind) == ("apps", "Deployment"):
        counted.append("annotations")
    is_moved = main_part(current) != main_part(value) or any(
        before.get(name) != after.get(name) for name in counted
    )
    return int(before["generation"]) + is_moved
