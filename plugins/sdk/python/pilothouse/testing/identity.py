"""Checks of what a body claims about its object's identity and lifetime: `uid`, `resourceVersion`,
`ownerReferences` and `finalizers`. The rules and the messages are the host's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..objects import ObjectRef
from ..paths import quoted
from ..selectors import compact, cut
from .documents import NoPatch, Path, pointer
from .parts import Object, metadata_of
from .views import Views

_FINALIZERS = "finalizers of an object that exists are changed by a finalizer action alone"


class ActionRefused(Exception):
    """The host refuses an action, and with it the outcome."""


def metadata_refused(problem: str) -> ActionRefused:
    """An action whose body has metadata that it may not have."""
    return ActionRefused(f"metadata: {problem}")


@dataclass
class Before:
    """What is known of an object before an action."""

    shown: Object | None
    """The object that the snapshot shows."""
    is_missing: bool
    """The snapshot shows that there is none."""
    is_written: bool
    """An earlier action of the outcome is on it."""
    finalizers: list[str] | None
    """Those that an earlier action has left."""


def settle(body: Any, use: str, ref: ObjectRef, before: Before, views: Views) -> Any:
    """The body as it is sent. `use` is the verb. Raises `ActionRefused`."""
    if use == "patch" and "$patch" in body:
        raise metadata_refused("a patch may not replace a whole object")
    if "metadata" not in body:
        return body
    fields = body["metadata"]
    if not isinstance(fields, dict):
        raise metadata_refused("must be an object")
    if use == "patch" and any(name.startswith("$") for name in fields):
        raise metadata_refused("directives of a strategic merge patch are not for it")
    fields = {name: value for name, value in fields.items() if name != "managedFields"}
    _check_owners(fields, ref.namespace, before, views)
    _settle_finalizers(fields, use, before)
    _settle_uid(fields, use, before)
    _settle_version(fields, use, before)
    return {**body, "metadata": fields}


def names_a_version(body: Object) -> bool:
    """Whether a body says of which version it is."""
    return metadata_of(body).get("resourceVersion") not in (None, "", "0")


def _check_owners(fields: Object, namespace: str, before: Before, views: Views) -> None:
    owners = fields.get("ownerReferences")
    if owners is None:
        return
    if not isinstance(owners, list):
        raise metadata_refused("ownerReferences must be a list")
    names = ("apiVersion", "kind", "name", "uid")
    had = metadata_of(before.shown or {}).get("ownerReferences") or []
    known = [tuple(owner.get(name) for name in names) for owner in had]
    for owner in owners:
        said = owner if isinstance(owner, dict) else {}
        api_version, kind, name, uid = (said.get(each) or "" for each in names)
        owner_kind = f"{api_version}/{kind}"
        refs = (
            ObjectRef(views.readable_as(owner_kind) or "", place, name) for place in (namespace, "")
        )
        found = [each for each in map(views.find, refs) if each is not None]
        is_seen = bool(uid) and any(metadata_of(each).get("uid") == uid for each in found)
        if (api_version, kind, name, uid) not in known and not is_seen:
            raise ActionRefused(
                f"denied: ownerReferences names {owner_kind} {quoted(name[:253])}, which the "
                "plugin does not see, or not with this uid"
            )


def _settle_finalizers(fields: Object, use: str, before: Before) -> None:
    said = fields.get("finalizers")
    if said is not None and not isinstance(said, list):
        raise metadata_refused("finalizers must be a list")
    is_said, wanted = "finalizers" in fields, set(said or ())
    seen = metadata_of(before.shown or {}).get("finalizers") or []
    if use == "create" or (use == "apply" and before.is_missing):
        is_fine = True
    elif use == "patch":
        is_fine = not is_said
    elif use == "apply":
        # An apply leaves alone the finalizers that it does not list, unless it has set them.
        is_fine = wanted <= set(seen)
    else:
        is_fine = not is_said or wanted == set(seen)
    if not is_fine:
        raise metadata_refused(_FINALIZERS)
    if use == "update" and (not is_said or before.finalizers is not None):
        kept = seen if before.finalizers is None else before.finalizers
        fields.pop("finalizers", None)
        if kept:
            fields["finalizers"] = list(kept)


def _settle_uid(fields: Object, use: str, before: Before) -> None:
    if use == "create":
        fields.pop("uid", None)
        return
    if fields.get("uid") == "" and (before.shown is None or metadata_of(before.shown).get("uid")):
        raise metadata_refused(
            "uid is empty: name that of the object that is meant, or leave it out"
        )
    if before.shown is None or before.is_written:
        return
    uid, said = metadata_of(before.shown).get("uid", ""), fields.get("uid")
    if said is not None and said != uid:
        raise ActionRefused(f"body is of uid {compact(said)}, but the action is for uid {uid}")
    if use == "update" and uid:
        fields["uid"] = uid


def _settle_version(fields: Object, use: str, before: Before) -> None:
    if use == "create" or (before.is_written and use != "patch"):
        fields.pop("resourceVersion", None)
        return
    version = metadata_of(before.shown or {}).get("resourceVersion")
    if version and (use == "update" or "resourceVersion" in fields):
        fields["resourceVersion"] = version


_GUARDED = (
    ("metadata", "finalizers"),
    ("metadata", "ownerReferences"),
    ("metadata", "managedFields"),
)
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "generation")
_BOOKKEPT = (
    ("metadata", "managedFields"),
    ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
)


def check_json_patch(body: Any, is_shown: Callable[[Path], bool]) -> None:
    """Checks what a JSON Patch changes and reads. Raises `ActionRefused`."""
    steps = [step for step in body if isinstance(step, dict)] if isinstance(body, list) else []
    try:
        for step in steps:
            _check_step_writes(step)
        for step in steps:
            _check_step_reads(step, is_shown)
    except NoPatch as error:
        raise ActionRefused(f"invalid JSON: {error}") from None


def _check_step_writes(step: Object) -> None:
    if step.get("op") == "test":
        return
    for path in (step.get("path"), step.get("from")):
        names = pointer(path) if isinstance(path, str) else None
        for guarded in _GUARDED if names is not None else ():
            if _is_within(names or (), guarded):
                raise metadata_refused(
                    f"a JSON Patch may not change {guarded[1]}; see what a finalizer action and "
                    "a merge patch may"
                )


def _check_step_reads(step: Object, is_shown: Callable[[Path], bool]) -> None:
    operation = step.get("op")
    if operation not in ("copy", "move", "test"):
        return
    path = step.get("path" if operation == "test" else "from") or ""
    names = pointer(path)
    is_identity = (
        operation == "test" and len(names) == 2 and names[0] == "metadata" and names[1] in _IDENTITY
    )
    is_bookkept = any(_is_within(names, each) for each in _BOOKKEPT)
    if not is_identity and (is_bookkept or not is_shown(names)):
        raise ActionRefused(
            f"a JSON Patch may {operation} only what the plugin reads, and it does not read "
            f"{cut(path, 200)} whole"
        )


def _is_within(names: Path, other: Path) -> bool:
    """Whether one of two paths leads to a part of what the other leads to."""
    return all(one == two for one, two in zip(names, other))
