"""The bodies of actions: which object they are about, and whether they would change it."""

from __future__ import annotations

import json
from typing import Any

from ..changes import Action, to_json
from ..objects import ObjectRef
from ..selectors import compact
from .identity import ActionRefused
from .parts import Object, metadata_of

_MAX_BODY = 3 << 20


class _Sent:
    """The fields of an action, its documents as the host gets them: as JSON gives them back."""

    def __init__(self, action: Action) -> None:
        for name, value in vars(action).items():
            is_plain = isinstance(value, (str, bool, int, ObjectRef)) or value is None
            text = "" if is_plain else to_json(value)
            if len(text.encode()) > _MAX_BODY and name != "objects":
                size = len(text.encode())
                raise ActionRefused(f"{size} bytes; an API server takes at most {_MAX_BODY}")
            setattr(self, name, value if is_plain else json.loads(text))
        self.to_json = action.to_json


def as_sent(action: Action) -> Any:
    """The fields of an action as the host gets them. Raises `ActionRefused`."""
    return _Sent(action)


def text_of(document: Object, name: str, place: str = "") -> str:
    """A member that is a text, or empty. Raises `ActionRefused`."""
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise ActionRefused(f"invalid JSON: /{place}{name} is not a string")
    return value or ""


def address_of(body: Any) -> ObjectRef:
    """The object that a body is about. Raises `ActionRefused`."""
    if not isinstance(body, dict):
        raise ActionRefused(f"invalid JSON: {compact(body)[:80]} is not an object")
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    texts = {name: text_of(body, name) for name in ("apiVersion", "kind")}
    for name, text in texts.items():
        if not text:
            raise ActionRefused(f"invalid JSON: {name} is missing")
    namespace, name = (text_of(metadata, each, "metadata/") for each in ("namespace", "name"))
    return ObjectRef("/".join(texts.values()), namespace, name)


def check_address(body: Any, ref: ObjectRef) -> None:
    """Raises `ActionRefused` if the body of a patch names another object."""
    document = body if isinstance(body, dict) else {}
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    for place, names, wanted in (
        (document, "apiVersion", ref.api_version),
        (document, "kind", ref.kind.rpartition("/")[2]),
        (metadata, "name", ref.name),
        (metadata, "namespace", ref.namespace),
    ):
        if names in place and place[names] != wanted:
            path = f"metadata/{names}" if place is metadata else names
            raise ActionRefused(
                f"body is of {path} {compact(place[names])}, but the action is for {ref}"
            )


def is_same_object(current: Object, body: Object, subresource: str | None) -> bool:
    """Whether an update to this body would change nothing."""
    if subresource == "status":
        return current.get("status") == body.get("status")
    if subresource:
        return False
    have, want = dict(current), dict(body)
    have.pop("status", None)
    want.pop("status", None)
    said = metadata_of(want)
    kept = {name: each for name, each in metadata_of(have).items() if name != "managedFields"}
    server = ("creationTimestamp", "generation", "resourceVersion", "uid", "deletionTimestamp")
    filled = {name: kept[name] for name in server if name in kept}
    return {**have, "metadata": kept} == {**want, "metadata": {**filled, **said}}
