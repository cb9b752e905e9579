"""Carries out a plan, one write after the other, and stops what a failure stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..changes import Effect
from ..objects import ObjectRef
from .planner import Applied, Left, Step
from .server import Refused, Server, Write, address, metadata_of
from .views import Views, side

Plan = list[tuple[bool, list[Step]]]
Wake = Callable[[ObjectRef, Any], None]
"""Told of each object that has been written, and what it was before."""


@dataclass
class Execution:
    """One outcome's writes, and what becomes of them."""

    server: Server
    views: Views
    applied: Applied
    wake: Wake
    failure: str | None = None
    """Why the outcome counts as failed: the first write that did."""
    _versions: dict[Any, str] = field(default_factory=dict)

    def run(self, plan: Plan) -> list[Effect]:
        """Does what the plan says. Returns what became of each write, in the plan's order."""
        effects: list[Effect] = []
        for always, steps in plan:
            if self.failure is not None and not always:
                effects += [_skipped(step) for step in steps]
            else:
                effects += self._stage(steps)
        return effects

    def _stage(self, steps: list[Step]) -> list[Effect]:
        blocked: set[Any] = set()
        has_create_failed = is_member_missing = False
        effects = []
        for step in steps:
            target, is_event = address(step.ref), step.verb == "event"
            is_new = step.verb == "create" and bool(step.write and step.write.subresource is None)
            is_left_out = (
                target in blocked
                or (is_new and has_create_failed)
                or (step.member == "unwanted" and is_member_missing)
            )
            effect = _skipped(step) if is_left_out else self._step(step)
            effects.append(effect)
            if effect.is_error and not is_event:
                blocked.add(target)
                has_create_failed |= is_new and not is_left_out
                is_member_missing |= step.member == "wanted"
        return effects

    def _step(self, step: Step) -> Effect:
        effect = step.known or self._send(step)
        if effect.is_error and step.verb != "event" and self.failure is None:
            self.failure = f"action {step.action}: {effect.result}: {effect.text}"
        return effect

    def _send(self, step: Step) -> Effect:
        write = step.write
        assert write is not None
        if write.verb == "delete-all":
            return self._delete_all(step, write)
        self._follow(write)
        before = self.server.get(write.ref)
        try:
            version = self.server.write(write)
        except Refused as refused:
            if refused.result == "not-found" and write.is_finalizer_removal:
                return Effect(step.ref, step.verb, "done")
            is_heard = self.views.is_whole(write.ref.kind) or _is_own(write)
            text = str(refused) if is_heard else _bare(refused)
            return Effect(step.ref, step.verb, refused.result, text)
        if write.verb != "event":
            self._remember(write, version)
            self.wake(write.ref, before)
        return Effect(step.ref, step.verb, "done", version)

    def _delete_all(self, step: Step, write: Write) -> Effect:
        for ref in self.server.collection(write.ref.kind, write.ref.namespace, write.labels):
            before = self.server.get(ref)
            self.server.delete(ref)
            self.wake(ref, before)
        return Effect(step.ref, step.verb, "done")

    def _follow(self, write: Write) -> None:
        """A write that names a version follows those that this outcome has made before it."""
        version = self._versions.get(address(write.ref))
        if version is None or not isinstance(write.body, dict):
            return
        metadata = metadata_of(write.body)
        is_update = write.verb == "update"
        if is_update or (write.verb == "patch" and "resourceVersion" in metadata):
            write.body = {**write.body, "metadata": {**metadata, "resourceVersion": version}}

    def _remember(self, write: Write, version: str | None) -> None:
        """Remembers an accepted apply. Any other write may have changed the object."""
        current = self.server.get(write.ref)
        if version is not None:
            self._versions[address(write.ref)] = version
        if write.verb == "apply" and current is not None and write.intent is not None:
            which = "status" if write.subresource == "status" else "main"
            left = Left(write.intent, version, side(current, which))
            self.applied[write.ref, write.subresource] = left
            return
        for target in [target for target in self.applied if target[0] == write.ref]:
            del self.applied[target]


def _is_own(write: Write) -> bool:
    """Of an object that it creates the plugin has written all that the server may quote."""
    is_secret = write.ref.kind == "v1/Secret"
    return write.verb == "create" and write.subresource is None and not is_secret


def _bare(refused: Refused) -> str:
    """The words for a plugin that does not read the object whole, which the server's may quote."""
    return (
        f"{refused.status}; what else the server says may quote the object, which the plugin does "
        "not read whole"
    )


def _skipped(step: Step) -> Effect:
    return Effect(step.ref, step.verb, "skipped")
