"""Carries out a plan as the host does: which write is sent next, and what a failure stops."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ..changes import Effect
from ..objects import ObjectRef
from .failing import Refused
from .parts import metadata_of
from .planner import Applied, Left, Step
from .server import Server, Write, address
from .stages import StageOrder
from .views import Views, side

Plan = list[tuple[bool, list[Step]]]
Wake = Callable[[ObjectRef, Any], None]
"""Told of each object that has been written, and what it was before."""

_MAX_WINDOW = 16


@dataclass(frozen=True)
class WriteFailure:
    """Why a plan was not carried out to its end."""

    text: str
    is_unavailable: bool = False
    """There was no answer, which is not the key's fault."""
    retry_after: timedelta = timedelta()
    """How long the server wants to be left alone."""

    @property
    def says_when(self) -> bool:
        """Whether it determines when to retry."""
        return self.is_unavailable or bool(self.retry_after)


@dataclass
class Execution:
    """One outcome's writes, and what becomes of them."""

    server: Server
    views: Views
    applied: Applied
    wake: Wake
    _failures: dict[int, WriteFailure] = field(default_factory=dict)
    """By the number of the step."""
    _is_over: bool = False
    """Whether nothing more is begun."""
    _versions: dict[Any, str] = field(default_factory=dict)
    _events: list[Write] = field(default_factory=list)
    """Those that were taken. They are written last, because no write waits for them."""

    @property
    def failure(self) -> WriteFailure | None:
        """The failure that counts: of those that say when to retry, or else of all, the first."""
        ranked = sorted(self._failures, key=lambda step: (not self._failures[step].says_when, step))
        return self._failures[ranked[0]] if ranked else None

    def run(self, plan: Plan) -> list[Effect]:
        """Does what the plan says. Returns what became of each write, in the plan's order."""
        effects: list[Effect] = []
        for always, steps in plan:
            if self._failures and not always:
                effects += [_skipped(step) for step in steps]
            else:
                effects += self._stage(steps, len(effects))
        # None of them fails.
        for event in self._events:
            self.server.write(event)
        return effects

    def _stage(self, steps: list[Step], first: int) -> list[Effect]:
        """Slow start: one write is under way at first, and one more with each that is accepted. A
        write is answered when all have been begun that may be under way with it."""
        effects = [_skipped(step) for step in steps]
        order, window = StageOrder(steps), 1
        under_way: deque[int] = deque()
        while True:
            while len(under_way) < window and (number := order.take()) is not None:
                step = steps[number]
                if order.is_left_out(number) or self._is_over:
                    order.ended(number, None)
                elif step.known is not None:
                    effects[number] = step.known
                    order.ended(number, self._note(step, step.known, first + number))
                elif step.write is not None and step.verb == "event":
                    self._events.append(step.write)
                    effects[number] = Effect(step.ref, step.verb, "done")
                    order.ended(number, True)
                else:
                    under_way.append(number)
            if not under_way:
                return effects
            number = under_way.popleft()
            step = steps[number]
            effects[number], refused = self._send(step)
            is_done = self._note(step, effects[number], first + number, refused)
            if is_done:
                window = min(_MAX_WINDOW, window + 1)
            order.ended(number, is_done)

    def _note(
        self, step: Step, effect: Effect, number: int, refused: Refused | None = None
    ) -> bool:
        """Notes how a step has ended. Returns whether it counts as done, as every Event does."""
        if not effect.is_error or step.verb == "event":
            return True
        failure = WriteFailure(f"action {step.action}: {refused or effect.text}")
        if refused is not None and refused.says_when:
            after = refused.retry_after or timedelta()
            failure = WriteFailure(failure.text, refused.is_unavailable, after)
            self._is_over = True
        self._failures[number] = failure
        return False

    def _send(self, step: Step) -> tuple[Effect, Refused | None]:
        write = step.write
        assert write is not None
        self._follow(write)
        before = self.server.get(write.ref)
        try:
            if write.verb == "delete-all":
                self.server.attempt(write, lambda: self._delete_all(write))
                return Effect(step.ref, step.verb, "done"), None
            version = self.server.write(write)
        except Refused as refused:
            self._forget(write)
            # Without an answer, the write may have been done.
            if self.server.get(write.ref) != before:
                self.wake(write.ref, before)
            return self._refused(step, write, refused), refused
        self._remember(write, version)
        self.wake(write.ref, before)
        return Effect(step.ref, step.verb, "done", version), None

    def _refused(self, step: Step, write: Write, refused: Refused) -> Effect:
        if refused.result == "not-found" and write.is_finalizer_removal:
            return Effect(step.ref, step.verb, "done")
        if refused.result == "conflict" and write.is_creation:
            return Effect(step.ref, step.verb, "conflict", _unseen(step.ref))
        is_read = self.views.is_whole(write.ref.kind)
        is_own_text = refused.is_unavailable or is_read or _is_own(write)
        text = str(refused) if is_own_text else _bare(refused)
        return Effect(step.ref, step.verb, refused.result, text)

    def _delete_all(self, write: Write) -> None:
        for ref in self.server.collection(write.ref.kind, write.ref.namespace, write.labels):
            before = self.server.get(ref)
            self.server.delete(ref)
            self.wake(ref, before)

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
        self._forget(write)

    def _forget(self, write: Write) -> None:
        for target in [target for target in self.applied if target[0] == write.ref]:
            del self.applied[target]


def _is_own(write: Write) -> bool:
    """Of an object that it creates the plugin has written all that the server may quote."""
    is_secret = write.ref.kind == "v1/Secret"
    return write.verb == "create" and write.subresource is None and not is_secret


def _unseen(ref: ObjectRef) -> str:
    """Why an object that the snapshot does not show is not created."""
    return (
        f"{ref} is not created: there is one that the snapshot does not show yet, or the child "
        "names a uid"
    )


def _bare(refused: Refused) -> str:
    """The words for a plugin that does not read the object whole, which the server's may quote."""
    return (
        f"{refused.status}; what else the server says may quote the object, which the plugin does "
        "not read whole"
    )


def _skipped(step: Step) -> Effect:
    return Effect(step.ref, step.verb, "skipped")
