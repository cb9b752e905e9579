"""Names of objects, and the parts of objects that most controllers write."""

from __future__ import annotations

import re
from collections.abc import MutableSequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ObjectRef(NamedTuple):
    """Names one object. `host.get(*ref)` reads it."""

    kind: str
    """`v1/Pod`, `apps/v1/Deployment`: the object's `apiVersion`, a slash, and its `kind`."""
    namespace: str = ""
    """Empty for a cluster-scoped object."""
    name: str = ""

    def of_kind(self, kind: str) -> ObjectRef:
        """The object of another kind that has this namespace and name."""
        return self._replace(kind=kind)

    def named(self, name: str) -> ObjectRef:
        """Another object of the same kind, in the same namespace."""
        return self._replace(name=name)

    @property
    def api_version(self) -> str:
        """The object's `apiVersion`: `apps/v1`, or `v1` for the core group."""
        return self.kind.rpartition("/")[0]

    def __str__(self) -> str:
        namespace = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {namespace}{self.name}"


def owner_reference(owner: ObjectRef, uid: str, *, controller: bool = False) -> dict[str, Any]:
    """An entry of `metadata.ownerReferences`: the garbage collector deletes the object when its
    last owner is gone.

    The owner is in the same namespace, or cluster-scoped. The host refuses one that the plugin
    does not see with this uid. The uid is part of every object read: `object["metadata"]["uid"]`.
    """
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind.rpartition("/")[2],
        "name": owner.name,
        "uid": uid,
    }
    return {**reference, "controller": True} if controller else reference


def condition(
    type: str,
    status: bool | None,
    reason: str,
    message: str = "",
    *,
    observed_generation: int | None = None,
) -> dict[str, Any]:
    """An entry of `status.conditions`, without its time: `set_condition` gives it one.

    A status of None is `Unknown`. Type and reason are CamelCase, the message is for people.
    `observed_generation` is the `metadata.generation` that the condition was derived from.
    """
    text = "Unknown" if status is None else str(bool(status))
    made: dict[str, Any] = {"type": type, "status": text, "reason": reason, "message": message}
    if observed_generation is not None:
        made["observedGeneration"] = observed_generation
    return made


def set_condition(
    conditions: MutableSequence[dict[str, Any]], new: dict[str, Any], now: datetime
) -> None:
    """Replaces the condition of the same type, or appends the condition if there is none.

    Its `lastTransitionTime` becomes `now` if the status has changed or had no time, and stays as
    it is otherwise. A status with the same content is therefore not written again.
    """
    same = [at for at, have in enumerate(conditions) if have.get("type") == new["type"]]
    have = conditions[same[0]] if same else {}
    time = have.get("lastTransitionTime") if have.get("status") == new["status"] else None
    dated = {**new, "lastTransitionTime": time or rfc3339(now)}
    if same:
        conditions[same[0]] = dated
    else:
        conditions.append(dated)


def rfc3339(time: datetime) -> str:
    """A time in the form that objects use: in UTC, to the second (`2026-01-02T03:04:05Z`).

    The time must have a zone, as `host.now()` has. Parts of a second are cut off.
    """
    if time.tzinfo is None:
        raise ValueError(f"{time!r} has no time zone: give it one, such as timezone.utc")
    utc = time.astimezone(timezone.utc).replace(microsecond=0, tzinfo=None)
    return f"{utc.isoformat()}Z"


_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))"
)


def parse_rfc3339(text: str) -> datetime:
    """The time that an object names, such as `metadata.creationTimestamp`.

    What is finer than a microsecond is cut off. Raises `ValueError` for a text that is no time.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time as objects have it (2026-01-02T03:04:05Z)")
    *parts, fraction, sign, hours, minutes = found.groups()
    year, month, day, hour, minute, second = map(int, parts)
    time = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    time += timedelta(microseconds=int((fraction or "0").ljust(6, "0")[:6]))
    if sign:
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        time += -offset if sign == "+" else offset
    return time
